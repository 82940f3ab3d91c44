"""Every example in the documents works, and every document says what is there (see `CONTRIBUTING.md`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import midturn
from support.documents import DOCUMENTS, ROOT, anchors, blocks, links, name
from support.examples import Examples

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=name)


@each_document
def test_every_example_does_what_the_document_says(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks share a directory and a Python module, in the order of the document; nothing of the user's is read."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "CI", "MIDTURN_NON_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    examples = Examples(tmp_path)
    monkeypatch.setenv("HOME", str(examples.home))
    with examples.as_current():
        for block in blocks(document):
            examples.play(block)
        examples.finish()


@each_document
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in links(document):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), f"{name(document)} links to {target}, which is not there"
        assert found.is_relative_to(ROOT), f"{name(document)} links to {target}, outside of the project"
        assert not anchor or anchor in anchors(found), f"{name(document)} links to {target}; {name(found)} has no such heading"


@each_document
def test_no_document_knows_this_machine(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for path in (ROOT, Path.home(), Path(sys.prefix)):
        assert str(path) not in text
    assert not re.search(r"(?<![\w.~…])/(?:home|root|work|tmp|Users)/", text)


@each_document
def test_code_fits_into_a_narrow_column(document: Path) -> None:
    """Nobody has to scroll sideways."""
    written = [block for block in blocks(document) if block.language not in {"console", "text"}]  # those show what was printed
    wide = [f"{block.place}: {line}" for block in written for line in block.text.splitlines() if len(line) > 100]
    assert not wide, "\n".join(wide)


def test_every_public_name_is_documented() -> None:
    words = {word for document in DOCUMENTS for word in re.findall(r"\w+", document.read_text(encoding="utf-8"))}
    assert sorted(set(dir(midturn)) - words) == []
