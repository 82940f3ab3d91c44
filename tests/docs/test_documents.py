"""Every example in the documents works, and the documents match the project (see
`CONTRIBUTING.md`).
"""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest

import midturn
from support.documents import DOCUMENTS, ROOT, anchors, blocks, links, name
from support.examples import Examples

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=name)


@each_document
def test_every_example_does_what_the_document_says(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of one example share a directory and a Python module, in document order.

    No file of the user is read.
    """
    if document.name == "a2a.md":
        pytest.importorskip("a2a", reason="needs the extra `a2a`")
    for variable in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_DATA_HOME",
        "CI",
        "MIDTURN_NON_INTERACTIVE",
    ):
        monkeypatch.delenv(variable, raising=False)
    for number, group in itertools.groupby(blocks(document), key=lambda block: block.example):
        directory = tmp_path / str(number)
        directory.mkdir()
        examples = Examples(directory)
        monkeypatch.setenv("HOME", str(examples.home))
        with examples.as_current():
            for block in group:
                examples.play(block)
            examples.finish()


@each_document
def test_links_between_documents_are_valid(document: Path) -> None:
    for target in links(document):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), f"{name(document)} links to {target}, which is not there"
        assert found.is_relative_to(ROOT), (
            f"{name(document)} links to {target}, outside of the project"
        )
        assert not anchor or anchor in anchors(found), (
            f"{name(document)} links to {target}; {name(found)} has no such heading"
        )


@each_document
def test_documents_name_nothing_of_this_machine(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for path in (ROOT, Path.home(), Path(sys.prefix)):
        assert str(path) not in text
    assert not re.search(r"(?<![\w.~…])/(?:home|root|work|tmp|Users)/", text)


@each_document
def test_code_fits_into_a_narrow_column(document: Path) -> None:
    """Readers do not have to scroll sideways."""
    # these blocks show output
    written = [block for block in blocks(document) if block.language not in {"console", "text"}]
    wide = [
        f"{block.place}: {line}"
        for block in written
        for line in block.text.splitlines()
        if len(line) > 100
    ]
    assert not wide, "\n".join(wide)


def test_every_public_name_is_documented() -> None:
    words = {
        word
        for document in DOCUMENTS
        for word in re.findall(r"\w+", document.read_text(encoding="utf-8"))
    }
    assert sorted(set(dir(midturn)) - words) == []
