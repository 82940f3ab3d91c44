"""The six answer types, tagged by `type` in JSON, and the fields of a question."""

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


_MAX_COMPARED_LENGTH = 512


class OtherAnswer(TypedDict):
    """An answer that is not one of the options, as text. Allowed if `allow_other` is set."""

    other: str


class SelectOption(Struct, Generic[Value_co], frozen=True, omit_defaults=True):
    """One option.

    Args:
        value: The answer if this option is chosen.
        description: Explanation, shown next to the value.
        preview: Multi-line preformatted text that shows the result of the choice: a mock-up, code
            or a diff. It is shown while the option is highlighted. At most 16 KiB, and 64 KiB for
            all options of a question.
    """

    value: Value_co
    description: str | None = None
    preview: str | None = None

    @property
    def label(self) -> str:
        """The value as shown to a person: a string unchanged, anything else as JSON."""
        return label_of(self.value)


class _Tagged(Struct, frozen=True):
    @property
    def type(self) -> str:
        """The type's tag in JSON, such as `boolean`."""
        return cast("str", self.__struct_config__.tag)


class BooleanType(_Tagged, frozen=True, tag="boolean"):
    """`true` or `false`, but not `"true"` or `1`."""


class SelectType(_Tagged, frozen=True, omit_defaults=True, tag="select"):
    """Exactly one of 1 to 200 options, or `{"other": "<text>"}` if `allow_other` is set.

    Args:
        options: The options, in the order in which they are shown.
    """

    options: tuple[SelectOption, ...]
    allow_other: bool = False


class MultiSelectType(_Tagged, frozen=True, omit_defaults=True, tag="multi_select"):
    """Between `min` and `max` options (None: no limit), in option order. `{"other": …}` comes last.

    Args:
        options: The options, in the order in which they are shown.
        allow_other: Whether the person may add an answer in their own words.
    """

    options: tuple[SelectOption, ...]
    min: int = 0
    max: int | None = None
    allow_other: bool = False


class TextType(_Tagged, frozen=True, tag="text"):
    """A string."""


class SecretType(_Tagged, frozen=True, tag="secret"):
    """A string that is never stored, logged, shown, cached or sent to a model."""


class SchemaType(_Tagged, frozen=True, tag="schema"):
    """Any JSON value that is valid under `schema`. Schemas use the subset described in
    docs/reference/questions.md.
    """

    schema: JsonObject


class UnknownType:
    """An answer type from a newer version. The type is preserved in `raw`, shown by its name, and
    cannot be used in new questions.

    The class is not a `Struct`, so that msgspec encodes the type with `to_json`, exactly as it
    was read.
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


AnswerType: TypeAlias = (
    BooleanType | SelectType | MultiSelectType | TextType | SecretType | SchemaType
)
PersistedType: TypeAlias = AnswerType | UnknownType


class TypeTerms(Protocol):
    """The fields that determine which answers are valid."""

    @property
    def answer_type(self) -> AnswerType:
        """The type of the answer."""
        ...

    @property
    def optional(self) -> bool:
        """Whether `null` is a valid answer."""
        ...


class BareType(Struct, frozen=True):
    """A minimal `TypeTerms`, for a recorded question whose type is known to this version."""

    answer_type: AnswerType
    optional: bool


def label_of(value: Scalar) -> str:
    """Return the text shown to a person for an option's value."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def has_previews(answer_type: PersistedType) -> bool:
    """Return whether any option has a preview."""
    return isinstance(answer_type, SelectType | MultiSelectType) and any(
        option.preview for option in answer_type.options
    )


def folded(label: str) -> str:
    """Normalize a label for comparison: NFKC, case folding, trimming.

    Only the first 512 characters are compared, because normalizing takes quadratic time for long
    runs of combining marks.
    """
    return unicodedata.normalize(
        "NFKC", unicodedata.normalize("NFKC", label[:_MAX_COMPARED_LENGTH]).casefold()
    ).strip()


# Fields of a question
# --------------------------------------------------------------------------------------------------


Persistence: TypeAlias = Literal["none", "turn", "conversation"]
"""How long a person can have an answer remembered: not at all, for the turn, or for the
conversation.
"""


class When(Struct, frozen=True):
    """Ask only if an earlier question of the form has exactly this answer.

    Args:
        question_id: The id of the earlier question.
        equals: The answer to the earlier question that makes midturn ask this question.
    """

    question_id: str
    equals: Json


class AuthoredFields(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The fields of a question, in the order in which they are written. See `Question`.

    `dict=True` lets `author` mark a question as checked. Copies do not have this mark.
    """

    id: str
    # hidden from type checkers: `Question` has a descriptor of this name, which mypy would treat as
    # a frozen field
    if TYPE_CHECKING:

        @property
        def text(self) -> str:
            """The question, in one line."""
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


# --------------------------------------------------------------------------------------------------
# Lenient reader for recorded answer types, which an older or newer version may have written


_WITHOUT_FIELDS: Mapping[str, BooleanType | TextType | SecretType] = {
    "boolean": BooleanType(),
    "text": TextType(),
    "secret": SecretType(),
}
TYPES_WITHOUT_FIELDS = frozenset(map(type, _WITHOUT_FIELDS.values()))
"""Answer types without fields."""
_WITH_FIELDS: Mapping[str, type[SelectType | MultiSelectType | SchemaType]] = {
    "select": SelectType,
    "multi_select": MultiSelectType,
    "schema": SchemaType,
}


def read_persisted_type(raw: JsonObject) -> PersistedType:
    """Return the answer type. A type that this version does not support or cannot read becomes an
    `UnknownType`.
    """
    tag = raw.get("type")
    name = tag if isinstance(tag, str) else ""
    if (plain := _WITHOUT_FIELDS.get(name)) is not None:
        return plain
    known = _WITH_FIELDS.get(name)
    if known is None:
        return UnknownType(name, raw)
    options = raw.get("options")
    objects = _as_objects(options)
    normalized = raw if objects is options else {**raw, "options": objects}
    try:
        return msgspec.convert(normalized, known)
    except msgspec.ValidationError:
        return UnknownType(name, raw)


def _as_objects(options: Json) -> Json:
    """Replace each bare scalar by the equivalent object."""
    if not isinstance(options, list | tuple):
        return options
    # fast path for options written by midturn, because checking for `Mapping` is slow
    if all(type(option) is dict for option in options):
        return options
    return [option if isinstance(option, Mapping) else {"value": option} for option in options]
