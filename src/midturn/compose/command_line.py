"""From a configuration to a session: what can be wrong is found before a conversation is begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from midturn.assistant.request import INHERIT, chosen_assistant
from midturn.clock import SYSTEM
from midturn.compose.models import SCRIPTED, Models, refuse_unusable
from midturn.compose.session import Kit, RunParts, Silence, session_parts
from midturn.compose.tools import Toolbox, toolbox, workspace_id
from midturn.config.settings import Settings
from midturn.errors import ConfigError
from midturn.journal import Journal
from midturn.ports import Model, Tool
from midturn.record.events import ChatRequest, Event
from midturn.record.exchange import ModelRequest
from midturn.runtime.session import Session, open_window
from midturn.runtime.surroundings import Surroundings, record_effects
from midturn.store.metadata import event_ids
from midturn.store.store import ConversationStore
from midturn.store.workspace import Workspace
from midturn.turn.inputs import Interrupted, TurnSettings
from midturn.turn.state import as_it_ended
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView
from midturn.values.json_value import JsonObject


class CommandParts(Struct, frozen=True, kw_only=True):
    """What the command line knows of a run: the configuration, where it runs, whether a person is there.

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


def next_request(parts: CommandParts, events: Sequence[Event], asked: ChatRequest) -> ModelRequest:
    """Return the request that `asked` would lead to after these events; nothing is sent, and no model is set up."""
    return _surroundings(parts, _toolbox(parts)).request([*events, asked])


async def discard_turn(store: ConversationStore, journal: Journal) -> None:
    """End the open turn of a conversation, and those inside of its tools; no tool and no model is needed for that."""
    window = open_window(journal)
    children = TurnView.last(window).open_children
    turn = Turn.load(window, TurnSettings(tools={}), event_ids())
    await record_effects(turn.step(Interrupted()), journal, SYSTEM, Silence())
    await store.end_children(children, as_it_ended("ended_by_user", None))


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


def side_models(settings: Settings) -> Iterator[str]:
    """Return the models that are named for questions."""
    main = _main_table(settings)
    targets = [question.target.assistant for tool in settings.tools.values() for question in tool.policy.questions.values()]
    for target in [None, *targets]:
        model = chosen_assistant(main, settings.inquiry, target).model
        if model and model != INHERIT:
            yield model
