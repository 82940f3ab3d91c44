"""Builds a session and its tools from the configuration. Configuration errors are reported before
a conversation begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.assembly.models import SCRIPTED, Models, refuse_unusable
from midturn.agent.assembly.reviewers import IN_A_TABLE, reviews_itself
from midturn.clock import SYSTEM
from midturn.config.settings import Settings, ToolSettings, offered
from midturn.errors import ConfigError
from midturn.events.types import AnsweredBy, ChatRequest, Event
from midturn.exchange import ModelRequest, ToolDefinition
from midturn.journal import Journal
from midturn.plugins import Registry
from midturn.ports import Model, Notice, Tool
from midturn.question.json_value import JsonObject
from midturn.question.text import ASK_USER, BUILT_IN_TOOLS, DESCRIBE_TOOLS, NAME
from midturn.runtime.displays import NullDisplay
from midturn.runtime.recording import record, record_effects
from midturn.runtime.run_options import RunOptions
from midturn.runtime.services import RequestParts, SideModels, TurnServices
from midturn.runtime.session import Session, open_window
from midturn.runtime.session_context import SessionContext
from midturn.runtime.side_request import INHERIT, chosen_assistant
from midturn.stores.batch import event_ids
from midturn.stores.ending import check_ending
from midturn.stores.store import ConversationStore
from midturn.stores.workspace import Workspace
from midturn.tools.ask_user_call import AskUserTool
from midturn.tools.describe_tools import DescribeTools, Redescribed, Wording
from midturn.tools.fs.described import file_tools
from midturn.tools.names import name_problem
from midturn.turn.ending import as_it_ended, ended_by_user, ending_batch
from midturn.turn.inputs import ModelAnswered, TurnRequested
from midturn.turn.settings import TurnSettings
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView
from midturn.turn.votes import OWNER


class Toolbox(Struct, frozen=True):
    """The tools that the model may call, in order, and the configuration of each, by name."""

    tools: Mapping[str, Tool]
    settings: Mapping[str, ToolSettings]


def toolbox(settings: Settings, workspace_id: str = "", others: Sequence[Tool] = ()) -> Toolbox:
    """Return the enabled tools.

    Args:
        settings: The configuration.
        workspace_id: Id of the workspace, for command tools.
        others: Tools that are not in the configuration, such as those of MCP servers.

    Raises:
        ConfigError: `-t` or `-T` names a tool that does not exist or is locked, or a name is not
            allowed for tools.
    """
    foreign = {tool.definition.name: tool for tool in others}
    known = known_tools(settings, others)
    names = offered({name: tool.enable for name, tool in known.items()}, settings.toggles)
    if problems := [problem for name in names if (problem := name_problem(name))]:
        raise ConfigError("\n".join(problems))
    tools = {
        name: _made(known[name], foreign.get(name), workspace_id)
        for name in names
        if name != DESCRIBE_TOOLS
    }
    if DESCRIBE_TOOLS in names:
        tools[DESCRIBE_TOOLS] = _reworded(DescribeTools(tools.values()), known[DESCRIBE_TOOLS])
    return Toolbox(tools, {name: known[name] for name in tools})


def known_tools(settings: Settings, others: Sequence[Tool] = ()) -> dict[str, ToolSettings]:
    """Return the configuration of all tools: declared tools, built-in tools, and `others`.
    Disabled tools are included.
    """
    declared = {
        name: tool
        for name, tool in settings.tools.items()
        if tool.source in ("builtin", "local", "plugin")
    }
    named = ((tool.definition.name, str(getattr(tool, "server", ""))) for tool in others)
    return declared | {name: settings.tool_of_server(name, server) for name, server in named}


def definition_of(tool: ToolSettings, others: Sequence[Tool] = ()) -> ToolDefinition:
    """Return the definition of a configured tool, or of one of `others`, for the model."""
    foreign = next((other for other in others if other.definition.name == tool.name), None)
    return (
        _reworded(DescribeTools(()), tool)
        if tool.name == DESCRIBE_TOOLS
        else _made(tool, foreign, "")
    ).definition


def _made(settings: ToolSettings, foreign: Tool | None, workspace_id: str) -> Tool:
    return _reworded(foreign, settings) if foreign else _built(settings, workspace_id)


def _built(tool: ToolSettings, workspace_id: str) -> Tool:
    if tool.source == "builtin":
        return _reworded(_built_in(tool.name), tool)
    if tool.source == "plugin":
        return _reworded(_of_a_package(tool), tool)
    from midturn.agent.assembly.command_tools import (
        command_tool,
    )  # imported here, because other tools do not need the sandbox

    return command_tool(tool, workspace_id)


def _is_tool(found: object, _name: str) -> bool:
    return isinstance(getattr(found, "definition", None), ToolDefinition) and callable(
        getattr(found, "execute", None)
    )


TOOLS: Final[Registry[Tool]] = Registry(
    kind="tool",
    built_in=tuple(BUILT_IN_TOOLS),
    fits=_is_tool,
    ought="a tool: a function under `@midturn.tool`, or an object with `definition` and `execute`",
    names=NAME,
)
"""Tools from plug-in packages. The configuration can enable them by name."""


def _of_a_package(tool: ToolSettings) -> Tool:
    where = f"`conversation.tools.{tool.name}.plugin`"
    try:
        made = TOOLS.load(tool.plugin)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    if made.definition.name != tool.name:
        raise ConfigError(
            f"{where}: {TOOLS.added[tool.plugin]} names this tool `{made.definition.name}`; rename"
            " the table."
        )
    return made


def _built_in(name: str) -> Tool:
    return AskUserTool() if name == ASK_USER else _file_tools()[name]


@cache
def _file_tools() -> Mapping[str, Tool]:
    """Return the file tools. The result is cached, because each file tool in a configuration is
    looked up separately.
    """
    return file_tools()


def _reworded(tool: Tool, settings: ToolSettings) -> Tool:
    """Return a tool with its description from the configuration."""
    if settings.summary is None and settings.description is None and not settings.parameters:
        return tool
    return Redescribed(
        tool,
        Wording(
            summary=settings.summary,
            description=settings.description,
            parameters=settings.parameters,
        ),
    )


def workspace_id(root: Path) -> str:
    """Return the workspace id that tools receive: the name of its directory."""
    return root.name


class CommandArguments(Struct, frozen=True, kw_only=True):
    """Arguments of a run from the command line.

    Args:
        settings: The configuration.
        root: The workspace.
        attached: Whether a person is attached.
        others: Tools that are not in the configuration, such as those of MCP servers.
        model: Replaces the configured model.
    """

    settings: Settings
    root: Path
    attached: bool = True
    others: Sequence[Tool] = ()
    model: Model | None = None


class CommandLine:
    """The tools and models of a command-line run. `session` opens a session for one conversation.

    Args:
        arguments: The arguments of the run.
        options: The options of the run.

    Raises:
        ConfigError: No model is configured, or a tool or a model cannot be set up.
    """

    def __init__(self, arguments: CommandArguments, options: RunOptions) -> None:
        self._arguments = arguments
        self._options = replace(options, attached=arguments.attached)
        self._toolbox = _toolbox(arguments)
        self._models = Models(llm=arguments.settings.llm, display=options.display)
        self._model = arguments.model or _main_model(arguments, self._models)
        self._warn_of_self_review()

    def session(self, journal: Journal) -> Session:
        """Return a session in a locked conversation."""
        configured = self._arguments.settings
        services = TurnServices(
            model=self._model,
            side_models=SideModels(
                self._models.for_assistant, _main_table(configured), configured.inquiry
            ),
            tools=self._toolbox.tools,
            request=_request_settings(self._arguments, self._toolbox),
            root=str(self._arguments.root),
        )
        settings = TurnSettings(
            tools={name: tool.policy for name, tool in self._toolbox.settings.items()},
            directory=configured.directory,
            limits=configured.limits,
        )
        return Session(SessionContext.bind(services, settings, self._options, journal))

    async def aclose(self) -> None:
        """Close the connections to models."""
        await self._models.aclose()

    def _warn_of_self_review(self) -> None:
        """Warn once per process if the main model answers questions about its own calls."""
        settings = self._arguments.settings
        found = self_reviewed(settings, self._toolbox.settings)
        if found and self._arguments.model is None and found not in _WARNED:
            _WARNED.add(found)
            self._options.display.show(
                Notice(reviews_itself(found, str(settings.assistant.model.id), IN_A_TABLE))
            )


_WARNED: set[tuple[str, ...]] = set()


def next_request(
    arguments: CommandArguments, events: Sequence[Event], asked: ChatRequest
) -> ModelRequest:
    """Return the model request for a message, without sending it or setting up a model."""
    return _request_settings(arguments, _toolbox(arguments)).request("", [*events, asked])


async def discard_turn(store: ConversationStore, journal: Journal, who: AnsweredBy) -> None:
    """End the open turn of a conversation, and its nested turns. Tools and models are not set up.

    Raises:
        NotAllowed: Other people have to decide an open question of the turn.
    """
    window = open_window(journal)
    view = TurnView.last(window)
    await check_ending(store.port, store.admission, journal.conversation, who)
    ending = ended_by_user(view.record.asking_calls, who if who.by == OWNER else None)
    await record(ending_batch(window, ending, event_ids()), journal, SYSTEM, NullDisplay())
    await store.end_children(view.open_children, as_it_ended("ended_by_user", None))


async def record_said(journal: Journal, said: str) -> None:
    """Record a message as a complete turn without a response. The next request to the model
    contains the message.
    """
    turn = Turn(TurnSettings(tools={}), event_ids())
    effects = (*turn.step(TurnRequested(said)), *turn.step(ModelAnswered(())))
    await record_effects(effects, journal, SYSTEM, NullDisplay())


_WITHOUT_KEY = "To try midturn without any key: `midturn demo`."


def _no_model(root: Path) -> str:
    """Return the error message for a missing model, with a command that sets one."""
    from midturn.models.registry import (
        KEYS,
        PREFERRED,
        Lookup,
        preferred_provider,
    )  # imported here, because only this error needs it

    more = "`-m PROVIDER/MODEL` names one for this turn, and `midturn demo` needs none."
    if Workspace.find(root) is None:
        return (
            f"No model is set. `midturn init` picks one from the available keys and servers, {more}"
        )
    preferred = preferred_provider(Lookup().environment)
    if preferred:
        provider, variable = preferred
        return (
            f"No model is set, but {variable} is: `midturn config set assistant.model.id"
            f" {PREFERRED[provider][0]}` sets one, {more}"
        )
    keys = ", ".join(KEYS[provider][0] for provider in PREFERRED)
    return (
        f"No model is set, and none of the keys is set: {keys}. `midturn models` lists the"
        " available models, `midturn config set assistant.model.id PROVIDER/MODEL` sets one,"
        f" {more}"
    )


def _main_model(arguments: CommandArguments, models: Models) -> Model:
    settings = arguments.settings
    main = settings.assistant
    if main.model.id is None:
        raise ConfigError(_no_model(arguments.root))
    for model in {main.model.id, *side_models(settings)}:
        refuse_unusable(model, settings.llm)
    try:
        return models.get(main.model.id, main.request.max_retries)
    except ConfigError as error:
        if main.model.id.startswith(SCRIPTED):
            raise
        raise ConfigError(f"{error}\n{_WITHOUT_KEY}") from error


def _toolbox(arguments: CommandArguments) -> Toolbox:
    return toolbox(arguments.settings, workspace_id(arguments.root), arguments.others)


def _request_settings(arguments: CommandArguments, tools: Toolbox) -> RequestParts:
    main = arguments.settings.assistant
    return RequestParts(
        system=main.system_prompt,
        offered=[tool.definition for tool in tools.tools.values()],
        tool_choice=main.tool_choice,
        parameters=main.model.parameters,
        cache=main.request.cache,
    )


def _main_table(settings: Settings) -> JsonObject:
    """Return the settings of the main assistant as a table. The settings of questions are merged
    over this table.
    """
    return cast("JsonObject", msgspec.to_builtins(settings.assistant))


def self_reviewed(settings: Settings, tools: Mapping[str, ToolSettings]) -> tuple[str, ...]:
    """Return the questions that are routed to the model that calls their tool, as
    `<tool>.<question>`.
    """
    main = _main_table(settings)
    return tuple(
        f"{name}.{question}"
        for name, tool in tools.items()
        for question, policy in tool.policy.questions.items()
        if policy.target.kind != "user"
        and chosen_assistant(main, settings.inquiry, policy.target.assistant).model
        == settings.assistant.model.id
    )


def side_models(settings: Settings) -> Iterator[str]:
    """Yield the models that are configured to answer questions."""
    main = _main_table(settings)
    targets = [
        question.target.assistant
        for tool in settings.tools.values()
        for question in tool.policy.questions.values()
    ]
    for target in [None, *targets]:
        model = chosen_assistant(main, settings.inquiry, target).model
        if model and model != INHERIT:
            yield model
