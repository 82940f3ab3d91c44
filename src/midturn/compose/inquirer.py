"""From what somebody with a loop of their own gives an inquirer to a turn that they hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.assistant.chosen import ChosenAssistant
from midturn.compose.agent import tool_policy
from midturn.compose.given_policies import DEFER, Detached
from midturn.compose.models import Models
from midturn.compose.run_parts import RunParts, Silence
from midturn.compose.session import Kit, session_parts
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.routing.policy import QuestionPolicy, ToolPolicy
from midturn.core.source import Source
from midturn.errors import ConfigError
from midturn.journal import Journal
from midturn.ports import Model
from midturn.runtime.foreign_call import ForeignTools
from midturn.runtime.foreign_turn import ForeignTurn, Outside
from midturn.runtime.surroundings import Surroundings

_ENDLESS = 1_000_000_000


class InquirerParts(Struct, frozen=True, kw_only=True):
    """Who answers where a question is routed to an assistant (`model`, or one that a route names), and what happens to the others.

    `source` asks in every call, where it is not the call's own tool.
    """

    model: Model | None = None
    detached: Detached = DEFER
    routes: Mapping[str, QuestionPolicy] = {}
    limits: Limits = DEFAULT_LIMITS
    source: Source | None = None
    models: Models = msgspec.field(default_factory=lambda: Models(llm={}, display=Silence()))


def compose_inquirer(parts: InquirerParts, run: RunParts, journal: Journal) -> ForeignTurn:
    """Return the turn in which somebody else's loop makes its calls; how many model requests it makes is its own affair."""
    tools = ForeignTools()
    kit = Kit(
        model=Outside(),
        model_for=lambda asked: _answering(parts, asked),
        main={"model": {"id": parts.model.name if parts.model else ""}},
        tools=tools,
        policies=_Policies(parts),
        attached=run.prompter is not None,
        surroundings=Surroundings(limits=replace(parts.limits, cycles=_ENDLESS)),
    )
    return ForeignTurn(*session_parts(kit, run, journal), tools)


class _Policies(Mapping[str, ToolPolicy]):
    """What holds for every tool that there may be."""

    def __init__(self, parts: InquirerParts) -> None:
        self._parts = parts
        self._of: dict[str, ToolPolicy] = {}

    def __getitem__(self, tool: str) -> ToolPolicy:
        if tool not in self._of:
            source, parts = self._parts.source or Source.tool(tool), self._parts
            self._of[tool] = tool_policy(tool, parts.routes, source=source, run="unattended", detached=parts.detached)
        return self._of[tool]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


def _answering(parts: InquirerParts, settings: ChosenAssistant) -> Model:
    if parts.model and settings.model in ("", parts.model.name):
        return parts.model
    if not settings.model:
        raise ConfigError("No model is there to answer: pass `model=` to the inquirer, or name one in the route.")
    return parts.models.for_assistant(settings)
