"""Reading the end of a log file."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from midturn.stores.log_tail import (
    FileEnd,
    committed_end,
    last_turn,
    lines_backwards,
    unfinished_turn,
)

PADDING = st.integers(0, 40) | st.sampled_from([8_000, 8_191, 8_192, 20_000])
BATCHES = st.lists(st.lists(PADDING, min_size=1, max_size=4), max_size=5)


@contextmanager
def opened(content: bytes) -> Generator[FileEnd]:
    fd = os.memfd_create("events")
    try:
        os.write(fd, content)
        yield FileEnd(fd, len(content))
    finally:
        os.close(fd)


def line(more: int, padding: int = 0, kind: str = "chat_request") -> bytes:
    event = {"type": kind, "more": more, "content": "x" * padding}
    return msgspec.json.encode(event) + b"\n"


def written(batches: list[list[int]]) -> list[bytes]:
    return [
        b"".join(line(len(batch) - 1 - index, padding) for index, padding in enumerate(batch))
        for batch in batches
    ]


@given(BATCHES, st.data())
def test_committed_part_ends_with_the_last_whole_batch(
    batches: list[list[int]], data: st.DataObject
) -> None:
    parts = written(batches)
    whole = b"".join(parts)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, parts[:count])) for count in range(len(parts) + 1)]

    with opened(whole[:cut]) as file:
        assert committed_end(file) == max(end for end in ends if end <= cut)


@given(BATCHES, st.lists(st.integers(0, 30), max_size=3))
def test_lines_are_read_backwards_with_their_offsets(
    batches: list[list[int]], blanks: list[int]
) -> None:
    content = b"".join(written(batches))
    for blank in blanks:
        place = content.find(b"\n", blank) + 1
        content = content[:place] + b" \r\n" + content[place:]

    with opened(content) as file:
        found = list(lines_backwards(file, len(content)))

    assert [each.text for each in found[::-1]] == [
        text for text in content.split(b"\n") if text.strip()
    ]
    assert all(content[each.offset :].startswith(each.text + b"\n") for each in found)


def test_a_line_without_its_newline_is_torn_even_if_it_parses() -> None:
    with opened(line(0) + line(0)[:-1]) as file:
        assert committed_end(file) == len(line(0))


def test_invalid_line_with_a_newline_is_not_torn() -> None:
    """It is kept and reported when the log is read."""
    content = line(0) + b"{nonsense\n"
    with opened(content) as file:
        assert committed_end(file) == len(content)


def test_half_a_batch_is_torn_even_if_its_lines_are_whole() -> None:
    with opened(line(0) + line(2) + line(1)) as file:
        assert committed_end(file) == len(line(0))


def test_one_truncation_is_enough() -> None:
    """The end of an earlier batch was deleted by hand, and then another batch was torn."""
    content = line(0) + line(1) + line(3) + line(2)
    with opened(content) as file:
        assert committed_end(file) == len(line(0))


def test_a_file_of_zeros_has_nothing_committed() -> None:
    """A power failure can leave such a file."""
    with opened(b"\0" * 100_000) as file:
        assert committed_end(file) == 0


def test_last_turn_is_found_after_a_long_history(tmp_path: Path) -> None:
    """Only the blocks of the last turn are read; the history before it is a hole without
    lines.
    """
    path = tmp_path / "events.jsonl"
    turn = line(0, kind="turn_start") + line(0, 50_000) + line(0)
    with path.open("wb") as file:
        file.seek(3 << 30)
        file.write(b"\n" + turn)

    fd = os.open(path, os.O_RDONLY)
    try:
        file = FileEnd(fd, path.stat().st_size)
        found = last_turn(file, committed_end(file))
    finally:
        os.close(fd)

    assert b"".join(each.text + b"\n" for each in found) == turn


@pytest.mark.parametrize(
    ("kinds", "finished"),
    [
        (["turn_start", "turn_end"], True),
        (["turn_start", "turn_end", "config_delta"], True),
        (["turn_start", "chat_request"], False),
        (["turn_end", "turn_start"], False),
        (["chat_request"], False),
        ([], False),
    ],
)
def test_the_end_says_whether_the_turn_is_over(kinds: list[str], *, finished: bool) -> None:
    content = b"".join(line(0, kind=kind) for kind in kinds)
    with opened(content) as file:
        found = b"".join(each.text + b"\n" for each in unfinished_turn(file, len(content)))
        assert found == (
            b""
            if finished
            else content[content.rfind(line(0, kind="turn_start")) :]
            if "turn_start" in kinds
            else content
        )


def test_a_turn_that_begins_with_a_damaged_event_still_begins_there() -> None:
    damaged = b'{"type":"turn_start","more":"one"}\n'
    with opened(line(0) + damaged + line(0)) as file:
        assert len(last_turn(file, len(line(0) * 2 + damaged))) == 2
