"""The strict reader of authored questions: every broken rule is found at once."""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, QuestionError
from midturn.question.answer import check_answer
from midturn.question.answer_type import (
    AnswerType,
    AuthoredFields,
    BooleanType,
    Persistence,
    SchemaType,
    SecretType,
    SelectType,
    TextType,
    When,
)
from midturn.question.authored_type import Findings, read_answer_type
from midturn.question.json_value import Json, Limits, is_number, json_problem, shown
from midturn.question.people import LONGEST, SHORTEST, People, deadline_as_json, moment_of, read_people
from midturn.question.text import QUESTION_ID

Q = TypeVar("Q", bound=AuthoredFields)

_AUTHORED = "authored"
_ESCAPED = 6  # bytes that one character may take in JSON
_VALUE = 100  # characters of an option besides its label and its description
_KEYS = (
    "id",
    "text",
    "context",
    "answer_type",
    "default",
    "exclusive",
    "persistence",
    "optional",
    "when",
    "deadline_seconds",
    "deadline",
    "people",
)
_NONE_WHERE_LEFT_OUT = ("context", "when", "deadline_seconds", "deadline", "people")
_ID_RULE = "1 to 64 of the characters A-Z a-z 0-9 _ - (not beginning with __)"
_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x84\x85\x8d\u2028\u2029"
_LINE_BREAK = f"\r\n|[{_BREAKS}]"


def author(kind: type[Q], authored: object, limits: Limits, returns: object = None) -> Q:
    """Read the JSON of a question into `kind`. A tool that runs again asks the same: what cannot be changed is read once.

    Raises:
        QuestionError: Every rule that is broken, each with a JSON pointer, what is allowed and what to do.
    """
    name = None if returns is not None else _named(kind, authored, limits)
    known = KNOWN.get(name)
    if known is not None:
        return known
    broken = json_problem(authored, limits.json_depth)
    if broken is not None:
        raise QuestionError([broken])
    question = _read(kind, authored, limits, returns)
    if name is not None and stays_as_authored(question):
        if len(KNOWN) == _MOST_KNOWN:
            KNOWN.clear()
        KNOWN[name] = question
    return question


_Name: TypeAlias = tuple[type, Limits, bytes]


def _named(kind: type, authored: Any, limits: Limits) -> _Name | None:
    """Return what only this very question is known by, with the type of every value in it; None where something is no plain value."""
    try:
        return kind, limits, marshal.dumps(authored, _BY_VALUE)
    except ValueError:
        return None


_BY_VALUE: Final = 0  # the one version in which equal values have equal bytes, even when other references to them exist
KNOWN: Final[dict[_Name | None, Any]] = {}
"""The questions that were asked last."""
_MOST_KNOWN: Final = 256


def _read(kind: type[Q], authored: object, limits: Limits, returns: object) -> Q:
    if not isinstance(authored, Mapping):
        raise QuestionError([Findings.wrong("", "a question", "a JSON object", cast("Json", authored))])
    reader = _Reader(cast("Mapping[str, Json]", authored), limits)
    question = reader.read(kind, returns)
    if reader.findings:
        raise QuestionError(reader.findings)
    if not _can_be_changed(question):
        vars(question)[_AUTHORED] = _Authored(limits, _most(question, limits))
    return question


class _Authored(Struct, frozen=True):
    """Under which limits a question was authored that cannot be changed since, and a number of bytes that its JSON surely does not have."""

    limits: Limits
    most: int


def as_authored(questions: Sequence[AuthoredFields], limits: Limits) -> int | None:
    """Return how many bytes the JSON of questions surely does not have, where none of them need be checked again; else None.

    Each came from `author` under these limits, and nothing in it can be changed since. A copy made with `replace` is not what came from
    there.
    """
    most = 0
    for question in questions:
        authored: _Authored | None = vars(question).get(_AUTHORED)
        if authored is None or authored.limits != limits:
            return None
        most += authored.most
    return most


def stays_as_authored(question: AuthoredFields) -> bool:
    """Whether a question came from `author`, under whatever limits, and nothing in it can be changed since."""
    return _AUTHORED in vars(question)


def _most(question: AuthoredFields, limits: Limits) -> int:
    """Return a number of bytes that the JSON of a question surely does not have, without looking at each part of one that cannot change."""
    if not isinstance(question.default, UnsetType | bool):
        return limits.batch
    match question.answer_type:
        case BooleanType() | TextType() | SecretType():
            return (limits.question + limits.context) * _ESCAPED
        case SelectType(options=options):
            previews = sum(len(option.preview or "") for option in options)
            return (limits.question + limits.context + previews + len(options) * (2 * limits.question + _VALUE)) * _ESCAPED
        case _:
            return limits.batch


def _can_be_changed(question: AuthoredFields) -> bool:
    return (
        isinstance(question.answer_type, SchemaType)
        or isinstance(question.default, list | dict)
        or not (question.when is None and question.people is None)
    )


def written(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the JSON of a question's fields as far as they have one; what is of a wrong type stays as it is, for the check to find."""
    return {
        name: plain(value) if isinstance(value, Struct) else value
        for name, value in _with_deadline(fields).items()
        if value is not UNSET and name != "returns" and (value is not None or name not in _NONE_WHERE_LEFT_OUT)
    }


def _with_deadline(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields with a deadline of the program as it is written."""
    given = fields.get("deadline")
    if given is None or given is UNSET:
        return fields
    return {name: value for name, value in fields.items() if name != "deadline"} | deadline_as_json(given)


def plain(value: Struct) -> object:
    """Return what a part of a question is in JSON."""
    try:
        return cast("object", msgspec.to_builtins(value))
    except (TypeError, ValueError, RecursionError):  # something in it has no JSON
        return value


class _Reader:
    """Takes one field after the other; where a field is wrong, a harmless stand-in lets the others be read."""

    def __init__(self, authored: Mapping[str, Json], limits: Limits) -> None:
        self._limits = limits
        self.findings = Findings()
        self._fields = dict(authored)
        if "pre_amble" in self._fields:  # the former name of `context`
            if "context" in self._fields:
                self.findings.add("/pre_amble", "`pre_amble` is the former name of `context`, which is there too. Keep `context`.")
            self._fields.setdefault("context", self._fields.pop("pre_amble"))
            self._fields.pop("pre_amble", None)

    def read(self, kind: type[Q], returns: object) -> Q:
        self.findings.unknown_keys("", self._fields, _KEYS)
        build = cast("Callable[..., Q]", getattr(kind, "unchecked", kind))  # it is being checked here
        question = build(
            id=self._id(),
            text=self._text(),
            context=self._context(),
            answer_type=(answer_type := self._answer_type()) or TextType(),
            exclusive=self._flag("exclusive"),
            persistence=self._persistence(),
            optional=self._flag("optional"),
            when=self._when(),
            deadline_seconds=self._deadline_seconds(),
            deadline=self._deadline(),
            people=self._people(answer_type),
            returns=returns,
        )
        return question if answer_type is None else self._with_default(question)

    def _id(self) -> str:
        value = self._required("id", f"Give {_ID_RULE}.")
        if isinstance(value, str) and re.fullmatch(QUESTION_ID, value):
            return value
        if value is not UNSET:
            self.findings.add("/id", f"{shown(value)} is not an id. Use {_ID_RULE}.")
        return ""

    def _text(self) -> str:
        value = self._required("text", "Give the question in one line.")
        if value is UNSET:
            return ""
        if not isinstance(value, str):
            self.findings.mistyped("/text", "text", "a string", value)
            return ""
        if not value.strip():
            self.findings.add("/text", "the text is empty. Ask something, in one line.")
        lines = len(re.findall(_LINE_BREAK, value)) + 1
        if lines > 1:
            self.findings.add("/text", f"the text has {lines} lines; one is allowed. Put multi-line text in `context`.")
        if len(value) > self._limits.question:
            limit = f"{self._limits.question:,}"
            self.findings.add("/text", f"the text has {len(value):,} characters; {limit} are allowed. Put details in `context`.")
        return value

    def _context(self) -> str | None:
        value = self._fields.get("context", UNSET)
        if value is UNSET:
            return None
        if not isinstance(value, str):
            self.findings.mistyped("/context", "context", "a string of Markdown", value)
            return None
        size = len(value.encode())
        if size > self._limits.context:
            self.findings.add("/context", f"the context has {size:,} bytes; {self._limits.context:,} are allowed. Shorten it.")
        return value

    def _answer_type(self) -> AnswerType | None:
        value = self._required("answer_type", 'Give an object such as {"type": "boolean"}.')
        return None if value is UNSET else read_answer_type(value, self._limits, self.findings)

    def _with_default(self, question: Q) -> Q:
        """Take the default, as the checker of answers returns it."""
        default = self._fields.get("default", UNSET)
        if default is UNSET:
            return question
        if isinstance(question.answer_type, SecretType):
            self.findings.add("/default", "a secret has no default: it would be stored and shown. Remove `default`.")
            return question
        try:
            return msgspec.structs.replace(question, default=check_answer(question, default, self._limits.json_depth))
        except AnswerError as error:
            for problem in error.problems:
                self.findings.add(f"/default{problem.pointer}", f"the default is not an answer: {problem.message}")
            return question

    def _flag(self, name: str) -> bool:
        value = self._fields.get(name, False)
        if isinstance(value, bool):
            return value
        self.findings.mistyped(f"/{name}", name, "true or false", value)
        return False

    def _persistence(self) -> Persistence:
        value = self._fields.get("persistence", "turn")
        if isinstance(value, str) and value in {"none", "turn", "conversation"}:
            if value == "conversation" and _is_secret(self._fields.get("answer_type")):
                self.findings.add("/persistence", "a secret is never remembered. Remove `persistence`.")
            return cast("Persistence", value)
        self.findings.mistyped("/persistence", "persistence", '"turn", "conversation" or "none"', value)
        return "turn"

    def _when(self) -> When | None:
        value = self._fields.get("when", UNSET)
        if value is UNSET:
            return None
        if not isinstance(value, Mapping):
            self.findings.mistyped("/when", "when", 'an object {"question_id": "<earlier id>", "equals": <answer>}', value)
            return None
        self.findings.unknown_keys("/when", value, ("question_id", "equals"))
        question_id = value.get("question_id", UNSET)
        if not isinstance(question_id, str):
            self.findings.add("/when/question_id", "`question_id` is missing or not a string. Name an earlier question of the form.")
        if "equals" not in value:
            self.findings.add("/when/equals", "`equals` is missing. Give the answer at which this question is asked.")
        return When(question_id if isinstance(question_id, str) else "", value.get("equals"))

    def _deadline_seconds(self) -> float | None:
        value = self._fields.get("deadline_seconds", UNSET)
        if value is UNSET:
            return None
        if not is_number(value) or not SHORTEST <= value <= LONGEST:
            self.findings.add("/deadline_seconds", f"{shown(value)} is no time to answer. Give seconds, from {SHORTEST} to {LONGEST:,}.")
            return None
        return value

    def _deadline(self) -> str | None:
        value = self._fields.get("deadline", UNSET)
        if value is UNSET:
            return None
        if "deadline_seconds" in self._fields:
            self.findings.add("/deadline", "`deadline_seconds` is there, too. Keep one of them.")
        moment = moment_of(value)
        if moment is None:
            self.findings.add(
                "/deadline", f"{shown(value)} is no moment. Give a date and a time with a zone (RFC 3339), or `deadline_seconds`."
            )
        return moment

    def _people(self, answer_type: AnswerType | None) -> People | None:
        value = self._fields.get("people", UNSET)
        if value is UNSET:
            return None
        try:
            people = read_people(value)
        except QuestionError as error:
            for problem in error.problems:
                self.findings.add(f"/people{problem.pointer}", problem.message)
            return None
        if people.approvals > 1 and answer_type is not None and (not isinstance(answer_type, BooleanType) or self._flag("optional")):
            message = "several people say yes to a yes/no question that has to be answered. Leave `approvals` out."
            self.findings.add("/people/approvals", message)
        return people

    def _required(self, name: str, advice: str) -> Json | UnsetType:
        value = self._fields.get(name, UNSET)
        if value is UNSET:
            self.findings.add(f"/{name}", f"`{name}` is missing. {advice}")
        return value


def _is_secret(answer_type: object) -> bool:
    named = cast("Mapping[str, object]", answer_type).get("type") if isinstance(answer_type, Mapping) else answer_type
    return named == "secret"
