"""Previews of options below a list."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import MultiSelectType, SelectOption, SelectType
from midturn.question.reply import Answered
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import SELECT
from support.rich_prompt_driver import RichPromptDriver

ROUND = "+------+\n|  ok  |\n+------+\n"
LONG = "\n".join(f"row {number}" for number in range(1, 41))
LAYOUTS = (
    SelectOption("round", "Soft corners", ROUND),
    SelectOption("long", preview=LONG),
    SelectOption("none"),
)


def list_with_previews(*options: SelectOption, several: bool = False) -> Prompt:
    """Return a list prompt whose options have previews."""
    kind = (
        MultiSelectType(options or LAYOUTS)
        if several
        else SelectType(options or LAYOUTS, allow_other=True)
    )
    return replace(
        SELECT,
        question=replace(SELECT.question, answer_type=kind, default=[] if several else "round"),
    )


def preview(keys: RichPromptDriver) -> list[str]:
    """Return the rows of the preview."""
    return [text for text in keys.live if text.startswith("│ ") or "scroll the preview" in text]


@pytest.mark.parametrize("several", [False, True])
def test_the_preview_of_the_highlighted_option_is_below_the_list(*, several: bool) -> None:
    keys = RichPromptDriver(list_with_previews(several=several))

    assert preview(keys) == ["│ +------+", "│ |  ok  |", "│ +------+"]
    assert preview(keys.press("down"))[0] == "│ row 1"
    assert preview(keys.press("down")) == []


def test_a_long_preview_is_scrolled() -> None:
    keys = RichPromptDriver(list_with_previews(), rows=16).press("down")
    first = preview(keys)

    assert first[-1] == f"  rows 1-{len(first) - 1} of 40 · ← → scroll the preview"
    assert preview(keys.press("right"))[0] == f"│ row {len(first) - 1}"
    assert preview(keys.press(*["right"] * 40))[-2] == "│ row 40"
    assert preview(keys.press(*["left"] * 40)) == first
    assert keys.press("enter").reply == Answered("long")


def test_the_keys_do_not_move_when_another_option_is_highlighted() -> None:
    keys = RichPromptDriver(list_with_previews(), rows=20)
    places = [len(keys.live), *(len(keys.press("down").live) for _ in range(3))]

    assert len(set(places)) == 1


def test_a_small_window_shows_no_preview_and_v_shows_all() -> None:
    keys = RichPromptDriver(list_with_previews(), rows=7)
    assert preview(keys) == []

    keys = RichPromptDriver(list_with_previews(), rows=30).press("v")
    assert keys.pager is not None
    text = "\n".join(keys.live)
    assert "round:" in text
    assert "│ |  ok  |" in text


def test_a_preview_shows_every_character() -> None:
    keys = RichPromptDriver(
        list_with_previews(
            SelectOption("a", preview="red \x1b[31m\n\tx\u202ey "), SelectOption("b")
        )
    )

    assert preview(keys) == ["│ red ⟨U+001B⟩[31m", "│ ⇥   x⟨U+202E⟩y⟨U+0020⟩"]


def test_a_preview_is_shown_in_a_filtered_list() -> None:
    many = [
        SelectOption(f"option {number}", preview=LONG if number == 2 else None)
        for number in range(30)
    ]
    keys = RichPromptDriver(list_with_previews(*many), rows=30)
    assert preview(keys) == []

    keys.press("down", "down")
    assert preview(keys)[0] == "│ row 1"
    assert preview(keys.press("right"))[0] != "│ row 1"
    keys.type("option 29")
    assert preview(keys) == []


def test_a_plain_list_shows_the_beginning_of_each_preview() -> None:
    talk = PlainPromptDriver(list_with_previews(), "v", "2")

    at = talk.said.index("  1. round - Soft corners")
    assert talk.said[at + 1 : at + 4] == ["     | +------+", "     | |  ok  |", "     | +------+"]
    assert "     | ... 33 more rows" in talk.said
    assert "| row 40" in talk.said
    assert talk.reply == Answered("long")
