"""Arguments of `ask_user` in the shapes of other agents' question tools, rewritten to its own.

Models know the question tools of other agents and call `ask_user` as they would call those. A call whose meaning is clear is asked. Only
keys with a value of the expected type are rewritten; anything else stays as it is, so that an error names what the model wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from midturn.errors import Problem
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject, objects, pointer_parts, pointer_to, text

_TEXT: Final = ("question", "label")
"""Other names of an entry's `text`."""
_VALUE: Final = ("label", "text")
"""Other names of an option's `value`."""
_SEVERAL: Final = ("multiSelect", "multi_select", "multiple")
_OWN_WORDS: Final = ("allowFreeform", "allow_freeform", "isOther")
_OPTIONS: Final = ("choices",)
_OTHER_NAMES: Final[Mapping[str, tuple[Sequence[str], type | tuple[type, ...]]]] = {
    "text": (_TEXT, str),
    "question": (("text", "label"), str),
    "options": (_OPTIONS, (list, tuple, str)),
    "value": (_VALUE, str),
    "description": (("label",), str),
    "answer_type": (("type",), str),
    "allow_other": (_OWN_WORDS, bool),
}
"""Other names of our own keys, and the type of the values that are rewritten."""
_KINDS: Final[Mapping[Json, str]] = {"choice": "select", "text": "text", "yesno": "boolean"}


def own_shape(arguments: JsonObject) -> JsonObject:
    """Return the arguments of a call as `ask_user` describes them. Arguments that already have that shape are returned unchanged."""
    if "questions" in arguments:
        return {**arguments, "questions": _listed(arguments["questions"])}
    if {"question", "text", "label", "options", "choices"} & arguments.keys():
        asked = dict(arguments)
        _rename(asked, ("text", "label"), "question", str)
        return _with_type(asked)
    return arguments


def as_written(problem: Problem, arguments: JsonObject) -> Problem:
    """Return a problem of rewritten arguments with the keys that the model wrote, in the pointer and in the message."""
    here: Json = arguments
    own, written = "", ""
    for key in pointer_parts(problem.pointer):
        here = _parsed(here)
        if isinstance(here, Mapping):
            if own.endswith("/questions"):  # the only question, written without a list
                own = pointer_to(own, key)
                continue
            name = key if here.get(key) is not None else _written_name(key, here)
            here = here.get(name)
        else:
            name = key
            here = here[int(key)] if isinstance(here, list) and key.isdecimal() and int(key) < len(here) else None
        own, written = pointer_to(own, key), pointer_to(written, name)
    if own == written:
        return problem
    return Problem(written, _renamed(problem.message, own, written))


def _written_name(key: str, given: JsonObject) -> str:
    """Return the other name under which a value was written; the own name if there is none."""
    names, kind = _OTHER_NAMES.get(key, ((), str))
    return next((name for name in names if isinstance(given.get(name), kind)), key)


def _renamed(message: str, own: str, written: str) -> str:
    """Rename the key that a problem is about, and the pointers to its neighbours."""
    for one, other in zip(pointer_parts(own)[-2:], pointer_parts(written)[-2:], strict=False):
        if one != other:
            message = message.replace(f"`{one}`", f"`{other}`").replace(f"/{one}/", f"/{other}/")
    return message


def _listed(questions: Json) -> Json:
    """Return a list of questions; it may be written as JSON in a text, and a single question may be written without a list."""
    questions = _parsed(questions)
    if isinstance(questions, Mapping) and {"text", *_TEXT} & questions.keys():
        questions = [questions]
    if not isinstance(questions, list | tuple):
        return questions
    entries = cast("Sequence[Json]", questions)
    taken = {text(entry.get("id")) for entry in objects(questions)}
    return [_entry(entry, number, taken) for number, entry in enumerate(entries, 1)]


def _entry(entry: Json, number: int, taken: set[str]) -> Json:
    """Return an entry; one without a `text` of its own is from another tool, which needs neither an id nor a type."""
    if not isinstance(entry, Mapping):
        return entry
    if entry.get("text") is not None:
        return _with_type(dict(entry))
    asked = dict(entry)
    _rename(asked, _TEXT, "text", str)
    if asked.get("text") is None:
        return entry
    if asked.get("id") is None and f"q{number}" not in taken:
        asked["id"] = f"q{number}"
    asked = _with_type(asked)
    if asked.get("answer_type") is None and asked.get("options") is None:
        asked["answer_type"] = "text"
    return asked


def _with_type(asked: dict[str, Json]) -> dict[str, Json]:
    """Return a question with its options and its type; `header`, a short heading, has no place in a prompt."""
    if isinstance(asked.get("header"), str):
        del asked["header"]
    _rename(asked, _OPTIONS, "options", (list, tuple, str))
    own_words = _taken_out(asked, _OWN_WORDS, bool)
    options = _parsed(asked.get("options"))
    if isinstance(options, list | tuple):
        if not options and any(key in asked for key in _SEVERAL):
            del asked["options"]  # other agents' tools write an empty list where they ask for a text
        else:
            asked["options"] = [_option(option) for option in cast("Sequence[Json]", options)]
            if own_words is not None and asked.get("allow_other") is None:
                asked["allow_other"] = own_words
    several = _taken_out(asked, _SEVERAL, bool)
    kind = _KINDS.get(asked["type"]) if "answer_type" not in asked and isinstance(asked.get("type"), str) else None
    if kind is not None:
        del asked["type"]
        asked["answer_type"] = kind
        if kind == "boolean":
            asked.pop("options", None)
    if several is True and asked.get("answer_type") in (None, "select"):
        asked["answer_type"] = "multi_select"
    return asked


def _option(option: Json) -> Json:
    """Return an option. A label next to a value is what the person should read, so it is kept in the description."""
    if not isinstance(option, Mapping):
        return option
    given = dict(option)
    _rename(given, _VALUE, "value", str)
    label = given.get("label")
    if isinstance(label, str) and label != given.get("value"):
        description = given.get("description")
        given["description"] = f"{label}: {description}" if isinstance(description, str) and description else label
    if isinstance(label, str):
        given.pop("label", None)
    return given


def _rename(given: dict[str, Json], names: Sequence[str], own: str, kind: type | tuple[type, ...]) -> None:
    """Move the value of the first of these names to our own name, if it has none and the value is of the expected type."""
    if given.get(own) is None and (value := _taken_out(given, names, kind)) is not None:
        given[own] = value


def _taken_out(given: dict[str, Json], names: Sequence[str], kind: type | tuple[type, ...]) -> Json:
    """Remove and return the first of these values that is of the expected type; None if there is none."""
    name = next((name for name in names if isinstance(given.get(name), kind)), None)
    return None if name is None else given.pop(name)


def _parsed(written: Json) -> Json:
    """Return the list or object that a text holds as JSON; any other value unchanged."""
    if not isinstance(written, str) or not written.lstrip().startswith(("[", "{")):
        return written
    try:
        return read_json(written)
    except NotJson:
        return written
