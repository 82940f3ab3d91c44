"""The six types of answers, tagged by `type` on the wire, and the fields of a question."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypedDict, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.question.json_value import Json, JsonObject, Scalar, canonical
from midturn.question.people import People

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Value_co = TypeVar("Value_co", bound=Scalar, covariant=True, default=Scalar)
else:
    from typing import TypeVar

    Value_co = TypeVar("Value_co", bound=Scalar, covariant=True)


_LONGEST_LABEL = 512


class OtherAnswer(TypedDict):
    """An answer in a person's own words, where `allow_other` is set."""

    other: str


class SelectOption(Struct, Generic[Value_co], frozen=True, omit_defaults=True):
    """One choice: its value, and what it means where the value alone does not say it.

    Args:
        value: What is answered.
        description: What it means, shown beside it.
        preview: Text of several lines that shows what the choice leads to: a mock-up, code or a diff. It is shown character by character
            while the choice is highlighted. At most 16 KiB, and 64 KiB in one question.
    """

    value: Value_co
    description: str | None = None
    preview: str | None = None

    @property
    def label(self) -> str:
        """The value as a person reads it: a string as it is, anything else as JSON."""
        return label_of(self.value)


class _Tagged(Struct, frozen=True):
    @property
    def type(self) -> str:
        """The tag of the type, as it is on the wire, such as `boolean`."""
        return cast("str", self.__struct_config__.tag)


class BooleanType(_Tagged, frozen=True, tag="boolean"):
    """`true` or `false`; never `"true"`, never `1`."""


class SelectType(_Tagged, frozen=True, omit_defaults=True, tag="select"):
    """Exactly one of 1 to 200 options, or `{"other": "<text>"}` where `allow_other` is set.

    Args:
        options: The options in the order in which they are shown.
    """

    options: tuple[SelectOption, ...]
    allow_other: bool = False


class MultiSelectType(_Tagged, frozen=True, omit_defaults=True, tag="multi_select"):
    """Any number of options between `min` and `max` (None: all), in option order; `{"other": …}` comes last.

    Args:
        options: The options in the order in which they are shown.
        allow_other: Whether the person may add one in their own words.
    """

    options: tuple[SelectOption, ...]
    min: int = 0
    max: int | None = None
    allow_other: bool = False


class TextType(_Tagged, frozen=True, tag="text"):
    """A string."""


class SecretType(_Tagged, frozen=True, tag="secret"):
    """A string that is never stored, logged, shown, cached, or sent to a model."""


class SchemaType(_Tagged, frozen=True, tag="schema"):
    """Any JSON that is valid under `schema`, which is written in the closed subset of docs/questions.md."""

    schema: JsonObject


class UnknownType:
    """An answer type of a newer version: read, kept as `raw`, shown by its name `type`, and never authored.

    No `Struct`, so that msgspec writes it through `to_json`, exactly as it was read.
    """

    __match_args__ = ("type", "raw")
    __slots__ = ("raw", "type")

    def __init__(self, type: str, raw: JsonObject) -> None:
        self.type = type
        self.raw = raw

    def to_json(self) -> JsonObject:
        """Return the answer type as it was read."""
        return self.raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownType) and canonical(self.raw) == canonical(other.raw)

    def __hash__(self) -> int:
        return hash(canonical(self.raw))

    def __repr__(self) -> str:
        return f"UnknownType({self.type!r}, {self.raw!r})"


AnswerType: TypeAlias = BooleanType | SelectType | MultiSelectType | TextType | SecretType | SchemaType
PersistedType: TypeAlias = AnswerType | UnknownType


class TypeTerms(Protocol):
    """Terms that decide which answers fit: the type, and whether the question may be skipped."""

    @property
    def answer_type(self) -> AnswerType:
        """The type of the answer."""
        ...

    @property
    def optional(self) -> bool:
        """Whether `null` is an answer."""
        ...


class BareType(Struct, frozen=True):
    """The same by itself, for a question whose type is known to be one of ours."""

    answer_type: AnswerType
    optional: bool


def label_of(value: Scalar) -> str:
    """Return what a person reads for an option's value."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def has_previews(answer_type: PersistedType) -> bool:
    """Return whether an option has a preview."""
    return isinstance(answer_type, SelectType | MultiSelectType) and any(option.preview for option in answer_type.options)


def folded(label: str) -> str:
    """Reduce a label to what two options must differ in: NFKC, case folding, trimming.

    Only the beginning of an enormous one counts: no one reads on, and normalizing takes time that grows with the square of the marks in
    a row.
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label[:_LONGEST_LABEL]).casefold()).strip()


# Fields of a question -------------------------------------------------------------------------------------------------


Persistence: TypeAlias = Literal["none", "turn", "conversation"]
"""How long an answer may be remembered: not at all, for the turn, or, if the person chooses so, for the conversation."""


class When(Struct, frozen=True):
    """Ask only if an earlier question of the form was answered with exactly this value.

    Args:
        question_id: The id of the earlier question.
        equals: The answer with which this one is asked.
    """

    question_id: str
    equals: Json


class AuthoredFields(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The fields of a question, in the order in which they are written; see `Question`.

    (`dict` is where `author` notes that it has checked a question; a copy does not take that along.)
    """

    id: str
    if TYPE_CHECKING:  # no field for type checkers: `Question` has a descriptor of this name, which mypy would freeze as one

        @property
        def text(self) -> str:
            """The question, one line."""
            ...

    else:
        text: str
    context: str | None = None
    answer_type: AnswerType
    default: Json | UnsetType = UNSET
    exclusive: bool = False
    persistence: Persistence = "turn"
    optional: bool = False
    when: When | None = None
    deadline_seconds: float | None = None
    deadline: str | None = None
    people: People | None = None
    returns: Any = None


# ----------------------------------------------------------------------------------------------------------------------
# The lenient reader of recorded answer types: anything that an older or newer version wrote


_WITHOUT_FIELDS: Mapping[str, BooleanType | TextType | SecretType] = {"boolean": BooleanType(), "text": TextType(), "secret": SecretType()}
TYPES_WITHOUT_FIELDS = frozenset(map(type, _WITHOUT_FIELDS.values()))
"""Types of answers that say all by their names."""
_KNOWN: Mapping[str, type[SelectType | MultiSelectType | SchemaType]] = {
    "select": SelectType,
    "multi_select": MultiSelectType,
    "schema": SchemaType,
}


def read_persisted_type(raw: JsonObject) -> PersistedType:
    """Return the answer type; one that this version does not know, or cannot read, is kept as it is."""
    tag = raw.get("type")
    name = tag if isinstance(tag, str) else ""
    if (plain := _WITHOUT_FIELDS.get(name)) is not None:
        return plain
    known = _KNOWN.get(name)
    if known is None:
        return UnknownType(name, raw)
    options = raw.get("options")
    objects = _as_objects(options)
    whole = raw if objects is options else {**raw, "options": objects}
    try:
        return msgspec.convert(whole, known)
    except msgspec.ValidationError:
        return UnknownType(name, raw)


def _as_objects(options: Json) -> Json:
    """Write each bare scalar as the object that it stands for."""
    if not isinstance(options, list | tuple):
        return options
    if all(type(option) is dict for option in options):  # as we write them; asking a class for `Mapping` is slow
        return options
    return [option if isinstance(option, Mapping) else {"value": option} for option in options]
