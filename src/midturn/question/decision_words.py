"""The one parser of typed decisions: a yes/no question or an approval that is answered in words.

Words decide only if they contain nothing except the decision: `yes`, `No.`, 👍, or a no with its reason (`no, because X`, `no: X`). A yes
with more words may be a condition ("yes, but only after the backup"), and a no with more words may be a yes ("no problem, go ahead"). Such
words are returned as `Unclear`, so that the caller can show them to their author, who then decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

YES_OR_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
"""Words for yes and no, in lower case."""

_YES_SIGNS: Final = ("👍", "✅", "✔", ":+1:", ":thumbsup:", ":white_check_mark:", ":heavy_check_mark:")
_NO_SIGNS: Final = ("👎", "❌", "✖", ":-1:", ":thumbsdown:", ":x:", ":heavy_multiplication_x:")
_SIGNS: Final[Mapping[str, bool]] = {**dict.fromkeys(_YES_SIGNS, True), **dict.fromkeys(_NO_SIGNS, False)}
"""Emoji for yes and no, and their short names, as Slack sends them."""

_DRAWING: Final = dict.fromkeys([0xFE0F, *range(0x1F3FB, 0x1F400)])  # variation selector and skin tones
_SKIN_TONE: Final = re.compile(r":skin-tone-[2-6]:")
_END: Final = ".!\u3002\uff01"  # the last two end a sentence in Chinese and Japanese
_FIRST: Final = re.compile(r"(?s)(?P<first>:[a-z0-9_+-]+:|\w+|[^\w\s])(?P<rest>.*)")
_REASON: Final = re.compile(r"(?is)(?:[\s,.;\u2013\u2014-]*\bbecause\b[\s,:]*|\s*:\s*)(?P<reason>\S.*)")


class ClearDecision(Struct, frozen=True):
    """A yes or a no. `reason` is the reason of a no, if the words give one."""

    answer: bool
    reason: str | None = None


class Unclear(Struct, frozen=True):
    """Words that begin with a yes or a no (`answer`) and go on with something else. They decide nothing until their author confirms it."""

    answer: bool
    words: str


def read_decision(words: str) -> ClearDecision | Unclear | None:
    """Parse the words of a person who answers a yes/no question or an approval. Return None if they begin with neither yes nor no."""
    said = yes_or_no(words)
    if said is not None:
        return ClearDecision(said)
    typed = words.strip()
    found = _FIRST.match(_plain(typed))
    answer = _one_word(found["first"]) if found else None
    if found is None or answer is None:
        return None
    reasoned = None if answer else _REASON.fullmatch(found["rest"])
    return Unclear(answer, typed) if reasoned is None else ClearDecision(answer, reasoned["reason"].strip())


def yes_or_no(words: str) -> bool | None:
    """Return the decision that these words or this emoji are; None if they are neither yes nor no, or contain anything else."""
    return _one_word(_plain(words).strip().rstrip(_END).rstrip())


def why_unclear(unclear: Unclear) -> str:
    """Return the sentence for an interface that cannot ask the author back: what was not decided, and how to say it."""
    if unclear.answer:
        return f'{unclear.words!r:.200} is more than a yes, and may be a condition. Answer "yes" alone; a note goes beside it.'
    return f'{unclear.words!r:.200} begins with a no and may mean a yes. Answer "no" alone, or "no, because …".'


def _plain(words: str) -> str:
    return _SKIN_TONE.sub("", words.translate(_DRAWING))


def _one_word(word: str) -> bool | None:
    folded = word.casefold()
    return YES_OR_NO.get(folded, _SIGNS.get(folded))
