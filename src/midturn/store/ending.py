"""How an `events.jsonl` ends: what of it is committed, and its last turn, read and decoded once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from midturn.core.codec import clean, decode_lines, decode_plain, decode_stream
from midturn.core.events import Event, OpaqueEvent, TurnStart
from midturn.store.folder import Folder
from midturn.store.tail import FIRST_BLOCK, LARGEST_BLOCK, NAME, FileEnd, WholeLine, committed_end, last_turn

_TURN = b'\n{"type":"turn_start",'
"""How the first line of a turn begins where we have written it."""


class Ending(Struct, frozen=True):
    """What a file ends with. Everything behind `end` is torn; the last turn begins at `begin`, and is there as `lines` and as `events`."""

    end: int
    begin: int
    lines: Sequence[bytes]
    events: Sequence[Event]


NOTHING = Ending(0, 0, (), ())
"""How an empty file ends."""


def read_ending(file: FileEnd, folder: Folder) -> Ending:
    """Read how the file in `folder` ends; what reads events is not made for a file that has none."""
    return (_plain_ending(file) or _any_ending(file, folder)) if file.size else NOTHING


def turn_of(file: FileEnd, lines: Sequence[WholeLine], folder: Folder) -> Sequence[Event]:
    """Decode the lines of a last turn. A broken one is an `OpaqueEvent` whose `problem` names the file and the line."""
    events = decode_lines([clean(line.text) for line in lines], "")
    if any(_wants_number(event) for event in events):  # only what stands before knows the number of a line
        before, end = lines[0].offset, lines[-1].offset + len(lines[-1].text) + 1
        whole = file.read(0, end)
        events = decode_stream(whole[before:], str(folder.path / NAME), whole.count(b"\n", 0, before) + 1)
    return events


def _plain_ending(file: FileEnd) -> Ending | None:
    """Look for the last line that begins as the first of a turn does; None where what stands there is not one whole turn.

    Where it looks is only a guess. The events that are decoded from there say whether it was right: the last batch is whole, the turn
    begins with the first of them and with no other.
    """
    begin, start, data = file.size, 0, b""
    while begin and not start:
        if file.size - begin > LARGEST_BLOCK:
            return None
        begin = max(2 * begin - file.size - FIRST_BLOCK, 0)  # twice as much each time
        data = file.read(begin, file.size)
        if not data.endswith(b"\n"):
            return None
        start = data.rfind(_TURN) + 1
    lines = data[start:].split(b"\n")[:-1]
    events = decode_plain(lines)
    if events is None or (events and events[-1].more > 0) or TurnStart in map(type, events[1:]):
        return None
    return Ending(file.size, begin + start, lines, events)


def _any_ending(file: FileEnd, folder: Folder) -> Ending:
    """Go from line to line, whatever they are."""
    end = committed_end(file)
    lines = last_turn(file, end)
    return Ending(end, lines[0].offset if lines else 0, [line.text for line in lines], turn_of(file, lines, folder))


def _wants_number(event: Event) -> bool:
    return event.event_id.startswith("line:") or (isinstance(event, OpaqueEvent) and bool(event.problem))
