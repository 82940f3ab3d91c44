"""A fast check of whether a log's turn has ended gives the same result as reading it line by
line.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from midturn.events.codec import encode_event
from midturn.events.types import ChatRequest, ChatResponse, Event, TurnEnd, TurnStart
from midturn.stores import log_tail
from midturn.stores.folder import Folder
from midturn.stores.log_tail import FileEnd, LogEnd, committed_end, last_turn, read_ending, turn_of

AT = "2026-01-01T00:00:00.000000Z"
START = encode_event(TurnStart(event_id="a", timestamp=AT))
SAID = encode_event(ChatRequest(event_id="b", timestamp=AT, content="x"))
END = encode_event(TurnEnd(event_id="d", timestamp=AT, status="completed"))
LINES = [
    START,
    START,
    SAID,
    END,
    encode_event(ChatRequest(event_id="b", timestamp=AT, content="x" * 9_000)),
    encode_event(ChatResponse(event_id="c", timestamp=AT, message='{"type":"turn_start",')),
    START.replace(b",", b', "type": "turn_start",', 1),
    START.replace(b'"turn_start",', b'"turn_start","type":"turn_end",'),
    SAID[:-1] + b',"type":"turn_start"}',
    START.replace(b'"event_id":"a"', b'"event_id":""'),
    START[:-1] + b',"more":1}',
    SAID[:-1] + b',"more":2}',
    SAID[:-1] + b',"more":1,"more":0}',
    START + b"\r",
    b" " + START,
    b"\xef\xbb\xbf" + START,
    b"",
    b" \r",
    b"{nonsense",
    b'{"type":"turn_start","more":"one"}',
    b'{"type":"from_tomorrow","event_id":"e"}',
]


@contextmanager
def opened(content: bytes) -> Generator[tuple[FileEnd, Folder]]:
    with tempfile.TemporaryDirectory() as name, Folder.at(Path(name)) as folder:
        (Path(name) / "events.jsonl").write_bytes(content)
        fd = folder.open("events.jsonl", os.O_RDONLY)
        try:
            yield FileEnd(fd, len(content)), folder
        finally:
            os.close(fd)


def by_lines(content: bytes) -> LogEnd:
    with opened(content) as (file, folder):
        end = committed_end(file)
        lines = last_turn(file, end)
        return LogEnd(
            end,
            lines[0].offset if lines else 0,
            [line.text for line in lines],
            turn_of(file, lines, folder),
        )


def comparable(events: list[Event]) -> list[bytes]:
    """Return the events as comparable bytes.

    Problems are left out, because they name a different directory each time.
    """
    return [encode_event(event) for event in events]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.integers(0, 3))
def test_end_of_a_file_equals_that_of_its_lines(lines: list[bytes], cut: int) -> None:
    content = b"".join(line + b"\n" for line in lines)
    content = content[: len(content) - cut]

    with opened(content) as (file, folder):
        found = read_ending(file, folder)

    expected = by_lines(content)
    assert (found.end, found.begin, list(found.lines)) == (
        expected.end,
        expected.begin,
        list(expected.lines),
    )
    assert comparable(list(found.events)) == comparable(list(expected.events))


@pytest.mark.parametrize("history", [0, 3, 400])
def test_own_files_are_not_parsed_line_by_line(
    history: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(log_tail, "committed_end")
    before = b"".join(line + b"\n" for line in [START, SAID, END] * history)
    turn = [START, SAID, LINES[4], SAID]

    with opened(before + b"\n".join(turn) + b"\n") as (file, folder):
        found = read_ending(file, folder)

    assert (found.begin, found.lines) == (len(before), turn)
