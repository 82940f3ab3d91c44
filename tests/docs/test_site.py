"""The documentation site: `llms.txt`, the Markdown of each page, and the version menu."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.documents import DOCUMENTS, ROOT, without_blocks


def tool(name: str) -> ModuleType:
    """Return a script of `tools/` as a module."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_llms_text_has_each_page_with_its_first_sentence() -> None:
    pages = {
        "index.md": "# midturn\n\n**midturn asks.** A tool asks.\n",
        "start/quickstart.md": (
            "# Quickstart\n\nIn five minutes you write a [tool](tools.md) that asks. You need no"
            " key.\n"
        ),
    }

    text = tool("site").llms_text(
        [("Home", ["index.md"]), ("Start", ["start/quickstart.md"])], pages
    )

    assert text.startswith("# midturn\n\n> midturn asks.\n")
    assert (
        "## Start\n\n- [Quickstart](start/quickstart.md): In five minutes you write a tool that"
        " asks.\n" in text
    )


def test_first_version_is_the_latest() -> None:
    versions = tool("site_versions")

    assert json.loads(versions.versions_list(["0.3", "0.2"]))[0] == {
        "version": "0.3",
        "title": "0.3",
        "aliases": ["latest"],
    }
    assert 'url=0.3/"' in versions.start_page("0.3")


def test_every_document_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]

    assert [page for page in pages if f": {page}\n" not in navigation] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_list_starts_after_an_empty_line(document: Path) -> None:
    """Without it, the site shows the list as part of the paragraph."""
    paragraphs = re.split(r"\n\s*\n", without_blocks(document))
    wrong = [
        part
        for part in paragraphs
        if re.match(r"[^\s\-#|<>\d]", part) and re.search(r"^(- |1\. )", part, re.MULTILINE)
    ]

    assert wrong == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_site_has_the_markdown_of_each_page(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    subprocess.run(command, cwd=ROOT, check=True, timeout=380)

    site = tmp_path / "site"
    listed = re.findall(r"\]\(([\w/-]+\.md)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    } <= set(listed)
    assert [
        page
        for page in listed
        if not (site / page).exists() or not (site / page).with_suffix(".html").exists()
    ] == []
    quickstart = (site / "start" / "quickstart.html").read_text(encoding="utf-8")
    assert '<link rel="alternate" type="text/markdown" href="quickstart.md">' in quickstart
