"""The sink for text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, strategies as st

from midturn.question.text import exact, exact_block, hidden_places, prose
from support.depth import IS_DEEP

CODE = re.compile("\u27e8U\\+([0-9A-F]{4,6})\u27e9")
NASTY = "\x1b\x07\x00\r\n\t\x9b\u202e\u2066\u200b\u200d\ufe0f\u2028\u27e8\u27e9\u0301\u0300\U000e0041\U000e0100\ud800aé漢👩ي"
SURROGATES_TOO = st.lists(st.integers(0, 0x10FFFF).map(chr) | st.sampled_from(NASTY), max_size=40).map("".join)
EMPTY_OR_PRIVATE = {*range(4, 14), 15, 16}
"""Planes of Unicode in which all characters but the last two are of one sort."""
HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ATTACKS = {
    "colour": "\x1b[31m",
    "conceal": "\x1b[8m",
    "cursor up and erase": "\x1b[1A\x1b[2K",
    "clear": "\x1b[2J",
    "title": "\x1b]0;x\x07",
    "clipboard": "\x1b]52;c;aGk=\x07",
    "link": "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\",
    "image": "\x1b]1337;File=:AA==\x07",
    "device control": "\x1bP1$r\x1b\\",
    "application command": "\x1b_Gx\x1b\\",
    "8-bit control": "\x9b31m",
    "carriage return": "safe\rrm -rf",
    "backspace": "no\x08\x08yes",
    "alternate screen": "\x1b[?1049h",
    "query": "\x1b[c\x1b[6n",
    "bidi override": "\u202etxt.exe",
    "zero width": "a\u200bb",
    "tags": "\U000e0068\U000e0069",
    "bell": "\x07",
}


def read_back(shown: str) -> str:
    """The inverse of `exact`."""
    return CODE.sub(lambda code: chr(int(code[1], 16)), shown)


def is_harmless(text: str) -> bool:
    """No control, format, surrogate or separator is left that a terminal or Unicode acts on."""
    return HARMFUL.isdisjoint(map(unicodedata.category, text))


def code_points() -> Iterator[int]:
    """Yield every code point; without DEEP=1, of planes of one sort, each sixteenth and the last two."""
    for plane in range(17):
        first, end = plane << 16, (plane + 1) << 16
        is_one_sort = plane in EMPTY_OR_PRIVATE and not IS_DEEP
        yield from (*range(first, end, 16), end - 2, end - 1) if is_one_sort else range(first, end)


@pytest.mark.parametrize("sink", [exact, exact_block, prose])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_no_attack_reaches_the_terminal(sink: object, attack: str) -> None:
    assert callable(sink)
    assert is_harmless(str(sink(f"before {attack} after")))


def test_a_code_names_the_character() -> None:
    assert exact("a\u202eb\x1b[0m") == "a⟨U+202E⟩b⟨U+001B⟩[0m"


def test_the_bracket_itself_is_written_as_its_code() -> None:
    """Else a text could pretend to be an escaped one."""
    assert exact("⟨U+202E⟩") == "⟨U+27E8⟩U+202E⟩"


def test_a_line_shows_its_breaks_and_tabs() -> None:
    assert exact("a\n\tb") == "a⟨U+000A⟩⟨U+0009⟩b"


def test_a_block_keeps_its_lines_and_nothing_else() -> None:
    assert exact_block("a\n\tb\r\n") == "a\n⟨U+0009⟩b⟨U+000D⟩\n"


def test_prose_keeps_its_lines_and_turns_tabs_into_spaces() -> None:
    assert prose("a\n\tb\r\n") == "a\n    b⟨U+000D⟩\n"


@pytest.mark.long
def test_every_code_point_alone_can_be_seen_and_read_back() -> None:
    for code in code_points():
        character = chr(code)
        shown = exact(f"x{character}x")
        if shown == f"x{character}x":
            assert is_harmless(character), hex(code)
        else:
            assert shown == f"x⟨U+{code:04X}⟩x"


def test_exact_leaves_nothing_that_shows_nothing() -> None:
    """Whatever is left is a letter, mark, number, sign or the plain space; no variation selector, filler, tag or odd space."""
    ignorable = [*range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000), 0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180F, 0x3164, 0xFFA0, 0x2800]
    for code in (*ignorable, 0xA0, 0x2003, 0x3000, 0x378, 0xE000, 0x10FFFF):
        assert exact(f"x{chr(code)}x") == f"x⟨U+{code:04X}⟩x"


@pytest.mark.long
def test_prose_leaves_no_command_and_nothing_to_ignore() -> None:
    for code in code_points():
        character = chr(code)
        shown = prose(f"x{character}x")
        if character == "\n":
            continue
        if shown == f"x{character}x":
            assert is_harmless(character), hex(code)
        elif is_harmless(character) or character == "\t":
            assert is_harmless(shown), hex(code)
        else:
            assert shown == f"x⟨U+{code:04X}⟩x"


@pytest.mark.parametrize("word", ["👩‍💻", "👩🏽‍💻", "🏳️‍🌈", "❤️", "1️⃣", "می‌خواهم", "क्‍ष", "ශ්‍රී", "\u3000漢字", "no\u00a0break"])
def test_prose_leaves_whole_what_people_write(word: str) -> None:
    assert prose(word) == word


@pytest.mark.parametrize(
    "trick", ["a\u200db", "a\u200cb", "a\ufe0f", "\u200d", "👩\u200dx", "x\u200d💻", "❤️\ufe0f", "1\ufe0f", "👩\u200d\u200d💻"]
)
def test_prose_shows_a_joiner_that_joins_nothing(trick: str) -> None:
    assert "⟨U+" in prose(trick)


WHOLE = [
    "⚠\ufe0f",
    "❤\ufe0f",
    "1\ufe0f\u20e3",
    "می\u200cخواهید",  # noqa: RUF001  Persian
    "क्\u200dष",
    "क्\u200d",
    "ශ්\u200dරී",
    "👨\u200d👩\u200d👧",
    "👩🏽\u200d💻",
    "🏳\ufe0f\u200d🌈",
    "👩\u200d❤\ufe0f\u200d👨",
]


@pytest.mark.parametrize("sink", [exact, exact_block, prose])
@pytest.mark.parametrize("word", WHOLE)
def test_what_joins_is_shown_as_it_is(sink: Callable[[str], str], word: str) -> None:
    assert sink(f"a {word} b") == f"a {word} b"
    assert hidden_places(f"a {word} b") == frozenset()


@pytest.mark.parametrize("sink", [exact, exact_block, prose])
@pytest.mark.parametrize(
    "trick",
    ["a\u200db", "a\u200cb", "é\u200cé", "a\ufe0f", "1\ufe0f", "a\u202eb", "a\u2066b", "a\u200bb", "می\u200bخواهید", "x\u200d💻"],  # noqa: RUF001
)
def test_what_joins_nothing_is_shown_as_its_code(sink: Callable[[str], str], trick: str) -> None:
    assert sink(trick).count("⟨U+") == 1
    assert len(hidden_places(trick)) == 1


def test_hidden_places_are_those_of_the_codes() -> None:
    assert hidden_places("a\u202eb\n⟨") == {1, 4}


def without_joiners(shown: str) -> str:
    """Return a shown text without the joiners and selectors that join something."""
    return shown.translate(dict.fromkeys(map(ord, "\u200c\u200d\ufe0e\ufe0f")))


@given(SURROGATES_TOO)
@example("ၐ\u200dၐ")
def test_exact_hides_nothing_but_joiners(text: str) -> None:
    shown = exact(text)
    assert is_harmless(without_joiners(shown))
    assert read_back(shown) == text


@given(SURROGATES_TOO)
def test_exact_can_be_read_back(text: str) -> None:
    assert read_back(exact(text)) == text
    assert read_back(exact_block(text)) == text


@given(SURROGATES_TOO)
@example("ၐ\u200dၐ")
def test_nothing_harmful_is_left(text: str) -> None:
    assert is_harmless(without_joiners(exact(text)))
    assert is_harmless(without_joiners(exact_block(text)).replace("\n", ""))
    left = prose(text).replace("\n", "")
    assert all(character in "\u200c\u200d" for character in left if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"})


@given(SURROGATES_TOO, st.integers(0, 40))
def test_cutting_a_stream_lets_nothing_through(text: str, place: int) -> None:
    """Wherever the cut is, the pieces are harmless and can be read back together."""
    head, tail = text[:place], text[place:]
    assert read_back(exact(head) + exact(tail)) == text
    together = prose(head) + prose(tail)
    assert all(character in "\n\u200c\u200d" for character in together if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"})


@given(st.text(st.sampled_from("ab\u0301\u0300\u20dd\u200d\x1bé\n"), max_size=30))
def test_marks_never_pile_up(text: str) -> None:
    """At most four stand in a row, and none at the start of a line, where it would fall on the prompt's own frame."""
    for shown in (exact(text), *exact_block(text).split("\n"), *prose(text).split("\n")):
        assert not re.search("[\u0300-\u036f\u20d0-\u20ff]{5}", shown)
        assert not re.match("[\u0300-\u036f\u20d0-\u20ff]", shown)


@pytest.mark.parametrize("text", ["", "plain", "naïve café", "Привет", "日本語のテキスト", "שלום", "สวัสดี", "வணக்கம்", "→ ✓ ░ 🚀", "a b"])
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert exact(text) == exact_block(text) == prose(text) == text
