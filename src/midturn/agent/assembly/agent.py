"""From what an embedding program gives an agent to a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.assembly.arguments import DEFER, Detached
from midturn.agent.assembly.models import Models
from midturn.agent.assembly.program_servers import ServerTool
from midturn.agent.assembly.session import Kit, RunParts, session_parts
from midturn.errors import ConfigError
from midturn.events.types import Source
from midturn.journal import Journal
from midturn.ports import Model, Tool
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits, canonical
from midturn.routing.policy import QuestionPolicy, RunPolicy, ToolPolicy
from midturn.routing.rules import Ruling
from midturn.runtime.driver import Session
from midturn.runtime.external_loop import ForeignTools, ForeignTurn, Outside
from midturn.runtime.side_request import ChosenAssistant
from midturn.runtime.surroundings import Silence, Surroundings
from midturn.tools.names import RUN_POLICIES, permission_deadline, source_of


class AgentSettings(Struct, frozen=True, kw_only=True):
    """Settings that a program gives an agent or an inquirer. `routes` are by `<tool>.<question>`; `models` are those that they name.

    `server_tools` are those of connected MCP servers, by name.

    Without a `model`, no one answers for a route that names none. `source` asks in every call, where it is not the call's own tool.
    """

    model: Model | None = None
    tools: Sequence[Tool] = ()
    server_tools: Mapping[str, ServerTool] = {}
    instructions: str = ""
    detached: Detached = DEFER
    routes: Mapping[str, QuestionPolicy] = {}
    limits: Limits = DEFAULT_LIMITS
    source: Source | None = None
    models: Models = msgspec.field(default_factory=lambda: Models(llm={}, display=Silence()))

    def kit(self, run: RunParts, tools: Mapping[str, Tool], policies: Mapping[str, ToolPolicy], surroundings: Surroundings) -> Kit:
        """Return what a session stands on; nothing is read from any configuration."""
        return Kit(
            model=self.model or Outside(),
            model_for=self._model_for,
            main={"model": {"id": self.model.name if self.model else ""}},
            tools=tools,
            policies=policies,
            attached=run.prompter is not None,
            surroundings=surroundings,
        )

    def _model_for(self, asked: ChosenAssistant) -> Model:
        """Return the main model where it is meant, else the one that is named."""
        if self.model and asked.model in ("", self.model.name):
            return self.model
        if not asked.model:
            raise ConfigError("No model is there to answer: pass `model=` to the inquirer, or name one in the route.")
        return self.models.for_assistant(asked)


def compose_agent(settings: AgentSettings, run: RunParts, journal: Journal) -> Session:
    """Return a session in which the program's own tools run."""
    servers = settings.server_tools
    tools = {tool.definition.name: tool for tool in settings.tools} | {name: one.tool for name, one in servers.items()}
    policies = {name: _policy(tool, settings) for name, tool in tools.items()}
    offered = [tool.definition for tool in tools.values()]
    surroundings = Surroundings(system=settings.instructions, offered=offered, deps=run.deps, no_deps=run.no_deps, limits=settings.limits)
    return Session(*session_parts(settings.kit(run, tools, policies, surroundings), run, journal))


def _policy(tool: Tool, settings: AgentSettings) -> ToolPolicy:
    """Return a tool's policy: it runs unattended unless it says otherwise, for its author is the program's.

    A tool of an MCP server runs as the description of its server says: a person is asked first unless that says otherwise.
    """
    name = tool.definition.name
    if found := settings.server_tools.get(name):
        policy = tool_policy(name, settings.routes, source=source_of(tool), run=found.run, detached=settings.detached)
        return replace(policy, arguments_schema=tool.definition.parameters, definition=found.definition, is_local=found.is_local)
    declared: object = getattr(tool, "run", None)  # of a tool that is not ours this may be anything
    run = declared if declared in RUN_POLICIES else "unattended"
    policy = tool_policy(tool.definition.name, settings.routes, source=source_of(tool), run=run, detached=settings.detached)
    policy = replace(policy, arguments_schema=tool.definition.parameters)
    given: object = getattr(tool, "deadline", None)
    if not isinstance(given, timedelta | int | float | str):  # of a tool that is not ours it may be anything, such as a method
        return policy
    deadline = permission_deadline(tool.definition.name, given)
    return replace(policy, deadline=deadline.total_seconds()) if deadline else policy


def tool_policy(name: str, routes: Mapping[str, QuestionPolicy], *, source: Source, run: RunPolicy, detached: Detached) -> ToolPolicy:
    """Return what holds for one tool; nothing comes from configuration."""
    prefix = f"{name}."
    return ToolPolicy(
        source=source,
        run=run,
        detached=detached.of(name),
        questions={key.removeprefix(prefix): said for key, said in routes.items() if key.startswith(prefix)},
    )


# ----------------------------------------------------------------------------------------------------------------------
# Wiring of an inquirer: a turn held by a program with a loop of its own


_ENDLESS = 1_000_000_000


def compose_inquirer(settings: AgentSettings, run: RunParts, journal: Journal) -> ForeignTurn:
    """Return the turn in which another program's loop makes its calls; how many model requests it makes is its own affair."""
    tools = ForeignTools()
    surroundings = Surroundings(limits=replace(settings.limits, cycles=_ENDLESS))
    kit = replace(settings.kit(run, tools, _Policies(settings, tools), surroundings), model=Outside())
    return ForeignTurn(*session_parts(kit, run, journal), tools)


class _ForeignPolicy(ToolPolicy, frozen=True, kw_only=True):
    """Policy of a tool of another program's loop: the loop says of each call whether a person is asked first."""

    tools: ForeignTools
    name: str

    def ruling(self, arguments: Json) -> Ruling:
        """Have a person asked about the calls of which the loop wants that."""
        return Ruling("ask") if self.tools.asked[self.name, canonical(arguments)] else Ruling(self.run)

    def schema_for(self, arguments: Json) -> JsonObject | None:
        """Return the JSON Schema that the loop has given with the call."""
        return self.tools.schemas.get((self.name, canonical(arguments)))


class _Policies(Mapping[str, ToolPolicy]):
    """Policies of every tool that there may be: a call runs unattended, unless it is one that begins with a permission."""

    def __init__(self, settings: AgentSettings, tools: ForeignTools) -> None:
        self._settings = settings
        self._tools = tools
        self._of: dict[str, ToolPolicy] = {}

    def __getitem__(self, tool: str) -> ToolPolicy:
        if tool not in self._of:
            source, settings = self._settings.source or Source.tool(tool), self._settings
            policy = tool_policy(tool, settings.routes, source=source, run="unattended", detached=settings.detached)
            self._of[tool] = _ForeignPolicy(
                source=policy.source, run=policy.run, detached=policy.detached, questions=policy.questions, tools=self._tools, name=tool
            )
        return self._of[tool]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)
