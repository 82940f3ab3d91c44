"""Lines out of a stream: all of them however it is cut, and of one that is too long both ends."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from midturn.mcp.bounded_http import Lines, Overlong

BODY = {"content": [{"type": "text", "text": 'x"}, "id": 5}' * 1000}]}


def taken(*pieces: bytes, longest: int = 100) -> list[bytes | Overlong]:
    lines = Lines(longest)
    return [line for piece in pieces for line in lines.take(piece)]


@given(st.lists(st.binary(max_size=150).filter(lambda line: b"\n" not in line)), st.lists(st.integers(0, 400)))
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(places)]

    found = taken(*pieces)

    assert [line if isinstance(line, bytes) else None for line in found] == [line if len(line) <= 100 else None for line in lines]


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
def test_which_request_a_message_answers_is_seen_at_both_ends(message: object, answers: int | str | None) -> None:
    (line,) = taken(json.dumps(message).encode() + b"\n")

    assert isinstance(line, Overlong)
    assert line.answers == answers


def test_of_a_line_without_an_end_nothing_is_kept_but_its_length() -> None:
    lines = Lines(longest=100, endless=10_000)

    while not lines.is_endless:
        assert not list(lines.take(b"x" * 64))
