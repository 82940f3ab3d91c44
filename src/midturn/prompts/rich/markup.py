"""A question's context, coloured: Markdown as prose, code and diffs character by character."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from midturn.prompts.content import DIFFS, code_line, diff_line
from midturn.prompts.rich.screen import Row, Span, Style, cut, row, wrapped
from midturn.values.text import prose

ContextRows: TypeAlias = Callable[[str, int], Sequence[Row]]
"""Lays a context out as rows of a width."""

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<text>.*)")
_HUNK = re.compile(r"@@ -\d")
_INLINE = re.compile(
    r"(?P<code>`[^`]+`)|(?P<strong>\*\*[^*\s](?:[^*]*[^*\s])?\*\*)|(?P<emphasis>(?<![\w*])\*[^*\s](?:[^*]*[^*\s])?\*(?![\w*]))"
)
_DIFF_BEGINS = ("diff --git ", "@@ -")
_DIFF_LINES = (
    " ",
    "+",
    "-",
    "@",
    "\\",
    "diff ",
    "index ",
    "new file",
    "deleted file",
    "old mode",
    "new mode",
    "similarity ",
    "rename ",
    "Binary ",
)


class ContextLine(Struct, frozen=True):
    """One line of a context. `kept` lines are broken at the edge of the screen with every character, others between words."""

    spans: Row
    kept: bool = False


def markdown_lines(text: str) -> list[ContextLine]:
    """Return the lines of a context, fit to be shown."""
    return list(_read(text.rstrip("\n").split("\n"))) if text else []


def plain_context(text: str, width: int) -> list[Row]:
    """Return the rows of a context at a width."""
    return [found for line in markdown_lines(text) for found in (cut if line.kept else wrapped)(line.spans, width)]


def json_spans(line: str) -> Row:
    """Colour one line of JSON that is fit to be shown."""
    spans: list[Span] = []
    at = 0
    for found in _JSON.finditer(line):
        spans += [Span(line[at : found.start()])] if found.start() > at else []
        spans.append(Span(found[0], _JSON_STYLES.get(found.lastgroup or "", "")))
        at = found.end()
    return (*spans, Span(line[at:])) if at < len(line) or not spans else tuple(spans)


def argument_spans(line: str) -> Row:
    """Colour the name of an argument; a text that stands below its name is indented, and stays as it is."""
    name, colon, rest = line.partition(":")
    if line.startswith(" ") or not colon:
        return row(line)
    return (Span(f"{name}:", "name"), *([Span(rest)] if rest else []))


def diff_spans(line: str) -> Row:
    """Colour one line of a diff that is fit to be shown."""
    return row(line, _CHANGES.get(line[:1], ""))


_JSON = re.compile(r'(?P<name>"(?:\\.|[^"\\])*"(?=\s*:))|(?P<string>"(?:\\.|[^"\\])*"?)|(?P<number>-?\d[\d.eE+-]*|\b(?:true|false|null)\b)')
_JSON_STYLES: dict[str, Style] = {"name": "name", "string": "string", "number": "number"}


def _read(lines: list[str]) -> Iterator[ContextLine]:
    fence = ""
    language = ""
    diff = False
    for number, line in enumerate(lines):
        if found := _FENCE.match(line) if not diff else None:
            if not fence:
                fence, language = found[1], line[found.end() :].strip()
                continue
            if found[1].startswith(fence):
                fence = ""
                continue
        diff = not fence and (begins_diff(lines, number) or (diff and (not line or line.startswith(_DIFF_LINES))))
        if fence or diff:
            yield ContextLine(_code(line, is_diff=diff or language in DIFFS), kept=True)
        elif line.startswith(("    ", "\t")):
            yield ContextLine(_code(line, is_diff=False), kept=True)
        else:
            yield ContextLine(_prose(line.removesuffix("\r")))


def begins_diff(lines: list[str], number: int) -> bool:
    """Tell whether a diff starts here although nothing fences it in."""
    line = lines[number]
    following = lines[number + 1] if number + 1 < len(lines) else ""
    return line.startswith(_DIFF_BEGINS) or (line.startswith("--- ") and following.startswith("+++ "))


def _code(line: str, *, is_diff: bool) -> Row:
    if not is_diff:
        return row(code_line(line), "code")
    shown = diff_line(line)
    if _HUNK.match(line):
        return row(shown, "hunk")
    if line.startswith(("+++", "---")):
        return row(shown, "strong")
    return row(shown, _CHANGES.get(line[:1], ""))


def _prose(line: str) -> Row:
    if found := _HEADING.fullmatch(line):
        return row(prose(found["text"]), "heading")
    spans: list[Span] = []
    at = 0
    for found in _INLINE.finditer(line):
        spans += [Span(prose(line[at : found.start()]))] if found.start() > at else []
        kind = found.lastgroup or ""
        marks = 2 if kind == "strong" else 1
        spans.append(Span(prose(found[0][marks:-marks]), _INLINE_STYLES[kind]))
        at = found.end()
    return (*spans, Span(prose(line[at:]))) if at < len(line) or not spans else tuple(spans)


_CHANGES: dict[str, Style] = {"+": "added", "-": "removed"}
_INLINE_STYLES: dict[str, Style] = {"code": "code", "strong": "strong", "emphasis": "emphasis"}
