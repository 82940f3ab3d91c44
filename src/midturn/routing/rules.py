"""Rules about a call by its arguments: their conditions and their answers. The first that holds decides."""

# Without `from __future__ import annotations`: msgspec reads what stands here.

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Struct

from midturn.errors import ConfigError
from midturn.question.schema import check_schema
from midturn.question.schema_check import validate
from midturn.values.json_value import Json, JsonObject, canonical, compact

_WILD: Final = frozenset("*?[")
_PLAIN: Final = frozenset(" _-./:=@%+,~")
"""What a text may be made of, beside letters and digits, to be let through by a pattern: nothing of it begins a second command."""


class Comparison(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on one argument as a table; exactly one of its fields is given."""

    below: int | float | None = None
    one_of: list[Any] | None = None
    matches: str | None = None


Condition: TypeAlias = Any
"""A glob over the argument's text, a value that it equals, one of these for each element of a list, or a `Comparison`."""


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """What is answered where all conditions hold. `when` is by argument, or by JSON pointer into the arguments.

    A pattern lets no text through that may hold a second command; with `shell` it does. A rule that says no needs no such care.
    """

    answer: Any
    when: dict[str, Condition] = {}
    reason: str | None = None
    shell: bool = False

    def holds(self, arguments: Json) -> bool:
        """Say whether every condition holds; one on an argument that is not there does not."""
        is_any_text = self.shell or self.answer is False
        return all(_holds(condition, _found(arguments, name), is_any_text=is_any_text) for name, condition in self.when.items())


def read_rules(where: str, given: object) -> tuple[Rule, ...]:
    """Return one rule, or a list of them, as a program writes them: tables.

    Raises:
        ConfigError: One is not a rule; the message says where and why.
    """
    tables = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    return tuple(_rule(where if len(tables) == 1 else f"{where}[{number}]", table) for number, table in enumerate(tables))


def first_that_holds(rules: Sequence[Rule], arguments: Json) -> Rule | None:
    """Return the rule that decides."""
    return next((rule for rule in rules if rule.holds(arguments)), None)


def _rule(where: str, table: object) -> Rule:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: a rule is a table, such as `{{'answer': {table!r}}}`, or a list of them.")
    try:
        rule = msgspec.convert(table, Rule)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}. A rule has `answer`, and may have `when`, `reason` and `shell`.") from error
    for name, condition in rule.when.items():
        if problem := _problem(condition):
            raise ConfigError(f"{where}.when[{name!r}]: {problem}")
    return rule


def _problem(condition: Condition) -> str | None:
    if isinstance(condition, list):
        return next((problem for one in cast("list[Condition]", condition) if (problem := _problem(one))), None)
    if not isinstance(condition, dict):
        return None
    try:
        comparison = msgspec.convert(condition, Comparison)
    except msgspec.ValidationError as error:
        return f"{error}. A condition is a glob, a value, a list of these, or one of `below`, `one_of` and `matches`."
    if len(cast("dict[str, object]", condition)) != 1:
        return "give exactly one of `below`, `one_of` and `matches`."
    broken = check_schema(_pattern(comparison.matches)) if comparison.matches is not None else ()
    return broken[0].message if broken else None


def _found(arguments: Json, name: str) -> list[Json]:
    """Return the argument, in a list: an empty one where it is not there."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in name[1:].split("/")] if name.startswith("/") else [name]
    here: Any = arguments
    for step in steps:
        if isinstance(here, Mapping) and step in here:
            here = cast("JsonObject", here)[step]
        elif isinstance(here, list) and step.isdecimal() and int(step) < len(cast("list[Json]", here)):
            here = cast("list[Json]", here)[int(step)]
        else:
            return []
    return [cast("Json", here)]


def _holds(condition: Condition, found: list[Json], *, is_any_text: bool) -> bool:
    if not found:
        return False
    value = found[0]
    if isinstance(condition, list):
        each, items = cast("list[Condition]", condition), cast("Sequence[Json]", value) if isinstance(value, list | tuple) else ()
        fits = isinstance(value, list | tuple) and len(each) == len(items)
        return fits and all(_holds(one, [item], is_any_text=is_any_text) for one, item in zip(each, items, strict=True))
    if isinstance(condition, dict):
        return _compares(msgspec.convert(condition, Comparison), value, is_any_text=is_any_text)
    if not isinstance(condition, str):
        return canonical(value) == canonical(cast("Json", condition))
    return _matches(condition, _text(value), is_any_text=is_any_text)


def _matches(glob: str, text: str | None, *, is_any_text: bool) -> bool:
    if text is None or not _WILD & set(glob):
        return text == glob
    return fnmatchcase(text, glob) and (is_any_text or _is_plain(text))


def _compares(comparison: Comparison, value: Json, *, is_any_text: bool) -> bool:
    if comparison.below is not None:
        return isinstance(value, int | float) and not isinstance(value, bool) and value < comparison.below
    if comparison.one_of is not None:
        return any(canonical(value) == canonical(cast("Json", one)) for one in comparison.one_of)
    text = _text(value)
    if text is None or comparison.matches is None:
        return False
    return not validate(_pattern(comparison.matches), text) and (is_any_text or _is_plain(text))


def _text(value: Json) -> str | None:
    """Return what a glob looks at: a text, or a number or yes and no as JSON writes it."""
    if isinstance(value, str):
        return value
    return None if value is None or isinstance(value, list | tuple | Mapping) else compact(value)


def _is_plain(text: str) -> bool:
    return all(letter.isalnum() or letter in _PLAIN for letter in text)


def _pattern(matches: str) -> Json:
    return {"type": "string", "pattern": matches}
