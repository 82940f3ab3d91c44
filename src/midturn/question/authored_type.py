"""Strict reader for authored answer types. Reports every problem with a JSON Pointer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeGuard, cast

from midturn.errors import Problem
from midturn.question import answer_type as answers
from midturn.question.json_value import Json, Limits, canonical, pointer_to, shown
from midturn.question.schema import check_schema
from midturn.question.text import did_you_mean

# Collect problems, so that all of them are reported together
# ----------------------------------------------------------


_MAX_REPORTED = 20  # maximum number of unknown keys that are reported with suggestions


class Findings(list[Problem]):
    """The problems found so far, each with a JSON Pointer and advice on how to fix it."""

    def add(self, pointer: str, message: str) -> None:
        """Add a problem."""
        self.append(Problem(pointer, message))

    def mistyped(self, pointer: str, name: str, expected: str, value: Json) -> None:
        """Add a problem about a value of the wrong type."""
        self.append(self.wrong(pointer, f"`{name}`", expected, value))

    @staticmethod
    def wrong(pointer: str, what: str, expected: str, value: Json) -> Problem:
        """Return a problem about a value of the wrong type."""
        return Problem(pointer, f"{what} must be {expected}, not {shown(value)}.")

    def unknown_keys(self, pointer: str, keys: Iterable[str], known: Sequence[str]) -> None:
        """Add a problem for each unknown key, up to a limit, with the most similar known key or a
        list of all known keys.
        """
        unknown = [key for key in keys if key not in known]
        if not unknown:
            return

        for key in unknown[:_MAX_REPORTED]:
            near = did_you_mean(key, known) if len(self) < _MAX_REPORTED else ""
            self.add(
                pointer_to(pointer, key), f"unknown key {shown(key)}.{near or _allowed(known)}"
            )
        if len(unknown) > _MAX_REPORTED:
            self.add(
                pointer, f"{len(unknown) - _MAX_REPORTED:,} more unknown keys.{_allowed(known)}"
            )


def _allowed(known: Sequence[str]) -> str:
    return (
        f" Allowed keys: {', '.join(f'`{name}`' for name in known)}."
        if known
        else " No keys are allowed here."
    )


_TYPE_KEYS: Mapping[str, tuple[str, ...]] = {
    "boolean": (),
    "select": ("options", "allow_other"),
    "multi_select": ("options", "min", "max", "allow_other"),
    "text": (),
    "secret": (),
    "schema": ("schema",),
}
_TYPES_WITHOUT_FIELDS: Mapping[object, answers.AnswerType] = {
    "boolean": answers.BooleanType(),
    "text": answers.TextType(),
    "secret": answers.SecretType(),
}
_POINTER = "/answer_type"
_OPTION_TEXTS = ("description", "preview")
_MAX_FULL_PREVIEWS = 4
"""Limit on the total size of a question's previews, as a multiple of the maximum size of one
preview.
"""


def read_answer_type(value: Json, limits: Limits, findings: Findings) -> answers.AnswerType | None:
    """Return the answer type, or None if it cannot be used to validate answers. Problems are added
    to `findings`.
    """
    if not isinstance(value, Mapping):
        findings.mistyped(_POINTER, "answer_type", 'an object such as {"type": "boolean"}', value)
        return None
    tag = value.get("type")
    keys = _TYPE_KEYS.get(tag) if isinstance(tag, str) else None
    if keys is None:
        problem = f"unknown answer type {shown(tag)}" if "type" in value else "`type` is missing"
        findings.add(f"{_POINTER}/type", f"{problem}. Use one of {', '.join(_TYPE_KEYS)}.")
        return None
    findings.unknown_keys(_POINTER, value, ("type", *keys))
    if tag == "schema":
        return _schema(value, findings)
    return _choice(value, limits, findings) if "options" in keys else _TYPES_WITHOUT_FIELDS[tag]


def _schema(value: Mapping[str, Json], findings: Findings) -> answers.SchemaType | None:
    schema = value.get("schema")
    if not isinstance(schema, Mapping):
        findings.add(
            f"{_POINTER}/schema", "`schema` is missing or not an object. Give a JSON Schema."
        )
        return None
    problems = check_schema(schema)
    for problem in problems:
        findings.add(f"{_POINTER}/schema{problem.pointer}", problem.message)
    crossed = () if problems else crossed_bounds(schema)
    for lower, least, upper, most in crossed:
        findings.add(
            f"{_POINTER}/schema/{lower}",
            f"`{lower}` is {least}, which is greater than `{upper}` ({most}). Lower it.",
        )
    return None if problems or crossed else answers.SchemaType(schema)


def _choice(
    value: Mapping[str, Json], limits: Limits, findings: Findings
) -> answers.SelectType | answers.MultiSelectType | None:
    before = len(findings)
    options = _options(value, limits, findings)
    allow_other = value.get("allow_other", False)
    if not isinstance(allow_other, bool):
        findings.mistyped(f"{_POINTER}/allow_other", "allow_other", "true or false", allow_other)
        allow_other = False
    if value["type"] == "select":
        chosen = answers.SelectType(options, allow_other)
    else:
        least, most = _bounds(value, len(options) + allow_other, findings)
        chosen = answers.MultiSelectType(options, least, most, allow_other)
    return chosen if len(findings) == before else None


def _bounds(
    value: Mapping[str, Json], available: int, findings: Findings
) -> tuple[int, int | None]:
    """Read `min` and `max`: 0 ≤ min ≤ max, 1 ≤ max, and min is at most the number of options."""
    least, most = value.get("min", 0), value.get("max", available)
    if not _is_count(least):
        findings.mistyped(f"{_POINTER}/min", "min", "a whole number, 0 or more", least)
        least = 0
    if not _is_count(most) or most < 1:
        findings.mistyped(f"{_POINTER}/max", "max", "a whole number, 1 or more", most)
        most = available
    if least > available:
        findings.add(
            f"{_POINTER}/min",
            f"`min` is {least}, but there are only {available} choices. Lower it.",
        )
    elif least > most:
        findings.add(
            f"{_POINTER}/min", f"`min` is {least}, which is greater than `max` ({most}). Lower it."
        )
    return least, most if "max" in value else None


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _options(
    value: Mapping[str, Json], limits: Limits, findings: Findings
) -> tuple[answers.SelectOption, ...]:
    given = value.get("options")
    if not isinstance(given, list | tuple):
        if given is None:
            findings.add(
                f"{_POINTER}/options", "`options` is missing. List 1 or more values to choose from."
            )
        else:
            findings.mistyped(
                f"{_POINTER}/options", "options", "a list of 1 or more values to choose from", given
            )
        return ()
    listed = cast("Sequence[Json]", given)
    if not 1 <= len(listed) <= limits.options:
        findings.add(
            f"{_POINTER}/options",
            f"{len(listed)} options are given; the number must be 1 to {limits.options}.",
        )
        return ()
    options = [
        _option(item, f"{_POINTER}/options/{place}", findings) for place, item in enumerate(listed)
    ]
    read = [(place, option) for place, option in enumerate(options) if option is not None]
    too_long = [
        place
        for place, option in read
        if max(len(option.label), len(option.description or "")) > limits.question
    ]
    for place in too_long:
        findings.add(
            f"{_POINTER}/options/{place}",
            f"the option is too long; the limit is {limits.question:,} characters. Shorten it.",
        )
    _check_previews(read, limits, findings)
    _distinct([(place, option) for place, option in read if place not in too_long], findings)
    return tuple(option for _, option in read)


def _option(given: Json, pointer: str, findings: Findings) -> answers.SelectOption | None:
    """Read a scalar, or an object with `value` and optionally `description` and `preview`."""
    fields: Mapping[str, Json] = given if isinstance(given, Mapping) else {"value": given}
    findings.unknown_keys(pointer, fields, ("value", *_OPTION_TEXTS))
    texts: dict[str, str] = {}
    for name in _OPTION_TEXTS:
        text = fields.get(name)
        if isinstance(text, str):
            texts[name] = text
        elif name in fields:
            findings.mistyped(f"{pointer}/{name}", name, "a string", text)
    value = fields.get("value")
    if isinstance(value, bool | int | float | str):
        return answers.SelectOption(value, texts.get("description"), texts.get("preview") or None)
    findings.add(
        pointer,
        f"{shown(given)} is not an option. Give a string, number or boolean, or an object with such"
        " a `value`.",
    )
    return None


def _check_previews(
    options: Sequence[tuple[int, answers.SelectOption]], limits: Limits, findings: Findings
) -> None:
    """Check the sizes of previews. One preview may have the maximum size of a context, and all
    together four times that size.
    """
    sizes = {
        place: len(option.preview.encode(errors="replace"))
        for place, option in options
        if option.preview
    }
    for place, size in sizes.items():
        if size > limits.context:
            findings.add(
                f"{_POINTER}/options/{place}/preview",
                f"the preview has {size:,} bytes; the limit is {limits.context:,}. Shorten it.",
            )
    most = _MAX_FULL_PREVIEWS * limits.context
    if sum(sizes.values()) > most:
        message = (
            f"the previews together have {sum(sizes.values()):,} bytes; the limit is {most:,}."
            " Shorten them."
        )
        findings.add(f"{_POINTER}/options", message)


def _distinct(options: Sequence[tuple[int, answers.SelectOption]], findings: Findings) -> None:
    """Reject options that are equal or that a person cannot distinguish."""
    values: dict[bytes, int] = {}
    labels: dict[str, int] = {}
    for place, option in options:
        value, label = canonical(option.value), answers.folded(option.label)
        same, alike = values.setdefault(value, place), labels.setdefault(label, place)
        if same != place:
            findings.add(
                f"{_POINTER}/options/{place}",
                f"{shown(option.value)} has the same value as /options/{same}. Remove one.",
            )
        elif alike != place:
            findings.add(
                f"{_POINTER}/options/{place}",
                f"{shown(option.value)} looks the same as /options/{alike}. Use distinct labels.",
            )


# Contradictory bounds: valid JSON Schema, but no value satisfies them
# ----------------------------------------------------


_PAIRS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)


class CrossedBounds(NamedTuple):
    """A lower bound that is greater than the upper bound of the same value."""

    lower: str
    least: float
    upper: str
    most: float


def crossed_bounds(schema: Mapping[str, Json]) -> Sequence[CrossedBounds]:
    """Return the contradictory bounds at the top level of a schema."""
    pairs = ((lower, schema.get(lower), upper, schema.get(upper)) for lower, upper in _PAIRS)
    return [
        CrossedBounds(lower, least, upper, most)
        for lower, least, upper, most in pairs
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most
    ]
