"""From a configuration to a session and its tools: what can be wrong is found before a conversation is begun."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct

from midturn.agent.assembly.models import SCRIPTED, Models, refuse_unusable
from midturn.agent.assembly.reviewers import IN_A_TABLE, reviews_itself
from midturn.agent.assembly.session import Kit, RunParts, session_parts
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
from midturn.runtime.driver import Session, open_window, record, record_effects
from midturn.runtime.side_request import INHERIT, chosen_assistant
from midturn.runtime.surroundings import Silence, Surroundings
from midturn.stores.batch import event_ids
from midturn.stores.ending import check_ending
from midturn.stores.store import ConversationStore
from midturn.stores.workspace import Workspace
from midturn.tools.ask_user_call import AskUserTool
from midturn.tools.describe_tools import DescribeTools, Redescribed, Wording
from midturn.tools.fs.described import file_tools
from midturn.tools.names import name_problem
from midturn.turn.ending import as_it_ended, ended_by_user, ending_batch
from midturn.turn.people import OWNER
from midturn.turn.step import ModelAnswered, TurnRequested, TurnSettings
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView


class Toolbox(Struct, frozen=True):
    """The tools that a model is offered, in their order, by the name that it calls, and what configuration says about each."""

    tools: Mapping[str, Tool]
    settings: Mapping[str, ToolSettings]


def toolbox(settings: Settings, workspace_id: str = "", others: Sequence[Tool] = ()) -> Toolbox:
    """Return the tools that are enabled; `others` come from elsewhere, such as MCP servers.

    Raises:
        ConfigError: A `-t` or `-T` names a tool that is not there, or a locked one; or a name is not for tools.
    """
    foreign = {tool.definition.name: tool for tool in others}
    known = known_tools(settings, others)
    names = offered({name: tool.enable for name, tool in known.items()}, settings.toggles)
    if problems := [problem for name in names if (problem := name_problem(name))]:
        raise ConfigError("\n".join(problems))
    tools = {name: _made(known[name], foreign.get(name), workspace_id) for name in names if name != DESCRIBE_TOOLS}
    if DESCRIBE_TOOLS in names:
        tools[DESCRIBE_TOOLS] = _reworded(DescribeTools(tools.values()), known[DESCRIBE_TOOLS])
    return Toolbox(tools, {name: known[name] for name in tools})


def known_tools(settings: Settings, others: Sequence[Tool] = ()) -> dict[str, ToolSettings]:
    """Return what the configuration itself declares or has built in, enabled or not, and `others` as it says about them."""
    declared = {name: tool for name, tool in settings.tools.items() if tool.source in ("builtin", "local", "plugin")}
    named = ((tool.definition.name, str(getattr(tool, "server", ""))) for tool in others)
    return declared | {name: settings.tool_of_server(name, server) for name, server in named}


def definition_of(tool: ToolSettings, others: Sequence[Tool] = ()) -> ToolDefinition:
    """Return what a model is told about a tool that the configuration knows, or that is one of `others`."""
    foreign = next((other for other in others if other.definition.name == tool.name), None)
    return (_reworded(DescribeTools(()), tool) if tool.name == DESCRIBE_TOOLS else _made(tool, foreign, "")).definition


def _made(settings: ToolSettings, foreign: Tool | None, workspace_id: str) -> Tool:
    return _reworded(foreign, settings) if foreign else _built(settings, workspace_id)


def _built(tool: ToolSettings, workspace_id: str) -> Tool:
    if tool.source == "builtin":
        return _reworded(_built_in(tool.name), tool)
    if tool.source == "plugin":
        return _reworded(_of_a_package(tool), tool)
    from midturn.agent.assembly.command_tools import command_tool  # where no command is configured, nothing is started or confined

    return command_tool(tool, workspace_id)


def _is_tool(found: object, _name: str) -> bool:
    return isinstance(getattr(found, "definition", None), ToolDefinition) and callable(getattr(found, "execute", None))


TOOLS: Final[Registry[Tool]] = Registry(
    kind="tool",
    built_in=tuple(BUILT_IN_TOOLS),
    fits=_is_tool,
    ought="a tool: a function under `@midturn.tool`, or an object with `definition` and `execute`",
    names=NAME,
)
"""Tools that packages add for configurations to name."""


def _of_a_package(tool: ToolSettings) -> Tool:
    where = f"`conversation.tools.{tool.name}.plugin`"
    try:
        made = TOOLS.load(tool.plugin)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    if made.definition.name != tool.name:
        raise ConfigError(f"{where}: {TOOLS.added[tool.plugin]} calls this tool `{made.definition.name}`; name the table so.")
    return made


def _built_in(name: str) -> Tool:
    return AskUserTool() if name == ASK_USER else _file_tools()[name]


@cache
def _file_tools() -> Mapping[str, Tool]:
    """Read once what models are told of the file tools: a configuration looks every one of them up."""
    return file_tools()


def _reworded(tool: Tool, settings: ToolSettings) -> Tool:
    """Return a tool of others, or a built-in one, as configuration describes it."""
    if settings.summary is None and settings.description is None and not settings.parameters:
        return tool

    return Redescribed(tool, Wording(summary=settings.summary, description=settings.description, parameters=settings.parameters))


def workspace_id(root: Path) -> str:
    """Return what tools are told of the workspace: its directory's name."""
    return root.name


class CommandParts(Struct, frozen=True, kw_only=True):
    """A run as the command line knows it: the configuration, where it runs, whether a person is there.

    `others` are tools from elsewhere; `model` takes the place of the configured one.
    """

    settings: Settings
    root: Path
    attached: bool = True
    others: Sequence[Tool] = ()
    model: Model | None = None


class CommandLine:
    """Everything of a run that does not depend on its conversation; `session` binds it to one.

    Raises:
        ConfigError: No model is named, or a tool or a model cannot be set up.
    """

    def __init__(self, parts: CommandParts, run: RunParts) -> None:
        self._parts = parts
        self._run = run
        self._toolbox = _toolbox(parts)
        self._models = Models(llm=parts.settings.llm, display=run.display)
        self._model = parts.model or _main_model(parts, self._models)
        self._warn_of_self_review()

    def session(self, journal: Journal) -> Session:
        """Return a session in the conversation that is held."""
        kit = Kit(
            model=self._model,
            model_for=self._models.for_assistant,
            main=_main_table(self._parts.settings),
            inquiry=self._parts.settings.inquiry,
            tools=self._toolbox.tools,
            policies={name: tool.policy for name, tool in self._toolbox.settings.items()},
            attached=self._parts.attached,
            directory=self._parts.settings.directory,
            surroundings=_surroundings(self._parts, self._toolbox),
        )
        return Session(*session_parts(kit, self._run, journal))

    async def aclose(self) -> None:
        """Close what was opened to reach models."""
        await self._models.aclose()

    def _warn_of_self_review(self) -> None:
        """Warn once per process if the main model answers questions of tools that it calls."""
        settings = self._parts.settings
        found = self_reviewed(settings, self._toolbox.settings)
        if found and self._parts.model is None and found not in _WARNED:
            _WARNED.add(found)
            self._run.display.show(Notice(reviews_itself(found, str(settings.assistant.model.id), IN_A_TABLE)))


_WARNED: set[tuple[str, ...]] = set()


def next_request(parts: CommandParts, events: Sequence[Event], asked: ChatRequest) -> ModelRequest:
    """Return the request that `asked` would lead to after these events; nothing is sent, and no model is set up."""
    return _surroundings(parts, _toolbox(parts)).request([*events, asked])


async def discard_turn(store: ConversationStore, journal: Journal, who: AnsweredBy) -> None:
    """End the open turn of a conversation, and those inside of its tools; no tool and no model is needed for that.

    Raises:
        NotAllowed: A question is open in it that is for others to decide.
    """
    window = open_window(journal)
    view = TurnView.last(window)
    await check_ending(store.port, store.admission, journal.conversation, who)
    ending = ended_by_user(view.record.asking_calls, who if who.by == OWNER else None)
    await record(ending_batch(window, ending, event_ids()), journal, SYSTEM, Silence())
    await store.end_children(view.open_children, as_it_ended("ended_by_user", None))


async def record_said(journal: Journal, said: str) -> None:
    """Record a request that no model is asked about: a turn that is complete, and that the next request brings along."""
    turn = Turn(TurnSettings(tools={}), event_ids())
    effects = (*turn.step(TurnRequested(said)), *turn.step(ModelAnswered(())))
    await record_effects(effects, journal, SYSTEM, Silence())


_WITHOUT_KEY = "To try midturn without any key: `midturn demo`."


def _no_model(root: Path) -> str:
    """Say that no model is set, and name a command that helps here."""
    from midturn.models.registry import KEYS, PREFERRED, Lookup, preferred_here  # only where nothing else is done any more

    more = "`-m PROVIDER/MODEL` names one for this turn, and `midturn demo` needs none."
    if Workspace.find(root) is None:
        return f"No model is set. `midturn init` picks one from the keys and servers at hand, {more}"
    preferred = preferred_here(Lookup().environment)
    if preferred:
        provider, variable = preferred
        return f"No model is set, but {variable} is: `midturn config set assistant.model.id {PREFERRED[provider][0]}` sets one, {more}"
    keys = ", ".join(KEYS[provider][0] for provider in PREFERRED)
    return (
        f"No model is set, and no key: {keys} are looked at. `midturn models` says what can be reached from here, "
        f"`midturn config set assistant.model.id PROVIDER/MODEL` sets one, {more}"
    )


def _main_model(parts: CommandParts, models: Models) -> Model:
    settings = parts.settings
    main = settings.assistant
    if main.model.id is None:
        raise ConfigError(_no_model(parts.root))
    for model in {main.model.id, *side_models(settings)}:
        refuse_unusable(model, settings.llm)
    try:
        return models.get(main.model.id, main.request.max_retries)
    except ConfigError as error:
        if main.model.id.startswith(SCRIPTED):
            raise
        raise ConfigError(f"{error}\n{_WITHOUT_KEY}") from error


def _toolbox(parts: CommandParts) -> Toolbox:
    return toolbox(parts.settings, workspace_id(parts.root), parts.others)


def _surroundings(parts: CommandParts, tools: Toolbox) -> Surroundings:
    main = parts.settings.assistant
    return Surroundings(
        system=main.system_prompt,
        offered=[tool.definition for tool in tools.tools.values()],
        tool_choice=main.tool_choice,
        parameters=main.model.parameters,
        cache=main.request.cache,
        root=str(parts.root),
        limits=parts.settings.limits,
    )


def _main_table(settings: Settings) -> JsonObject:
    """Return the assistant's settings as a table, for merging with those of questions."""
    return cast("JsonObject", msgspec.to_builtins(settings.assistant))


def self_reviewed(settings: Settings, tools: Mapping[str, ToolSettings]) -> tuple[str, ...]:
    """Return the questions of `tools`, as `<tool>.<question>`, that are routed to the main model itself."""
    main = _main_table(settings)
    return tuple(
        f"{name}.{question}"
        for name, tool in tools.items()
        for question, policy in tool.policy.questions.items()
        if policy.target.kind != "user"
        and chosen_assistant(main, settings.inquiry, policy.target.assistant).model == settings.assistant.model.id
    )


def side_models(settings: Settings) -> Iterator[str]:
    """Return the models that are named for questions."""
    main = _main_table(settings)
    targets = [question.target.assistant for tool in settings.tools.values() for question in tool.policy.questions.values()]
    for target in [None, *targets]:
        model = chosen_assistant(main, settings.inquiry, target).model
        if model and model != INHERIT:
            yield model
