"""Builds sessions from the checked arguments of `Agent` and `Inquirer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.assembly.arguments import DEFER, Detached
from midturn.agent.assembly.models import Models
from midturn.agent.assembly.program_servers import ServerTool
from midturn.errors import ConfigError
from midturn.events.types import Source
from midturn.journal import Journal
from midturn.ports import Model, Tool
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits, canonical
from midturn.routing.policy import QuestionPolicy, RunPolicy, ToolPolicy
from midturn.routing.rules import Ruling
from midturn.runtime.displays import NullDisplay
from midturn.runtime.external_loop import ExternalLoopTools, ExternalLoopTurn, Outside
from midturn.runtime.run_options import RunOptions
from midturn.runtime.services import RequestParts, SideModels, TurnServices
from midturn.runtime.session import Session
from midturn.runtime.session_context import SessionContext
from midturn.runtime.side_request import ChosenAssistant
from midturn.tools.names import RUN_POLICIES, permission_deadline, source_of
from midturn.turn.settings import TurnSettings


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """Checked arguments of an `Agent` or an `Inquirer`.

    Args:
        model: The main model. Without one, a model answers a question only if the question's route
            names the model.
        tools: The tools.
        server_tools: Tools of connected MCP servers, by name.
        instructions: The system prompt.
        detached: Policies for questions while no one is attached.
        routes: Policy of each question (such as its responder), by `<tool>.<question>`.
        limits: The limits of a turn.
        source: Recorded as the asker of all questions. If None, the tool of each call is recorded.
        models: The models that the routes refer to.
    """

    model: Model | None = None
    tools: Sequence[Tool] = ()
    server_tools: Mapping[str, ServerTool] = {}
    instructions: str = ""
    detached: Detached = DEFER
    routes: Mapping[str, QuestionPolicy] = {}
    limits: Limits = DEFAULT_LIMITS
    source: Source | None = None
    models: Models = msgspec.field(default_factory=lambda: Models(llm={}, display=NullDisplay()))

    @property
    def side_models(self) -> SideModels:
        """The models that can answer questions. The configuration is not read."""
        return SideModels(
            self._find_model, main={"model": {"id": self.model.name if self.model else ""}}
        )

    def _find_model(self, asked: ChosenAssistant) -> Model:
        """Return the main model, or the model that a route names."""
        if self.model and asked.model in ("", self.model.name):
            return self.model
        if not asked.model:
            raise ConfigError(
                "There is no model to answer: pass `model=` to the inquirer, or name one in the"
                " route."
            )
        return self.models.for_assistant(asked)


def build_session(arguments: AgentDefinition, options: RunOptions, journal: Journal) -> Session:
    """Return a session in which the program's own tools run."""
    servers = arguments.server_tools
    tools = {tool.definition.name: tool for tool in arguments.tools} | {
        name: one.tool for name, one in servers.items()
    }
    services = TurnServices(
        model=arguments.model or Outside(),
        side_models=arguments.side_models,
        tools=tools,
        request=RequestParts(
            system=arguments.instructions, offered=[tool.definition for tool in tools.values()]
        ),
    )
    settings = TurnSettings(
        tools={name: _policy(tool, arguments) for name, tool in tools.items()},
        limits=arguments.limits,
    )
    return Session(SessionContext.bind(services, settings, options, journal))


def _policy(tool: Tool, arguments: AgentDefinition) -> ToolPolicy:
    """Return the policy of a tool.

    By default, a function tool runs unattended, because it is the program's own code. For a tool of
    an MCP server, `McpServer.run` sets the policy; its default is to ask a person first.
    """
    name = tool.definition.name
    if found := arguments.server_tools.get(name):
        policy = tool_policy(
            name,
            arguments.routes,
            source=source_of(tool),
            run=found.run,
            detached=arguments.detached,
        )
        return replace(
            policy,
            arguments_schema=tool.definition.parameters,
            definition=found.definition,
            is_local=found.is_local,
        )
    # a tool of another package may set `run` to any type
    declared: object = getattr(tool, "run", None)
    run = declared if declared in RUN_POLICIES else "unattended"
    policy = tool_policy(
        tool.definition.name,
        arguments.routes,
        source=source_of(tool),
        run=run,
        detached=arguments.detached,
    )
    policy = replace(policy, arguments_schema=tool.definition.parameters)
    given: object = getattr(tool, "deadline", None)
    # a tool of another package may set `deadline` to any type
    if not isinstance(given, timedelta | int | float | str):
        return policy
    deadline = permission_deadline(tool.definition.name, given)
    return replace(policy, deadline=deadline.total_seconds()) if deadline else policy


def tool_policy(
    name: str,
    routes: Mapping[str, QuestionPolicy],
    *,
    source: Source,
    run: RunPolicy,
    detached: Detached,
) -> ToolPolicy:
    """Return the policy of a tool, built from the program's arguments only."""
    prefix = f"{name}."
    return ToolPolicy(
        source=source,
        run=run,
        detached=detached.of(name),
        questions={
            key.removeprefix(prefix): said for key, said in routes.items() if key.startswith(prefix)
        },
    )


# --------------------------------------------------------------------------------------------------
# Turns of an inquirer: another program runs the agent loop


_UNLIMITED_CYCLES: Final = 1_000_000_000
"""Practically unlimited model requests, because the other program's loop has its own limit."""


def build_external_turn(
    arguments: AgentDefinition, options: RunOptions, journal: Journal
) -> ExternalLoopTurn:
    """Return a turn whose tool calls another program's loop makes."""
    tools = ExternalLoopTools()
    services = TurnServices(model=Outside(), side_models=arguments.side_models, tools=tools)
    settings = TurnSettings(
        tools=_Policies(arguments, tools),
        limits=replace(arguments.limits, cycles=_UNLIMITED_CYCLES),
    )
    return ExternalLoopTurn(SessionContext.bind(services, settings, options, journal), tools)


class _ExternalPolicy(ToolPolicy, frozen=True, kw_only=True):
    """Policy of a tool in another program's loop.

    For each call, the loop decides whether a person is asked first.
    """

    tools: ExternalLoopTools
    name: str

    def ruling(self, arguments: Json) -> Ruling:
        """Ask a person first if the loop requested this for a call with these arguments."""
        return (
            Ruling("ask") if self.tools.asked[self.name, canonical(arguments)] else Ruling(self.run)
        )

    def schema_for(self, arguments: Json) -> JsonObject | None:
        """Return the JSON Schema that the loop passed with the call."""
        return self.tools.schemas.get((self.name, canonical(arguments)))


class _Policies(Mapping[str, ToolPolicy]):
    """Policies of the tools in another program's loop. The names of the tools are not known in
    advance, so each policy is created on first use.
    """

    def __init__(self, arguments: AgentDefinition, tools: ExternalLoopTools) -> None:
        self._arguments = arguments
        self._tools = tools
        self._by_tool: dict[str, ToolPolicy] = {}

    def __getitem__(self, tool: str) -> ToolPolicy:
        if tool not in self._by_tool:
            source, arguments = self._arguments.source or Source.tool(tool), self._arguments
            policy = tool_policy(
                tool, arguments.routes, source=source, run="unattended", detached=arguments.detached
            )
            self._by_tool[tool] = _ExternalPolicy(
                source=policy.source,
                run=policy.run,
                detached=policy.detached,
                questions=policy.questions,
                tools=self._tools,
                name=tool,
            )
        return self._by_tool[tool]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_tool)

    def __len__(self) -> int:
        return len(self._by_tool)
