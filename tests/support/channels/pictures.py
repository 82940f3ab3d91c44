"""Draw the cards that a server received as SVG: text and buttons, without the style of an app."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from typing import Final

from support.channels.phones import Shown

_WIDE: Final = 50  # characters per line
_LINE, _EDGE, _BUTTON, _ACROSS = 19, 16, 36, 400
_STYLE: Final = (
    "text{font:13px"
    " ui-monospace,Menlo,Consolas,monospace;fill:#1f2328}.card{fill:#f6f8fa;stroke:#d0d7de}"
    ".button{fill:#fff;stroke:#8c959f}.label{text-anchor:middle;font-weight:600}"
    "@media"
    " (prefers-color-scheme:dark){text{fill:#e6edf3}.card{fill:#161b22;stroke:#30363d}.button{fill:#21262d;stroke:#6e7681}}"
)


def draw_cards(cards: Sequence[Shown], title: str) -> str:
    """Draw cards one below the other, as SVG."""
    parts: list[str] = []
    top = 1
    for card in cards:
        lines = _lines(card.text)
        height = 2 * _EDGE + _LINE * len(lines) + (_BUTTON + 8 if card.buttons else 0)
        parts.append(
            f'<rect class="card" x="1" y="{top}" width="{_ACROSS - 2}" height="{height}" rx="10"/>'
        )
        for number, line in enumerate(lines, 1):
            parts.append(
                f'<text x="{_EDGE}" y="{top + _EDGE + _LINE * number - 6}"'
                f' xml:space="preserve">{escape(line)}</text>'
            )
        parts += _buttons(card.buttons, top + height - _EDGE - _BUTTON)
        top += height + 12
    body, name = "\n".join(parts), f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>"
    size = f'viewBox="0 0 {_ACROSS} {top - 11}" width="{_ACROSS}" height="{top - 11}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n{name}\n{body}\n</svg>\n'


def _lines(text: str) -> list[str]:
    shown = [
        line.strip("*") for line in text.strip().splitlines() if line != "```"
    ]  # Discord's code block and bold
    wrapped = [textwrap.wrap(line, _WIDE, drop_whitespace=False) or [""] for line in shown]
    return [line for some in wrapped for line in some]


def _buttons(labels: Sequence[str], top: int) -> list[str]:
    wide = (_ACROSS - 2 * _EDGE - 8 * (len(labels) - 1)) // max(1, len(labels))
    parts: list[str] = []
    for number, label in enumerate(labels):
        left = _EDGE + number * (wide + 8)
        parts.append(
            f'<rect class="button" x="{left}" y="{top}" width="{wide}" height="{_BUTTON}" rx="6"/>'
        )
        parts.append(
            f'<text class="label" x="{left + wide // 2}" y="{top + 23}">{escape(label)}</text>'
        )
    return parts
