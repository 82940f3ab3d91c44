"""Rows on a terminal: the 16 colours of its own theme, none where `NO_COLOR` is set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from prompt_toolkit.data_structures import Size as PtkSize
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style as PtkStyle

from midturn.prompts.rich.keyboard import Key
from midturn.prompts.rich.screen import Row
from midturn.terminal.ascii import ascii_row
from midturn.terminal.device import Device, DeviceStream
from midturn.terminal.look import STYLES

LOOKS = PtkStyle.from_dict({name: look for name, look in STYLES.items() if name})


class Canvas:
    """The surface for drawing: an output of prompt_toolkit's on our device, without cursor position requests.

    Rows are turned into what can be shown before they are drawn: the painter has to know how wide they are.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.stream = DeviceStream(device)
        self.held_keys: list[Key] = []
        self.depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else ColorDepth.DEPTH_4_BIT

        def size() -> PtkSize:
            return PtkSize(rows=device.size.rows, columns=device.size.columns)

        self.output = Vt100_Output(
            self.stream,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # it needs these methods of a TextIO only
            size,
            term=os.environ.get("TERM"),
            default_color_depth=self.depth,
            enable_cpr=False,
        )

    def clear(self) -> None:
        """Empty the screen; what scrolled out of it stays."""
        self.output.erase_screen()
        self.output.cursor_goto(0, 0)
        self.output.flush()

    def erase_above(self, rows: int) -> None:
        """Erase the last rows that were printed; those that have scrolled out of the screen stay."""
        self.output.cursor_up(rows)
        self.output.erase_down()
        self.output.flush()

    def print(self, rows: Iterable[Row]) -> Sequence[Row]:
        """Print rows that stay; return them as they are shown."""
        shown = [*rows] if self._device.unicode else [*map(ascii_row, rows)]
        print_formatted_text(self.output, fragments(shown, end="\n"), LOOKS, color_depth=self.depth)
        return shown


def fragments(rows: Iterable[Row], end: str = "") -> StyleAndTextTuples:
    """Return rows as styled fragments, a line break between them."""
    found: StyleAndTextTuples = []
    for number, spans in enumerate(rows):
        found += [("", "\n")] if number else []
        found += [(f"class:{span.style}" if span.style else "", span.text) for span in spans]
    return [*found, ("", end)] if found else found
