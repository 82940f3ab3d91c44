"""Several keys in one read, or faster than typing, are a paste and decide nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from midturn.terminal.prompts.rich.burst import HOLD, PAUSE, Bursts, KeyMode, TypingSpeed
from midturn.terminal.prompts.rich.keyboard import Key, Keyboard, Paste, Press

CHOICE = KeyMode(moves=frozenset({"j", "k", "tab"}))
TEXT = KeyMode(writes=True, decides=frozenset({"enter"}))


def feed_reads(reads: Sequence[tuple[float, str]], entry: KeyMode) -> list[Key]:
    """Feed reads with their times in seconds, and release held keys in time.

    Return the keys that count.
    """
    keyboard, bursts, counted = Keyboard(), Bursts(), list[Key]()
    due = 0.0
    for when, data in [*reads, (1e9, "")]:
        if bursts.holds and due <= when:
            counted += [key for key, _ in bursts.release(entry)]
        keys = keyboard.feed(data)
        if keys:
            counted += [key for key, _ in bursts.feed(keys, when, entry)]
            due = when + HOLD
    return counted


def presses(*names: str) -> list[Key]:
    """Return key presses with these names."""
    return [Press(name) for name in names]


def burst(text: str = "") -> Paste:
    """Return a paste that the terminal has not marked."""
    return Paste(text, marked=False)


@pytest.mark.parametrize(
    "reads",
    [
        [(0, "You should look at this first. Then stop.")],
        [(0, "Y"), (0.001, "ou should look"), (0.002, " at this.")],
        [(0, "Y"), (0.03, "o"), (0.06, "u")],
        [(0, "y\r")],
        [(0, "y"), (0.01, "\r")],
        [(0, "yes"), (0.1, "y"), (0.35, "y"), (0.6, "\r")],  # the tail of a paste, up to a pause
        [(0, "2\n2\n")],
        [(0, "a\x1b[Bb\x03")],
        [(0, "はい")],
    ],
)
def test_a_burst_does_not_answer_a_choice(reads: list[tuple[float, str]]) -> None:
    (paste,) = feed_reads(reads, CHOICE)

    assert isinstance(paste, Paste)
    assert not paste.marked


def test_keys_read_in_one_burst_after_a_delay_do_not_answer() -> None:
    keyboard, bursts = Keyboard(), Bursts()
    assert bursts.feed(keyboard.feed("Y"), 0, CHOICE) == []
    assert [key for key, _ in bursts.feed(keyboard.feed("o"), 4 * HOLD, CHOICE)] == [burst("o")]


def test_keys_count_again_after_a_pause() -> None:
    assert feed_reads([(0, "please"), (PAUSE + 0.1, "y")], CHOICE) == [burst("please"), Press("y")]
    assert feed_reads([(0, "please"), (PAUSE - 0.1, "y"), (2 * PAUSE, "n")], CHOICE) == [
        burst("please"),
        Press("n"),
    ]


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        ([(0, "y")], presses("y")),
        ([(0, "y"), (0.06, "\r")], presses("y", "enter")),
        ([(0, "\x1b[B\x1b[B\r")], presses("down", "down", "enter")),  # only the last key may decide
        ([(0, "\x1b[B"), (0, "y")], presses("down", "y")),
        ([(0, "jj")], presses("j", "j")),
        ([(0, "j"), (0.03, "j"), (0.06, "k")], presses("j", "j", "k")),  # a repeated key
        ([(0, "y\x03")], presses("y", "c-c")),
        ([(0, "\x03")], presses("c-c")),
        ([(0, "\x1b[Ay\x1b[B")], presses("up", "y", "down")),
    ],
)
def test_typed_keys_count_at_a_choice(reads: list[tuple[float, str]], keys: list[Key]) -> None:
    assert feed_reads(reads, CHOICE) == keys


def test_keys_after_a_marked_paste_belong_to_it() -> None:
    (paste,) = feed_reads([(0, "\x1b[200~text\x1b[201~y\r")], CHOICE)
    assert isinstance(paste, Paste)
    assert [
        type(key) for key in feed_reads([(0, "\x1b[200~text\x1b[201~"), (0.1, "y")], CHOICE)
    ] == [Paste]
    assert feed_reads([(0, "\x1b[200~text\x1b[201~"), (0.01, "\r")], TEXT) == [
        Paste("text"),
        burst(),
    ]
    assert feed_reads([(0, "\x1b[200~text\x1b[201~"), (0.5, "\r")], TEXT) == [
        Paste("text"),
        Press("enter"),
    ]


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        ([(0, "one\rtwo\r\nthree")], [burst("one\ntwo\nthree")]),
        ([(0, "one\rtwo\r")], [burst("one\ntwo"), burst()]),  # the last line break does not submit
        ([(0, "one\r"), (0.01, "two")], [burst("one"), burst("\ntwo")]),
        ([(0, "one"), (0.01, "\r"), (0.02, "two")], [*presses("o", "n", "e"), burst("\ntwo")]),
        ([(0, "\r"), (0.01, "two")], [burst("\ntwo")]),
        ([(0, "one\r\n")], [burst("one"), burst()]),
        ([(0, "a\tb\r")], [burst("a\tb"), burst()]),
        ([(0, "one\x1b[D\rtwo")], [burst("one"), Press("left"), burst("\ntwo")]),
        ([(0, "one\x03\rtwo")], [burst("one\ntwo")]),
    ],
)
def test_a_burst_is_text_in_a_text_field(reads: list[tuple[float, str]], keys: list[Key]) -> None:
    assert feed_reads(reads, TEXT) == keys


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        ([(0, "yes"), (0.15, "\r")], presses("y", "e", "s", "enter")),
        ([(0, "y"), (0.03, "\r")], presses("y", "enter")),
        ([(0, "\r")], presses("enter")),
        ([(0, "日本")], presses("日", "本")),  # composed by an input method
        ([(0, "ab\x1b[Dc")], presses("a", "b", "left", "c")),
        ([(0, "a"), (0.01, "b"), (0.02, "c"), (0.2, "\r")], presses("a", "b", "c", "enter")),
    ],
)
def test_typed_keys_write_and_submit(reads: list[tuple[float, str]], keys: list[Key]) -> None:
    assert feed_reads(reads, TEXT) == keys


@given(
    st.lists(
        st.tuples(st.floats(0, HOLD * 0.9), st.text("yYn2 \r\tjJ", min_size=1, max_size=4)),
        min_size=2,
        max_size=6,
    )
)
def test_no_key_of_a_split_paste_answers(pieces: list[tuple[float, str]]) -> None:
    reads, now = list[tuple[float, str]](), 0.0
    for pause, text in pieces:
        now += pause
        reads.append((now, text))
    decided = {"y", "Y", "n", "2", " ", "enter", "J"}

    counted = feed_reads(reads, CHOICE)

    typed = "".join(text for _, text in reads)
    if sum(char not in "jk\t" for char in typed) > 1:
        assert sum(isinstance(key, Press) and key.key in decided for key in counted) == 0


@given(
    st.lists(
        st.tuples(st.floats(0, 0.019), st.text("ab\r", min_size=1, max_size=4)),
        min_size=1,
        max_size=6,
    )
)
def test_the_text_of_a_split_paste_is_complete(pieces: list[tuple[float, str]]) -> None:
    reads, now = list[tuple[float, str]](), 0.0
    for pause, text in pieces:
        now += pause
        reads.append((now, text))
    typed = "".join(text for _, text in reads)

    counted = feed_reads(reads, TEXT)

    written = "".join(key.text if isinstance(key, Paste) else key.character for key in counted)
    if len(typed) > 1:
        assert Press("enter") not in counted
        assert written == typed.replace("\r", "\n").removesuffix("\n")


def test_fast_typing_is_not_a_paste() -> None:
    speed = TypingSpeed()
    assert not speed.is_paste(1, 0)
    assert not speed.is_paste(1, 0.05)
    assert speed.is_paste(1, 0.06)
    assert speed.is_paste(2, 1)
    assert speed.is_paste(1, 1.08)
    assert not speed.is_paste(1, 2)
