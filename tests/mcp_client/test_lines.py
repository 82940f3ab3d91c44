"""`LineSplitter` finds the same lines however a stream is split, and reports oversized lines."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from midturn.mcp.bounded_http import LineSplitter, OversizedLine

BODY = {"content": [{"type": "text", "text": 'x"}, "id": 5}' * 1000}]}


def split_lines(*pieces: bytes, longest: int = 100) -> list[bytes | OversizedLine]:
    lines = LineSplitter(longest)
    return [line for piece in pieces for line in lines.take(piece)]


@given(
    st.lists(st.binary(max_size=150).filter(lambda line: b"\n" not in line)),
    st.lists(st.integers(0, 400)),
)
def test_lines_do_not_depend_on_how_the_stream_is_split(
    lines: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(places)]

    found = split_lines(*pieces)

    assert [line if isinstance(line, bytes) else None for line in found] == [
        line if len(line) <= 100 else None for line in lines
    ]


@pytest.mark.parametrize(
    ("message", "answers"),
    [
        ({"jsonrpc": "2.0", "id": 7, "result": BODY}, 7),
        ({"id": "a-7", "jsonrpc": "2.0", "result": BODY}, "a-7"),
        ({"jsonrpc": "2.0", "result": BODY, "id": 7}, 7),
        ({"result": BODY, "jsonrpc": "2.0", "id": 7}, 7),
        ({"result": BODY, "id": 7, "jsonrpc": "2.0"}, 7),
        ({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "x" * 9000}}, 7),
        ({"jsonrpc": "2.0", "result": {**BODY, "id": 7}}, None),
        ({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": BODY}, None),
        ({"method": "elicitation/create", "params": BODY, "jsonrpc": "2.0", "id": 7}, None),
        ({"method": "notifications/message", "params": BODY}, None),
        ({"jsonrpc": "2.0", "result": "x" * 9000 + '}, "id": 5}'}, None),
    ],
)
def test_the_answered_request_of_an_oversized_line_is_found_at_both_ends(
    message: object, answers: int | str | None
) -> None:
    (line,) = split_lines(json.dumps(message).encode() + b"\n")

    assert isinstance(line, OversizedLine)
    assert line.answers == answers


def test_only_the_length_of_an_endless_line_is_kept() -> None:
    lines = LineSplitter(longest=100, endless=10_000)

    while not lines.is_too_long:
        assert not list(lines.take(b"x" * 64))
