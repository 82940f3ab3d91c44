"""Output while a question is open."""

from __future__ import annotations

import io

import pytest

from midturn.terminal.output_pair import Gate


class Screen(io.StringIO):
    """A stream that reports that it is a terminal."""

    def isatty(self) -> bool:
        """Return true."""
        return True


def test_output_is_held_while_a_prompt_is_open() -> None:
    gate, screen = Gate(), Screen()

    with gate.shut():
        gate.write(screen, "one\n")
        gate.write(screen, "two\n")
        assert screen.getvalue() == ""

    assert screen.getvalue() == "one\ntwo\n"


def test_output_to_a_pipe_is_never_held() -> None:
    gate, pipe = Gate(), io.StringIO()

    with gate.shut():
        gate.write(pipe, "text")
        assert pipe.getvalue() == "text"


def test_held_output_is_bounded_and_the_loss_is_counted() -> None:
    """The oldest output is dropped first."""
    gate, screen = Gate(max_buffered=20), Screen()

    with gate.shut():
        for number in range(10):
            gate.write(screen, f"line {number}\n")

    assert (
        screen.getvalue()
        == "... 8 lines of output were dropped while the question was open\nline 8\nline 9\n"
    )


def test_a_single_too_large_write_is_dropped() -> None:
    gate, screen = Gate(max_buffered=20), Screen()

    with gate.shut():
        gate.write(screen, "x\n" * 50)

    assert screen.getvalue() == "... 50 lines of output were dropped while the question was open\n"


def test_the_gate_opens_after_an_exception() -> None:
    gate, screen = Gate(), Screen()

    def fail_inside() -> None:
        with gate.shut():
            gate.write(screen, "kept")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_inside()
    gate.write(screen, "!")

    assert screen.getvalue() == "kept!"


def test_the_gate_tracks_whether_the_cursor_is_at_the_start_of_a_line() -> None:
    gate, screen = Gate(), Screen()
    assert gate.at_line_start

    gate.write(screen, "half a line")
    assert not gate.at_line_start

    gate.write(screen, " and the rest\n")
    assert gate.at_line_start
