"""Help on a narrow terminal: click itself never goes below 50 columns."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from midturn.cli.layout import columns

_NARROW = 52
_NAMES = 4  # columns for names; a longer one has a line of its own


class HelpContext(click.Context):
    """A context whose help fits the terminal."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter for the terminal's width."""
        width = columns(sys.stdout)
        return super().make_formatter() if width is None or width >= _NARROW else _NarrowFormatter(width=width)


class _NarrowFormatter(click.HelpFormatter):
    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = _NAMES, col_spacing: int = 2) -> None:
        """Write names with what they mean below them."""
        super().write_dl(rows, col_max=min(col_max, _NAMES), col_spacing=col_spacing)
