"""Hints for fields: describes bounds, formats and simple patterns in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from midturn.question.json_value import JsonObject
from midturn.terminal.prompts.keys import scalar_text

_LENGTHS: Final = (
    ("at least {} character{}", "minLength"),
    ("at most {} character{}", "maxLength"),
)
_FORMATS: Final = {
    "date": "a date",
    "time": "a time with its zone",
    "date-time": "a date and time with its zone",
    "email": "an e-mail address",
    "uri": "a URL, such as https://example.org/",
    "uuid": "a UUID",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
    "hostname": "a host name",
    "duration": "a duration, such as P1DT2H",
    "regex": "a regular expression",
}
_BOUNDS: Final = (
    ("at least {}", "minimum"),
    ("more than {}", "exclusiveMinimum"),
    ("at most {}", "maximum"),
    ("less than {}", "exclusiveMaximum"),
    ("a multiple of {}", "multipleOf"),
)
_ONE_CLASS: Final = re.compile(
    r"\^(?P<class>\\[dw]|\[(?:\\.|[^\]\\^])(?:\\.|[^\]\\])*\])(?P<count>[+*]|\{\d{1,4}(?:,\d{0,4})?\})?\$"
)
_KINDS: Final = {
    "a-z": "lower-case letters",
    "A-Z": "capital letters",
    "0-9": "digits",
    r"\d": "digits",
    r"\w": "letters, digits and _",
    " ": "spaces",
}
_PART: Final = re.compile(r"a-z|A-Z|0-9|\\[dw]|\\?.")


def text_hints(schema: JsonObject) -> list[str]:
    """Return hints about a valid string."""
    hints = [
        words.format(bound, "" if bound == 1 else "s")
        for words, key in _LENGTHS
        if (bound := schema.get(key)) is not None
    ]
    named = schema.get("format")
    hints += [_FORMATS[named]] if isinstance(named, str) and named in _FORMATS else []
    pattern = schema.get("pattern")
    return [*hints, pattern_words(pattern)] if isinstance(pattern, str) else hints


def number_hints(schema: JsonObject) -> list[str]:
    """Return hints about a valid number."""
    kind = "a whole number" if schema.get("type") == "integer" else "a number"
    return [
        kind,
        *(words.format(scalar_text(schema[key])) for words, key in _BOUNDS if key in schema),
    ]


def sentence(parts: Sequence[str]) -> str:
    """Join hints into a sentence."""
    joined = ", ".join(parts)
    return f"{joined[0].upper()}{joined[1:]}." if joined else ""


def pattern_words(pattern: str) -> str:
    """Describe a pattern: `^[a-z0-9-]{3,20}$` is "only lower-case letters, digits and -, 3 to 20
    of them".
    """
    found = _ONE_CLASS.fullmatch(pattern)
    if found is None:
        return f"in the form of the regular expression {pattern}"
    inside = found["class"].removeprefix("[").removesuffix("]")
    named = [_KINDS.get(part) or part.removeprefix("\\") for part in _PART.findall(inside)]
    if any(one == "-" for one in named[1:-1]):  # a range other than `a-z`, `A-Z` or `0-9`
        return f"in the form of the regular expression {pattern}"
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"only {listed}{_how_many(found['count'])}"


def _how_many(count: str | None) -> str:
    match (count or "{1}").strip("{}").split(","):
        case ["+"]:
            return ""
        case ["*"]:
            return ", or nothing"
        case [exactly]:
            return f", {exactly} of them" if exactly != "1" else ", one of them"
        case [least, ""]:
            return f", at least {least} of them"
        case [least, most]:
            return f", {least} to {most} of them"
        case _:
            return ""
