"""From what an embedding program gives an agent (spec 8b) to a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from msgspec import Struct

from midturn.assistant.settings import AssistantSettings
from midturn.compose.models import model_named
from midturn.compose.run_parts import RunParts
from midturn.core.json_value import JsonObject
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.routing.policy import DetachedPolicies, DetachedPolicy, QuestionPolicy, RunPolicy, Target, TargetKind, ToolPolicy
from midturn.core.turn.settings import TurnSettings
from midturn.errors import ConfigError
from midturn.ports import Model, Tool
from midturn.runtime.assistants import Assistants
from midturn.runtime.clock import SystemClock
from midturn.runtime.services import Services
from midturn.runtime.session import Session
from midturn.runtime.surroundings import Surroundings
from midturn.store.ids import event_ids
from midturn.store.store import ConversationJournal


class AgentParts(Struct, frozen=True, kw_only=True):
    """What an embedding program gives an agent (spec 8b)."""

    model: Model
    tools: Sequence[Tool] = ()
    instructions: str = ""
    detached: DetachedPolicy = "defer"
    routes: Mapping[str, TargetKind | Target | JsonObject] = {}
    limits: Limits = DEFAULT_LIMITS


def compose_agent(parts: AgentParts, run: RunParts, journal: ConversationJournal) -> Session:
    """Return a session in which the program's own tools run, and nothing is read from any configuration."""
    tools = _by_name(parts.tools)
    settings = TurnSettings(
        tools={name: _policy(tool, parts) for name, tool in tools.items()},
        conversation=journal.conversation,
        attached=run.prompter is not None,
        limits=parts.limits,
        prompts_at_once=run.prompts_at_once,
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


def _same_or_named(main: Model) -> Callable[[AssistantSettings], Model]:
    """Return how models are found: the main one where it is meant, else by name."""

    def find(settings: AssistantSettings) -> Model:
        return main if settings.model in ("", main.name) else model_named(settings.model)

    return find
