"""Parses the project's documents: fenced blocks, links and generated sections."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
UPDATE = "UPDATE_DOCUMENTS"
"""If this environment variable is set, generated parts (outputs, tables, screens) are rewritten
instead of compared.
"""

_NEW_EXAMPLE = "<!-- new example -->"
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<title>.+)$", re.MULTILINE)


class Block(Struct, frozen=True):
    """A fenced block: its number in the document (from 0), the line on which its text begins
    (from 1), its info string and its text.

    `follows` is the language of the block directly before it, if nothing separates them.
    `example` is the number (from 0) of the block's example: a comment `<!-- new example -->`
    starts the next one, with an empty directory and module.
    """

    document: Path
    number: int
    line: int
    info: str
    text: str
    follows: str = ""
    example: int = 0

    @property
    def language(self) -> str:
        """The first word of the info string."""
        return self.info.split()[0] if self.info.split() else ""

    @property
    def marks(self) -> tuple[str, ...]:
        """The words after the language, without the file."""
        return tuple(word for word in self.info.split()[1:] if not word.startswith("file="))

    @property
    def file(self) -> str | None:
        """The path of the block's file, relative to the example's directory."""
        return next(
            (
                word.removeprefix("file=")
                for word in self.info.split()[1:]
                if word.startswith("file=")
            ),
            None,
        )

    @property
    def place(self) -> str:
        """The location of the block, for error messages."""
        return f"{name(self.document)}:{self.line}"


def name(document: Path) -> str:
    """Return a document's path relative to the project."""
    return document.relative_to(ROOT).as_posix()


def blocks(document: Path) -> list[Block]:
    """Return the fenced blocks of a document, in order."""
    text = document.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        follows = found[-1].language if found and not text[end : match.start()].strip() else ""
        example = text.count(_NEW_EXAMPLE, 0, match.start())
        found.append(
            Block(
                document, len(found), line, match["info"].strip(), match["text"], follows, example
            )
        )
        end = match.end()
    return found


def without_blocks(document: Path) -> str:
    """Return a document's prose."""
    return _FENCE.sub("", document.read_text(encoding="utf-8"))


def links(document: Path) -> Iterator[str]:
    """Yield the link targets in a document's prose."""
    yield from (match["target"] for match in _LINK.finditer(without_blocks(document)))


def anchors(document: Path) -> set[str]:
    """Return the anchors that a link into a document can use after `#`."""
    titles = (match["title"] for match in _HEADING.finditer(without_blocks(document)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def is_updating() -> bool:
    """Return whether documents are to be rewritten."""
    return bool(os.environ.get(UPDATE))


def replace_block(block: Block, text: str) -> None:
    """Replace a block's text in its document."""
    content = block.document.read_text(encoding="utf-8")
    match = [*_FENCE.finditer(content)][block.number]
    block.document.write_text(
        content[: match.start("text")] + text + content[match.end("text") :], encoding="utf-8"
    )


def section(document: Path, title: str) -> str:
    """Return the text between `<!-- generated: TITLE -->` and `<!-- end -->`."""
    match = _section(document, title)
    assert match, f"{name(document)} has no section `{title}`"
    return match["text"]


def assert_section(document: Path, title: str, generated: str) -> None:
    """Compare a section with the generated text, or rewrite it."""
    if is_updating():
        match = _section(document, title)
        assert match, f"{name(document)} has no section `{title}`"
        content = document.read_text(encoding="utf-8")
        document.write_text(
            content[: match.start("text")] + generated + content[match.end("text") :],
            encoding="utf-8",
        )
    assert section(document, title) == generated, (
        f"{name(document)}: `{title}` differs; set {UPDATE}=1 to write it anew"
    )


def _section(document: Path, title: str) -> re.Match[str] | None:
    pattern = rf"^<!-- generated: {re.escape(title)} -->\n(?P<text>.*?)^<!-- end -->$"
    return re.search(pattern, document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
