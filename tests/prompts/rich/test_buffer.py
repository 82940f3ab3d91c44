"""The text buffer of a field."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from midturn.terminal.prompts.cells import cells
from midturn.terminal.prompts.rich.buffer import Buffer

KEYS = (
    "left right up down home end c-home c-end backspace delete c-w m-d c-u c-k c-y c-_ m-b m-f"  # noqa: SIM905 (a list of names)
    " m-backspace".split()
)


def edited(text: str, *keys: str) -> tuple[str, int]:
    """Press keys at the end of a text. Return the new text and the position of the cursor."""
    buffer = Buffer(text)
    for key in keys:
        assert buffer.press(key), key
    return buffer.text, buffer.cursor


@pytest.mark.parametrize(
    ("text", "keys", "result"),
    [
        ("abc", ["backspace"], ("ab", 2)),
        ("abc", ["left", "left", "delete"], ("ac", 1)),
        ("one two", ["c-w"], ("one ", 4)),
        ("one two", ["c-w", "home", "c-y"], ("twoone ", 3)),
        ("one two", ["m-b", "m-b", "m-d"], (" two", 0)),
        ("one\ntwo", ["c-u"], ("one\n", 4)),
        ("one\ntwo", ["c-home", "c-k", "c-k"], ("two", 0)),
        ("one\ntwo", ["home"], ("one\ntwo", 4)),
        ("one\ntwo", ["home", "left", "home"], ("one\ntwo", 0)),
        ("one", ["c-w", "c-_"], ("one", 3)),
        ("cafe\u0301", ["backspace"], ("caf", 3)),
        ("a👨\u200d👩\u200d👧", ["backspace"], ("a", 1)),
        ("a👨\u200d👩\u200d👧b", ["left", "left"], ("a👨\u200d👩\u200d👧b", 1)),
        ("a👨\u200d👩\u200d👧b", ["home", "right", "right"], ("a👨\u200d👩\u200d👧b", 6)),
        ("👩🏽\u200d💻", ["home", "delete"], ("", 0)),
        ("x⚠\ufe0f", ["backspace"], ("x", 1)),
        ("👍🏽", ["left"], ("👍🏽", 0)),
        ("🇳🇱🇧🇪", ["left"], ("🇳🇱🇧🇪", 2)),
        ("a\tb", ["left", "left"], ("a\tb", 1)),
        ("", ["backspace", "delete", "left", "right", "c-w", "c-k", "c-_"], ("", 0)),
    ],
)
def test_editing_keys_work_as_in_a_shell(
    text: str, keys: list[str], result: tuple[str, int]
) -> None:
    assert edited(text, *keys) == result


def test_a_run_of_characters_is_undone_together() -> None:
    buffer = Buffer("a")
    for char in "bcd":
        buffer.type(char)

    assert buffer.press("c-_")
    assert buffer.text == "a"


def test_rows_wrap_at_the_width_with_room_for_the_cursor() -> None:
    buffer = Buffer("abcd\n本本")

    assert [buffer.text[start:end] for start, end in buffer.rows(4)] == ["abcd", "", "本本", ""]
    assert buffer.place(4) == (3, 0)


def test_up_and_down_move_by_displayed_rows() -> None:
    buffer = Buffer("abcdef\nxy")

    assert buffer.place(4) == (2, 2)
    assert buffer.move_rows(-1, 4)
    assert buffer.place(4) == (1, 2)
    assert buffer.move_rows(-1, 4)
    assert buffer.place(4) == (0, 2)
    assert not buffer.move_rows(-1, 4)


@given(
    st.text(alphabet="ab 本\ne\u0301", max_size=20),
    st.lists(st.sampled_from([*KEYS, "x", "本", "\n"]), max_size=30),
    st.integers(2, 9),
)
def test_after_any_keys_the_cursor_is_in_the_text_and_rows_contain_the_text(
    text: str, keys: list[str], width: int
) -> None:
    buffer = Buffer(text)
    for key in keys:
        if key in {"up", "down"}:
            buffer.move_rows(1 if key == "down" else -1, width)
        elif len(key) == 1:
            buffer.type(key)
        else:
            buffer.press(key)

        assert 0 <= buffer.cursor <= len(buffer.text)
        rows = buffer.rows(width)
        at, column = buffer.place(width)
        assert rows[at][0] <= buffer.cursor <= rows[at][1]
        assert column == cells(buffer.text[rows[at][0] : buffer.cursor]) <= width
        assert "".join(buffer.text[start:end] for start, end in rows) == buffer.text.replace(
            "\n", ""
        )
