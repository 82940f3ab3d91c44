"""What a model sends, made fit to be recorded: text that is Unicode, arguments that are JSON."""

from __future__ import annotations

import json
from typing import cast

from msgspec import Struct

from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import JsonObject, json_problem
from midturn.core.question.answer import DEPTH_LIMIT


class Arguments(Struct, frozen=True):
    """The arguments of a call: an object, or the model's own text where that is not an object; `problem` then says why."""

    value: JsonObject | str
    problem: str | None = None


def clean(text: str) -> str:
    """Join surrogates that came in two pieces, and replace those that stay alone: they are not text, and cannot be written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_arguments(sent: str | JsonObject | None) -> Arguments:
    """Return what a model sent as arguments of a call; nothing at all stands for none."""
    if sent is None or (isinstance(sent, str) and not sent.strip()):
        return Arguments({})
    try:
        value = read_json(sent) if isinstance(sent, str) else sent
    except NotJson as error:
        return Arguments(clean(str(sent)), str(error))
    problem = json_problem(value, DEPTH_LIMIT)
    if isinstance(value, dict) and problem is None:
        return Arguments(cast("JsonObject", value))
    text = clean(sent) if isinstance(sent, str) else json.dumps(sent, default=str)
    return Arguments(text, "it is not an object" if problem is None else str(problem))
