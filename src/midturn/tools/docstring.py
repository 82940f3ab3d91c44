"""A tool's description, read from its function's docstring."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from msgspec import Struct


class Documentation(Struct, frozen=True):
    """The summary (one sentence), the description (what follows it) and the parameters' descriptions by name."""

    summary: str = ""
    description: str = ""
    parameters: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        """Summary and description, as a model reads them."""
        return "\n\n".join(part for part in (self.summary, self.description) if part)


def read_docstring(docstring: str | None) -> Documentation:
    """Read a docstring of any common style (Google, NumPy, reST, Epydoc)."""
    if not docstring or not docstring.strip():
        return Documentation()
    cleaned = inspect.cleandoc(docstring)
    if "\n" not in cleaned:
        return Documentation(cleaned)
    from docstring_parser import parse

    parsed = parse(cleaned)
    return Documentation(
        summary=_one_line(parsed.short_description),
        description=(parsed.long_description or "").strip(),
        parameters={param.arg_name: _one_line(param.description) for param in parsed.params if param.description},
    )


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
