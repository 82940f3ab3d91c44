"""A turn's services, settings and options, bound to one conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.types import TurnStart
from midturn.events.window import standing_decisions
from midturn.journal import Journal
from midturn.ports import OBSERVERS, Display
from midturn.runtime.assistants import Assistants
from midturn.runtime.call_state import CallState
from midturn.runtime.displays import ObservedDisplay
from midturn.runtime.previews import previewing_tools, tools_with_rules
from midturn.runtime.prompts import at_prompt
from midturn.runtime.run_options import RunOptions
from midturn.runtime.services import TurnServices
from midturn.stores.batch import event_ids
from midturn.turn.settings import TurnSettings

DEPS: Final = "deps"
"""Metadata key in the first event of a turn. It is set if the program passed dependencies to its
tools.
"""
_UNLIMITED: Final = 1_000_000
"""Number of prompts that a chat or a web page may have open."""


class SessionContext(Struct, frozen=True, kw_only=True):
    """State shared by the runs of one session.

    `SessionContext.bind` creates it from services, settings, options and the journal.
    """

    services: TurnServices
    settings: TurnSettings
    options: RunOptions
    journal: Journal
    ids: Iterator[str]
    calls: CallState
    assistants: Assistants

    @classmethod
    def bind(
        cls, services: TurnServices, settings: TurnSettings, options: RunOptions, journal: Journal
    ) -> SessionContext:
        """Bind a turn's parameters to the conversation that `journal` writes."""
        settings = settings_for_run(settings, services, options, journal.conversation)
        return cls(
            services=services,
            settings=settings,
            options=options,
            journal=journal,
            ids=event_ids(),
            calls=CallState(journal.conversation, services.root, settings.limits, options),
            assistants=Assistants(services, settings),
        )

    def turn_settings(self) -> TurnSettings:
        """Return the settings for a turn that begins now, including the conversation's standing
        decisions.
        """
        standing = standing_decisions(self.journal.events)
        return (
            replace(self.settings, standing=standing)
            if standing != self.settings.standing
            else self.settings
        )

    def with_display(self, display: Display) -> SessionContext:
        """Return the same context with another display."""
        return replace(self, options=replace(self.options, display=display))

    def observed(self) -> tuple[SessionContext, ObservedDisplay]:
        """Return a context for one run, and its observed display. If there are no observers, the
        context is unchanged.
        """
        display = ObservedDisplay(self.options.display)
        return (self.with_display(display) if OBSERVERS else self), display


def settings_for_run(
    settings: TurnSettings, services: TurnServices, options: RunOptions, conversation: str
) -> TurnSettings:
    """Return the settings of a turn, adapted to the options of its run.

    This is the only place that combines services, settings and options.
    """
    return replace(
        settings,
        conversation=conversation,
        attached=options.is_attached,
        at_prompt=at_prompt(options.prompter),
        prompts_at_once=_UNLIMITED if getattr(options.prompter, "concurrent", False) else 1,
        previewing=previewing_tools(services.tools),
        own_rules=tools_with_rules(services.tools),
        start=TurnStart(
            key=options.key,
            parent=options.parent,
            metadata=None if options.deps is None else {DEPS: True},
        ),
        family=options.nesting.family if options.nesting else {},
    )
