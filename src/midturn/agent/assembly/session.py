"""The one wiring: from what a front door has to everything that a turn in a conversation needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import SYSTEM
from midturn.events.types import Parent, TurnStart
from midturn.journal import Journal
from midturn.ports import Display, Model, Tool
from midturn.prompter import Prompter
from midturn.question.json_value import JsonObject
from midturn.question.people import Directory
from midturn.routing.policy import ToolPolicy
from midturn.runtime.model_response import Assistants, foretelling, own_rules
from midturn.runtime.prompts import at_prompt
from midturn.runtime.side_request import ChosenAssistant
from midturn.runtime.surroundings import Services, Silence, Surroundings
from midturn.stores.batch import event_ids
from midturn.turn.step import TurnSettings

if TYPE_CHECKING:
    from midturn.runtime.nesting import Host, Nest


# ----------------------------------------------------------------------------------------------------------------------
# Settings of a single turn, the same for every front door


_UNBOUNDED = 1_000_000


class RunParts(Struct, frozen=True, kw_only=True):
    """The prompter, the observers, and what the program hands to its tools.

    `nest` is what agents inside of those tools inherit; `host` and `parent` are the call around the turn, where it is of such an agent.
    `key` is the caller's own name for a turn that is new.
    """

    prompter: Prompter | None = None
    display: Display = Silence()
    deps: object = None
    no_deps: str = ""
    nest: Nest | None = None
    host: Host | None = None
    parent: Parent | None = None
    key: str = ""

    @property
    def prompts_at_once(self) -> int:
        """Number of prompts that may be open: a terminal shows one, a chat or a web page any number."""
        return _UNBOUNDED if getattr(self.prompter, "concurrent", False) else 1


class Kit(Struct, frozen=True, kw_only=True):
    """Differences between the front doors.

    `model_for` finds the models that answer questions; `main` and `inquiry` are the tables that their settings are merged from.
    `directory` knows the people that are named. `surroundings` holds for whichever conversation it is; its limits are those of the turn.
    """

    model: Model
    model_for: Callable[[ChosenAssistant], Model]
    main: JsonObject
    inquiry: JsonObject = {}
    tools: Mapping[str, Tool]
    policies: Mapping[str, ToolPolicy]
    attached: bool
    directory: Directory | None = None
    surroundings: Surroundings = Surroundings()


SessionParts: TypeAlias = tuple[Services, TurnSettings, Surroundings]
"""Parts of a session."""


DEPS: Final = "deps"
"""Key in the metadata of the first event of a turn whose tools got dependencies of the program."""


def session_parts(kit: Kit, run: RunParts, journal: Journal) -> SessionParts:
    """Bind a kit to the conversation that `journal` writes."""
    surroundings = replace(kit.surroundings, conversation=journal.conversation, nest=run.nest)
    settings = TurnSettings(
        tools=kit.policies,
        conversation=journal.conversation,
        attached=kit.attached,
        at_prompt=at_prompt(run.prompter),
        directory=kit.directory,
        limits=surroundings.limits,
        prompts_at_once=run.prompts_at_once,
        foretelling=foretelling(kit.tools),
        own_rules=own_rules(kit.tools),
        start=TurnStart(key=run.key, parent=run.parent, metadata=None if run.deps is None else {DEPS: True}),
        family=run.nest.family if run.nest else {},
    )
    services = Services(
        model=kit.model,
        consultant=Assistants(kit.model_for, (kit.main, kit.inquiry), settings, surroundings),
        tools=kit.tools,
        journal=journal,
        answers=journal.answers,
        prompter=run.prompter,
        display=run.display,
        clock=SYSTEM,
        ids=event_ids(),
        host=run.host,
    )
    return services, settings, surroundings
