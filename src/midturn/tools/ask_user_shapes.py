"""Convert arguments of `ask_user` from the formats of other agents' question tools.

Many models know these other tools and use their formats for `ask_user`. A call with a clear meaning
is accepted. A key is converted only if its value has the expected type. Other keys are left
unchanged, so that error messages name the keys that the model used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from midturn.errors import Problem
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject, objects, pointer_parts, pointer_to, text

_TEXT_ALIASES: Final = ("question", "label")
"""Other names for an entry's `text`."""
_VALUE_ALIASES: Final = ("label", "text")
"""Other names for an option's `value`."""
_MULTI_SELECT_KEYS: Final = ("multiSelect", "multi_select", "multiple")
_ALLOW_OTHER_ALIASES: Final = ("allowFreeform", "allow_freeform", "isOther")
_OPTIONS_ALIASES: Final = ("choices",)
_OTHER_NAMES: Final[Mapping[str, tuple[Sequence[str], type | tuple[type, ...]]]] = {
    "text": (_TEXT_ALIASES, str),
    "question": (("text", "label"), str),
    "options": (_OPTIONS_ALIASES, (list, tuple, str)),
    "value": (_VALUE_ALIASES, str),
    "description": (("label",), str),
    "answer_type": (("type",), str),
    "allow_other": (_ALLOW_OTHER_ALIASES, bool),
}
"""Other names for midturn's keys, with the expected types of their values."""
_KINDS: Final[Mapping[Json, str]] = {"choice": "select", "text": "text", "yesno": "boolean"}


def own_shape(arguments: JsonObject) -> JsonObject:
    """Convert the arguments of a call to midturn's format. Arguments that are already in
    midturn's format are returned unchanged.
    """
    if "questions" in arguments:
        return {**arguments, "questions": _listed(arguments["questions"])}
    if {"question", "text", "label", "options", "choices"} & arguments.keys():
        converted = dict(arguments)
        _rename(converted, ("text", "label"), "question", str)
        return _with_type(converted)
    return arguments


def as_written(problem: Problem, arguments: JsonObject) -> Problem:
    """Return an error about the converted arguments with the model's own keys, in its pointer and
    in its message.
    """
    value: Json = arguments
    own, written = "", ""
    for key in pointer_parts(problem.pointer):
        value = _parsed(value)
        if isinstance(value, Mapping):
            if own.endswith("/questions"):  # a single question that was written without a list
                own = pointer_to(own, key)
                continue
            name = key if value.get(key) is not None else _written_name(key, value)
            value = value.get(name)
        else:
            name = key
            value = (
                value[int(key)]
                if isinstance(value, list) and key.isdecimal() and int(key) < len(value)
                else None
            )
        own, written = pointer_to(own, key), pointer_to(written, name)
    if own == written:
        return problem
    return Problem(written, _renamed(problem.message, own, written))


def _written_name(key: str, given: JsonObject) -> str:
    """Return the alias that the model used for `key`, or `key` itself."""
    names, kind = _OTHER_NAMES.get(key, ((), str))
    return next((name for name in names if isinstance(given.get(name), kind)), key)


def _renamed(message: str, own: str, written: str) -> str:
    """Replace midturn's keys in an error message, also in pointers to neighbouring values."""
    for own_key, written_key in zip(
        pointer_parts(own)[-2:], pointer_parts(written)[-2:], strict=False
    ):
        if own_key != written_key:
            message = message.replace(f"`{own_key}`", f"`{written_key}`").replace(
                f"/{own_key}/", f"/{written_key}/"
            )
    return message


def _listed(questions: Json) -> Json:
    """Return a list of questions. The list may be JSON in a string. A single question is
    converted to a list.
    """
    questions = _parsed(questions)
    if isinstance(questions, Mapping) and {"text", *_TEXT_ALIASES} & questions.keys():
        questions = [questions]
    if not isinstance(questions, list | tuple):
        return questions
    entries = cast("Sequence[Json]", questions)
    taken = {text(entry.get("id")) for entry in objects(questions)}
    return [_entry(entry, number, taken) for number, entry in enumerate(entries, 1)]


def _entry(entry: Json, number: int, taken: set[str]) -> Json:
    """Convert one question. A question without `text` has the format of another tool, which
    requires neither an id nor a type.
    """
    if not isinstance(entry, Mapping):
        return entry
    if entry.get("text") is not None:
        return _with_type(dict(entry))
    question = dict(entry)
    _rename(question, _TEXT_ALIASES, "text", str)
    if question.get("text") is None:
        return entry
    if question.get("id") is None and f"q{number}" not in taken:
        question["id"] = f"q{number}"
    question = _with_type(question)
    if question.get("answer_type") is None and question.get("options") is None:
        question["answer_type"] = "text"
    return question


def _with_type(question: dict[str, Json]) -> dict[str, Json]:
    """Convert the options and the type of a question. The short heading `header` is dropped,
    because prompts do not show it.
    """
    if isinstance(question.get("header"), str):
        del question["header"]
    if question.get("options") == [] and _OPTIONS_ALIASES[0] in question:
        del question["options"]  # `choices` may contain the options instead
    _rename(question, _OPTIONS_ALIASES, "options", (list, tuple, str))
    own_words = _pop_first(question, _ALLOW_OTHER_ALIASES, bool)
    options = _parsed(question.get("options"))
    if isinstance(options, list | tuple):
        if not options and any(key in question for key in _MULTI_SELECT_KEYS):
            # other agents' tools use an empty list for a free-text question
            del question["options"]
        else:
            question["options"] = [_option(option) for option in cast("Sequence[Json]", options)]
            if own_words is not None and question.get("allow_other") is None:
                question["allow_other"] = own_words
    is_multiple = _pop_first(question, _MULTI_SELECT_KEYS, bool)
    kind = (
        _KINDS.get(question["type"])
        if "answer_type" not in question and isinstance(question.get("type"), str)
        else None
    )
    if kind is not None:
        del question["type"]
        question["answer_type"] = kind
        if kind == "boolean":
            question.pop("options", None)
    if is_multiple is True and question.get("answer_type") in (None, "select"):
        question["answer_type"] = "multi_select"
    return question


def _option(option: Json) -> Json:
    """Convert an option. If it has both a label and a value, the label is added to the description,
    so that people see the label.
    """
    if not isinstance(option, Mapping):
        return option
    given = dict(option)
    _rename(given, _VALUE_ALIASES, "value", str)
    label = given.get("label")
    if isinstance(label, str) and label != given.get("value"):
        description = given.get("description")
        given["description"] = (
            f"{label}: {description}" if isinstance(description, str) and description else label
        )
    if isinstance(label, str):
        given.pop("label", None)
    return given


def _rename(
    given: dict[str, Json], names: Sequence[str], own: str, kind: type | tuple[type, ...]
) -> None:
    """Move the value of the first matching alias to midturn's key, unless midturn's key is set."""
    if given.get(own) is None and (value := _pop_first(given, names, kind)) is not None:
        given[own] = value


def _pop_first(given: dict[str, Json], names: Sequence[str], kind: type | tuple[type, ...]) -> Json:
    """Remove and return the first value of the expected type, or None."""
    name = next((name for name in names if isinstance(given.get(name), kind)), None)
    return None if name is None else given.pop(name)


def _parsed(written: Json) -> Json:
    """Parse a string that contains a JSON list or object. Other values are returned unchanged."""
    if not isinstance(written, str) or not written.lstrip().startswith(("[", "{")):
        return written
    try:
        return read_json(written)
    except NotJson:
        return written
