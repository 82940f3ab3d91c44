"""What the site adds to the documents: the project's own files as pages, and the docstring of every public name to its example.

`mkdocs` calls these hooks. The documents stay readable where they are; only links between the two places are bent.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PROJECT = {name: f"project/{name.lower()}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")}
_FENCE = re.compile(r"^```(\w+)[^\n`]*$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put documents that the navigation does not name at the end of the guides, so that none is lost."""
    written = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    names = (path.relative_to(config.docs_dir).as_posix() for path in sorted(Path(config.docs_dir).rglob("*.md")))
    guides = next(section["Guides"] for section in cast("list[dict[str, list[str]]]", config["nav"]) if "Guides" in section)
    guides += [name for name in names if f": {name}\n" not in written]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from other files."""
    from mkdocs.structure.files import File

    pages = {target: _moved((ROOT / f"{name}.md").read_text(encoding="utf-8")) for name, target in PROJECT.items()}
    for target, content in pages.items():
        files.append(File.generated(config, target, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  mkdocs' signature
    """Leave out what the tests read on a fence, and lead links to the project's files to their pages."""
    bent = {f"../{name}.md": target for name, target in PROJECT.items()}
    text = _FENCE.sub(r"```\1", _with_docstrings(markdown) if page.file.src_uri == "reference.md" else markdown)
    return _LINK.sub(lambda link: f"]({bent.get(link[1], link[1])})", text)


def _moved(text: str) -> str:
    """Turn links of a file at the top into links of a page one folder down; what is no document stays a word."""

    def moved(link: re.Match[str]) -> str:
        path, mark, anchor = link[1].partition("#")
        if path.startswith("docs/"):
            return f"](../{path.removeprefix('docs/')}{mark}{anchor})"
        if path.removesuffix(".md") in PROJECT:
            return f"]({path.lower()}{mark}{anchor})"
        return "](#)" if not path.startswith("http") else link[0]

    return re.sub(r"\[([^\]]+)\]\(#\)", r"\1", _LINK.sub(moved, text))


def _with_docstrings(markdown: str) -> str:
    """Put the docstrings of the names that a section begins with at its end."""
    import midturn

    homes = cast("dict[str, str]", vars(midturn)["_HOMES"])  # the one list of public names
    home_of = {name: home for home, names in homes.items() for name in names.split() if home.startswith(".")}
    head, *sections = re.split(r"^(?=## )", markdown, flags=re.MULTILINE)
    for section in sections:
        names = re.findall(r"`(\w+)`", section.partition("```")[0])
        head += section + "\n" + "\n".join(_docstring(name, home_of[name]) for name in names if name in home_of)
    return head


def _docstring(name: str, home: str) -> str:
    """Return the block that shows a docstring, headed by the name under which a program uses it."""
    return f"::: midturn{home}.{name}\n    options:\n      heading: midturn.{name}\n"
