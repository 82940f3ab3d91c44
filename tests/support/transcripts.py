"""Compares program output with the output in a document. Only IDs and times may differ."""

from __future__ import annotations

import re
from collections import defaultdict, deque

from msgspec import Struct

_KINDS: dict[
    str, tuple[str, str]
] = {  # pattern in documents (an ID needs a digit, otherwise it could be a word), pattern in output
    "event": (r"(?:(?<![\w.-])|(?<=\d-))(?=[a-z]*[2-7])[a-z2-7]{12}(?![\w.-])", r"[a-z2-7]{12}"),
    "conversation": (r"(?<![\w.])1\d{15}(?![\w.])", r"\d{16}"),
    "moment": (
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    ),
    "second": (r"(?<![\w:])\d\d:\d\d:\d\d(?![\w:])", r"\d\d:\d\d:\d\d"),
    "minute": (r"(?<![\w:])\d\d:\d\d(?![\w:])", r"\d\d:\d\d"),
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{shown})" for kind, (shown, _) in _KINDS.items()))
_ANY_LINES = "…\n"


class _Part(Struct, frozen=True):
    """A piece of a document: plain text, or (with `kind`) an ID or time, which changes with each
    run.
    """

    text: str
    kind: str = ""


class IdMapping:
    """Maps the IDs and times of a document to those of this run."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def in_this_run(self, text: str) -> str:
        """Replace the document's IDs with those of this run, for example in a command."""
        return "".join(
            self._real.get(part.text, part.text) if part.kind else part.text
            for part in _parts(text)
        )

    def fits(self, expected: str, printed: str) -> bool:
        """Return whether `printed` matches the document, and store the IDs that appear for the
        first time.

        `…` matches any text in a line; on its own line, it matches any number of lines.
        """
        groups: dict[str, str] = {}
        pattern = "".join(self._pattern(part, groups) for part in _parts(expected))
        match = re.fullmatch(pattern, printed)
        if match:
            self._real.update({text: match[group] for text, group in groups.items()})
        return match is not None

    def as_shown(self, expected: str, printed: str) -> str:
        """Return `printed` with the document's IDs, to update the document."""
        shown = {real: text for text, real in self._real.items()}
        known: defaultdict[str, deque[str]] = defaultdict(deque)
        for part in _parts(expected):
            if part.kind and part.text not in self._real and part.text not in known[part.kind]:
                known[part.kind].append(part.text)
        for part in _parts(printed):
            if part.kind and part.text not in shown:
                shown[part.text] = known[part.kind].popleft() if known[part.kind] else part.text
        self._real.update({text: real for real, text in shown.items()})
        return "".join(shown[part.text] if part.kind else part.text for part in _parts(printed))

    def _pattern(self, part: _Part, groups: dict[str, str]) -> str:
        if not part.kind:
            return _plain(part.text)
        if part.text in self._real:
            return re.escape(self._real[part.text])
        if part.text in groups:
            return f"(?P={groups[part.text]})"
        groups[part.text] = f"id{len(groups)}"
        return f"(?P<{groups[part.text]}>{_KINDS[part.kind][1]})"


def _plain(text: str) -> str:
    lines = (
        r"(?:.*\n)*" if line == _ANY_LINES else r".*".join(map(re.escape, line.split("…")))
        for line in text.splitlines(keepends=True)
    )
    return "".join(lines)


def _parts(text: str) -> list[_Part]:
    parts: list[_Part] = []
    end = 0
    for match in _TOKEN.finditer(text):
        parts += [_Part(text[end : match.start()]), _Part(match.group(), match.lastgroup or "")]
        end = match.end()
    return [*parts, _Part(text[end:])]
