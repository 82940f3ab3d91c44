"""Validates configuration values against the known keys, and collects all errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from midturn.config.keys import KEYS, Branch, Leaf, Node, ValueKind
from midturn.config.tree import KeyPath, Origin, Tree, TreeEntry, dotted
from midturn.errors import ConfigError, QuestionError
from midturn.question.answer_schema import TYPES, meant_type
from midturn.question.json_value import Json, is_number, pointer_parts
from midturn.question.people import read_people, table_problems
from midturn.question.schema import keyword_problems
from midturn.question.text import did_you_mean, seconds_of
from midturn.routing.rules import read_run_rules

# --------------------------------------------------------------------------------------------------
# Checks of single values. Every error message contains the allowed values.


_MAX_DEPTH = 128
_SCRIPTED_PREFIX = "scripted:"


class WrongValue(Exception):  # noqa: N818  never leaves this module
    """A value is invalid.

    `expected` completes the sentence "expected …". `advice` follows it, such as
    ` Did you mean `string`?`.
    """

    def __init__(self, expected: str, advice: str = "") -> None:
        self.expected = expected
        self.advice = advice
        super().__init__(expected)


def checked(value: Any, leaf: Leaf, origin: Origin) -> Json:
    """Return `value` in the format that is stored for the key `leaf`.

    Raises:
        WrongValue: The value has the wrong type, or is not among the allowed values.
    """
    if leaf.allowed:
        return _one_of(value, leaf)
    if leaf.kind == "model":
        return _model(_string(value, leaf), origin)
    return _CHECKS[leaf.kind](value, leaf)


def _one_of(value: Any, leaf: Leaf) -> str:
    named = leaf.aliases.get(value, value) if isinstance(value, str) else value
    if named not in leaf.allowed:
        raise WrongValue(one_of(leaf.allowed))
    return cast("str", named)


def one_of(allowed: tuple[str, ...]) -> str:
    """Format the choices for a sentence: `"a"`, `"b"` or `"c"`."""
    quoted = [f'"{choice}"' for choice in allowed]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def _string(value: Any, _: Leaf, what: str = "a string") -> str:
    if not isinstance(value, str):
        raise WrongValue(what)
    if "\0" in value or not _is_unicode(value):
        raise WrongValue(f"{what} of UTF-8 text without NUL characters")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _boolean(value: Any, _: Leaf) -> bool:
    if not isinstance(value, bool):
        raise WrongValue("true or false")
    return value


def _integer(value: Any, leaf: Leaf) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongValue("a whole number" + _bounds(leaf))
    return cast("int", _bounded(value, leaf, "a whole number"))


def _number(value: Any, leaf: Leaf) -> float:
    if not is_number(value) or not _is_finite(value):
        raise WrongValue("a number" + _bounds(leaf))
    return _bounded(value, leaf, "a number")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer larger than any float
        return False


def _bounded(value: float, leaf: Leaf, what: str) -> float:
    if (leaf.minimum is not None and value < leaf.minimum) or (
        leaf.maximum is not None and value > leaf.maximum
    ):
        raise WrongValue(what + _bounds(leaf))
    return value


def _bounds(leaf: Leaf) -> str:
    minimum = f" of at least {leaf.minimum:g}" if leaf.minimum is not None else ""
    return minimum + (f" and at most {leaf.maximum:g}" if leaf.maximum is not None else "")


def _seconds(value: Any, leaf: Leaf) -> float:
    expected = 'seconds (a number above 0), or a duration such as "90s" or "2m"'
    if isinstance(value, str):
        value = seconds_of(value)
    if not is_number(value) or not (_is_finite(value) and value > 0):
        raise WrongValue(expected)
    return _bounded(float(value), leaf, expected)


def _argv(value: Any, leaf: Leaf) -> str | list[str]:
    expected = 'a command: a list such as ["git", "status"], or a string'
    if isinstance(value, str) and value.strip():
        return _string(value, leaf, expected)
    words = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    if not words or words[0] == "":
        raise WrongValue(expected)
    return [_string(word, leaf, expected) for word in words]


def _model(name: str, origin: Origin) -> str:
    """Return a model ID.

    The path of a script is resolved against the first base directory that contains the script.
    """
    if not name.strip():
        raise WrongValue('a model such as "anthropic/claude-haiku-4-5"')
    if not name.startswith(_SCRIPTED_PREFIX):
        return name
    file = Path(name.removeprefix(_SCRIPTED_PREFIX))
    candidates = [Path(base) / file for base in origin.bases] or [file]
    return _SCRIPTED_PREFIX + str(
        next((path for path in candidates if path.exists()), candidates[0])
    )


def _cache(value: Any, _: Leaf) -> str:
    if not isinstance(value, str) or not (
        value in {"off", "short", "long"} or seconds_of(value) is not None
    ):
        raise WrongValue('"off", "short", "long", or a duration such as "5m"')
    return value


def _variable(value: Any, leaf: Leaf) -> str | bool:
    expected = "a string, true (inherit the variable of midturn) or false (do not)"
    return value if isinstance(value, bool) else _string(value, leaf, expected)


def _paths_of(value: Any, leaf: Leaf) -> list[str]:
    expected = 'a list of paths, such as ["~/.cache/tool"]'
    given = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    return [_string(path, leaf, expected) for path in given]


def _json_type(value: object, leaf: Leaf) -> str | list[str]:
    if isinstance(value, list) and value:
        return [cast("str", _json_type(item, leaf)) for item in cast("list[Any]", value)]
    if value not in TYPES:
        raise WrongValue(one_of(TYPES), meant_type(cast("object", value)))
    return cast("str", value)


def _required(value: Any, leaf: Leaf) -> bool | list[str]:
    if isinstance(value, list):
        return [
            _string(name, leaf, "the names of required properties")
            for name in cast("list[Any]", value)
        ]
    return _boolean(value, leaf)


def _json(value: Any, leaf: Leaf, depth: int = 0) -> Json:
    if depth > _MAX_DEPTH:
        raise WrongValue(f"JSON nested at most {_MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {_string(name, leaf): _json(item, leaf, depth + 1) for name, item in items}
    if isinstance(value, list):
        return [_json(item, leaf, depth + 1) for item in cast("list[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value, leaf)
    return _string(value, leaf, "JSON (write dates and times as strings)")


def _rules(value: Any, leaf: Leaf) -> Json:
    given = _json(value, leaf)
    if not isinstance(given, list):
        raise WrongValue(
            'a list of rules, such as [{ when = { cmd = "git status*" }, run = "unattended" }]'
        )
    read_run_rules(given)
    return given


def _people(value: Any, leaf: Leaf) -> Json:
    if not isinstance(value, Mapping):
        raise WrongValue('a table, such as { ask = ["ops"], only = true, approvals = 2 }')
    given = _json(value, leaf)
    try:
        read_people(given)
    except QuestionError as error:
        raise ConfigError(table_problems(error)) from None
    return given


def _several_names(value: Any, leaf: Leaf) -> list[str]:
    expected = 'a list of names, such as ["ana", "bo"]'
    given = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    return [_string(name, leaf, expected) for name in given]


_CHECKS: dict[ValueKind, Callable[[Any, Leaf], Json]] = {
    "string": _string,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "seconds": _seconds,
    "argv": _argv,
    "cache": _cache,
    "variable": _variable,
    "paths": _paths_of,
    "json_type": _json_type,
    "required": _required,
    "json": _json,
    "keyword": _json,
    "rules": _rules,
    "people": _people,
    "names": _several_names,
}


_MAX_VALUE_LENGTH = 60  # maximum length of a value in a message, in characters
_MAX_MESSAGE_LENGTH = 1000  # maximum length of one error message, in characters
_MAX_PROBLEMS = 50  # maximum number of errors reported for one file


class Checker:
    """Validates the values of one origin.

    `problems` contains the error messages, which start with the file and line. `wrong` contains the
    invalid keys.
    """

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.problems: list[str] = []
        self.wrong: set[KeyPath] = set()

    def read(self, document: Mapping[str, Any]) -> Tree:
        """Return the valid part of `document`. Invalid values are omitted and added to
        `problems`.
        """
        return self._table(document, KEYS, ())

    def problem(self, path: KeyPath, message: str) -> None:
        """Add an error message about the key `path`."""
        self.wrong.add(path)
        line = f"{self.origin.place(path)}: {message}"
        self.problems.append(
            line if len(line) <= _MAX_MESSAGE_LENGTH else line[: _MAX_MESSAGE_LENGTH - 1] + "…"
        )
        if len(self.problems) == _MAX_PROBLEMS:
            self.problems.append(f"{self.origin.name}: further problems are not listed")

    def _table(
        self, table: Mapping[str, Any], node: Branch, path: KeyPath, at: KeyPath | None = None
    ) -> Tree:
        tree: Tree = {
            name: TreeEntry(value, self.origin, path) for name, value in node.implied.items()
        }
        for name, value in table.items():
            if len(self.problems) >= _MAX_PROBLEMS:
                break
            below = (*path, name)
            try:
                found = self._node(value, known_child(node, below), below, at)
            except ConfigError as error:
                self.problem(below, str(error))
            else:
                if found is not None:
                    tree[name] = found
        return tree

    def _node(
        self, value: Any, node: Node, path: KeyPath, at: KeyPath | None
    ) -> Tree | TreeEntry | None:
        if isinstance(node, Leaf):
            return self._leaf(value, node, path, at)
        if isinstance(value, Mapping):
            return self._table(cast("Mapping[str, Any]", value), node, path, at)
        if node.shorthand is None:
            self.problem(path, f"`{dotted(path)}`: expected a table{_first_key(node, path)}")
            return None
        return self._short(value, node, path)

    def _short(self, value: Any, node: Branch, path: KeyPath) -> Tree | None:
        short = node.shorthand
        found = short and self._leaf(value, short.leaf, path, None, alternative=" or a table")
        if short is None or found is None:
            return None
        fields = dict(short.expand(found.value))
        implied = {
            name: TreeEntry(fields.pop(name), self.origin, path)
            for name in node.implied
            if name in fields
        }
        tree = self._table(fields, Branch(keys=node.keys, names=node.names), path, path)
        return {**implied, **tree}

    def _leaf(
        self, value: Any, leaf: Leaf, path: KeyPath, at: KeyPath | None, alternative: str = ""
    ) -> TreeEntry | None:
        try:
            found = TreeEntry(checked(value, leaf, self.origin), self.origin, at or path)
        except WrongValue as wrong:
            advice = f".{wrong.advice}" if wrong.advice else ""
            self.problem(
                path,
                f"`{dotted(path)}`: expected {wrong.expected}{alternative}, not"
                f" {_shown(value, leaf)}{advice}",
            )
        except ConfigError as error:
            self.problem(path, f"`{dotted(path)}`: {error}")
        else:
            return found if leaf.kind != "keyword" or self._is_keyword(found.value, path) else None
        return None

    def _is_keyword(self, value: Json, path: KeyPath) -> bool:
        """Check a keyword of JSON Schema, and the schemas in its value.

        Each error is reported at its own key.
        """
        problems = keyword_problems(path[-1], value)
        for problem in problems:
            place = (*path[:-1], *pointer_parts(problem.pointer)) if problem.pointer else path
            self.problem(place, f"`{dotted(place)}`: {problem.message}")
        return not problems


def known_child(node: Node, path: KeyPath) -> Node:
    """Return the node for the last name of `path` in the table `node`.

    Raises:
        ConfigError: The key is unknown. The message suggests a similar key.
    """
    name = path[-1]
    if isinstance(node, Leaf):
        raise ConfigError(f"`{dotted(path)}`: `{dotted(path[:-1])}` is a value, not a table")
    if name in node.keys:
        return node.keys[name]
    if node.names is None:
        raise ConfigError(f"unknown key `{dotted(path)}`. {_suggestion(node, path)}".rstrip())
    if re.fullmatch(node.names.pattern, name) or (name == "*" and node.names.star is not None):
        if node.names.refusal and (refused := node.names.refusal(name)):
            raise ConfigError(f"`{dotted(path)}`: {refused}")
        return node.child(name)
    raise ConfigError(
        f"`{dotted(path)}`: {dotted(path[-1:])} is not valid as {node.names.what}; it must match"
        f" {node.names.pattern}"
    )


def _first_key(node: Branch, path: KeyPath) -> str:
    return f"; write `{dotted((*path, next(iter(node.keys))))} = …`" if node.keys else ""


def _shown(value: Any, leaf: Leaf) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if leaf.private:
        return "that"

    text = (
        json.dumps(value, default=str, ensure_ascii=False)
        .encode(errors="backslashreplace")
        .decode()
    )
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 1] + "…"


def _suggestion(node: Branch, path: KeyPath) -> str:
    """Return advice on the unknown key `path`: a similar key of `node`, the same key in another
    table, or all known keys.
    """
    near = did_you_mean(path[-1], node.keys)
    if near:
        return near.strip()
    elsewhere = next((known for known in _paths(KEYS) if known[-1] == path[-1]), None)
    if elsewhere is not None:
        return f"Did you mean `{dotted(elsewhere)}`?"
    return f"Known keys: {', '.join(f'`{name}`' for name in node.keys)}." if node.keys else ""


def _paths(node: Node, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if not isinstance(node, Branch):
        return
    for name, child in node.keys.items():
        yield from _paths(child, (*path, name))
    if node.names is not None and isinstance(node.names.node, Branch):
        yield from _paths(node.names.node, (*path, "<name>"))
