"""Parse decisions given as text: answers to yes/no questions and approvals.

A text is a clear decision only if it contains nothing else: `yes`, `No.`, 👍, or "no" with a reason
(`no, because X`, `no: X`). "Yes" with more words may be a condition ("yes, but only after the
backup"), and "no" with more words may be an approval ("no problem, go ahead"). Such texts are
returned as `Unclear`, so that the caller can ask the author.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

YES_OR_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
"""Words for yes and no, in lower case."""

_YES_SIGNS: Final = (
    "👍",
    "✅",
    "✔",
    ":+1:",
    ":thumbsup:",
    ":white_check_mark:",
    ":heavy_check_mark:",
)
_NO_SIGNS: Final = ("👎", "❌", "✖", ":-1:", ":thumbsdown:", ":x:", ":heavy_multiplication_x:")
_SIGNS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(_YES_SIGNS, True),
    **dict.fromkeys(_NO_SIGNS, False),
}
"""Emoji for yes and no, and their short names as Slack sends them."""

_EMOJI_MODIFIERS: Final = dict.fromkeys(
    [0xFE0F, *range(0x1F3FB, 0x1F400)]
)  # variation selector and skin tones
_SKIN_TONE: Final = re.compile(r":skin-tone-[2-6]:")
_SENTENCE_ENDS: Final = ".!\u3002\uff01"  # the last two end a sentence in Chinese and Japanese
_FIRST_WORD: Final = re.compile(r"(?s)(?P<first>:[a-z0-9_+-]+:|\w+|[^\w\s])(?P<rest>.*)")
_REASON: Final = re.compile(
    r"(?is)(?:[\s,.;\u2013\u2014-]*\bbecause\b[\s,:]*|\s*:\s*)(?P<reason>\S.*)"
)


class ClearDecision(Struct, frozen=True):
    """A clear decision, yes or no. `reason` is the reason for a no, if the text contains one."""

    answer: bool
    reason: str | None = None


class Unclear(Struct, frozen=True):
    """A text that starts with yes or no (`answer`) and continues with other words. The author
    must confirm the decision.
    """

    answer: bool
    words: str


def read_decision(words: str) -> ClearDecision | Unclear | None:
    """Parse the answer to a yes/no question or an approval. Return None if the text starts with
    neither yes nor no.
    """
    decision = yes_or_no(words)
    if decision is not None:
        return ClearDecision(decision)
    typed = words.strip()
    found = _FIRST_WORD.match(_plain(typed))
    answer = _one_word(found["first"]) if found else None
    if found is None or answer is None:
        return None
    reason = None if answer else _REASON.fullmatch(found["rest"])
    return (
        Unclear(answer, typed)
        if reason is None
        else ClearDecision(answer, reason["reason"].strip())
    )


def yes_or_no(words: str) -> bool | None:
    """Return the decision if the text is only "yes" or "no", as a word or an emoji; else None."""
    return _one_word(_plain(words).strip().rstrip(_SENTENCE_ENDS).rstrip())


def why_unclear(unclear: Unclear) -> str:
    """Return an error message for an interface that cannot ask the author. The message says why
    the text is unclear and which answers are clear.
    """
    if unclear.answer:
        return (
            f'{unclear.words!r:.200} contains more than "yes" and may be a condition. Answer only'
            ' "yes" and give the note separately.'
        )
    return (
        f'{unclear.words!r:.200} starts with "no" but may mean "yes". Answer only "no", or "no,'
        ' because …".'
    )


def _plain(words: str) -> str:
    return _SKIN_TONE.sub("", words.translate(_EMOJI_MODIFIERS))


def _one_word(word: str) -> bool | None:
    folded = word.casefold()
    return YES_OR_NO.get(folded, _SIGNS.get(folded))
