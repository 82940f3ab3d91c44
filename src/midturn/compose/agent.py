"""From what an embedding program gives an agent to a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.assistant.request import ChosenAssistant
from midturn.compose.given_policies import DEFER, Detached
from midturn.compose.models import Models
from midturn.compose.session import Kit, RunParts, Silence, session_parts
from midturn.errors import ConfigError
from midturn.journal import Journal
from midturn.ports import Model, Tool
from midturn.record.events import Source
from midturn.routing.policy import QuestionPolicy, RunPolicy, ToolPolicy
from midturn.runtime.foreign_turn import ForeignTools, ForeignTurn, Outside
from midturn.runtime.session import Session
from midturn.runtime.surroundings import Surroundings
from midturn.tools.names import RUN_POLICIES
from midturn.tools.source import source_of
from midturn.values.limits import DEFAULT_LIMITS, Limits


class AgentParts(Struct, frozen=True, kw_only=True):
    """What an embedding program gives an agent. `routes` are by `<tool>.<question>`; `models` are those that they name."""

    model: Model
    tools: Sequence[Tool] = ()
    instructions: str = ""
    detached: Detached = DEFER
    routes: Mapping[str, QuestionPolicy] = {}
    limits: Limits = DEFAULT_LIMITS
    models: Models = msgspec.field(default_factory=lambda: Models(llm={}, display=Silence()))


def compose_agent(parts: AgentParts, run: RunParts, journal: Journal) -> Session:
    """Return a session in which the program's own tools run, and nothing is read from any configuration."""
    tools = {tool.definition.name: tool for tool in parts.tools}
    kit = Kit(
        model=parts.model,
        model_for=_same_or_named(parts.model, parts.models),
        main={"model": {"id": parts.model.name}},
        tools=tools,
        policies={name: _policy(tool, parts) for name, tool in tools.items()},
        attached=run.prompter is not None,
        surroundings=Surroundings(
            system=parts.instructions, offered=[tool.definition for tool in parts.tools], deps=run.deps, limits=parts.limits
        ),
    )
    return Session(*session_parts(kit, run, journal))


def _policy(tool: Tool, parts: AgentParts) -> ToolPolicy:
    """Return a tool's policy: it runs unattended unless it says otherwise, for its author is the program's."""
    declared: object = getattr(tool, "run", None)  # of a tool that is not ours this may be anything
    run = declared if declared in RUN_POLICIES else "unattended"
    policy = tool_policy(tool.definition.name, parts.routes, source=source_of(tool), run=run, detached=parts.detached)
    deadline: object = getattr(tool, "deadline", None)
    return replace(policy, deadline=deadline.total_seconds()) if isinstance(deadline, timedelta) else policy


def tool_policy(name: str, routes: Mapping[str, QuestionPolicy], *, source: Source, run: RunPolicy, detached: Detached) -> ToolPolicy:
    """Return what holds for one tool; nothing comes from configuration."""
    prefix = f"{name}."
    return ToolPolicy(
        source=source,
        run=run,
        detached=detached.of(name),
        questions={key.removeprefix(prefix): said for key, said in routes.items() if key.startswith(prefix)},
    )


def _same_or_named(main: Model, models: Models) -> Callable[[ChosenAssistant], Model]:
    """Return how models are found: the main one where it is meant, else by name."""

    def find(settings: ChosenAssistant) -> Model:
        return main if settings.model in ("", main.name) else models.for_assistant(settings)

    return find


# ----------------------------------------------------------------------------------------------------------------------
# Wiring of an inquirer: a turn held by a program with a loop of its own


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
    """Return the turn in which another program's loop makes its calls; how many model requests it makes is its own affair."""
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
