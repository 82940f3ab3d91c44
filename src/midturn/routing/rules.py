"""Rules about a call by its arguments: their conditions, and what they let run. The first that holds decides.

Matching does no splitting of its own: a text is taken as it will run. What lets a call through has to fit the whole text, and a text
that may hold more than one command needs a rule that says `shell`. A rule that asks or refuses needs no such care.
"""

# Without `from __future__ import annotations`: msgspec reads what stands here.

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
from midturn.question.json_value import Json, JsonObject, canonical, is_number, pointer_parts, pointer_to
from midturn.question.people import People, in_a_table, read_people
from midturn.question.schema import check_schema
from midturn.question.schema_check import TOO_LARGE, validate

_WILD: Final = frozenset("*?[")
_PLAIN: Final = frozenset(" _-./:=@%+,")
"""Characters, beside letters and digits, of a text that a pattern may let through: words that no shell changes."""
_LEADS_UP: Final = re.compile(r"\.\./|/\.\.|(?:^|[ :=@%+,])\.\.(?=$|[ :=@%+,])|(?:^| )-[^ ]*\.\.(?= |$)")
"""A path that leads up, by itself, after a sign that separates words of a program, or in an option; `main..` and `a..b` are none."""


class Comparison(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on one argument as a table; exactly one of its fields is given."""

    below: int | float | None = None
    one_of: list[Any] | None = None
    matches: str | None = None


Condition: TypeAlias = Any
"""A glob over the argument's text, a value that it equals, one of these for each element of a list, or a `Comparison`."""


class Conditional(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Conditions of a rule. `when` is by argument, or by JSON pointer into the arguments; all conditions have to hold."""

    when: dict[str, Condition] = {}
    reason: str | None = None
    shell: bool = False

    @property
    def lets_through(self) -> bool:
        """Whether what the rule says lets something happen that a person would be asked about."""
        return True

    @property
    def fit(self) -> "Fit":
        """How exactly a value has to fit a condition."""
        return Fit(whole=self.lets_through, plain=self.lets_through and not self.shell)

    def holds(self, arguments: Json) -> bool:
        """Say whether every condition holds; one on an argument that is not there does not."""
        fits = self.fit
        return all(_holds(condition, _found(arguments, name), fits) for name, condition in self.when.items())


class Fit(Struct, frozen=True):
    """The fit that a pattern needs: the `whole` of it, and only where it is made of `plain` words. `typed`: a text fits texts only."""

    whole: bool
    plain: bool
    typed: bool = False


RuledRun: TypeAlias = Literal["unattended", "ask", "skip"]


class RunRule(Conditional, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether a call may run where all conditions hold. A rule with `people` asks them, and does not say so in `run`, too.

    An `exact` rule does not match a call that has an argument without a condition, and compares values with their types. `definition`
    is the fingerprint of the tool that the rule was written for: the rule does not apply to a tool with another one.
    """

    run: RuledRun = "ask"
    people: People | None = None
    exact: bool = False
    definition: str = ""

    @property
    def fit(self) -> Fit:
        """How exactly a value has to fit a condition."""
        return replace(super().fit, typed=self.exact)

    def holds(self, arguments: Json) -> bool:
        """Say whether every condition holds and, in an exact rule, whether every argument has one."""
        return super().holds(arguments) and (not self.exact or _is_covered(arguments, "", [_pointer(name) for name in self.when]))

    def is_about(self, definition: str) -> bool:
        """Say whether the rule applies to a tool with this fingerprint."""
        return not self.definition or self.definition == definition

    @property
    def lets_through(self) -> bool:
        """Whether the call runs unasked."""
        return self.run == "unattended"


class RunRules(Struct, frozen=True):
    """The rules of one origin about one tool, each with its place there (file and line).

    `only_tightens`: they come from a file that its user has not approved, and are heard where they are stricter than all the rest.
    """

    rules: tuple[RunRule, ...]
    places: tuple[str, ...]
    only_tightens: bool = False

    def ruling(self, arguments: Json, definition: str = "") -> "Ruling | None":
        """Return what the first rule says that holds for a tool with this fingerprint.

        A permission that was written at a prompt (an `exact` rule that lets calls run) takes back nothing that another rule asks for.
        """
        strictest: Ruling | None = None
        for rule, place in zip(self.rules, self.places, strict=True):
            if not rule.is_about(definition) or not rule.holds(arguments):
                continue
            ruling = Ruling(rule.run, place, rule.reason, people=rule.people)
            if strictest is None or _strictness(ruling) > _strictness(strictest):
                strictest = ruling
            if not (rule.exact and rule.lets_through):
                break
        return strictest

    def changed(self, arguments: Json, definition: str) -> str:
        """Return the place of a rule that would hold, but was written for another definition of the tool; empty if there is none."""
        pairs = zip(self.rules, self.places, strict=True)
        return next((place for rule, place in pairs if not rule.is_about(definition) and rule.holds(arguments)), "")


class Ruling(Struct, frozen=True):
    """Whether a call may run, and the rule that says so: its `place` is empty where none holds. `by` as in `AnsweredBy`.

    `people` are those who are asked. `changed` is the place of a rule that does not apply any more, because its tool has changed.
    """

    run: Literal["unattended", "ask", "edit", "skip"]
    place: str = ""
    reason: str | None = None
    by: str = "configuration"
    people: People | None = None
    changed: str = ""


_MOST_IN_A_RULE: Final = 2_000
"""Maximum length in characters of the arguments of a call that a rule is written for: a person has to read them."""


def exact_rule(arguments: Json, definition: str = "") -> JsonObject | None:
    """Return the rule, as a table, that lets calls with exactly these arguments run; None if it could not be written or read.

    TOML has no null. A text that a pattern would read otherwise becomes a list of one value.
    """
    if not isinstance(arguments, Mapping) or len(compact(cast("Json", arguments))) > _MOST_IN_A_RULE or _has_null(arguments):
        return None
    when = {
        f"/{name.replace('~', '~0').replace('/', '~1')}" if name.startswith("/") else name: _just(one) for name, one in arguments.items()
    }
    return {"when": when, "exact": True, "run": "unattended", **({"definition": definition} if definition else {})}


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


def _just(value: Json) -> Json:
    is_plain = not isinstance(value, Mapping | list | tuple) and not (isinstance(value, str) and _WILD & set(value))
    return value if is_plain else {"one_of": [value]}


def in_words(rule: RunRule, tool: str) -> str:
    """Describe the calls that a rule covers, for the person who writes it."""
    conditions = [f"{name} {_condition_words(condition)}" for name, condition in rule.when.items()]
    if not conditions:
        return f"{tool} without arguments" if rule.exact else f"every call of {tool}"
    rest = "and nothing else" if rule.exact else "whatever its other arguments"
    return f"{tool} with {', '.join(conditions)}, {rest}"


def _condition_words(condition: Condition) -> str:
    if isinstance(condition, str):
        return f"like {compact(condition)}" if _WILD & set(condition) else f"= {compact(condition)}"
    if not isinstance(condition, dict):
        return f"= {compact(cast('Json', condition))}"
    comparison = msgspec.convert(condition, Comparison)
    if comparison.below is not None:
        return f"below {compact(comparison.below)}"
    if comparison.one_of is not None:
        return f"= {' or '.join(compact(cast('Json', one)) for one in comparison.one_of)}"
    return f"matching {compact(comparison.matches)}"


def not_covered(rule: RunRule, tool: str, arguments: Json) -> str:
    """Return an example of a similar call that a rule does not cover; empty if it covers all that were tried."""
    given = dict(cast("JsonObject", arguments)) if isinstance(arguments, Mapping) else {}
    free = next(name for name in ("force", "extra", *map("extra{}".format, range(len(given) + 1))) if name not in given)
    tried = [{**given, free: True}, *({**given, name: other} for name, value in given.items() for other in _others(value))]
    found = next((call for call in tried if not rule.holds(call)), None)
    return "" if found is None else f"{tool} {compact(found)}"


def _others(value: Json) -> Sequence[Json]:
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
_OF_PEOPLE: Final = 2


def strictest(otherwise: Ruling, origins: Sequence[RunRules], arguments: Json, definition: str = "") -> Ruling:
    """Return what the rules of all origins come to: of each the first that holds, of these the strictest; `otherwise` where none holds.

    `definition` is the fingerprint of the tool. A rule that was written for another one does not hold; the result names its place.
    """
    found = _strictest(otherwise, origins, arguments, definition)
    if found.run in ("unattended", "skip"):
        return found
    changed = next(filter(None, (origin.changed(arguments, definition) for origin in origins)), "")
    return replace(found, changed=changed) if changed else found


def _strictest(otherwise: Ruling, origins: Sequence[RunRules], arguments: Json, definition: str) -> Ruling:
    said = [(origin, ruling) for origin in origins if (ruling := origin.ruling(arguments, definition))]
    own = [ruling for origin, ruling in said if not origin.only_tightens] or [otherwise]
    added = [ruling for origin, ruling in said if origin.only_tightens]
    return max([max(own, key=_strictness), *added], key=_strictness)


def _strictness(ruling: Ruling) -> int:
    return _OF_PEOPLE if ruling.people is not None and ruling.run == "ask" else _STRICTNESS[ruling.run]


def read_run_rules(given: Sequence[object]) -> tuple[RunRule, ...]:
    """Return the rules of a tool, as configuration writes them.

    Raises:
        ConfigError: One is not a rule; the message says which and why.
    """
    return tuple(_running(f"rule {number}", table) for number, table in enumerate(given, 1))


ABOUT_PEOPLE: Final = ("ask", "only", "approvals", "remind_after", "escalate")
"""The keys of a rule that say whose decision a call is."""
R = TypeVar("R", bound=Conditional)


def _running(where: str, table: object) -> RunRule:
    if not isinstance(table, Mapping):
        raise ConfigError(f'{where}: a rule is a table, such as `{{ when = {{ cmd = "git status*" }}, run = "unattended" }}`.')
    rule = cast("Mapping[str, object]", table)
    about_people = {key: rule[key] for key in ABOUT_PEOPLE if key in rule}
    if "people" in rule or not (about_people or "run" in rule):
        raise ConfigError(f"{where}: {_RUN_RULE}.")
    if about_people and rule.get("run", "ask") != "ask":
        raise ConfigError(
            f'{where}: `{next(iter(about_people))}` has people asked, and `run = "{rule["run"]}"` asks no one. Leave one out.'
        )
    rest = {key: value for key, value in rule.items() if key not in about_people}
    read = read_rule(where, rest, RunRule, _RUN_RULE.removeprefix("a rule has "))
    return replace(read, people=_people(where, about_people)) if about_people else read


_RUN_RULE: Final = (
    'a rule has `run` ("unattended", "ask" or "skip") or says who is asked (`ask`), and may have `when`, `exact`, `reason`, `shell` and '
    "`definition`"
)


def _people(where: str, given: Mapping[str, object]) -> People:
    try:
        return read_people(given)
    except QuestionError as error:
        raise ConfigError(f"{where}: {in_a_table(error)}") from None


def read_rule(where: str, table: Mapping[str, object], type: type[R], has: str) -> R:
    """Return a rule of one kind, as a table has it; `has` says what stands in one.

    Raises:
        ConfigError: It is none; the message says where and why.
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
        return next((problem for one in cast("list[Condition]", condition) if (problem := _problem(one))), None)
    if not isinstance(condition, dict):
        return None
    try:
        comparison = msgspec.convert(condition, Comparison)
    except msgspec.ValidationError as error:
        return f"{error}. A condition is a glob, a value, a list of these, or one of `below`, `one_of` and `matches`."
    if len(cast("dict[str, object]", condition)) != 1:
        return "give exactly one of `below`, `one_of` and `matches`."
    if comparison.matches is None:
        return None
    broken = check_schema(_pattern(comparison.matches)) or check_schema(_pattern(comparison.matches, whole=True))
    return broken[0].message if broken else None


def _pointer(name: str) -> str:
    """Return the JSON pointer of what a condition is about."""
    return name if name.startswith("/") else pointer_to("", name)


def _is_covered(value: Json, pointer: str, conditions: Sequence[str]) -> bool:
    """Say whether a condition is about a value, or conditions are about everything in it."""
    if pointer and pointer in conditions:
        return True
    if isinstance(value, Mapping) and (value or not pointer):
        return all(_is_covered(member, pointer_to(pointer, key), conditions) for key, member in value.items())
    if isinstance(value, list | tuple) and value:
        return all(_is_covered(member, pointer_to(pointer, place), conditions) for place, member in enumerate(value))
    return False


def argument_of(name: str) -> str:
    """Return the argument that a condition is about: `to` of `to`, and of `/to/0/name`."""
    return _steps(name)[0]


def _steps(name: str) -> Sequence[str]:
    return pointer_parts(name) if name.startswith("/") else (name,)


def _found(arguments: Json, name: str) -> list[Json]:
    """Return the argument, in a list: an empty one where it is not there."""
    here: Any = arguments
    for step in _steps(name):
        if isinstance(here, Mapping) and step in here:
            here = cast("JsonObject", here)[step]
        elif isinstance(here, list) and step.isdecimal() and int(step) < len(cast("list[Json]", here)):
            here = cast("list[Json]", here)[int(step)]
        else:
            return []
    return [cast("Json", here)]


def _holds(condition: Condition, found: list[Json], fits: Fit) -> bool:
    if not found:
        return False
    value = found[0]
    if isinstance(value, str) and not fits.whole and (bare := _without_margins(value)) != value:
        # A rule that asks or refuses is not evaded with white space that a program may ignore.
        return _fulfils(condition, value, fits) or _fulfils(condition, bare, fits)
    return _fulfils(condition, value, fits)


def _without_margins(text: str) -> str:
    """Return a text without white space and invisible characters at its beginning and end."""
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
        each, items = cast("list[Condition]", condition), cast("Sequence[Json]", value) if isinstance(value, list | tuple) else ()
        is_as_long = isinstance(value, list | tuple) and len(each) == len(items)
        return is_as_long and all(_holds(one, [item], fits) for one, item in zip(each, items, strict=True))
    if isinstance(condition, dict):
        return _compares(msgspec.convert(condition, Comparison), value, fits)
    if not isinstance(condition, str):
        return canonical(value) == canonical(cast("Json", condition))
    return _matches(condition, _text(value, fits), fits)


def _matches(glob: str, text: str | None, fits: Fit) -> bool:
    if text is None or not _WILD & set(glob):
        return text == glob
    return fnmatchcase(text, glob) and (not fits.plain or _is_plain(text))


def _compares(comparison: Comparison, value: Json, fits: Fit) -> bool:
    if comparison.below is not None:
        return is_number(value) and value < comparison.below
    if comparison.one_of is not None:
        return any(canonical(value) == canonical(cast("Json", one)) for one in comparison.one_of)
    text = _text(value, fits)
    if text is None or comparison.matches is None:
        return False
    problems = validate(_pattern(comparison.matches, whole=fits.whole), text)
    if problems and problems[0].message == TOO_LARGE:  # it was not looked at: found where that is stricter, and nowhere else
        return not fits.whole
    return not problems and (not fits.plain or _is_plain(text))


def _text(value: Json, fits: Fit) -> str | None:
    """Return what a glob looks at: a text, or a number or yes and no as JSON writes it, unless types count."""
    if isinstance(value, str):
        return value
    return None if fits.typed or value is None or isinstance(value, list | tuple | Mapping) else compact(value)


def _is_plain(text: str) -> bool:
    """Whether a text is words with one space between them that no shell takes for anything else, and no path that leads up.

    The first is the program: `A=b git` would change the variables that it runs with.
    """
    if text != text.strip(" ") or "  " in text or not all(letter.isalnum() or letter in _PLAIN for letter in text):
        return False
    return "=" not in text.split(" ", 1)[0] and not _LEADS_UP.search(text)


def _pattern(matches: str, *, whole: bool = False) -> Json:
    return {"type": "string", "pattern": f"^(?:{matches})$" if whole else matches}
