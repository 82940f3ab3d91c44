"""Long pastes in a line of input: shown as `[200 lines]`, and whole when the line is sent."""

from __future__ import annotations

import re

from midturn.prompts.keys import split_lines

FOLDED = 8
"""Lines of a paste that are shown; one that has more is folded."""
_FIRST = 0xDC80  # half of a pair that stands for no character: no keyboard and no paste sends one
_MOST = 128
_SIGN = re.compile(f"([{chr(_FIRST)}-{chr(_FIRST + _MOST - 1)}])")


class Folds:
    """The pastes of one person, each by the sign that stands for it in a line that is edited."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return the text, or the sign that stands for it where it has many lines."""
        if len(split_lines(text)) <= FOLDED or len(self._texts) == _MOST:
            return text
        sign = chr(_FIRST + len(self._texts))
        self._texts[sign] = text
        return sign

    def unfold(self, text: str) -> str:
        """Return what is sent."""
        return "".join(self._texts.get(sign, sign) for sign in text) if self._texts else text

    def parts(self, text: str) -> list[str]:
        """Cut a line into folded pastes and what stands between them."""
        return [part for part in re.split(_SIGN, text) if part]

    def shown(self, sign: str) -> str | None:
        """Return what a sign is shown as; None for every other character."""
        text = self._texts.get(sign)
        return None if text is None else f"[{len(split_lines(text.rstrip()))} lines]"

    def forget(self) -> None:
        """Forget all pastes: no line holds any."""
        self._texts.clear()
