"""Escaping of text for display."""

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
SURROGATES_TOO = st.lists(
    st.integers(0, 0x10FFFF).map(chr) | st.sampled_from(NASTY), max_size=40
).map("".join)
EMPTY_OR_PRIVATE = {*range(4, 14), 15, 16}
"""Planes of Unicode in which all characters except the last two have the same category."""
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
    """Return the original text of an output of `exact`."""
    return CODE.sub(lambda code: chr(int(code[1], 16)), shown)


def is_harmless(text: str) -> bool:
    """Return whether no character is left that acts on a terminal or on the layout.

    Those are control, format, surrogate and separator characters.
    """
    return HARMFUL.isdisjoint(map(unicodedata.category, text))


def code_points() -> Iterator[int]:
    """Yield every code point. Uniform planes are sampled unless DEEP=1."""
    for plane in range(17):
        first, end = plane << 16, (plane + 1) << 16
        is_one_sort = plane in EMPTY_OR_PRIVATE and not IS_DEEP
        yield from (*range(first, end, 16), end - 2, end - 1) if is_one_sort else range(first, end)


@pytest.mark.parametrize("sink", [exact, exact_block, prose])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_attacks_are_escaped(sink: object, attack: str) -> None:
    assert callable(sink)
    assert is_harmless(str(sink(f"before {attack} after")))


def test_a_code_names_the_character() -> None:
    assert exact("a\u202eb\x1b[0m") == "a⟨U+202E⟩b⟨U+001B⟩[0m"


def test_the_bracket_is_escaped() -> None:
    """Otherwise, plain text could look like an escaped character."""
    assert exact("⟨U+202E⟩") == "⟨U+27E8⟩U+202E⟩"


def test_a_line_shows_its_breaks_and_tabs() -> None:
    assert exact("a\n\tb") == "a⟨U+000A⟩⟨U+0009⟩b"


def test_a_block_keeps_only_its_line_breaks() -> None:
    assert exact_block("a\n\tb\r\n") == "a\n⟨U+0009⟩b⟨U+000D⟩\n"


def test_prose_keeps_line_breaks_and_replaces_tabs() -> None:
    assert prose("a\n\tb\r\n") == "a\n    b⟨U+000D⟩\n"


@pytest.mark.long
def test_every_code_point_is_visible_and_can_be_decoded() -> None:
    for code in code_points():
        character = chr(code)
        shown = exact(f"x{character}x")
        if shown == f"x{character}x":
            assert is_harmless(character), hex(code)
        else:
            assert shown == f"x⟨U+{code:04X}⟩x"


def test_exact_escapes_every_invisible_character() -> None:
    """Only letters, marks, numbers, symbols and the plain space are left.

    Variation selectors, fillers, tags and other spaces are escaped.
    """
    ignorable = [
        *range(0xFE00, 0xFE10),
        *range(0xE0000, 0xE1000),
        0x34F,
        0x115F,
        0x1160,
        0x17B4,
        0x17B5,
        0x180F,
        0x3164,
        0xFFA0,
        0x2800,
    ]
    for code in (*ignorable, 0xA0, 0x2003, 0x3000, 0x378, 0xE000, 0x10FFFF):
        assert exact(f"x{chr(code)}x") == f"x⟨U+{code:04X}⟩x"


@pytest.mark.long
def test_prose_removes_control_and_ignorable_characters() -> None:
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


@pytest.mark.parametrize(
    "word",
    ["👩‍💻", "👩🏽‍💻", "🏳️‍🌈", "❤️", "1️⃣", "می‌خواهم", "क्‍ष", "ශ්‍රී", "\u3000漢字", "no\u00a0break"],
)
def test_prose_keeps_ordinary_text(word: str) -> None:
    assert prose(word) == word


@pytest.mark.parametrize(
    "trick",
    [
        "a\u200db",
        "a\u200cb",
        "a\ufe0f",
        "\u200d",
        "👩\u200dx",
        "x\u200d💻",
        "❤️\ufe0f",
        "1\ufe0f",
        "👩\u200d\u200d💻",
    ],
)
def test_prose_escapes_a_joiner_without_effect(trick: str) -> None:
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
def test_a_joiner_with_effect_is_kept(sink: Callable[[str], str], word: str) -> None:
    assert sink(f"a {word} b") == f"a {word} b"
    assert hidden_places(f"a {word} b") == frozenset()


@pytest.mark.parametrize("sink", [exact, exact_block, prose])
@pytest.mark.parametrize(
    "trick",
    [
        "a\u200db",
        "a\u200cb",
        "é\u200cé",
        "a\ufe0f",
        "1\ufe0f",
        "a\u202eb",
        "a\u2066b",
        "a\u200bb",
        "می\u200bخواهید",  # noqa: RUF001
        "x\u200d💻",
    ],
)
def test_a_joiner_without_effect_is_escaped(sink: Callable[[str], str], trick: str) -> None:
    assert sink(trick).count("⟨U+") == 1
    assert len(hidden_places(trick)) == 1


def test_hidden_positions_are_those_of_the_escapes() -> None:
    assert hidden_places("a\u202eb\n⟨") == {1, 4}


def without_joiners(shown: str) -> str:
    """Return a displayed text without the joiners and selectors that join something."""
    return shown.translate(dict.fromkeys(map(ord, "\u200c\u200d\ufe0e\ufe0f")))


@given(SURROGATES_TOO)
@example("ၐ\u200dၐ")
def test_exact_hides_only_joiners(text: str) -> None:
    shown = exact(text)
    assert is_harmless(without_joiners(shown))
    assert read_back(shown) == text


@given(SURROGATES_TOO)
def test_exact_output_can_be_decoded(text: str) -> None:
    assert read_back(exact(text)) == text
    assert read_back(exact_block(text)) == text


@given(SURROGATES_TOO)
@example("ၐ\u200dၐ")
def test_no_harmful_character_is_left(text: str) -> None:
    assert is_harmless(without_joiners(exact(text)))
    assert is_harmless(without_joiners(exact_block(text)).replace("\n", ""))
    left = prose(text).replace("\n", "")
    assert all(
        character in "\u200c\u200d"
        for character in left
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )


@given(SURROGATES_TOO, st.integers(0, 40))
def test_splitting_a_stream_lets_no_harmful_character_through(text: str, place: int) -> None:
    """Wherever the text is cut, the pieces are harmless, and together they give the original."""
    head, tail = text[:place], text[place:]
    assert read_back(exact(head) + exact(tail)) == text
    together = prose(head) + prose(tail)
    assert all(
        character in "\n\u200c\u200d"
        for character in together
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )


@given(st.text(st.sampled_from("ab\u0301\u0300\u20dd\u200d\x1bé\n"), max_size=30))
def test_combining_marks_are_limited(text: str) -> None:
    """At most four marks follow each other.

    None starts a line, where it would overlay the frame.
    """
    for shown in (exact(text), *exact_block(text).split("\n"), *prose(text).split("\n")):
        assert not re.search("[\u0300-\u036f\u20d0-\u20ff]{5}", shown)
        assert not re.match("[\u0300-\u036f\u20d0-\u20ff]", shown)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "naïve café",
        "Привет",
        "日本語のテキスト",
        "שלום",
        "สวัสดี",
        "வணக்கம்",
        "→ ✓ ░ 🚀",
        "a b",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert exact(text) == exact_block(text) == prose(text) == text
