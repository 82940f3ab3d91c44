"""Which model answers, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from msgspec import Struct

from midturn.core.exchange import DEFAULT_CACHE, DEFAULT_RETRIES
from midturn.core.json_value import Json, JsonObject, json_equal, overlay

INHERIT: Final = "inherit"
"""As `model.id`: the main assistant's model, whatever is set for questions in general."""


class ChosenAssistant(Struct, frozen=True, kw_only=True):
    """The assistant that answers one question.

    `system_prompt` is None where the main one's is meant; `cache` is `off`, `short`, `long` or a duration.

    `shares_cache`: it is the main assistant with its cache on, so that a side request can hit what the main thread has cached.
    """

    model: str
    parameters: JsonObject = {}
    system_prompt: str | None = None
    cache: str = DEFAULT_CACHE
    max_retries: int = DEFAULT_RETRIES
    shares_cache: bool = False


def chosen_assistant(main: JsonObject, inquiry: JsonObject | None = None, target: JsonObject | None = None) -> ChosenAssistant:
    """Merge the table `assistant`, `conversation.inquiry.assistant` and a question's `target`, field by field; the last one wins.

    `model.id = "inherit"` takes the main model, and skips what `inquiry` says about models.
    """
    merged = overlay(main, inquiry or {}, target or {})
    model = _table(merged, "model")
    if model.get("id") == INHERIT:
        skips = _table(target or {}, "model").get("id") == INHERIT
        model = overlay(_table(overlay(main, target or {}), "model") if skips else model, {"id": _table(main, "model").get("id")})
    request = _table(merged, "request")
    cache = str(request.get("cache", DEFAULT_CACHE))
    same = _same_assistant(main, {**merged, "model": model})
    return ChosenAssistant(
        model=str(model.get("id") or ""),
        parameters=_table(model, "parameters"),
        system_prompt=None if _prompt(merged) == _prompt(main) else _prompt(merged),
        cache=cache,
        max_retries=cast("int", request.get("max_retries", DEFAULT_RETRIES)),
        shares_cache=same and cache != "off",
    )


def _same_assistant(main: JsonObject, other: JsonObject) -> bool:
    """Whether a provider would see the same prefix: model, parameters and system prompt are equal."""
    return json_equal(_identity(main), _identity(other))


def _identity(assistant: JsonObject) -> Json:
    model = _table(assistant, "model")
    return {"id": model.get("id"), "parameters": _table(model, "parameters"), "system_prompt": _prompt(assistant)}


def _prompt(assistant: JsonObject) -> str | None:
    return cast("str | None", assistant.get("system_prompt"))


def _table(table: JsonObject, key: str) -> JsonObject:
    found = table.get(key)
    return found if isinstance(found, Mapping) else {}
