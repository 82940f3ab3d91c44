r"""The one sink for text from outside, and the rules for names, words and timestamps.

A character that a terminal acts on, or that a person cannot see, becomes its code in brackets: `⟨U+202E⟩`; so does the bracket itself.
Joiners and variation selectors stay where they join: inside an emoji, or between letters of a script that joins them. A Persian or Hindi
word and a family of emoji are then what they are. In Latin text, and wherever else they do nothing, they become codes.
Three functions, all safe to show as they come back:

- `exact(text)`: one line (questions, options, titles, paths, log values). Line breaks and tabs become codes, too.
- `exact_block(text)`: several lines (diffs, arguments, context that is not Markdown). Only `\n` stays.
- `prose(text)`: what a model or a tool says. `\n` stays, and a tab is four spaces. Unusual spaces, private and unassigned characters
  stay as well.

The exact ones can be read back: replacing each code by its character gives the original. Marks that combine stay on a letter, four at
most, so that no text climbs over its neighbours' lines.
Every character is judged by itself (a joiner by its neighbours), so a stream may be cut anywhere and nothing gets through; a joiner
that stands at a cut is shown as its code.
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
_MARKS = 4  # combining marks on one letter
_REMEMBERED = 16_384  # characters a profile; the others are looked up again
_COMMANDS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, formats, surrogates, separators
_UNCERTAIN = frozenset({"Co", "Cn", "Zs"})  # what a font decides about, what a newer Unicode may hide, what looks like a space
_INVISIBLE = (  # letters, marks and symbols that show nothing, and what Unicode tells programs to ignore; of any version
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffc\ufdd0-\ufdef"
    "\U00013441\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_NO_CHARACTER = 0xFFFE  # the last two code points of every plane

_PILE = (  # where marks may pile up: on nothing (at the start of a line), or more than four of them in a row
    r"(?<![^\n])[^\w\x20-\x7e\n]+|[^\w\x20-\x7e\n\u2010-\u2027\u2030-\u205e\u2190-\u27bf\u3001-\u3029\uff01-\uff0f]{5,}"
)
_JOINER = "[\u200c\u200d\ufe0e\ufe0f]"
_EMOJI_JOINER = "\u200d"
_SELECTORS = frozenset("\ufe0e\ufe0f")
_MODIFIERS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"  # what may stand between a picture and its joiner
_KEYS = frozenset("0123456789#*")
_VIRAMA = 9
"""Combining class of the signs that take a vowel away in the scripts of India."""
_KEYCAP = "\u20e3"
_PICTURE = (
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_JOINING = "[\u0600-\u07ff\u0840-\u086f\u08a0-\u0dff\u0f00-\u109f\u1780-\u18af\ua840-\ua87f\U00010d00-\U00010d3f\U0001e900-\U0001e95f]"


def exact(text: str) -> str:
    """Return one line in which nothing of `text` is hidden, and from which `text` can be read back."""
    return _written(text, _LINE)


def exact_block(text: str) -> str:
    """Return `exact` of every line: the newlines stay."""
    return _written(text, _BLOCK)


def prose(text: str) -> str:
    """Return text for reading: nothing in it acts on a terminal."""
    return _written(text, _PROSE)


def hidden_places(text: str) -> frozenset[int]:
    """Return the places of the characters that `exact_block` writes as codes."""
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
    """Replacements of characters, by code point; remembered, for most texts use few characters."""

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
        if len(self) < _REMEMBERED:
            self[code] = text
        return text


def _written(text: str, profile: _Profile) -> str:
    if text.isascii():  # the common case, at the speed of a table
        return text.translate(profile.ascii)
    return re.sub(_PILE, _without_pile, re.sub(_JOINER, _joiner, text.translate(profile)))


def _without_pile(run: Match[str]) -> str:
    """Leave at most four combining marks on a letter, and none where there is no letter: the others are written as their codes."""
    start = run.start()
    marks = 0 if start and run.string[start - 1] != "\n" else _MARKS
    written: list[str] = []
    for character in run[0]:
        if re.match(_JOINER, character):
            written.append(character)
        elif unicodedata.category(character) in {"Mn", "Me"}:
            marks += 1
            written.append(character if marks <= _MARKS else _code(character))
        else:
            marks = 0
            written.append(character)
    return "".join(written)


def _joiner(found: Match[str]) -> str:
    """Leave a joiner where it joins."""
    return found[0] if _joins(found.string, found.start()) else _code(found[0])


def _code(character: str) -> str:
    return f"{_BRACKET}U+{ord(character):04X}\u27e9"


def _is_command(character: str) -> bool:
    """Tell whether a terminal acts on the character, or shows nothing for it."""
    return (
        unicodedata.category(character) in _COMMANDS
        or character == _BRACKET
        or (not character.isascii() and re.match(_INVISIBLE, character) is not None)
        or ord(character) & _NO_CHARACTER == _NO_CHARACTER
    )


def _is_hidden(character: str) -> bool:
    """Tell whether a person could not be sure of the character by looking."""
    return character != " " and (_is_command(character) or unicodedata.category(character) in _UNCERTAIN)


def _joins(text: str, place: int) -> bool:
    """Tell whether a joiner or a selector does its work here: inside an emoji, or between letters that join."""
    character, before, after = text[place], text[max(place - 1, 0) : place], text[place + 1 : place + 2]
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


# Check of text that a program gives -----------------------------------------------------------------------------------
# A value that is not text, recorded under a name that takes text, could not be read back.


def check_text(name: str, given: object) -> None:
    """Let text pass.

    Args:
        name: What the program calls it.
        given: What it gave.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(given, str):
        raise TypeError(f"`{name}` takes text, not {given!r:.80}.{_way_out(given)}")


def check_text_or_none(name: str, given: object) -> None:
    """Let text and None pass, as `check_text` does."""
    if given is not None:
        check_text(name, given)


def _way_out(given: object) -> str:
    return " A number becomes text with `str(…)`." if isinstance(given, int) and not isinstance(given, bool) else ""


# Suggestions for misspelt words ---------------------------------------------------------------------------------------


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word nearest to `word`; None where none is near."""
    from difflib import get_close_matches  # only who has mistyped needs it

    return next(iter(get_close_matches(word[:128], list(known), n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean `x`?` for the known word nearest to `word`, or nothing where none is near."""
    near = nearest(word, known)
    return f" Did you mean `{near}`?" if near else ""


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    import hashlib  # it loads OpenSSL, and most commands name nothing by a hash

    return hashlib.sha256(data).hexdigest()


# Names of tools, providers and questions ------------------------------------------------------------------------------


NAME: Final = r"[A-Za-z0-9_-]{1,64}"
"""A pattern: the name of a tool or of a provider."""

PERSON: Final = r"[\w.@+-]{1,64}"
"""A pattern: the name of a person or a group."""

QUESTION_ID: Final = rf"(?!__){NAME}"
"""A pattern: the id of a question; what begins with `__` is ours."""

_LONGEST: Final = 2_048  # characters of a question
_MORE_BREAKS: Final = {0x84: " ", 0x8D: " "}
"""Line breaks that Python does not count as white space."""


def cut_to_bytes(text: str, most: int) -> str:
    """Return the beginning of a text that has at most this many bytes, cut between characters."""
    return text.encode()[:most].decode(errors="ignore")


def single_line(text: str) -> str:
    """Return a text from another program as the one line that a question is."""
    line = " ".join(text.translate(_MORE_BREAKS).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


OutputProtocol: TypeAlias = Literal["text", "outcome"]
"""The output of a command: the result's text, or an outcome as JSON."""

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
"""The built-in tools, each with the ids of the questions that it asks; those of `ask_user` are the model's to choose."""


# Names of people, groups, logins and accounts --------------------------------------------------------------------------


_IGNORABLE: Final = (  # the code points with the Unicode property Default_Ignorable_Code_Point
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_CONTROL: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


def canonical_name(name: str) -> str:
    """Return the form in which names of people and groups, logins and accounts are compared.

    It is NFKC, case-folded, trimmed and without default-ignorable code points. Two names with one canonical form name one person.

    Args:
        name: The name as it was configured, typed or sent.

    Raises:
        ValueError: The name has a control character, or nothing that can be seen.
    """
    if found := re.search(_CONTROL, name):
        raise ValueError(f"the name {name!r:.80} has the control character U+{ord(found[0]):04X}. Remove it.")
    if not (key := name_key(name)):
        raise ValueError(f"the name {name!r:.80} is empty. Give a name with at least one visible character.")
    return key


@lru_cache(maxsize=4_096)
def name_key(name: str) -> str:
    """Return the canonical form of a name that is recorded already: as `canonical_name`, but nothing is refused."""
    if name.isascii():
        return name.strip().casefold()
    key, before = name, None
    while key != before:  # folding may leave what the next round composes, or removes
        before, key = key, unicodedata.normalize("NFKC", re.sub(_IGNORABLE, "", key)).casefold().strip()
    return key


def is_same_name(one: str, other: str) -> bool:
    """Return whether two names have one canonical form."""
    return one == other or name_key(one) == name_key(other)


# Timestamps, in the one format that events carry ----------------------------------------------------------------------


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)"


def seconds_of(duration: str) -> float | None:
    """Return how many seconds a duration such as `90s`, `2m` or `90d` has; None where it is none."""
    found = re.fullmatch(_DURATION, duration, re.ASCII)
    return float(found[1]) * _UNITS[found[2]] if found else None


def rfc3339(moment: datetime) -> str:
    """Return a moment as RFC 3339 in UTC, always with six digits of a second, so that moments sort as text."""
    in_utc = moment.astimezone(UTC)  # a zone may be off by microseconds, too
    text = str(to_builtins(in_utc))  # in a quarter of the time that `isoformat` takes
    return text if in_utc.microsecond else f"{text[:-1]}.000000Z"
