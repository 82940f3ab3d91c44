"""Reviewers are the models that a program names in `routes`. They are validated when the agent is
created.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.agent.assembly.models import SCRIPTED, Models
from midturn.errors import ConfigError
from midturn.exchange import DEFAULT_RETRIES
from midturn.models.provider_model import LibraryModel, is_library_model, wrap_library_model
from midturn.models.registry import require_text_model
from midturn.ports import Model
from midturn.question.json_value import JsonObject
from midturn.question.text import did_you_mean, seconds_of
from midturn.routing.policy import Target, TargetKind
from midturn.runtime.side_request import INHERIT

GivenModel: TypeAlias = Model | LibraryModel | str
"""A model object of midturn or pydantic-ai, or the id of a model."""
GivenTarget: TypeAlias = TargetKind | Target | Model | LibraryModel | Mapping[str, Any]
"""The responder of a question: a name, a `Target`, a model object, or a table of assistant
settings with `escalation`.
"""

T = TypeVar("T")
_TARGETS = cast("tuple[str, ...]", get_args(TargetKind))
_MODEL_KEYS = ("id", "parameters")
_REQUEST_KEYS = ("cache", "max_retries")
_CACHES = ("off", "short", "long")
_MAX_RETRIES = 100


class _Request(Struct, frozen=True):
    cache: str | UnsetType = UNSET
    max_retries: int | UnsetType = UNSET


class _Settings(Struct, frozen=True):
    """Settings of a reviewer, without its model."""

    escalation: bool = False
    name: str | UnsetType = UNSET
    system_prompt: str | UnsetType = UNSET
    request: _Request | UnsetType = UNSET


class _ModelTable(Struct, frozen=True):
    id: str
    parameters: dict[str, Any] | UnsetType = UNSET


_SETTINGS = ("model", *_Settings.__struct_fields__)


def is_model(given: object) -> bool:
    """Return whether `given` is a model object of midturn or pydantic-ai."""
    if inspect.isclass(given):
        return False
    return is_library_model(given) or (
        callable(getattr(given, "stream", None)) and hasattr(given, "name")
    )


class Reviewers:
    """The models that answer questions instead of the user. Each model is created as soon as a
    route names it, so that errors are reported immediately.

    `author` is the main model as the program passed it, and `main` is the same model as a midturn
    `Model`. Both are None if the agent has no main model.
    """

    def __init__(self, models: Models, main: Model | None, author: object) -> None:
        self._models = models
        self._main = main
        self._author = author
        self._ids: list[tuple[object, str]] = []
        self.same_as_author: list[str] = []
        """The routes whose reviewer is the main model itself."""

    def target(self, where: str, given: object) -> Target:
        """Return the target of a route. If the route contains a model object, the object is
        registered under an id.

        Raises:
            ConfigError: `given` is not a target, a key is unknown, or the model does not exist or
                cannot be used.
        """
        target = self._read(where, given)
        if target.kind != "user":
            self._check(where, target.assistant or {})
        return target

    def _read(self, where: str, given: object) -> Target:
        match given:
            case str() if given in _TARGETS:
                return Target(cast("TargetKind", given))
            case Target(kind, assistant) if kind in _TARGETS:
                return given if assistant is None else self._with_settings(where, kind, assistant)
            case Mapping():
                return self._with_settings(where, "assistant", cast("Mapping[str, Any]", given))
            case str() | Target():
                said = given if isinstance(given, str) else given.kind
                raise ConfigError(
                    f"{where}: {said!r} is not a target.{did_you_mean(str(said), _TARGETS)}"
                    f" {_forms(said)}"
                )
            case _ if is_model(given):
                return Target("assistant", {"model": {"id": self._id_of(given)}})
            case _:
                kind = (
                    f"the class `{given.__name__}`"
                    if inspect.isclass(given)
                    else f"a `{type(given).__name__}`"
                )
                raise ConfigError(
                    f"{where}: a target is a name, a `Target`, a model, or a table of assistant"
                    f" settings, not {kind}."
                )

    def _with_settings(self, where: str, kind: TargetKind, given: object) -> Target:
        if is_model(given):
            given = {"model": given}
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"{where}: the settings of an assistant must be a table, not a"
                f" `{type(given).__name__}`."
            )
        table = cast("Mapping[str, Any]", given)
        _check_keys(where, table, _SETTINGS)
        model: object = table.get("model", UNSET)
        others = {key: value for key, value in table.items() if key != "model"}
        if isinstance(others.get("request"), Mapping):
            _check_keys(f"{where}['request']", others["request"], _REQUEST_KEYS)
        settings = converted(where, others, _Settings)
        _check_request(where, settings.request)
        if kind == "user":
            raise ConfigError(
                f"{where}: the target `user` has no assistant settings: remove them, or change the"
                " target to `assistant`."
            )
        if kind == "assistant_with_escalation" and others.get("escalation") is False:
            raise ConfigError(
                f"{where}: the target is `assistant_with_escalation`, but `escalation` is false:"
                " remove one of them."
            )
        escalates = settings.escalation or kind == "assistant_with_escalation"
        found: JsonObject = {key: value for key, value in others.items() if key != "escalation"}
        if model is not UNSET:
            found = {**found, "model": self._model(where, model)}
        return Target("assistant_with_escalation" if escalates else "assistant", found or None)

    def _model(self, where: str, given: object) -> JsonObject:
        """Return the table of a model: its id, and its parameters if there are any."""
        where = f"{where}['model']"
        match given:
            case str():
                return {"id": _checked_id(where, given)}
            case Mapping():
                table = cast("Mapping[str, Any]", given)
                _check_keys(where, table, _MODEL_KEYS)
                if "id" not in table:
                    raise ConfigError(f"{where}: `id` is missing. {_ID_FORMS}")
                if is_model(table["id"]):
                    table = {**table, "id": self._id_of(table["id"])}
                found = converted(where, table, _ModelTable)
                _checked_id(f"{where}['id']", found.id)
                return cast("JsonObject", table)
            case _ if is_model(given):
                return {"id": self._id_of(given)}
            case _:
                kind = (
                    f"the class `{given.__name__}`"
                    if inspect.isclass(given)
                    else f"a `{type(given).__name__}`"
                )
                raise ConfigError(
                    f"{where}: it must be the id of a model, a model, or a table with `id`"
                    f" and `parameters`, not {kind}."
                )

    def _id_of(self, given: object) -> str:
        """Return the id of a model object. Two objects have different ids, even if they have the
        same name.
        """
        if self._main is not None and given is self._author:
            return self._main.name
        for known, key in self._ids:
            if known is given:
                return key
        model = (
            wrap_library_model(cast("LibraryModel", given))
            if is_library_model(given)
            else cast("Model", given)
        )
        taken = {
            INHERIT,
            *(key for _, key in self._ids),
            *([self._main.name] if self._main else []),
        }
        key, number = model.name, 2
        while key in taken:
            key, number = f"{model.name} ({number})", number + 1
        self._ids.append((given, key))
        self._models.around(model, key)
        return key

    def _check(self, where: str, assistant: JsonObject) -> None:
        model = cast("Mapping[str, Any]", assistant.get("model", {}))
        named = cast("str", model.get("id", INHERIT))
        given = next((one for one, key in self._ids if key == named), None)
        if self._main is None and named == INHERIT:
            raise ConfigError(
                f"{where}: there is no model to answer: pass `model=`, or name one in the route."
                f" {_ID_FORMS}"
            )
        if self._main is not None and self._is_author(named, given, self._main.name):
            self.same_as_author.append(where)
        elif given is None:
            request = cast("Mapping[str, Any]", assistant.get("request", {}))
            self._make(where, named, cast("int", request.get("max_retries", DEFAULT_RETRIES)))

    def _is_author(self, id: str, given: object, main: str) -> bool:
        """Return whether a reviewer is the main model: the same object, or the same model from the
        same provider.
        """
        if given is None:
            return id in (INHERIT, main) or id == self._author
        name: object = getattr(given, "name", None)
        # a name without a slash is not an id, so two models may have the same name
        return name == main and "/" in main

    def _make(self, where: str, id: str, max_retries: int) -> None:
        try:
            if not id.startswith(SCRIPTED):
                require_text_model(id)
            self._models.get(id, max_retries)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error


def reviews_itself(questions: Sequence[str], model: str, setting: str) -> str:
    """Return the warning about a model that answers questions about its own calls. `setting` shows
    how to name another model.
    """
    named = ", ".join(f"`{question}`" for question in questions)
    return (
        f"{named}: the main model `{model}` reviews its own calls. To have another model review"
        f" them, name it: {setting}."
    )


IN_A_ROUTE = "`{'model': 'anthropic/claude-haiku-4-5'}`"
IN_A_TABLE = '`conversation.inquiry.assistant.model.id = "anthropic/claude-haiku-4-5"`'
_EXAMPLE = "anthropic/claude-haiku-4-5"
_ID_FORMS = f"Name a model (`{_EXAMPLE}`, `scripted:FILE`), or `{INHERIT}` for the main one."


def _forms(said: object) -> str:
    names = ", ".join(f"`{name}`" for name in _TARGETS)
    hint = (
        f" To name a model, write `{{'model': {said!r}}}`."
        if isinstance(said, str) and ("/" in said or said.startswith(SCRIPTED))
        else ""
    )
    return f"It must be {names}, a model, or a table of assistant settings.{hint}"


def _checked_id(where: str, id: str) -> str:
    if not id.strip():
        raise ConfigError(f"{where}: the id of the model is empty. {_ID_FORMS}")
    return id


def _check_keys(where: str, table: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in table:
        if key not in allowed:
            known = ", ".join(f"`{name}`" for name in allowed)
            raise ConfigError(
                f"{where}: `{key}` is unknown.{did_you_mean(str(key), allowed)} Allowed are"
                f" {known}."
            )


def _check_request(where: str, request: _Request | UnsetType) -> None:
    if request is UNSET:
        return
    cache, retries = request.cache, request.max_retries
    if cache is not UNSET and cache not in _CACHES and seconds_of(cache) is None:
        raise ConfigError(
            f"{where}['request']['cache'] is {cache!r}: it must be `off`, `short`, `long`, or a"
            " duration such as `5m`."
        )
    if retries is not UNSET and not 0 <= retries <= _MAX_RETRIES:
        raise ConfigError(
            f"{where}['request']['max_retries'] is {retries}: it must be a number from 0"
            f" to {_MAX_RETRIES}."
        )


def converted(where: str, value: object, into: type[T]) -> T:
    """Return `value` as the type `into`.

    Raises:
        ConfigError: The value cannot be converted.
    """
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}.") from error
