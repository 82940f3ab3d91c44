"""Strict reader for authored questions. Reports all problems together."""

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
from midturn.question.people import (
    LONGEST,
    SHORTEST,
    People,
    deadline_as_json,
    moment_of,
    read_people,
)
from midturn.question.text import QUESTION_ID

Q = TypeVar("Q", bound=AuthoredFields)

_AUTHORED_KEY = "authored"
_MAX_ESCAPED_BYTES = 6  # maximum size of one character in JSON, in bytes
# maximum length of an option in JSON without its label and description, in characters
_OPTION_OVERHEAD = 100
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
_OMITTED_IF_NONE = ("context", "when", "deadline_seconds", "deadline", "people")
_ID_RULE = "1 to 64 of the characters A-Z a-z 0-9 _ - (not beginning with __)"
_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x84\x85\x8d\u2028\u2029"
_LINE_BREAK = f"\r\n|[{_BREAKS}]"


def author(kind: type[Q], authored: object, limits: Limits, returns: object = None) -> Q:
    """Read a question from its JSON. Immutable questions are cached, because a tool that runs again
    asks the same questions.

    Raises:
        QuestionError: The question is invalid. `problems` lists every problem with a JSON Pointer,
            what is allowed, and how to fix it.
    """
    cache_key = None if returns is not None else _cache_key(kind, authored, limits)
    cached = _cache.get(cache_key)
    if cached is not None:
        return cached
    broken = json_problem(authored, limits.json_depth)
    if broken is not None:
        raise QuestionError([broken])
    question = _read(kind, authored, limits, returns)
    if cache_key is not None and stays_as_authored(question):
        if len(_cache) == _MAX_CACHED:
            _cache.clear()
        _cache[cache_key] = question
    return question


_CacheKey: TypeAlias = tuple[type, Limits, bytes]


def _cache_key(kind: type, authored: Any, limits: Limits) -> _CacheKey | None:
    """Return a cache key. Two keys are equal only if all values and their types are equal. None if
    a value is not plain data.
    """
    try:
        return kind, limits, marshal.dumps(authored, _MARSHAL_VERSION)
    except ValueError:
        return None


# the only version that always encodes equal values in the same way; later versions encode shared
# references
_MARSHAL_VERSION: Final = 0
_cache: Final[dict[_CacheKey | None, Any]] = {}
"""Recently authored questions."""
_MAX_CACHED: Final = 256


def _read(kind: type[Q], authored: object, limits: Limits, returns: object) -> Q:
    if not isinstance(authored, Mapping):
        raise QuestionError(
            [Findings.wrong("", "the question", "a JSON object", cast("Json", authored))]
        )
    reader = _Reader(cast("Mapping[str, Json]", authored), limits)
    question = reader.read(kind, returns)
    if reader.findings:
        raise QuestionError(reader.findings)
    if not _is_mutable(question):
        vars(question)[_AUTHORED_KEY] = _Authored(
            _question_limits(limits), _max_bytes(question, limits)
        )
    return question


_QuestionLimits: TypeAlias = tuple[int, int, int, int, int]


def _question_limits(limits: Limits) -> _QuestionLimits:
    """Return the limits for a single question. If other limits change, such as `shown`, the
    question does not have to be checked again.
    """
    return limits.question, limits.context, limits.options, limits.json_depth, limits.batch


class _Authored(Struct, frozen=True):
    """The limits under which an immutable question was checked, and an upper bound for the size
    of its JSON in bytes.
    """

    limits: _QuestionLimits
    max_bytes: int


def as_authored(questions: Sequence[AuthoredFields], limits: Limits) -> int | None:
    """Return an upper bound for the size of the questions' JSON in bytes. None if any of them must
    be checked again.

    A question does not have to be checked again if it is immutable and `author` checked it under
    the same limits for questions. A copy made with `replace` must be checked again.
    """
    wanted = _question_limits(limits)
    total = 0
    for question in questions:
        authored: _Authored | None = vars(question).get(_AUTHORED_KEY)
        if authored is None or authored.limits != wanted:
            return None
        total += authored.max_bytes
    return total


def stays_as_authored(question: AuthoredFields) -> bool:
    """Return whether a question was checked by `author`, with any limits, and is immutable."""
    return _AUTHORED_KEY in vars(question)


def _max_bytes(question: AuthoredFields, limits: Limits) -> int:
    """Return an upper bound for the size of a question's JSON in bytes, without encoding it."""
    if not isinstance(question.default, UnsetType | bool):
        return limits.batch
    match question.answer_type:
        case BooleanType() | TextType() | SecretType():
            return (limits.question + limits.context) * _MAX_ESCAPED_BYTES
        case SelectType(options=options):
            previews = sum(len(option.preview or "") for option in options)
            return (
                limits.question
                + limits.context
                + previews
                + len(options) * (2 * limits.question + _OPTION_OVERHEAD)
            ) * _MAX_ESCAPED_BYTES
        case _:
            return limits.batch


def _is_mutable(question: AuthoredFields) -> bool:
    return (
        isinstance(question.answer_type, SchemaType)
        or isinstance(question.default, list | dict)
        or not (question.when is None and question.people is None)
    )


def written(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return a question's fields as JSON. A field of the wrong type is left unchanged, so that the
    check reports it.
    """
    return {
        name: plain(value) if isinstance(value, Struct) else value
        for name, value in _with_deadline(fields).items()
        if value is not UNSET
        and name != "returns"
        and (value is not None or name not in _OMITTED_IF_NONE)
    }


def _with_deadline(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields with the deadline in its JSON form."""
    given = fields.get("deadline")
    if given is None or given is UNSET:
        return fields
    return {name: value for name, value in fields.items() if name != "deadline"} | deadline_as_json(
        given
    )


def plain(value: Struct) -> object:
    """Convert the value of a field, such as a `When`, to JSON. A value that cannot be represented
    as JSON is returned unchanged.
    """
    try:
        return cast("object", msgspec.to_builtins(value))
    except (TypeError, ValueError, RecursionError):
        return value


class _Reader:
    """Reads the fields one by one. Invalid fields get placeholder values, so that the other fields
    can be checked.
    """

    def __init__(self, authored: Mapping[str, Json], limits: Limits) -> None:
        self._limits = limits
        self.findings = Findings()
        self._fields = dict(authored)
        if "pre_amble" in self._fields:  # the former name of `context`
            if "context" in self._fields:
                self.findings.add(
                    "/pre_amble",
                    "`pre_amble` is the former name of `context`, which is also set. Keep only"
                    " `context`.",
                )
            self._fields.setdefault("context", self._fields.pop("pre_amble"))
            self._fields.pop("pre_amble", None)

    def read(self, kind: type[Q], returns: object) -> Q:
        self.findings.unknown_keys("", self._fields, _KEYS)
        # `unchecked`, because calling the class would check the question a second time
        build = cast("Callable[..., Q]", getattr(kind, "unchecked", kind))
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
            self.findings.add("/text", "the text is empty. Write the question in one line.")
        lines = len(re.findall(_LINE_BREAK, value)) + 1
        if lines > 1:
            self.findings.add(
                "/text",
                f"the text has {lines} lines, but must have one. Put multi-line text in `context`.",
            )
        if len(value) > self._limits.question:
            limit = f"{self._limits.question:,}"
            self.findings.add(
                "/text",
                f"the text has {len(value):,} characters; the limit is {limit}. Put details in"
                " `context`.",
            )
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
            self.findings.add(
                "/context",
                f"the context has {size:,} bytes; the limit is {self._limits.context:,}."
                " Shorten it.",
            )
        return value

    def _answer_type(self) -> AnswerType | None:
        value = self._required("answer_type", 'Give an object such as {"type": "boolean"}.')
        return None if value is UNSET else read_answer_type(value, self._limits, self.findings)

    def _with_default(self, question: Q) -> Q:
        """Validate the default, and add it to the question in canonical form."""
        default = self._fields.get("default", UNSET)
        if default is UNSET:
            return question
        if isinstance(question.answer_type, SecretType):
            self.findings.add(
                "/default",
                "a secret cannot have a default, because it would be stored and shown. Remove"
                " `default`.",
            )
            return question
        try:
            return msgspec.structs.replace(
                question, default=check_answer(question, default, self._limits.json_depth)
            )
        except AnswerError as error:
            for problem in error.problems:
                self.findings.add(
                    f"/default{problem.pointer}",
                    f"the default is not a valid answer: {problem.message}",
                )
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
                self.findings.add(
                    "/persistence", "a secret is never remembered. Remove `persistence`."
                )
            return cast("Persistence", value)
        self.findings.mistyped(
            "/persistence", "persistence", '"turn", "conversation" or "none"', value
        )
        return "turn"

    def _when(self) -> When | None:
        value = self._fields.get("when", UNSET)
        if value is UNSET:
            return None
        if not isinstance(value, Mapping):
            self.findings.mistyped(
                "/when",
                "when",
                'an object {"question_id": "<earlier id>", "equals": <answer>}',
                value,
            )
            return None
        self.findings.unknown_keys("/when", value, ("question_id", "equals"))
        question_id = value.get("question_id", UNSET)
        if not isinstance(question_id, str):
            self.findings.add(
                "/when/question_id",
                "`question_id` is missing or not a string. Name an earlier question of the form.",
            )
        if "equals" not in value:
            self.findings.add(
                "/when/equals",
                "`equals` is missing. Give the answer of the earlier question that makes this one"
                " asked.",
            )
        return When(question_id if isinstance(question_id, str) else "", value.get("equals"))

    def _deadline_seconds(self) -> float | None:
        value = self._fields.get("deadline_seconds", UNSET)
        if value is UNSET:
            return None
        if not is_number(value) or not SHORTEST <= value <= LONGEST:
            self.findings.add(
                "/deadline_seconds",
                f"{shown(value)} is not a valid duration. Give seconds, from {SHORTEST} to"
                f" {LONGEST:,}.",
            )
            return None
        return value

    def _deadline(self) -> str | None:
        value = self._fields.get("deadline", UNSET)
        if value is UNSET:
            return None
        if "deadline_seconds" in self._fields:
            self.findings.add("/deadline", "`deadline_seconds` is also set. Keep one of them.")
        moment = moment_of(value)
        if moment is None:
            self.findings.add(
                "/deadline",
                f"{shown(value)} is not a valid time. Give a date and a time with a time zone (RFC"
                " 3339), or `deadline_seconds`.",
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
        if (
            people.approvals > 1
            and answer_type is not None
            and (not isinstance(answer_type, BooleanType) or self._flag("optional"))
        ):
            message = (
                "`approvals` is only allowed for yes/no questions that are not optional. Remove"
                " `approvals`."
            )
            self.findings.add("/people/approvals", message)
        return people

    def _required(self, name: str, advice: str) -> Json | UnsetType:
        value = self._fields.get(name, UNSET)
        if value is UNSET:
            self.findings.add(f"/{name}", f"`{name}` is missing. {advice}")
        return value


def _is_secret(answer_type: object) -> bool:
    named = (
        cast("Mapping[str, object]", answer_type).get("type")
        if isinstance(answer_type, Mapping)
        else answer_type
    )
    return named == "secret"
