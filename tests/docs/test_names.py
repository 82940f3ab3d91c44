"""Every public name has one section in `docs/reference/python.md`, and the section's example uses
it.
"""

from __future__ import annotations

import re

import midturn
from support.documents import ROOT, blocks

REFERENCE = ROOT / "docs" / "reference" / "python.md"


def sections() -> dict[str, tuple[list[str], str]]:
    """Return the names of each section with the code of its example."""
    text = REFERENCE.read_text(encoding="utf-8")
    lines = {
        title: text.count("\n", 0, text.index(f"\n## {title}\n")) + 2
        for title in re.findall(r"^## (.+)$", text, re.MULTILINE)
    }
    found: dict[str, tuple[list[str], str]] = {}
    for title, begin in lines.items():
        end = min((line for line in lines.values() if line > begin), default=text.count("\n") + 1)
        code = "".join(
            block.text
            for block in blocks(REFERENCE)
            if begin < block.line < end and block.language == "python"
        )
        names = re.findall(r"`(\w+)`", text.split(f"\n## {title}\n", 1)[1].partition("```")[0])
        found[title] = (names, code)
    return found


def test_every_public_name_is_in_one_section() -> None:
    listed = [name for names, _ in sections().values() for name in names]
    assert sorted(listed) == sorted(dir(midturn))


def test_every_public_name_has_an_example() -> None:
    without = [
        (title, name)
        for title, (names, code) in sections().items()
        for name in names
        if not re.search(rf"\bmt\.{name}\b", code)
    ]
    assert without == []
