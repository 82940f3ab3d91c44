"""Plain prompts for one or several options."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import SelectOption, SelectType
from midturn.question.reply import Answered, Replied, WentBack
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import CHECKS, MULTI, PROMPTS, SELECT


def select_prompt(*values: Any, **terms: Any) -> Prompt:
    """Return a select prompt over `values`."""
    answer_type = SelectType(tuple(map(SelectOption, values)), **terms)
    return replace(
        SELECT, question=replace(SELECT.question, answer_type=answer_type, default=values[0])
    )


@pytest.mark.parametrize("line", ["2", "2.", "production", " Production ", "\uff50roduction"])
def test_an_option_is_chosen_by_number_or_name(line: str) -> None:
    assert PlainPromptDriver(SELECT, line).reply == Answered("production")


def test_a_value_keeps_its_type() -> None:
    assert PlainPromptDriver(select_prompt(True, 2.5, "x"), "true").reply == Answered(True)
    assert PlainPromptDriver(select_prompt(True, 2.5, "x"), "2").reply == Answered(2.5)


@pytest.mark.parametrize("line", ["0", "4", "-1", "stag", "99999", "²", "1 2"])
def test_an_unknown_option_is_refused(line: str) -> None:
    talk = PlainPromptDriver(SELECT, line)

    assert talk.reply is None
    assert f"{line} is not an option; type a number from 1 to 3, or ? for help." in talk.said


def test_a_number_that_is_also_a_name_is_ambiguous() -> None:
    """In the list `10, 1`, a bare `1` is ambiguous."""
    prompt = select_prompt(10, 1)

    assert PlainPromptDriver(prompt, "1").reply is None
    assert PlainPromptDriver(prompt, "1", "1.").reply == Answered(10)
    assert PlainPromptDriver(prompt, "1", "=1").reply == Answered(1)


def test_enter_takes_the_default() -> None:
    assert PlainPromptDriver(SELECT, "").reply == Answered("staging")
    assert PlainPromptDriver(PROMPTS["select48"], "").reply is None


def test_enter_takes_the_earlier_answer_after_back() -> None:
    assert PlainPromptDriver(PROMPTS["form"], "").reply == Answered("production")


@pytest.mark.parametrize("prompt", [SELECT, MULTI], ids=["one", "several"])
@pytest.mark.parametrize("lines", [("r", ":c"), ("s", "")], ids=["reply", "end turn"])
def test_options_are_shown_again_after_back(prompt: Prompt, lines: tuple[str, str]) -> None:
    once = PlainPromptDriver(prompt).said

    talk = PlainPromptDriver(prompt, *lines)

    assert talk.reply is None
    option = next(row for row in once if row.startswith("  1."))
    assert talk.said.count(option) == 2


def test_own_words_are_accepted_if_allowed() -> None:
    assert PlainPromptDriver(PROMPTS["select_other"], "o", "my laptop").reply == Answered(
        {"other": "my laptop"}
    )
    assert PlainPromptDriver(PROMPTS["select_other"], "o", "", "1").reply == Answered("staging")
    assert PlainPromptDriver(SELECT, "o").reply is None


def test_enter_takes_earlier_own_words() -> None:
    talk = PlainPromptDriver(replace(PROMPTS["select_other"], prefill={"other": "my laptop"}), "")

    assert talk.reply == Answered({"other": "my laptop"})
    assert "(Enter for 'my laptop')" in talk.text


@pytest.mark.parametrize(("line", "reply"), [("b", WentBack()), ("back", WentBack())])
def test_a_list_can_be_cancelled(line: str, reply: object) -> None:
    assert PlainPromptDriver(PROMPTS["select"], line).reply == reply


def test_reply_from_a_list() -> None:
    assert PlainPromptDriver(PROMPTS["select"], "r", "neither").reply == Replied("neither")


def test_long_lists_have_pages_with_stable_numbers() -> None:
    talk = PlainPromptDriver(PROMPTS["select48"], "m", "m", "m", "48")

    pages = talk.text.split("Type a number")
    assert "  1. src/module_00.py - 0 lines" in pages[0]
    assert "(28 more: press m; filter with /text)" in pages[0]
    assert "  21. src/module_20.py" in pages[1]
    assert "  48. src/module_47.py" in pages[2]
    assert "  1. src/module_00.py" in pages[3]
    assert talk.reply == Answered("src/module_47.py")


def test_a_filter_matches_all_words_in_names_and_descriptions() -> None:
    talk = PlainPromptDriver(PROMPTS["select48"], "/E_4 580", "41")

    assert talk.said[-4:-2] == ["  1 match", "  41. src/module_40.py - 580 lines"]
    assert talk.reply == Answered("src/module_40.py")


def test_an_empty_filter_shows_all_options() -> None:
    assert "  48 match" in PlainPromptDriver(PROMPTS["select48"], "/nothing", "/").said


def test_choices_are_returned_in_the_order_of_the_list() -> None:
    assert PlainPromptDriver(MULTI, "docs build, 1-2").reply == Answered(
        ["lint", "types", "docs build"]
    )
    assert PlainPromptDriver(MULTI, "5,2,2").reply == Answered(["types", "docs build"])
    assert PlainPromptDriver(MULTI, "all").reply == Answered([option.value for option in CHECKS])


def test_enter_keeps_the_marked_options() -> None:
    talk = PlainPromptDriver(MULTI, "")

    assert "(Enter keeps the 1 marked)" in talk.text
    assert talk.reply == Answered(["lint"])


@pytest.mark.parametrize("line", ["none", "6", "0-2", "3-1", "1,what", ",", "1-99"])
def test_an_invalid_choice_is_refused_and_asked_again(line: str) -> None:
    talk = PlainPromptDriver(MULTI, line, "1")

    assert talk.reply == Answered(["lint"])
    assert len([row for row in talk.said if row.startswith("Type numbers")]) == 2


def test_nothing_is_chosen_without_a_default() -> None:
    """Without a default, Enter alone chooses nothing. The word `none` does."""
    assert PlainPromptDriver(PROMPTS["multi_other"], "").reply is None
    assert PlainPromptDriver(PROMPTS["multi_other"], "none").reply == Answered([])


def test_own_words_are_added_to_the_choice() -> None:
    talk = PlainPromptDriver(PROMPTS["multi_other"], "o", "fuzzing", "2")

    assert "  o. [x] fuzzing" in talk.said
    assert talk.reply == Answered(["types", {"other": "fuzzing"}])
    assert talk.said[-1] == "Answer: types, fuzzing"


@pytest.mark.parametrize("line", ["1 3", "1, 3", "lint, unit tests", "1,3"])
def test_several_names_are_separated_by_spaces_or_commas(line: str) -> None:
    assert PlainPromptDriver(PROMPTS["multi"], line).reply == Answered(["lint", "unit tests"])


def test_own_words_are_a_row_of_the_list() -> None:
    assert (
        PlainPromptDriver(PROMPTS["select_other"]).said[-2]
        == "  o. something else, in your own words"
    )
    assert (
        PlainPromptDriver(PROMPTS["multi_other"]).said[-2]
        == "  o. [ ] something else, in your own words"
    )
    assert (
        PlainPromptDriver(replace(PROMPTS["select_other"], prefill={"other": "my laptop"})).said[-2]
        == "  o. my laptop"
    )
    assert not any(row.startswith("  o.") for row in PlainPromptDriver(SELECT).said)


def test_own_words_are_a_row_of_every_page() -> None:
    asked = select_prompt(*(f"host {number}" for number in range(30)), allow_other=True)

    assert (
        PlainPromptDriver(asked, "m", "/nothing").said.count(
            "  o. something else, in your own words"
        )
        == 3
    )


def test_help_explains_how_to_choose() -> None:
    assert "  1 to 3, or a name - choose that option" in PlainPromptDriver(SELECT, "?").said
    assert {
        "  1,3-5 or 1 3 5, or names with commas - choose these",
        "  all, none - choose every option, or no option",
    } <= {*PlainPromptDriver(MULTI, "?").said}
    assert {
        "  m - the next options",
        "  /text - only options with this text",
        "  / - all options again",
    } <= {*PlainPromptDriver(PROMPTS["select48"], "?").said}
    assert (
        "  2. - option 2, even if 2 is also a name; =2 - the option with that name"
        in PlainPromptDriver(select_prompt(10, 1), "?").said
    )


@pytest.mark.parametrize(
    ("prompt", "option"), [(SELECT, "  1. staging"), (PROMPTS["multi_other"], "  1. [ ] lint")]
)
@pytest.mark.parametrize("lines", [["r", ":c"], ["s", ""]])
def test_options_are_listed_again_on_return(prompt: Prompt, option: str, lines: list[str]) -> None:
    assert PlainPromptDriver(prompt, *lines).text.count(option) == 2


@pytest.mark.parametrize("prompt", [SELECT, PROMPTS["multi_other"]])
def test_errors_in_a_choice_wrap_between_words(prompt: Prompt) -> None:
    said = PlainPromptDriver(prompt, "something that there is not", width=30).said

    assert all(len(part) <= 30 for row in said for part in row.split("\n"))
