"""From what an embedding program gives an agent to a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from midturn.assistant.chosen import ChosenAssistant
from midturn.compose.given_policies import DEFER, Detached
from midturn.compose.models import Models
from midturn.compose.run_parts import RunParts, Silence
from midturn.compose.session import Kit, session_parts
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.routing.policy import QuestionPolicy, RunPolicy, ToolPolicy
from midturn.core.source import Source
from midturn.journal import Journal
from midturn.ports import Model, Tool
from midturn.runtime.session import Session
from midturn.runtime.surroundings import Surroundings
from midturn.tools.run_policy import RUN_POLICIES
from midturn.tools.source import source_of


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
    return tool_policy(tool.definition.name, parts.routes, source=source_of(tool), run=run, detached=parts.detached)


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
