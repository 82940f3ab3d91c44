"""Tables: columns as wide as they need, and together no wider than the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from midturn.prompts.cells import cells
from midturn.terminal.markdown.blocks import Table
from midturn.terminal.markdown.ink import DIM, PLAIN, STRONG, cut, wrapped
from midturn.terminal.markdown.inline import styled

_GAP = "  "
_LEAST = 3  # cells of a column; where there is no room for that, each row becomes a list


def table_rows(table: Table, width: int, line: str) -> list[Text]:
    """Lay out a table; the first row of it is its head."""
    styled_rows = [[styled(cell, PLAIN if number else STRONG) for cell in row] for number, row in enumerate(table.rows)]
    widths = _fit([max(cells(row[column].plain) for row in styled_rows) for column in range(len(table.sides))], width)
    if widths is None:
        return _as_lists(styled_rows, width)
    head, *body = styled_rows
    rule = Text(_GAP.join(line * column for column in widths), DIM)
    return [*_row(head, widths, table.sides), rule, *(row for record in body for row in _row(record, widths, table.sides))]


def _fit(wanted: Sequence[int], width: int) -> list[int] | None:
    """Share out the width: narrow columns get what they want, the widest give way; None where it is not enough."""
    room = width - cells(_GAP) * (len(wanted) - 1)
    widths = [max(1, column) for column in wanted]
    if room < min(_LEAST, max(widths)) * len(widths):
        return None
    while (excess := sum(widths) - room) > 0:
        widest = max(widths)
        next_widest = max((column for column in widths if column < widest), default=0)
        many = widths.count(widest)
        lowered = max(next_widest, widest - -(-excess // many), 1)
        widths = [lowered if column == widest else column for column in widths]
    return widths


def _row(record: Sequence[Text], widths: Sequence[int], sides: Sequence[str]) -> list[Text]:
    """Lay out one record; a long text takes several rows."""
    columns = [_lines(text, width) for text, width in zip(record, widths, strict=True)]
    rows: list[Text] = []
    for number in range(max(map(len, columns))):
        row = Text()
        for column, (lines, width, side) in enumerate(zip(columns, widths, sides, strict=True)):
            text = lines[number] if number < len(lines) else Text()
            row = row + (_GAP if column else "") + _aligned(text, width, side)
        rows.append(row)
    return rows


def _lines(text: Text, width: int) -> list[Text]:
    return [part for row in wrapped(text, width) for part in cut(row, width)]


def _aligned(text: Text, width: int, side: str) -> Text:
    spare = max(0, width - cells(text.plain))
    before = {"right": spare, "center": spare // 2}.get(side, 0)
    return Text(" " * before) + text + " " * (spare - before)


def _as_lists(records: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Lay out a table that is too wide for its columns: record by record, each value below its heading."""
    head, *body = records
    rows: list[Text] = []
    for record in body or [head]:
        rows += [Text()] if rows else []
        for name, value in zip(head, record, strict=True):
            rows += wrapped(name + ": " + value if record is not head else name, width)
    return rows
