"""Every example in the documents works, and every document says what is there (see `CONTRIBUTING.md`)."""

from __future__ import annotations

import json
import re
import subprocess
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


@pytest.mark.long
def test_python_examples_are_typed(tmp_path: Path) -> None:
    """What a document shows passes the strict type checker, as the project's own code does."""
    for document in DOCUMENTS:
        shown = [block for block in blocks(document) if block.language == "python" and "pytest" not in block.marks]
        module = "\n".join(block.text for block in shown if not block.file)
        written = {block.file: block.text for block in shown if block.file}
        folder = tmp_path / name(document).removesuffix(".md").replace("/", "_").replace("-", "_")
        folder.mkdir()  # files of one document import each other
        for file, code in {"example": module, **written}.items():
            (folder / f"{Path(file).stem}.py").write_text(code, encoding="utf-8")
    untyped = {"reportMissingTypeStubs": False, "reportUnknownMemberType": False}  # LangGraph has no types of its own
    settings = {
        "typeCheckingMode": "strict",
        "reportRedeclaration": False,
        "pythonVersion": "3.11",
        "executionEnvironments": [{"root": "docs_frameworks_langgraph", **untyped}, {"root": "."}],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout
