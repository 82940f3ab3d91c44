"""Hooks for `mkdocs`: the project's own files as pages, docstrings in the reference, and Markdown
for agents.

- README, ARCHITECTURE and the other files at the top of the repository become pages under
  `project/`.
- The page `reference/python.md` gets the docstring of each public name.
- The Markdown of each page is published next to it (`start/quickstart.md` next to
  `start/quickstart.html`), and `llms.txt` lists all pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PROJECT = {
    name: f"project/{name.lower()}.md"
    for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY")
}
_FENCE = re.compile(r"^```(\w+)[^\n`]*$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
_COMMENT = re.compile(r"^<!--.*?-->\n\n?", re.DOTALL | re.MULTILINE)
_published: dict[str, str] = {}
"""Markdown of each page of this build, by the page's path in `docs`."""
_sections: list[tuple[str, list[str]]] = []
"""Sections of the navigation with the paths of their pages."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add documents that the navigation does not name to the guides."""
    _published.clear()
    _sections.clear()
    written = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    names = (
        path.relative_to(config.docs_dir).as_posix()
        for path in sorted(Path(config.docs_dir).rglob("*.md"))
    )
    guides = next(
        section["Guides"]
        for section in cast("list[dict[str, list[str]]]", config["nav"])
        if "Guides" in section
    )
    guides += [name for name in names if f": {name}\n" not in written]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from files at the top of the repository."""
    from mkdocs.structure.files import File

    pages = {
        target: _moved((ROOT / f"{name}.md").read_text(encoding="utf-8"))
        for name, target in PROJECT.items()
    }
    for target, content in pages.items():
        files.append(File.generated(config, target, content=content))
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:  # noqa: ARG001  mkdocs' signature
    """Remember the sections for `llms.txt`."""
    from mkdocs.structure.pages import Page

    items: list[Any] = cast("Any", nav).items  # mkdocs leaves their type open
    for item in items:
        children: list[Any] = item.children or [item]
        _sections.append(
            (str(item.title), [child.file.src_uri for child in children if isinstance(child, Page)])
        )
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  mkdocs' signature
    """Remove what only the tests read on a fence, and link to the pages of the project's
    files.
    """
    source = page.file.src_uri
    text = _LINK.sub(
        lambda link: f"]({_project_page(link[1], source)})", _FENCE.sub(r"```\1", markdown)
    )
    _published[source] = _COMMENT.sub("", text)
    return _with_docstrings(text) if source == "reference/python.md" else text


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001  mkdocs' signature
    """Tell programs where the page's Markdown is."""
    name = posixpath.basename(page.file.src_uri)
    return output.replace(
        "</head>", f'<link rel="alternate" type="text/markdown" href="{name}"></head>', 1
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Write the Markdown of each page, and `llms.txt`."""
    site = Path(config.site_dir)
    for source, text in _published.items():
        (site / source).parent.mkdir(parents=True, exist_ok=True)
        (site / source).write_text(text, encoding="utf-8")
    (site / "llms.txt").write_text(llms_text(_sections, _published), encoding="utf-8")


def llms_text(sections: list[tuple[str, list[str]]], pages: dict[str, str]) -> str:
    """Return the list of all pages in the format of llmstxt.org: title, summary, and a link with
    one sentence for each page.

    Args:
        sections: Sections of the navigation, each with the paths of its pages.
        pages: Markdown by path.
    """
    lines = ["# midturn", "", f"> {first_sentence(pages['index.md'])}", ""]
    for title, sources in sections:
        lines += [f"## {title}", ""]
        lines += [
            f"- [{_title(pages[source])}]({source}): {first_sentence(pages[source])}"
            for source in sources
        ]
        lines += [""]
    return "\n".join(lines)


def first_sentence(markdown: str) -> str:
    """Return the first sentence of a page's text, without links and emphasis."""
    paragraphs = (part.strip() for part in markdown.split("\n\n"))
    prose = next(
        (
            part
            for part in paragraphs
            if part and not part.startswith(("#", "|", "!", "<", "`" * 3, "-"))
        ),
        "",
    )
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(prose.split())).replace("**", "")
    return re.split(r"(?<=\.)\s", plain, maxsplit=1)[0].removesuffix(":")


def _title(markdown: str) -> str:
    """Return the text of a page's first heading."""
    found = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    return found[1].replace("`", "") if found else ""


def _project_page(link: str, source: str) -> str:
    """Return the link, or the page of the project's file that it leads to."""
    path, mark, anchor = link.partition("#")
    name = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), path)).removesuffix(
        ".md"
    )
    if not path.endswith(".md") or name not in PROJECT:
        return link
    return posixpath.relpath(PROJECT[name], posixpath.dirname(source) or ".") + mark + anchor


def _moved(text: str) -> str:
    """Rewrite links of a file at the top of the repository for a page in `project/`. A link to
    another kind of file becomes its text.
    """

    def moved(link: re.Match[str]) -> str:
        path, mark, anchor = link[1].partition("#")
        if path.startswith("docs/"):
            return f"](../{path.removeprefix('docs/')}{mark}{anchor})"
        if path.removesuffix(".md") in PROJECT:
            return f"]({path.lower()}{mark}{anchor})"
        return "](#)" if not path.startswith("http") else link[0]

    return re.sub(r"\[([^\]]+)\]\(#\)", r"\1", _LINK.sub(moved, text))


def _with_docstrings(markdown: str) -> str:
    """Add the docstrings of the names at the start of each section to its end."""
    import midturn

    homes = cast("dict[str, str]", vars(midturn)["_HOMES"])  # the one list of public names
    home_of = {
        name: home
        for home, names in homes.items()
        for name in names.split()
        if home.startswith(".")
    }
    head, *sections = re.split(r"^(?=## )", markdown, flags=re.MULTILINE)
    for section in sections:
        names = re.findall(r"`(\w+)`", section.partition("```")[0])
        head += (
            section
            + "\n"
            + "\n".join(_docstring(name, home_of[name]) for name in names if name in home_of)
        )
    return head


def _docstring(name: str, home: str) -> str:
    """Return the block that shows a docstring, headed by the name under which a program uses
    it.
    """
    return f"::: midturn{home}.{name}\n    options:\n      heading: midturn.{name}\n"
