"""Mutations for fuzzing without coverage: seeds that are cut, joined, repeated and corrupted."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

_WORDS = [
    b"\x00",
    b"\xff",
    b"\x1b",
    b"\n",
    b"\r",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"1e999",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
]


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Return a seed after up to eight changes, or sometimes random bytes."""
    data = bytearray(draw(st.sampled_from(seeds) | st.binary(max_size=200)))
    for _ in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        data[start:end] = (
            draw(_REPLACEMENTS) if draw(st.integers(0, 4)) else draw(st.sampled_from(seeds))[:400]
        )
    return bytes(data)


_REPLACEMENTS = st.sampled_from(_WORDS) | st.binary(max_size=6) | st.just(b"")
