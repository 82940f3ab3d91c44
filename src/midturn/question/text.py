r"""Make foreign text safe to show, and validate names, texts and timestamps.

A character that controls a terminal or is invisible is replaced by its code in brackets, such as
`⟨U+202E⟩`. The opening bracket itself is replaced as well. Joiners and variation selectors are kept
inside emoji and between letters of scripts that use them (Persian, Hindi). Elsewhere, for example
in Latin text, they become codes.

Three functions return text that is safe to show:

- `exact(text)`: one line (questions, options, titles, paths, log values). Line breaks and tabs also
  become codes.
- `exact_block(text)`: several lines (diffs, arguments, context that is not Markdown). Only `\n` is
  kept.
- `prose(text)`: output from a model or a tool. `\n` is kept and a tab becomes four spaces. Unusual
  spaces and private and unassigned characters are also kept.

The result of `exact` and `exact_block` can be converted back, by replacing each code by its
character. At most four combining marks are kept on a letter, so that they cannot cover other lines.

Each character is processed separately (a joiner together with its neighbours), so a stream can be
split anywhere. A joiner next to a split becomes a code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from re import Match
from typing import Final, Literal, TypeAlias

from msgspec import to_builtins

_BRACKET = "\u27e8"
_MAX_MARKS = 4  # maximum number of combining marks on one letter
_MAX_CACHED = 16_384  # maximum number of cached characters per profile
_COMMANDS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, formats, surrogates, separators
_UNCERTAIN = frozenset({"Co", "Cn", "Zs"})  # private use, unassigned, and space separators
# invisible letters, marks and symbols, and code points that are ignorable in any Unicode version
_INVISIBLE = (
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffc\ufdd0-\ufdef"
    "\U00013441\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_NONCHARACTER = 0xFFFE  # the last two code points of every plane

# possibly stacked marks: at the start of a line, or more than four in a row
_STACKED_MARKS = r"(?<![^\n])[^\w\x20-\x7e\n]+|[^\w\x20-\x7e\n\u2010-\u2027\u2030-\u205e\u2190-\u27bf\u3001-\u3029\uff01-\uff0f]{5,}"
_JOINER = "[\u200c\u200d\ufe0e\ufe0f]"
_EMOJI_JOINER = "\u200d"
_SELECTORS = frozenset("\ufe0e\ufe0f")
# allowed between a pictograph and its joiner
_MODIFIERS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_KEYS = frozenset("0123456789#*")
_VIRAMA = 9
"""Combining class of the signs that remove a vowel in Indic scripts."""
_KEYCAP = "\u20e3"
_PICTURE = (
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_JOINING = "[\u0600-\u07ff\u0840-\u086f\u08a0-\u0dff\u0f00-\u109f\u1780-\u18af\ua840-\ua87f\U00010d00-\U00010d3f\U0001e900-\U0001e95f]"


def exact(text: str) -> str:
    """Return one line that shows every character of `text`. `text` can be restored from it."""
    return _render(text, _LINE)


def exact_block(text: str) -> str:
    """Return `exact` of every line, keeping the newlines."""
    return _render(text, _BLOCK)


def prose(text: str) -> str:
    """Return text for reading, without characters that control a terminal."""
    return _render(text, _PROSE)


def hidden_places(text: str) -> frozenset[int]:
    """Return the indexes of the characters that `exact_block` replaces by codes."""
    shown = exact_block(text)
    if shown == text:
        return frozenset()
    found: set[int] = set()
    at = 0
    for place, character in enumerate(text):
        code = _code(character)
        is_coded = shown.startswith(code, at)
        at += len(code) if is_coded else 1
        if is_coded:
            found.add(place)
    return frozenset(found)


class _Profile(dict[int, str]):
    """Replacements of characters by code point, cached because most texts use few different
    characters.
    """

    def __init__(self, is_coded: Callable[[str], bool], special: Mapping[str, str]) -> None:
        super().__init__({ord(character): text for character, text in special.items()})
        self._is_coded = is_coded

    @cached_property
    def ascii(self) -> Mapping[int, str]:
        """Replacements of ASCII characters."""
        return {code: self[code] for code in range(128)}

    def __missing__(self, code: int) -> str:
        character = chr(code)
        text = _code(character) if self._is_coded(character) else character
        if len(self) < _MAX_CACHED:
            self[code] = text
        return text


def _render(text: str, profile: _Profile) -> str:
    if text.isascii():  # ASCII text needs only a table
        return text.translate(profile.ascii)
    return re.sub(_STACKED_MARKS, _limit_marks, re.sub(_JOINER, _joiner, text.translate(profile)))


def _limit_marks(run: Match[str]) -> str:
    """Keep at most four combining marks on a letter, and none without a letter. Others become
    codes.
    """
    start = run.start()
    marks = 0 if start and run.string[start - 1] != "\n" else _MAX_MARKS
    output: list[str] = []
    for character in run[0]:
        if re.match(_JOINER, character):
            output.append(character)
        elif unicodedata.category(character) in {"Mn", "Me"}:
            marks += 1
            output.append(character if marks <= _MAX_MARKS else _code(character))
        else:
            marks = 0
            output.append(character)
    return "".join(output)


def _joiner(found: Match[str]) -> str:
    """Keep a joiner that is used correctly, and replace any other by its code."""
    return found[0] if _joins(found.string, found.start()) else _code(found[0])


def _code(character: str) -> str:
    return f"{_BRACKET}U+{ord(character):04X}\u27e9"


def _is_command(character: str) -> bool:
    """Return whether the character controls a terminal or is invisible."""
    return (
        unicodedata.category(character) in _COMMANDS
        or character == _BRACKET
        or (not character.isascii() and re.match(_INVISIBLE, character) is not None)
        or ord(character) & _NONCHARACTER == _NONCHARACTER
    )


def _is_hidden(character: str) -> bool:
    """Return whether a person cannot recognize the character on screen."""
    return character != " " and (
        _is_command(character) or unicodedata.category(character) in _UNCERTAIN
    )


def _joins(text: str, place: int) -> bool:
    """Return whether a joiner or selector is used correctly: inside an emoji, or between letters
    of a joining script.
    """
    character, before, after = (
        text[place],
        text[max(place - 1, 0) : place],
        text[place + 1 : place + 2],
    )
    if character in _SELECTORS:
        return re.match(_PICTURE, before) is not None or (before in _KEYS and after == _KEYCAP)
    if character == _EMOJI_JOINER and re.match(_PICTURE, after):
        picture = text[max(place - 3, 0) : place].rstrip(_MODIFIERS)[-1:]
        return re.match(_PICTURE, picture) is not None
    if character == _EMOJI_JOINER and before and unicodedata.combining(before) == _VIRAMA:
        return True  # a half form, which may end a word
    return _is_joining(before) and _is_joining(after)


def _is_joining(character: str) -> bool:
    return re.match(_JOINING, character) is not None and unicodedata.category(character)[0] in "LM"


_JOINERS = {joiner: joiner for joiner in "\u200c\u200d\ufe0e\ufe0f"}
_LINE = _Profile(_is_hidden, _JOINERS)
_BLOCK = _Profile(_is_hidden, {"\n": "\n", **_JOINERS})
_PROSE = _Profile(_is_command, {"\n": "\n", "\t": "    ", **_JOINERS})


# Validate string arguments
# --------------------------------------------------------------------------------------------------
# A value of another type could be recorded, but not read again.


def check_text(name: str, given: object) -> None:
    """Raise if an argument is not a string.

    Args:
        name: Name of the argument.
        given: Value of the argument.

    Raises:
        TypeError: The value is not a string.
    """
    if not isinstance(given, str):
        raise TypeError(f"`{name}` must be a string, not {given!r:.80}.{_way_out(given)}")


def check_text_or_none(name: str, given: object) -> None:
    """Raise if an argument is neither a string nor None."""
    if given is not None:
        check_text(name, given)


def _way_out(given: object) -> str:
    return (
        " Convert a number with `str(…)`."
        if isinstance(given, int) and not isinstance(given, bool)
        else ""
    )


# Suggestions for misspelt words
# --------------------------------------------------------------------------------------------------


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known word, or None if none is similar."""
    from difflib import get_close_matches  # imported here because it is needed only for errors

    return next(iter(get_close_matches(word[:128], list(known), n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean `x`?` with the most similar known word, or an empty string."""
    near = nearest(word, known)
    return f" Did you mean `{near}`?" if near else ""


def sha256(data: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    import hashlib  # imported here because it loads OpenSSL, which most commands do not need

    return hashlib.sha256(data).hexdigest()


# Names of tools, providers and questions
# --------------------------------------------------------------------------------------------------


NAME: Final = r"[A-Za-z0-9_-]{1,64}"
"""Pattern for names of tools and providers."""

PERSON: Final = r"[\w.@+-]{1,64}"
"""Pattern for names of people and groups."""

QUESTION_ID: Final = rf"(?!__){NAME}"
"""Pattern for ids of questions. Ids that start with `__` are reserved."""

_MAX_QUESTION_LENGTH: Final = 2_048  # maximum length of a question's text, in characters
_EXTRA_LINE_BREAKS: Final = {0x84: " ", 0x8D: " "}
"""Line breaks that Python does not treat as white space, and their replacement."""


def cut_to_bytes(text: str, most: int) -> str:
    """Truncate text to at most `most` bytes, without splitting a character."""
    return text.encode()[:most].decode(errors="ignore")


def single_line(text: str) -> str:
    """Convert text from another program to a single line, as required for a question."""
    line = " ".join(text.translate(_EXTRA_LINE_BREAKS).split())
    return line if len(line) <= _MAX_QUESTION_LENGTH else f"{line[: _MAX_QUESTION_LENGTH - 1]}…"


OutputProtocol: TypeAlias = Literal["text", "outcome"]
"""Output of a command tool: the text of the result, or an outcome as JSON."""

ASK_USER: Final = "ask_user"
DESCRIBE_TOOLS: Final = "describe_tools"
BUILT_IN_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    ASK_USER: (),
    DESCRIBE_TOOLS: (),
    "fs_list_files": (),
    "fs_read_file": (),
    "fs_grep_files": (),
    "fs_create_file": ("overwrite_file",),
    "fs_modify_file": ("apply_changes",),
    "fs_delete_file": ("confirm",),
    "fs_move_file": ("confirm",),
}
"""The built-in tools and the ids of their questions. The model chooses the ids in `ask_user`."""


# Names of people, groups, logins and accounts
# --------------------------------------------------------------------------------------------------


_IGNORABLE: Final = (  # code points with the property Default_Ignorable_Code_Point
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_CONTROL: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


def canonical_name(name: str) -> str:
    """Return the canonical form in which names of people, groups, logins and accounts are compared.

    It is NFKC, case-folded, trimmed and without default-ignorable code points. Names with the same
    canonical form refer to the same person.

    Args:
        name: The name as configured, typed or sent.

    Raises:
        ValueError: The name contains a control character, or does not contain a visible character.
    """
    if found := re.search(_CONTROL, name):
        raise ValueError(
            f"the name {name!r:.80} contains the control character U+{ord(found[0]):04X}."
            " Remove it."
        )
    if not (key := name_key(name)):
        raise ValueError(f"the name {name!r:.80} is empty. Use at least one visible character.")
    return key


@lru_cache(maxsize=4_096)
def name_key(name: str) -> str:
    """Return the canonical form of a recorded name, as `canonical_name` but without validation."""
    if name.isascii():
        return name.strip().casefold()
    key, previous = name, None
    while key != previous:  # case folding may produce text that NFKC changes again
        previous, key = (
            key,
            unicodedata.normalize("NFKC", re.sub(_IGNORABLE, "", key)).casefold().strip(),
        )
    return key


def is_same_name(left: str, right: str) -> bool:
    """Return whether two names have the same canonical form."""
    return left == right or name_key(left) == name_key(right)


# Timestamps in the format of events
# --------------------------------------------------------------------------------------------------


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)"


def seconds_of(duration: str) -> float | None:
    """Convert a duration such as `90s`, `2m` or `90d` to seconds. None if it is invalid."""
    found = re.fullmatch(_DURATION, duration, re.ASCII)
    return float(found[1]) * _UNITS[found[2]] if found else None


def rfc3339(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC with six fractional digits, so that timestamps can be
    sorted as text.
    """
    in_utc = moment.astimezone(UTC)  # a UTC offset may include microseconds
    text = str(to_builtins(in_utc))  # four times as fast as `isoformat`
    return text if in_utc.microsecond else f"{text[:-1]}.000000Z"
