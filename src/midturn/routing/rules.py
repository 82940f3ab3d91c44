"""Rules that decide whether a tool call may run, based on its arguments. The first matching rule
decides.

A text argument, such as a shell command, is matched as one string and never split into commands. A
rule that allows a call must match the whole text, and needs `shell` to match a text that may
contain several commands. These restrictions do not apply to rules that ask or refuse.
"""

# No `from __future__ import annotations`: msgspec reads the annotations at run time.

import re
import unicodedata
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import ConfigError, QuestionError
from midturn.question.json_text import compact
from midturn.question.json_value import (
    Json,
    JsonObject,
    canonical,
    is_number,
    pointer_parts,
    pointer_to,
)
from midturn.question.people import People, read_people, table_problems
from midturn.question.schema import check_schema
from midturn.question.schema_check import TOO_LARGE, validate

_GLOB_CHARACTERS: Final = frozenset("*?[")
_PLAIN_PUNCTUATION: Final = frozenset(" _-./:=@%+,")
"""Characters, besides letters and digits, that no shell interprets. A pattern without `shell`
matches only text that consists of these characters, letters and digits.
"""
_PARENT_REFERENCE: Final = re.compile(
    r"\.\./|/\.\.|(?:^|[ :=@%+,])\.\.(?=$|[ :=@%+,])|(?:^| )-[^ ]*\.\.(?= |$)"
)
"""A `..` path component: alone, after a character that separates arguments, or in an option.
`main..` and `a..b` do not match.
"""


class Comparison(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on one argument, written as a table with exactly one of these fields."""

    below: int | float | None = None
    one_of: list[Any] | None = None
    matches: str | None = None


Condition: TypeAlias = Any
"""A glob for the argument's text, an exact value, a list with one condition per element, or a
`Comparison`.
"""


class Conditional(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base class of rules. `when` maps arguments, or JSON Pointers into them, to conditions that
    must all hold.
    """

    when: dict[str, Condition] = {}
    reason: str | None = None
    shell: bool = False

    @property
    def is_permissive(self) -> bool:
        """Whether a match allows a call that would otherwise need a person's approval."""
        return True

    @property
    def fit(self) -> "Fit":
        """Strictness with which conditions are matched."""
        return Fit(whole=self.is_permissive, plain=self.is_permissive and not self.shell)

    def holds(self, arguments: Json) -> bool:
        """Return whether all conditions hold. A condition on a missing argument does not hold."""
        fits = self.fit
        return all(
            _holds(condition, _found(arguments, name), fits)
            for name, condition in self.when.items()
        )


class Fit(Struct, frozen=True):
    """How strictly patterns are matched. `whole`: a pattern must match the whole text. `plain`: the
    text must consist of plain words. `typed`: a text pattern matches only strings.
    """

    whole: bool
    plain: bool
    typed: bool = False


RuledRun: TypeAlias = Literal["unattended", "ask", "skip"]


class RunRule(Conditional, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Decides whether a call may run if all conditions hold. A rule with `people` asks these
    people and does not set `run`.

    An `exact` rule requires a condition for every argument and compares values including their
    types. `definition` is the fingerprint of the tool that the rule was written for. The rule is
    ignored for tools with a different fingerprint.
    """

    run: RuledRun = "ask"
    people: People | None = None
    exact: bool = False
    definition: str = ""

    @property
    def fit(self) -> Fit:
        """Strictness with which conditions are matched."""
        return replace(super().fit, typed=self.exact)

    def holds(self, arguments: Json) -> bool:
        """Return whether all conditions hold. In an exact rule, every argument needs a
        condition.
        """
        return super().holds(arguments) and (
            not self.exact or _is_covered(arguments, "", [_pointer(name) for name in self.when])
        )

    def is_about(self, definition: str) -> bool:
        """Return whether the rule applies to a tool with this fingerprint."""
        return not self.definition or self.definition == definition

    @property
    def is_permissive(self) -> bool:
        """Whether the call runs without asking."""
        return self.run == "unattended"


class RunRules(Struct, frozen=True):
    """The rules from one origin for one tool, each with its location (file and line).

    `only_tightens`: the rules come from a file that the user has not approved, so they apply only
    if they are stricter than all other rules.
    """

    rules: tuple[RunRule, ...]
    places: tuple[str, ...]
    only_tightens: bool = False

    def ruling(self, arguments: Json, definition: str = "") -> "Ruling | None":
        """Return the result of the first matching rule for a tool with this fingerprint.

        A permission that was granted at a prompt (an `exact` rule that allows calls) does not
        override later, stricter rules.
        """
        strictest: Ruling | None = None
        for rule, place in zip(self.rules, self.places, strict=True):
            if not rule.is_about(definition) or not rule.holds(arguments):
                continue
            ruling = Ruling(rule.run, place, rule.reason, people=rule.people)
            if strictest is None or _strictness(ruling) > _strictness(strictest):
                strictest = ruling
            if not (rule.exact and rule.is_permissive):
                break
        return strictest

    def changed(self, arguments: Json, definition: str) -> str:
        """Return the file and line of a rule that matches the arguments but was written for a
        different definition of the tool, or an empty string.
        """
        pairs = zip(self.rules, self.places, strict=True)
        return next(
            (
                place
                for rule, place in pairs
                if not rule.is_about(definition) and rule.holds(arguments)
            ),
            "",
        )


class Ruling(Struct, frozen=True):
    """The decision whether a call may run, and the rule that made it.

    `place` is the file and line of the rule, or empty if no rule matches. `by` is recorded as
    `AnsweredBy.by`. `people` are the people to ask. `changed` is the location of a rule that no
    longer applies because its tool has changed.
    """

    run: Literal["unattended", "ask", "edit", "skip"]
    place: str = ""
    reason: str | None = None
    by: str = "configuration"
    people: People | None = None
    changed: str = ""


_MAX_RULE_LENGTH: Final = 2_000
"""Maximum length of the arguments for which an exact rule is created, in characters. A person must
be able to read them.
"""


def exact_rule(arguments: Json, definition: str = "") -> JsonObject | None:
    """Return a rule, as a table, that allows calls with exactly these arguments. None if it cannot
    be written.

    It cannot be written if the arguments contain null, which TOML does not support. A text with
    glob characters is written as a list of one value, so that it is not a pattern.
    """
    if (
        not isinstance(arguments, Mapping)
        or len(compact(cast("Json", arguments))) > _MAX_RULE_LENGTH
        or _has_null(arguments)
    ):
        return None
    when = {
        (
            f"/{name.replace('~', '~0').replace('/', '~1')}" if name.startswith("/") else name
        ): _exact_condition(value)
        for name, value in arguments.items()
    }
    return {
        "when": when,
        "exact": True,
        "run": "unattended",
        **({"definition": definition} if definition else {}),
    }


def _has_null(value: Json) -> bool:
    match value:
        case None:
            return True
        case Mapping():
            return any(map(_has_null, value.values()))
        case list() | tuple():
            return any(map(_has_null, value))
        case _:
            return False


def _exact_condition(value: Json) -> Json:
    is_plain = not isinstance(value, Mapping | list | tuple) and not (
        isinstance(value, str) and _GLOB_CHARACTERS & set(value)
    )
    return value if is_plain else {"one_of": [value]}


def describe_rule(rule: RunRule, tool: str) -> str:
    """Describe the calls that a rule covers, for the person who saves it."""
    conditions = [f"{name} {_condition_words(condition)}" for name, condition in rule.when.items()]
    if not conditions:
        return f"{tool} without arguments" if rule.exact else f"every call of {tool}"
    rest = "and nothing else" if rule.exact else "whatever its other arguments"
    return f"{tool} with {', '.join(conditions)}, {rest}"


def _condition_words(condition: Condition) -> str:
    if isinstance(condition, str):
        return (
            f"like {compact(condition)}"
            if _GLOB_CHARACTERS & set(condition)
            else f"= {compact(condition)}"
        )
    if not isinstance(condition, dict):
        return f"= {compact(cast('Json', condition))}"
    comparison = msgspec.convert(condition, Comparison)
    if comparison.below is not None:
        return f"below {compact(comparison.below)}"
    if comparison.one_of is not None:
        return f"= {' or '.join(compact(cast('Json', one)) for one in comparison.one_of)}"
    return f"matching {compact(comparison.matches)}"


def not_covered(rule: RunRule, tool: str, arguments: Json) -> str:
    """Return an example of a similar call that the rule does not cover, or an empty string if none
    was found.
    """
    given = dict(cast("JsonObject", arguments)) if isinstance(arguments, Mapping) else {}
    unused_name = next(
        name
        for name in ("force", "extra", *map("extra{}".format, range(len(given) + 1)))
        if name not in given
    )
    candidates = [
        {**given, unused_name: True},
        *(
            {**given, name: other}
            for name, value in given.items()
            for other in _other_values(value)
        ),
    ]
    found = next((call for call in candidates if not rule.holds(call)), None)
    return "" if found is None else f"{tool} {compact(found)}"


def _other_values(value: Json) -> Sequence[Json]:
    match value:
        case bool():
            return [not value]
        case str():
            return [f"{value}2", "other"]
        case int() | float():
            return [value + 1, -value - 1]
        case _:
            return ["other"]


_STRICTNESS: Final = {"unattended": 0, "ask": 1, "edit": 1, "skip": 3}
_NAMED_PEOPLE_STRICTNESS: Final = 2


def strictest(
    otherwise: Ruling, origins: Sequence[RunRules], arguments: Json, definition: str = ""
) -> Ruling:
    """Return the combined result: of the first matching rule from each origin, the strictest one.

    `otherwise` applies if no rule matches. `definition` is the fingerprint of the tool. A rule for
    a different fingerprint is ignored, and the result contains its location.
    """
    found = _strictest(otherwise, origins, arguments, definition)
    if found.run in ("unattended", "skip"):
        return found
    changed = next(filter(None, (origin.changed(arguments, definition) for origin in origins)), "")
    return replace(found, changed=changed) if changed else found


def _strictest(
    otherwise: Ruling, origins: Sequence[RunRules], arguments: Json, definition: str
) -> Ruling:
    rulings = [
        (origin, ruling) for origin in origins if (ruling := origin.ruling(arguments, definition))
    ]
    own = [ruling for origin, ruling in rulings if not origin.only_tightens] or [otherwise]
    added = [ruling for origin, ruling in rulings if origin.only_tightens]
    return max([max(own, key=_strictness), *added], key=_strictness)


def _strictness(ruling: Ruling) -> int:
    return (
        _NAMED_PEOPLE_STRICTNESS
        if ruling.people is not None and ruling.run == "ask"
        else _STRICTNESS[ruling.run]
    )


def read_run_rules(given: Sequence[object]) -> tuple[RunRule, ...]:
    """Parse the rules of a tool from the configuration.

    Raises:
        ConfigError: A rule is invalid. The message names the rule and the reason.
    """
    return tuple(_read_run_rule(f"rule {number}", table) for number, table in enumerate(given, 1))


ABOUT_PEOPLE: Final = ("ask", "only", "approvals", "remind_after", "escalate")
"""The keys of a rule that determine who decides, and how."""
R = TypeVar("R", bound=Conditional)


def _read_run_rule(where: str, table: object) -> RunRule:
    if not isinstance(table, Mapping):
        raise ConfigError(
            f'{where}: a rule must be a table, such as `{{ when = {{ cmd = "git status*" }}, run ='
            ' "unattended" }`.'
        )
    rule = cast("Mapping[str, object]", table)
    about_people = {key: rule[key] for key in ABOUT_PEOPLE if key in rule}
    if "people" in rule or not (about_people or "run" in rule):
        raise ConfigError(f"{where}: {_RUN_RULE}.")
    if about_people and rule.get("run", "ask") != "ask":
        raise ConfigError(
            f'{where}: `{next(iter(about_people))}` asks people, but `run = "{rule["run"]}"` asks'
            " no one. Remove one of them."
        )
    rest = {key: value for key, value in rule.items() if key not in about_people}
    read = read_rule(where, rest, RunRule, _RUN_RULE.removeprefix("a rule has "))
    return replace(read, people=_people(where, about_people)) if about_people else read


_RUN_RULE: Final = (
    'a rule has `run` ("unattended", "ask" or "skip") or `ask` with the people to ask, and may have'
    " `when`, `exact`, `reason`, `shell` and `definition`"
)


def _people(where: str, given: Mapping[str, object]) -> People:
    try:
        return read_people(given)
    except QuestionError as error:
        raise ConfigError(f"{where}: {table_problems(error)}") from None


def read_rule(where: str, table: Mapping[str, object], type: type[R], has: str) -> R:
    """Parse a rule from a table. `has` describes the valid keys for the error message.

    Raises:
        ConfigError: The rule is invalid. The message contains its location and the reason.
    """
    try:
        rule = msgspec.convert(table, type)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}. A rule has {has}.") from error
    for name, condition in rule.when.items():
        if problem := _problem(condition):
            raise ConfigError(f"{where}.when[{name!r}]: {problem}")
    return rule


def _problem(condition: Condition) -> str | None:
    if isinstance(condition, list):
        return next(
            (problem for part in cast("list[Condition]", condition) if (problem := _problem(part))),
            None,
        )
    if not isinstance(condition, dict):
        return None
    try:
        comparison = msgspec.convert(condition, Comparison)
    except msgspec.ValidationError as error:
        return (
            f"{error}. A condition must be a glob, a value, a list of these, or one of `below`,"
            " `one_of` and `matches`."
        )
    if len(cast("dict[str, object]", condition)) != 1:
        return "set exactly one of `below`, `one_of` and `matches`."
    if comparison.matches is None:
        return None
    broken = check_schema(_pattern(comparison.matches)) or check_schema(
        _pattern(comparison.matches, whole=True)
    )
    return broken[0].message if broken else None


def _pointer(name: str) -> str:
    """Return the JSON Pointer of the argument that a condition refers to."""
    return name if name.startswith("/") else pointer_to("", name)


def _is_covered(value: Json, pointer: str, conditions: Sequence[str]) -> bool:
    """Return whether a value is covered by a condition, or all its parts are covered by
    conditions.
    """
    if pointer and pointer in conditions:
        return True
    if isinstance(value, Mapping) and (value or not pointer):
        return all(
            _is_covered(member, pointer_to(pointer, key), conditions)
            for key, member in value.items()
        )
    if isinstance(value, list | tuple) and value:
        return all(
            _is_covered(member, pointer_to(pointer, place), conditions)
            for place, member in enumerate(value)
        )
    return False


def argument_of(name: str) -> str:
    """Return the argument that a condition refers to: `to` for both `to` and `/to/0/name`."""
    return _steps(name)[0]


def _steps(name: str) -> Sequence[str]:
    return pointer_parts(name) if name.startswith("/") else (name,)


def _found(arguments: Json, name: str) -> list[Json]:
    """Return the argument as a list of one value, or an empty list if it is missing."""
    value: Any = arguments
    for step in _steps(name):
        if isinstance(value, Mapping) and step in value:
            value = cast("JsonObject", value)[step]
        elif (
            isinstance(value, list)
            and step.isdecimal()
            and int(step) < len(cast("list[Json]", value))
        ):
            value = cast("list[Json]", value)[int(step)]
        else:
            return []
    return [cast("Json", value)]


def _holds(condition: Condition, found: list[Json], fit: Fit) -> bool:
    if not found:
        return False
    value = found[0]
    if isinstance(value, str) and not fit.whole and (bare := _without_margins(value)) != value:
        # Rules that ask or refuse also match the text without surrounding white space, because a
        # program may ignore white space.
        return _fulfils(condition, value, fit) or _fulfils(condition, bare, fit)
    return _fulfils(condition, value, fit)


def _without_margins(text: str) -> str:
    """Strip white space and invisible characters from both ends of a text."""
    start, end = 0, len(text)
    while start < end and _is_margin(text[start]):
        start += 1
    while end > start and _is_margin(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_margin(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in ("Cf", "Cc")


def _fulfils(condition: Condition, value: Json, fits: Fit) -> bool:
    if isinstance(condition, list):
        each, items = (
            cast("list[Condition]", condition),
            cast("Sequence[Json]", value) if isinstance(value, list | tuple) else (),
        )
        is_as_long = isinstance(value, list | tuple) and len(each) == len(items)
        return is_as_long and all(
            _holds(part, [item], fits) for part, item in zip(each, items, strict=True)
        )
    if isinstance(condition, dict):
        return _compares(msgspec.convert(condition, Comparison), value, fits)
    if not isinstance(condition, str):
        return canonical(value) == canonical(cast("Json", condition))
    return _matches(condition, _text(value, fits), fits)


def _matches(glob: str, text: str | None, fits: Fit) -> bool:
    if text is None or not _GLOB_CHARACTERS & set(glob):
        return text == glob
    return fnmatchcase(text, glob) and (not fits.plain or _is_plain(text))


def _compares(comparison: Comparison, value: Json, fits: Fit) -> bool:
    if comparison.below is not None:
        return is_number(value) and value < comparison.below
    if comparison.one_of is not None:
        return any(
            canonical(value) == canonical(cast("Json", option)) for option in comparison.one_of
        )
    text = _text(value, fits)
    if text is None or comparison.matches is None:
        return False
    problems = validate(_pattern(comparison.matches, whole=fits.whole), text)
    # too large to match: treat it as a match only for rules that ask or refuse
    if problems and problems[0].message == TOO_LARGE:
        return not fits.whole
    return not problems and (not fits.plain or _is_plain(text))


def _text(value: Json, fits: Fit) -> str | None:
    """Return the text that a glob is matched against. Numbers and booleans are converted to JSON,
    unless types are compared.
    """
    if isinstance(value, str):
        return value
    return (
        None
        if fits.typed or value is None or isinstance(value, list | tuple | Mapping)
        else compact(value)
    )


def _is_plain(text: str) -> bool:
    """Return whether a text consists of plain words, separated by single spaces, without a `..`
    path.

    The first word is the program and may not contain `=`: `A=b git` would change its environment
    variables.
    """
    if (
        text != text.strip(" ")
        or "  " in text
        or not all(letter.isalnum() or letter in _PLAIN_PUNCTUATION for letter in text)
    ):
        return False
    return "=" not in text.split(" ", 1)[0] and not _PARENT_REFERENCE.search(text)


def _pattern(matches: str, *, whole: bool = False) -> Json:
    return {"type": "string", "pattern": f"^(?:{matches})$" if whole else matches}
