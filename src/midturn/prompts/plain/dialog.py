"""The words between a plain prompt and whoever carries them to the terminal."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.core.reply import Reply

EntryKind: TypeAlias = Literal["choice", "text", "hidden"]


class Say(Struct, frozen=True, kw_only=True):
    """Print `rows`, then `ask` without a line end, and read one line.

    `entry` says what is typed: one of few choices, free text, or something that must not be seen.
    """

    rows: Sequence[str] = ()
    ask: str
    entry: EntryKind = "choice"


class Edit(Struct, frozen=True):
    """Let the person edit `text` in their editor; what comes back is the text as it is then, unchanged when the editor failed."""

    text: str
    suffix: str = ".txt"


Saying: TypeAlias = Say | Edit
Dialog: TypeAlias = Generator[Saying, str, Reply]
