"""Screens of a terminal as one picture that plays them, in SVG: nothing is loaded, and no script runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape

SECONDS = 4  # that each screen stays
_CELL, _ROW, _EDGE = 8.4, 18, 14
_LIGHT = {"ground": "#f6f8fa", "words": "#24292f", "added": "#116329", "removed": "#a40e26", "asks": "#0550ae"}
_DARK = {"ground": "#16181d", "words": "#d6d9de", "added": "#8fd694", "removed": "#f28b82", "asks": "#9ecbff"}
_THEME = "rect{{fill:{ground}}}text{{fill:{words}}}.added{{fill:{added}}}.removed{{fill:{removed}}}.asks{{fill:{asks}}}"
_STYLE = (
    "text{{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}}"
    "{light}@media(prefers-color-scheme:dark){{{dark}}}"
    "g{{opacity:0;animation:show {whole}s infinite}}"
    "@keyframes show{{0%,{share}%{{opacity:1}}{after}%,100%{{opacity:0}}}}"
    "@media(prefers-reduced-motion:reduce){{g{{animation:none}}g:last-of-type{{opacity:1}}}}"
)
_CHANGED = re.compile(r"│ *\d+ ([+-])")
_CHANGES = {"+": "added", "-": "removed"}


def picture(screens: Sequence[Sequence[str]], title: str) -> str:
    """Return the SVG, in the reader's theme, light or dark; whoever wants no motion sees the last screen."""
    width = round(max(len(row) for screen in screens for row in screen) * _CELL + 2 * _EDGE)
    height = max(len(screen) for screen in screens) * _ROW + 2 * _EDGE
    share = 100 / len(screens)
    light, dark = _THEME.format(**_LIGHT), _THEME.format(**_DARK)
    style = _STYLE.format(light=light, dark=dark, whole=SECONDS * len(screens), share=f"{share - 0.1:g}", after=f"{share:g}")
    shown = "\n".join(_screen(screen, SECONDS * place) for place, screen in enumerate(screens))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    return f'{head}\n<style>{style}</style>\n<rect width="100%" height="100%" rx="8"/>\n{shown}\n</svg>\n'


def _screen(rows: Sequence[str], delay: int) -> str:
    lines = "\n".join(_line(row, _EDGE + _ROW * (number + 1) - 5) for number, row in enumerate(rows) if row)
    return f'<g style="animation-delay:{delay}s">\n{lines}\n</g>'


def _line(row: str, height: int) -> str:
    return f'<text x="{_EDGE}" y="{height}"{_look(row)}>{escape(row)}</text>'


def _look(row: str) -> str:
    if changed := _CHANGED.match(row):
        return f' class="{_CHANGES[changed[1]]}"'
    return ' class="asks"' if row.endswith(("?", "Enter picks", "?]")) else ""
