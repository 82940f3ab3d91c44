"""The one wiring: from what a front door has to everything that a turn in a conversation needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from midturn.assistant.chosen import ChosenAssistant
from midturn.clock import SYSTEM
from midturn.compose.run_parts import RunParts
from midturn.core.events import TurnStart
from midturn.core.json_value import JsonObject
from midturn.core.routing.policy import ToolPolicy
from midturn.core.turn.settings import TurnSettings
from midturn.journal import Journal
from midturn.ports import Model, Tool
from midturn.runtime.assistants import Assistants
from midturn.runtime.foretold import foretelling
from midturn.runtime.services import Services
from midturn.runtime.surroundings import Surroundings
from midturn.store.ids import event_ids


class Kit(Struct, frozen=True, kw_only=True):
    """What the front doors differ in.

    `model_for` finds the models that answer questions; `main` and `inquiry` are the tables that their settings are merged from.
    `surroundings` holds for whichever conversation it is; its limits are those of the turn, too.
    """

    model: Model
    model_for: Callable[[ChosenAssistant], Model]
    main: JsonObject
    inquiry: JsonObject = {}
    tools: Mapping[str, Tool]
    policies: Mapping[str, ToolPolicy]
    attached: bool
    surroundings: Surroundings = Surroundings()


SessionParts: TypeAlias = tuple[Services, TurnSettings, Surroundings]
"""What a session is made of."""


def session_parts(kit: Kit, run: RunParts, journal: Journal) -> SessionParts:
    """Bind a kit to the conversation that `journal` writes."""
    surroundings = replace(kit.surroundings, conversation=journal.conversation, nest=run.nest)
    settings = TurnSettings(
        tools=kit.policies,
        conversation=journal.conversation,
        attached=kit.attached,
        limits=surroundings.limits,
        prompts_at_once=run.prompts_at_once,
        foretelling=foretelling(kit.tools),
        start=TurnStart(parent=run.parent),
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
