"""Creates models by id, with retries that are shown to the user."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import Struct

from midturn.clock import SYSTEM
from midturn.errors import ConfigError
from midturn.models import registry
from midturn.models.wrapper import LoggedModel, ObservedModel, Retrying, RetryingModel, RetryPolicy
from midturn.ports import Display, Model, Notice
from midturn.question.json_value import Json, JsonObject
from midturn.runtime.side_request import ChosenAssistant

if TYPE_CHECKING:
    from midturn.config.settings import (
        LlmProvider,
    )  # not imported at run time, because programs without a configuration do not need it

SCRIPTED = "scripted:"
AGUI, A2A = "agui:", "a2a:"
"""Prefixes of the IDs of remote agents: `agui:URL`, `a2a:URL`. Only commands can use them."""
REMOTE = (AGUI, A2A)
# for a model object of the program: second part of its key in `Models.made`, instead of the number
# of retries
_OWN = -1
_LOG = logging.getLogger("midturn.models")


def model_named(
    id: str,
    llm: Mapping[str, LlmProvider] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Model:
    """Return the model with this id: `scripted:FILE`, or a model of a provider. `report` is
    called with warnings for the user.

    Raises:
        ConfigError: The model does not exist, or its provider's extra or key is missing. The
            message says what to do.
    """
    if id.startswith(REMOTE):
        package = id.partition(":")[0]
        raise ConfigError(
            f"`{id}` is a remote agent. It can only be the main model of a turn that a command runs."
            f" To call it from a turn, use `midturn.integrations.{package}.tool`."
        )
    if id.startswith(SCRIPTED):
        from midturn.models.scripted import (
            ScriptedModel,
        )  # imported here, because it is rarely used

        return ScriptedModel.from_file(id.removeprefix(SCRIPTED))
    return registry.model_named(
        id, registry.Lookup(providers=providers_json(llm or {}), report=report)
    )


def refuse_unusable(id: str, llm: Mapping[str, LlmProvider]) -> None:
    """Raise an error before a turn starts if a model cannot be used. A missing key is reported
    later, when the model is called.

    Raises:
        ConfigError: The provider is unknown, or the model does not generate text.
    """
    if not id.startswith((SCRIPTED, *REMOTE)):
        registry.spec_named(id, registry.Lookup(providers=providers_json(llm)))
        registry.require_text_model(id)


def refuse_no_model(id: str) -> None:
    """Raise an error if a model id has an invalid form.

    Raises:
        ConfigError: The id is neither `<provider>/<model>` nor `scripted:FILE`, `agui:URL` or
            `a2a:URL`.
    """
    if not id.startswith((SCRIPTED, *REMOTE)):
        registry.id_parts(id)


def providers_json(llm: Mapping[str, LlmProvider]) -> dict[str, JsonObject]:
    """Return `providers.llm` as tables, without the keys that are not set."""
    tables = {
        name: cast("dict[str, Json]", msgspec.to_builtins(provider))
        for name, provider in llm.items()
    }
    return {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables.items()
    }


class Models(Struct, frozen=True, kw_only=True):
    """The models of one run, by id. Each model is created once. Retries and warnings are shown on
    `display`.
    """

    llm: Mapping[str, LlmProvider]
    display: Display
    made: dict[tuple[str, int], Model] = msgspec.field(default_factory=dict[tuple[str, int], Model])

    def get(self, id: str, max_retries: int) -> Model:
        """Return a model with retries for temporary failures.

        Raises:
            ConfigError: No model has this id, or it cannot be used.
        """
        found = self.made.get((id, max_retries))
        if found is None:
            found = self.made[id, max_retries] = self._make(id, max_retries)
        return found

    def named(self, id: str) -> Model:
        """Return the model with this id, with the default number of retries."""
        return self.get(id, RetryPolicy().max_retries)

    def around(self, model: Model, id: str | None = None) -> Model:
        """Return a model object of the program, wrapped with retries for temporary failures. If
        `id` is given, routes can use it as the model's id.
        """
        retries: object = getattr(model, "max_retries", None)
        policy = self._policy(retries if isinstance(retries, int) else RetryPolicy().max_retries)
        made = ObservedModel(
            RetryingModel(model, SYSTEM, policy=policy, report=partial(_waits, self.display))
        )
        self.made[model.name if id is None else id, _OWN] = (
            made  # stored, so that `aclose` also closes this model
        )
        return made

    def for_assistant(self, settings: ChosenAssistant) -> Model:
        """Return the model that answers a question.

        Raises:
            ConfigError: No model is configured, or the model does not exist or cannot be used.
        """
        if not settings.model:
            raise ConfigError(
                "No model is set that can answer the question. Set the `model.id` of its route."
            )
        return self.made.get((settings.model, _OWN)) or self.get(
            settings.model, settings.max_retries
        )

    async def aclose(self) -> None:
        """Close every connection."""
        for model in self.made.values():
            close = getattr(model, "aclose", None)
            if close is not None:
                await close()

    def _make(self, id: str, max_retries: int) -> Model:
        model = model_named(id, self.llm, self._notice)
        watched = _logged(model) if _LOG.isEnabledFor(logging.DEBUG) else model
        return ObservedModel(
            RetryingModel(
                watched,
                SYSTEM,
                policy=self._policy(max_retries),
                report=partial(_waits, self.display),
            )
        )

    def _policy(self, max_retries: int) -> RetryPolicy:
        return RetryPolicy(
            max_retries=max_retries,
            restarts_cut_responses=bool(getattr(self.display, "marks_cuts", False)),
        )

    def _notice(self, text: str) -> None:
        self.display.show(Notice(text))


def _logged(model: Model) -> Model:
    return LoggedModel(model)


def _waits(display: Display, wait: Retrying) -> None:
    """Show a retry. This is a function because a bound method would create a reference cycle."""
    _LOG.warning("%s", wait.sentences())
    display.show(Notice(wait.sentences(), wait.seconds))
