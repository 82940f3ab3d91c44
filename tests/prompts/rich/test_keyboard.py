"""Decoding of keyboard input."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from midturn.terminal.prompts.rich.keyboard import Key, Keyboard, Paste, Press


def keys(data: str) -> list[Key]:
    """Return the keys of `data` after a pause."""
    keyboard = Keyboard()
    return keyboard.feed(data) + keyboard.flush()


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ("yN本", ["y", "N", "本"]),
        ("\r\n\t\x7f\x08", ["enter", "c-j", "tab", "backspace", "backspace"]),
        ("\x01\x03\x1a\x1f", ["c-a", "c-c", "c-z", "c-_"]),
        ("\x1b[A\x1bOB\x1b[C\x1b[D\x1b[H\x1b[F", ["up", "down", "right", "left", "home", "end"]),
        (
            "\x1b[1;5C\x1b[1;3D\x1b[5~\x1b[3~\x1b[Z",
            ["c-right", "m-left", "pageup", "delete", "s-tab"],
        ),
        ("\x1b[13;2u\x1b[27;2;13~\x1b\r", ["s-enter", "s-enter", "m-enter"]),
        ("\x1bb\x1b\x7f", ["m-b", "m-backspace"]),
        ("\x1bOP\x1b[11~\x1b[[A\x1b[P", ["f1", "f1", "f1"]),
        ("\x1b", ["escape"]),
        ("\x1b\x1b", ["escape", "escape"]),
    ],
)
def test_keys_have_the_names_used_by_presenters(data: str, names: list[str]) -> None:
    assert keys(data) == [Press(name) for name in names]


@pytest.mark.parametrize(
    "data",
    [
        "\x1b[0n",  # a status report of the terminal, which ends in n
        "\x1b[?2026;2$y",  # a mode report, which ends in y
        "\x1b[24;80R",
        "\x1b[?62;4c",
        "\x1b[[B",
        "\x1b[M !!",
        "\x1b]11;rgb:0000/0000/0000\x1b\\",
        "\x1b]2;y\x07",
        "\x1bP1$r0m\x1b\\",
        "\x1b[<0;1;1M",
        "\x1b[25;2~",
        "\x1b[I",
        "\x1bOy",
        "\x9b1n"[:1],
    ],
)
def test_reports_and_unknown_sequences_are_not_keys(data: str) -> None:
    """The last character of a report must not count as a `y`."""
    assert keys(data) == []


@pytest.mark.parametrize(
    "data", ["\x1b[Myyy", "\x1b[[y", "\x1b]0;y\x07", "\x1b[?2026;2$y", "\x1b[<0;1;1M"]
)
def test_split_reports_are_not_keys_either(data: str) -> None:
    keyboard = Keyboard()

    assert [key for character in data for key in keyboard.feed(character)] + keyboard.flush() == []


def test_a_sequence_can_arrive_in_pieces() -> None:
    keyboard = Keyboard()

    assert keyboard.feed("\x1b") == []
    assert keyboard.undecided
    assert keyboard.feed("[1;") == []
    assert keyboard.feed("5A") == [Press("c-up")]
    assert not keyboard.undecided


def test_an_endless_sequence_is_dropped() -> None:
    keyboard = Keyboard()

    assert keyboard.feed("\x1b[1;5") == []
    assert keyboard.flush() == []
    assert keyboard.feed("y") == [Press("y")]


def test_a_paste_is_one_event_with_any_content() -> None:
    assert keys("\x1b[200~y\r\nn\x1b[Ax\rz\x1b[201~q") == [Paste("y\nn\x1b[Ax\nz"), Press("q")]


def test_a_paste_can_arrive_in_pieces() -> None:
    keyboard = Keyboard()

    assert keyboard.feed("\x1b[200~one") == []
    assert keyboard.flush() == []
    assert keyboard.feed(" two\x1b[20") == []
    assert keyboard.feed("1~") == [Paste("one two")]


def test_ctrl_c_leaves_a_paste_without_an_end() -> None:
    keyboard = Keyboard()
    keyboard.feed("\x1b[200~one")

    assert keyboard.feed("\x03") == [Press("c-c")]
    assert keyboard.feed("y") == [Press("y")]


@given(
    st.lists(
        st.text(alphabet=st.sampled_from("\x1b[]OPM?;0123456789~uyn$ \x07\\<RA\r本"), max_size=8),
        max_size=8,
    )
)
def test_splitting_the_input_anywhere_changes_nothing(pieces: list[str]) -> None:
    whole, cut = Keyboard(), Keyboard()

    together = whole.feed("".join(pieces))
    apart = [key for piece in pieces for key in cut.feed(piece)]

    assert together == apart
    assert whole.flush() == cut.flush()


@pytest.mark.parametrize(
    "typed", ["", "yn", "\x1b[200~one\x1b[201~", "\x1b", "\x1b[1;2", "y\x1b[200~one\x1b[201~n"]
)
def test_earlier_input_is_discarded(typed: str) -> None:
    keyboard = Keyboard()

    keyboard.begin_anew(typed)

    assert not keyboard.pasting
    assert keyboard.feed("y") == [Press("y")]


@pytest.mark.parametrize("typed", ["\x1b[200~one", "yn\x1b[200~one", "\x1b[200~", "\x1b[20"])
def test_a_paste_in_progress_continues(typed: str) -> None:
    keyboard = Keyboard()

    keyboard.begin_anew(typed)

    rest = (
        "0~one two\x1b[201~"
        if typed.endswith("0") and not typed.endswith("200~")
        else " two\x1b[201~"
    )
    assert keyboard.feed(f"{rest}n") == [
        Paste("one two" if "one" in typed + rest else " two"),
        Press("n"),
    ]


def test_a_stalled_paste_is_treated_as_ended() -> None:
    keyboard = Keyboard()
    keyboard.feed("\x1b[200~one")

    keyboard.begin_anew("")

    assert keyboard.feed("y") == [Press("y")]
