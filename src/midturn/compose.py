"""The only module that names concrete classes: from what a program or a configuration says to a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from midturn.assistant.settings import AssistantSettings
from midturn.config.settings import AssistantSettings as AssistantConfiguration, Settings, ToolSettings
from midturn.core.exchange import ToolDefinition
from midturn.core.json_value import JsonObject
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.routing.policy import DetachedPolicies, DetachedPolicy, QuestionPolicy, RunPolicy, Target, TargetKind, ToolPolicy
from midturn.core.turn.inputs import Interrupted
from midturn.core.turn.settings import TurnSettings
from midturn.core.turn.turn import Turn
from midturn.errors import ConfigError
from midturn.models.retry import RetryingModel, RetryPolicy
from midturn.models.scripted import ScriptedModel
from midturn.ports import Display, Happening, Journal, Model, Notice, Tool
from midturn.runtime.assistants import Assistants
from midturn.runtime.clock import SystemClock
from midturn.runtime.prompter import Prompter
from midturn.runtime.recorder import record_effects
from midturn.runtime.services import Services
from midturn.runtime.session import Session, open_window
from midturn.runtime.surroundings import Surroundings
from midturn.store.ids import event_ids
from midturn.store.store import ConversationJournal
from midturn.tools.ask_user import AskUser
from midturn.tools.command import CommandTool
from midturn.tools.command_spec import CommandSpec, arguments_schema

BUILT_INS = frozenset({"ask_user"})
DEFAULT_TIMEOUT = 600.0  # seconds that a local command may run
NO_MODEL = (
    "No model is set. `midturn init` picks one from the keys and servers at hand, `-m PROVIDER/MODEL` names one for this turn, and "
    "`midturn demo` needs none."
)
SCRIPTED = "scripted:"


class Silence:
    """A display that shows nothing."""

    def show(self, happening: Happening) -> None:
        """Take no note."""


class AgentParts(Struct, frozen=True, kw_only=True):
    """What an embedding program gives an agent (spec 8b)."""

    model: Model
    tools: Sequence[Tool] = ()
    instructions: str = ""
    detached: DetachedPolicy = "defer"
    routes: Mapping[str, TargetKind | Target | JsonObject] = {}
    limits: Limits = DEFAULT_LIMITS


class RunParts(Struct, frozen=True, kw_only=True):
    """What differs from turn to turn."""

    prompter: Prompter | None = None
    display: Display = Silence()
    deps: object = None


def model_named(name: str) -> Model:
    """Return the model with this id: `scripted:FILE`, or one of a provider (spec 4b.2).

    Raises:
        ConfigError: There is no such model, or its provider's extra or key is missing; the message says what to do.
    """
    if name.startswith(SCRIPTED):
        return ScriptedModel.from_file(name.removeprefix(SCRIPTED))
    raise ConfigError(f"No provider for the model {name!r}.")


def compose_agent(parts: AgentParts, run: RunParts, journal: ConversationJournal) -> Session:
    """Return a session in which the program's own tools run, and nothing is read from any configuration."""
    tools = _by_name(parts.tools)
    settings = TurnSettings(
        tools={name: _policy(tool, parts) for name, tool in tools.items()},
        conversation=journal.conversation,
        attached=run.prompter is not None,
        limits=parts.limits,
        prompts_at_once=_at_once(run.prompter),
    )
    surroundings = Surroundings(
        conversation=journal.conversation,
        system=parts.instructions,
        offered=[tool.definition for tool in parts.tools],
        deps=run.deps,
        limits=parts.limits,
    )
    assistants = Assistants(_same_or_named(parts.model), {"model": {"id": parts.model.name}}, {})
    assistants.attend(settings, surroundings)
    services = Services(
        model=parts.model,
        consultant=assistants,
        tools=tools,
        journal=journal,
        answers=journal.answers,
        prompter=run.prompter,
        display=run.display,
        clock=SystemClock(),
        ids=event_ids(),
    )
    return Session(services, settings, surroundings)


class CommandParts(Struct, frozen=True, kw_only=True):
    """What the command line knows of a run: the configuration, where it runs, and who is there. `defer` makes every question wait."""

    settings: Settings
    root: Path
    workspace_id: str = ""
    attached: bool = True


def compose_command_line(parts: CommandParts, run: RunParts, journal: ConversationJournal) -> Session:
    """Return a session under a configuration (spec 8.1).

    Raises:
        ConfigError: No model is named, or a tool or the model cannot be set up.
    """
    configured = parts.settings
    offered = {tool.name: tool for tool in enabled_tools(configured)}
    tools: dict[str, Tool] = {name: _built(tool, parts) for name, tool in offered.items()}
    main = configured.assistant
    if main.model.id is None:
        raise ConfigError(NO_MODEL)
    model = _retrying(main.model.id, main.request.max_retries, run.display)
    settings = TurnSettings(
        tools={name: offered[name].policy for name in tools},
        conversation=journal.conversation,
        attached=parts.attached,
        limits=configured.limits,
        prompts_at_once=_at_once(run.prompter),
    )
    surroundings = Surroundings(
        conversation=journal.conversation,
        system=main.system_prompt,
        offered=[tool.definition for tool in tools.values()],
        tool_choice=main.tool_choice,
        parameters=main.model.parameters,
        cache=main.request.cache,
        root=str(parts.root),
        limits=configured.limits,
    )
    assistants = Assistants(_configured_models(model, main.model.id, run.display), assistant_json(main), configured.inquiry)
    assistants.attend(settings, surroundings)
    services = Services(
        model=model,
        consultant=assistants,
        tools=tools,
        journal=journal,
        answers=journal.answers,
        prompter=run.prompter,
        display=run.display,
        clock=SystemClock(),
        ids=event_ids(),
    )
    return Session(services, settings, surroundings)


async def discard_turn(journal: Journal) -> None:
    """End the open turn of a conversation; no tool and no model is needed for that (spec 2.4)."""
    turn = Turn.load(open_window(journal), TurnSettings(tools={}), event_ids())
    await record_effects(turn.step(Interrupted()), journal, SystemClock(), Silence())


def offered_definitions(parts: CommandParts) -> list[ToolDefinition]:
    """Return what a model is told about the tools of a configuration."""
    return [_built(tool, parts).definition for tool in enabled_tools(parts.settings)]


def enabled_tools(settings: Settings) -> list[ToolSettings]:
    """Return the tools that the model is offered (spec 6.5)."""
    return [tool for tool in settings.tools.values() if tool.enable.state and tool.name in BUILT_INS | _local(settings)]


def _local(settings: Settings) -> set[str]:
    return {name for name, tool in settings.tools.items() if tool.source == "local"}


def assistant_json(settings: AssistantConfiguration) -> JsonObject:
    """Return the assistant's settings as a table, for merging with those of questions (spec 4.2)."""
    return cast("JsonObject", msgspec.to_builtins(settings))


def _built(tool: ToolSettings, parts: CommandParts) -> Tool:
    """Return the tool that a configuration declares."""
    if tool.source == "builtin":
        return AskUser()
    spec = CommandSpec(
        name=tool.name,
        command=tool.command,
        shell=tool.shell,
        protocol=tool.protocol,
        summary=tool.summary or "",
        description=tool.description or "",
        parameters=arguments_schema(tool.parameters, tool.required),
        environment=tool.environment,
        cwd=tool.cwd or "",
        timeout=tool.timeout or DEFAULT_TIMEOUT,
    )
    return CommandTool(spec, parts.workspace_id)


def _retrying(name: str, max_retries: int, display: Display) -> Model:
    """Return a model that is asked again when it is down for a moment; each wait is shown."""
    return RetryingModel(
        model_named(name),
        SystemClock(),
        policy=RetryPolicy(max_retries=max_retries),
        report=lambda wait: display.show(Notice(f"{wait.model}: {wait.error}; trying again in {wait.seconds:.0f} s")),
    )


def _configured_models(main: Model, main_id: str, display: Display) -> Callable[[AssistantSettings], Model]:
    def find(settings: AssistantSettings) -> Model:
        return main if settings.model == main_id else _retrying(settings.model, settings.max_retries, display)

    return find


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        name = tool.definition.name
        if name in named:
            raise ConfigError(f"Two tools are named {name!r}; give one of them another name.")
        named[name] = tool
    return named


def _policy(tool: Tool, parts: AgentParts) -> ToolPolicy:
    """Return a tool's policy: it runs unattended unless it says otherwise, for its author is the program's."""
    run = cast("RunPolicy", getattr(tool, "run", "unattended"))
    prefix = f"{tool.definition.name}."
    return ToolPolicy(
        source=tool.inquiry_source(),
        run=run,
        detached=DetachedPolicies(parts.detached, parts.detached, parts.detached),
        questions={key.removeprefix(prefix): _routed(to) for key, to in parts.routes.items() if key.startswith(prefix)},
    )


def _routed(to: TargetKind | Target | JsonObject) -> QuestionPolicy:
    """Read a target in any of its forms: a name, a `Target`, or a table of assistant settings with `escalation` (spec 8.1)."""
    if isinstance(to, str):
        return QuestionPolicy(Target(to))
    if isinstance(to, Target):
        return QuestionPolicy(to)
    kind: TargetKind = "assistant_with_escalation" if to.get("escalation") else "assistant"
    return QuestionPolicy(Target(kind, {key: value for key, value in to.items() if key != "escalation"}))


def _at_once(prompter: Prompter | None) -> int:
    """Return how many prompts may be open: a terminal shows one, a chat or a web page any number (spec 8b)."""
    unbounded = 1_000_000
    return unbounded if getattr(prompter, "concurrent", False) else 1


def _same_or_named(main: Model) -> Callable[[AssistantSettings], Model]:
    """Return how models are found: the main one where it is meant, else by name."""

    def find(settings: AssistantSettings) -> Model:
        return main if settings.model in ("", main.name) else model_named(settings.model)

    return find
