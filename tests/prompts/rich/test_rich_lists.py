"""Rich prompts for one or several options."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import MultiSelectType, SchemaType, SelectOption, SelectType
from midturn.question.reply import Answered, EndedTurn, Replied, WentBack
from midturn.terminal.prompts.rich.keyboard import Paste
from midturn.terminal.prompts.rich.screen import KEYS, MAX_WITH_KEYS, key_names
from support.prompt_catalogue import CHECKS, FILES, MULTI, PROMPTS, SELECT
from support.rich_prompt_driver import RichPromptDriver, pressed

ASKED = PROMPTS["select"]
LONG = PROMPTS["select48"]


def select_of(count: int) -> Prompt:
    """Return a select prompt over `count` options."""
    options = tuple(SelectOption(f"option {number}") for number in range(count))
    return replace(
        SELECT,
        question=replace(SELECT.question, answer_type=SelectType(options), default="option 0"),
    )


def many_of_48(*, least: int = 0) -> Prompt:
    """Return a multi-select prompt over 48 options."""
    return replace(
        LONG, question=replace(LONG.question, answer_type=MultiSelectType(FILES, min=least))
    )


def test_option_keys_do_not_collide_with_command_keys() -> None:
    assert not set(KEYS) & set("brsovjk?-")
    assert len(KEYS) == len(set(KEYS)) >= MAX_WITH_KEYS


def test_key_names_are_short() -> None:
    assert key_names(3) == "1-3"
    assert key_names(1) == "1"
    assert key_names(20) == "1-9,a,c-i,l-n"


@pytest.mark.parametrize("place", range(20))
def test_an_option_key_chooses_at_once(place: int) -> None:
    assert pressed(select_of(20), KEYS[place]).reply == Answered(f"option {place}")


def test_arrows_and_letters_move_and_enter_chooses() -> None:
    assert pressed(ASKED, "enter").reply == Answered("staging")
    assert pressed(ASKED, "down", "enter").reply == Answered("production")
    assert pressed(ASKED, "j", "j", "j", "enter").reply == Answered("staging")
    assert pressed(ASKED, "k", "enter").reply == Answered("local")
    assert pressed(ASKED, "end", "up", "c-j").reply == Answered("production")


def test_the_highlight_starts_at_the_earlier_answer_or_the_default() -> None:
    assert pressed(PROMPTS["form"], "enter").reply == Answered("production")
    assert pressed(select_of(3), "enter").reply == Answered("option 0")


@pytest.mark.parametrize(("key", "reply"), [("b", WentBack()), ("c-d", EndedTurn())])
def test_a_list_can_be_left_with_one_key(key: str, reply: object) -> None:
    assert pressed(ASKED, key).reply == reply


def test_question_and_options_stay_visible_while_a_reply_is_typed() -> None:
    keys = pressed(ASKED, "r")
    text = "\n".join(keys.live)
    assert keys.live[0] == "Which environment should the migration run against?"
    assert all(option in text for option in ("local", "staging", "production"))
    assert text.index("production") < text.index("Your reply to the assistant")


def test_escape_opens_and_closes_the_menu() -> None:
    keys = pressed(ASKED, "down", "escape")
    assert keys.live[0] == "Which environment should the migration run against?"
    assert keys.live[-2:] == [
        "Leave the list? (Esc goes back to it)",
        "b back · r reply · s end turn · l later · ? all keys",
    ]

    assert keys.press("escape", "enter").reply == Answered("production")
    assert pressed(ASKED, "escape", "b").reply == WentBack()
    assert pressed(ASKED, "escape", "s", "s").reply == EndedTurn()
    assert pressed(ASKED, "escape", "r", *"hm", "enter").reply == Replied("hm")


def test_leaving_the_reply_returns_to_the_list() -> None:
    assert pressed(ASKED, "escape", "r", "escape", "2").reply == Answered("production")


def test_a_paste_chooses_nothing() -> None:
    assert pressed(ASKED, Paste("1")).reply is None


def test_an_unknown_key_in_a_list_rings() -> None:
    assert pressed(ASKED, "4").live[-1] == "4 is not an option; press ? for help"


def test_own_words_are_an_answer() -> None:
    assert pressed(PROMPTS["select_other"], "o", *"my laptop", "enter").reply == Answered(
        {"other": "my laptop"}
    )
    assert pressed(PROMPTS["select_other"], "o", "enter", "1").reply == Answered("staging")


def test_earlier_own_words_can_be_edited() -> None:
    asked = replace(PROMPTS["select_other"], prefill={"other": "the lab"})

    assert RichPromptDriver(asked).live[4] == "> o the lab"
    assert pressed(asked, "enter").reply == Answered({"other": "the lab"})
    assert pressed(asked, "o").live[-2] == "> the lab"
    assert pressed(asked, "o", "s", "enter").reply == Answered({"other": "the labs"})


def test_an_optional_list_can_be_skipped() -> None:
    assert pressed(PROMPTS["select_other"], "-").reply == Answered(None)
    select_of = replace(MULTI, question=replace(MULTI.question, optional=True))
    assert "  - none of this: skip the question" in RichPromptDriver(select_of).live
    assert pressed(select_of, "-").reply == Answered(None)


def test_descriptions_are_beside_the_labels_if_there_is_room() -> None:
    assert (
        RichPromptDriver(ASKED, columns=80).live[1]
        == "> 1 staging     Nightly copy of production; safe to break"
    )
    assert RichPromptDriver(ASKED, columns=40).live[1:4] == [
        "> 1 staging",
        "    Nightly copy of production; safe to",
        "    break",
    ]


def test_a_long_description_is_complete_only_when_highlighted() -> None:
    keys = RichPromptDriver(ASKED)
    assert keys.live[2].endswith("a second pair of eye…")

    assert keys.press("down").live[2:4] == [
        "> 2 production  Live customers; needs a change ticket and a second pair of eyes",
        "                before you pick it",
    ]


def test_marks_are_toggled_by_space_and_by_key() -> None:
    assert pressed(MULTI, "enter").reply == Answered(["lint"])
    assert pressed(MULTI, "2", "j", " ", "enter").reply == Answered(["lint", "types", "unit tests"])
    assert pressed(MULTI, "1", "5", "enter").reply == Answered(["docs build"])


def test_ctrl_a_marks_all_or_none() -> None:
    assert pressed(MULTI, "c-a", "enter").reply == Answered([option.value for option in CHECKS])
    assert pressed(MULTI, "c-a", "c-a", "enter").reply is None


def test_too_few_marked_options_are_not_submitted() -> None:
    keys = pressed(MULTI, "1", "enter")

    assert keys.reply is None
    assert keys.live[-1] != "0 chosen · [1-5,?] Space toggles, Enter submits, Esc menu"
    assert keys.press("2", "enter").reply == Answered(["types"])


def test_escape_keeps_the_marked_options() -> None:
    assert pressed(MULTI, "2", "escape", "escape", "enter").reply == Answered(["lint", "types"])


def test_own_words_are_added_to_the_marked_options() -> None:
    asked = PROMPTS["multi_other"]

    assert pressed(asked, "o", *"fuzzing", "enter", "2", "enter").reply == Answered(
        ["types", {"other": "fuzzing"}]
    )
    assert pressed(
        asked, "o", *"fuzzing", "enter", "o", "c-u", "enter", "enter", "enter"
    ).reply == Answered([])


def test_typing_filters_label_and_description() -> None:
    keys = pressed(LONG, *"E_4 5")
    assert keys.live[1:3] == ["filter: E_4 5", "> src/module_40.py  580 lines"]

    assert keys.press("enter").reply == Answered("src/module_40.py")


def test_command_keys_are_letters_in_a_filter() -> None:
    keys = pressed(LONG, *"bsrjk")

    assert keys.reply is None
    assert keys.live[1] == "filter: bsrjk"


def test_escape_clears_the_filter_and_then_cancels() -> None:
    keys = pressed(LONG, *"zz", "escape")
    assert keys.live[-1].startswith("48/48")

    assert keys.press("escape").live[-2:] == [
        "Leave the list? (Esc goes back to it)",
        "b back · r reply · s end turn · l later · ? all keys",
    ]


def test_a_filter_without_matches_has_nothing_to_choose() -> None:
    keys = pressed(LONG, *"zz", "enter")

    assert keys.reply is None
    assert keys.live[-1] == "nothing matches: change the filter, or press Esc"


def test_ctrl_d_edits_a_filter_and_otherwise_ends_the_turn() -> None:
    assert pressed(LONG, "4", "home", "c-d").live[1] == "filter:"
    assert pressed(LONG, "c-d").reply == EndedTurn()


def test_twelve_rows_are_visible_and_include_the_highlight() -> None:
    keys = RichPromptDriver(LONG)
    for _ in range(30):
        keys.press("down")

    shown = [line for line in keys.live if "module_" in line]
    assert len(shown) == 12
    assert "> src/module_30.py  210 lines" in shown
    assert keys.live[-1].endswith("↓ 36 more")


def test_options_can_be_marked_in_any_filter() -> None:
    keys = pressed(many_of_48(), *"_47", "tab", "escape", *"_03", "tab", "escape")
    assert "marked: src/module_03.py, src/module_47.py" in keys.live
    assert any(
        "2 chosen (choose 1 or more) · 48/48" in line or "2 chosen · 48/48" in line
        for line in keys.live
    )

    assert keys.press("enter").reply == Answered(["src/module_03.py", "src/module_47.py"])


def test_ctrl_a_marks_the_filtered_options() -> None:
    assert pressed(many_of_48(), *"e_4", "c-a", "enter").reply == Answered(
        [f"src/module_4{digit}.py" for digit in range(8)]
    )


def test_too_few_marked_of_many_are_not_submitted() -> None:
    assert pressed(many_of_48(least=1), "enter").reply is None


def test_a_space_belongs_to_the_filter_and_marks_nothing() -> None:
    keys = pressed(many_of_48(), *"module 47")

    assert "filter: module 47" in keys.live
    assert "marked: nothing yet" in keys.live


def test_a_filter_matches_scattered_letters_if_nothing_matches_exactly() -> None:
    keys = pressed(LONG, *"m47")

    assert "> src/module_47.py  839 lines" in keys.live
    found = [span.text for drawn in keys.frame().rows for span in drawn if span.style == "found"]
    assert found == ["m", "47"]


def test_enter_keeps_a_skipped_question_skipped() -> None:
    asked = replace(PROMPTS["select_other"], prefill=None)

    assert RichPromptDriver(asked).live[5] == "> - none of this: skip the question"
    assert pressed(asked, "enter").reply == Answered(None)


def test_a_highlighted_option_is_shown_in_full() -> None:
    meaning = " ".join(f"word{number}" for number in range(60))
    options = (SelectOption("one", meaning), SelectOption("two"))
    asked = replace(
        ASKED, question=replace(ASKED.question, answer_type=SelectType(options), default=UNSET)
    )

    assert " ".join(" ".join(RichPromptDriver(asked, rows=40).live).split()).count("word") == 60


def test_the_number_of_choices_is_shown_before_an_error() -> None:
    asked = replace(
        MULTI, question=replace(MULTI.question, answer_type=MultiSelectType(CHECKS, min=1, max=2))
    )

    assert "1 chosen (choose 1 to 2) · Space marks, Enter submits" in RichPromptDriver(asked).live


@pytest.mark.parametrize("key", ["b", "r", "s", "?"])
def test_short_and_filtered_lists_have_the_same_keys(key: str) -> None:
    select_of = replace(MULTI, can_go_back=True)

    assert (
        "is not an option" not in "".join(pressed(select_of, key).live)
        if key != "b"
        else pressed(select_of, key).reply == WentBack()
    )


def without_default(prompt: Prompt) -> Prompt:
    """Return the prompt without its default."""
    return replace(prompt, question=replace(prompt.question, default=UNSET))


@pytest.mark.parametrize(
    ("prompt", "first"), [(without_default(SELECT), "staging"), (LONG, "src/module_00.py")]
)
def test_a_first_enter_does_not_submit_the_initial_highlight(prompt: Prompt, first: str) -> None:
    """The option that is highlighted at the start was not chosen by the user."""
    keys = pressed(prompt, "enter")
    assert keys.reply is None
    assert keys.live[-1] == f"nothing was chosen yet: press Enter again to pick {first}"

    assert keys.press("enter").reply == Answered(first)


def test_an_enumeration_without_a_default_needs_a_second_enter() -> None:
    tier = replace(
        SELECT,
        question=replace(
            SELECT.question, answer_type=SchemaType({"enum": ["free", "paid"]}), default=UNSET
        ),
    )

    assert pressed(tier, "enter").reply is None
    assert pressed(tier, "enter", "enter").reply == Answered("free")
    assert pressed(tier, "down", "up", "enter").reply == Answered("free")


@pytest.mark.parametrize("keys", [["down", "enter"], ["j", "enter"], ["p", "enter"], ["2"]])
def test_moving_or_pressing_a_key_counts_as_choosing(keys: list[str]) -> None:
    assert pressed(without_default(SELECT), *keys).reply == Answered("production")


def test_filtering_counts_as_choosing_the_first_match() -> None:
    assert pressed(LONG, *"_07", "enter").reply == Answered("src/module_07.py")


@pytest.mark.parametrize("prompt", [PROMPTS["multi_other"], many_of_48()])
def test_an_empty_selection_needs_confirmation(prompt: Prompt) -> None:
    keys = pressed(prompt, "down", "enter")
    assert keys.reply is None
    assert keys.live[-1].startswith("nothing is marked: ")

    assert keys.press("enter").reply == Answered([])


def test_an_empty_selection_is_not_offered_if_not_allowed() -> None:
    assert (
        pressed(without_default(MULTI), "enter").live[-1]
        == "0 choices are given; 1 to 5 are allowed."
    )
    assert (
        pressed(many_of_48(least=1), "enter").live[-1]
        == "0 choices are given; 1 to 48 are allowed."
    )


def test_unmarking_all_options_needs_no_confirmation() -> None:
    asked = replace(PROMPTS["multi_other"], prefill=["lint"])

    assert pressed(asked, "1", "enter").reply == Answered([])


def test_a_letter_moves_to_the_options_that_begin_with_it() -> None:
    places = tuple(map(SelectOption, ("main", "backup", "Mirror", "staging", "Äpfel", "本番")))
    asked = replace(
        without_default(SELECT),
        question=replace(SELECT.question, answer_type=SelectType(places), default=UNSET),
    )

    assert "> 3 Mirror" in pressed(asked, "m").live
    assert "> 1 main" in pressed(asked, "m", "m").live
    assert "> 4 staging" in pressed(asked, "S").live  # `s` ends the turn; `B` goes back
    assert "> 2 backup" in pressed(asked, "B").live
    assert "> 5 Äpfel" in pressed(asked, "ä").live
    assert "> 6 本番" in pressed(asked, "本").live
    assert pressed(asked, "x").live[-1] == "x is not an option; press ? for help"


def test_an_option_key_takes_precedence_over_moving_by_letter() -> None:
    assert pressed(select_of(20), "a").reply == Answered("option 9")


def test_a_letter_marks_nothing_in_a_multi_select() -> None:
    keys = pressed(MULTI, "u")

    assert "> [ ] 3 unit tests  pytest, 3 min" in keys.live
    assert keys.press("enter").reply == Answered(["lint"])


@pytest.mark.parametrize("columns", [120, 80, 40])
@pytest.mark.parametrize("name", ["select", "select_other", "multi", "wide", "form"])
def test_a_list_keeps_its_height_while_moving(name: str, columns: int) -> None:
    keys = RichPromptDriver(PROMPTS[name], columns=columns, rows=40)
    heights = {len(keys.press("down").live) for _ in range(8)}

    assert len(heights) == 1


def test_a_list_that_fills_the_window_has_no_blank_rows() -> None:
    assert "" not in RichPromptDriver(PROMPTS["select"], columns=40, rows=8).live


@pytest.mark.parametrize("columns", [80, 60, 40])
@pytest.mark.parametrize("prompt", [LONG, many_of_48()])
def test_rows_below_a_filtered_list_do_not_move(prompt: Prompt, columns: int) -> None:
    keys = RichPromptDriver(prompt, columns=columns)
    heights = [
        len(keys.live),
        *(
            len(keys.press(key).live)
            for key in (*"e_47", "backspace", "z", "escape", "down", "end", "pagedown")
        ),
    ]

    assert len(set(heights)) == 1


@pytest.mark.parametrize("key", ["r", "o"])
def test_some_of_many_options_stay_visible_while_text_is_typed(key: str) -> None:
    asked = (
        many_of_48()
        if key == "r"
        else replace(
            LONG, question=replace(LONG.question, answer_type=SelectType(FILES, allow_other=True))
        )
    )
    keys = pressed(asked, *(("escape", "r") if key == "r" else ("up", "enter")))

    assert len([row for row in keys.live if "module_" in row]) == 6
    assert keys.live[0] == "Which file?"
