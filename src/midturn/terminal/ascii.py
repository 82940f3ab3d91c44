r"""What is drawn on a terminal that shows nothing but ASCII: different texts stay different there, too.

A character that it lacks becomes `\xe9`, `\u202e` or `\U0001f600`; a text that holds such a code itself is told apart by its backslash,
which becomes `\x5c`. The signs with which we draw become one that looks alike, and, but at the beginning of a row, a tilde after it.
"""

from __future__ import annotations

import re
from re import Match
from typing import Final

from midturn.prompts.rich.screen import POINTER

_ALIKE: Final = dict(zip(f"{POINTER[0]}│·…↑↓⇥⏎⟨⟩", "}|-.^v]<()", strict=True))
_FIRST: Final = rf"(?P<first>(?:^|(?<=\n))(?:\x1b\[[0-9;?]*[A-Za-z]|[ \r])*[{POINTER[0]}│·])"
_PATTERN: Final = (
    rf"{_FIRST}|⟨U\+(?P<code>[0-9A-F]{{4,6}})⟩|(?P<sign>[{''.join(_ALIKE)}])"
    r"|(?P<backslash>\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))|(?P<alike>[|}\-.^v\]<()](?=~))"
)


def as_ascii(text: str) -> str:
    """Return text that can be shown; what it stands for can be read back."""
    return re.sub(_PATTERN, _written, text).encode("ascii", "backslashreplace").decode("ascii")


def _written(found: Match[str]) -> str:
    if first := found["first"]:
        return first[:-1] + (">" if first[-1] == POINTER[0] else _ALIKE[first[-1]])
    if code := found["code"]:
        return _escaped(int(code, 16))
    if sign := found["sign"]:
        return f"{_ALIKE[sign]}~"
    return _escaped(ord(found[0]))


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
