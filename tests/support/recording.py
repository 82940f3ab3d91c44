"""Draws a sequence of terminal screens as one animated SVG without scripts or external
resources.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape

SECONDS = 4  # duration of each screen
_CELL, _ROW, _EDGE = 8.4, 18, 14
_LIGHT = {
    "ground": "#f6f8fa",
    "words": "#24292f",
    "added": "#116329",
    "removed": "#a40e26",
    "asks": "#0550ae",
}
_DARK = {
    "ground": "#16181d",
    "words": "#d6d9de",
    "added": "#8fd694",
    "removed": "#f28b82",
    "asks": "#9ecbff",
}
_THEME = "rect{{fill:{ground}}}text{{fill:{words}}}.added{{fill:{added}}}.removed{{fill:{removed}}}.asks{{fill:{asks}}}"
_FONT = "text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
_STYLE = (
    "{theme}g{{opacity:0;animation:show {whole}s infinite}}"
    "@keyframes show{{0%,{share}%{{opacity:1}}{after}%,100%{{opacity:0}}}}"
    "@media(prefers-reduced-motion:reduce){{g{{animation:none}}g:last-of-type{{opacity:1}}}}"
)
_CHANGED = re.compile(r"│ *\d+ ([+-])")
_CHANGES = {"+": "added", "-": "removed"}


def picture(screens: Sequence[Sequence[str]], title: str) -> str:
    """Return the SVG, in the reader's light or dark theme. With reduced motion, it shows only the
    last screen.
    """
    width = round(max(len(row) for screen in screens for row in screen) * _CELL + 2 * _EDGE)
    height = max(len(screen) for screen in screens) * _ROW + 2 * _EDGE
    share = 100 / len(screens)
    style = _STYLE.format(
        theme=in_theme(), whole=SECONDS * len(screens), share=f"{share - 0.1:g}", after=f"{share:g}"
    )
    shown = "\n".join(_screen(screen, SECONDS * place) for place, screen in enumerate(screens))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{escape(title)}">'
    )
    return (
        f'{head}\n<style>{style}</style>\n<rect width="100%" height="100%"'
        f' rx="8"/>\n{shown}\n</svg>\n'
    )


def in_theme() -> str:
    """Return the CSS of terminal text for the reader's light or dark theme."""
    return f"{_FONT}{_THEME.format(**_LIGHT)}@media(prefers-color-scheme:dark){{{_THEME.format(**_DARK)}}}"


def _screen(rows: Sequence[str], delay: int) -> str:
    lines = "\n".join(
        line(row, _EDGE, _EDGE + _ROW * (number + 1) - 5) for number, row in enumerate(rows) if row
    )
    return f'<g style="animation-delay:{delay}s">\n{lines}\n</g>'


def line(row: str, left: int, height: int) -> str:
    """Return one row of a screen; its colour depends on its content."""
    return f'<text x="{left}" y="{height}"{_look(row)}>{escape(row)}</text>'


def _look(row: str) -> str:
    if changed := _CHANGED.match(row):
        return f' class="{_CHANGES[changed[1]]}"'
    return ' class="asks"' if row.endswith(("?", "Enter picks", "?]")) else ""
