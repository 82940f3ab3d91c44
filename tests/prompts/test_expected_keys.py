"""Keys and words that users expect to work."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import BooleanType, MultiSelectType, SelectOption, SelectType
from midturn.question.reply import Answered, Submitted, WentBack
from midturn.terminal.prompts.keys import OwnWords
from midturn.terminal.prompts.rich.screen import MAX_WITH_KEYS
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import PROMPTS, REVIEW, SELECT
from support.rich_prompt_driver import RichPromptDriver, pressed


def list_prompt(count: int, *, several: bool = False) -> Prompt:
    """Return a list prompt with `count` options."""
    options = tuple(SelectOption(f"option {number}") for number in range(1, count + 1))
    kind = MultiSelectType(options) if several else SelectType(options)
    return replace(
        SELECT,
        question=replace(
            SELECT.question, answer_type=kind, default="option 1" if not several else ["option 1"]
        ),
    )


def is_choice(prompt: Prompt) -> bool:
    """Return whether keys choose directly, without a text field or a filter."""
    kind = prompt.question.answer_type
    if isinstance(kind, SelectType | MultiSelectType):
        return len(kind.options) <= MAX_WITH_KEYS
    return isinstance(kind, BooleanType)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "Type 1 or its name;"),
        (2, "Type 1 or 2, or a name;"),
        (3, "Type a number 1-3 or a name;"),
        (12, "Type a number 1-12 or a name;"),
    ],
)
def test_a_plain_list_explains_what_to_type(count: int, said: str) -> None:
    assert (
        PlainPromptDriver(list_prompt(count))
        .text.replace("\n  ", " ")
        .rpartition("\n")[2]
        .startswith(said)
    )


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "Type 1 or none;"),
        (2, "Type numbers such as 1,2, or all"),
        (3, "such as 1,3,"),
        (4, "such as 1,3-4,"),
        (9, "such as 1,3-5,"),
    ],
)
def test_a_plain_multi_select_explains_what_to_type(count: int, said: str) -> None:
    assert said in PlainPromptDriver(list_prompt(count, several=True)).said[-1]


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "type 1, or ?"), (2, "type 1 or 2, or ?"), (3, "type a number from 1 to 3, or ?")],
)
def test_an_unknown_option_is_answered_with_the_valid_ones(count: int, said: str) -> None:
    assert said in PlainPromptDriver(list_prompt(count), "7").text
    assert "from 1 to 1" not in PlainPromptDriver(list_prompt(1, several=True), "2-1").text


@pytest.mark.parametrize(("key", "reply"), [("y", Submitted()), ("n", WentBack())])
def test_the_review_accepts_yes_and_no(key: str, reply: object) -> None:
    assert pressed(REVIEW, key).reply == reply
    assert PlainPromptDriver(REVIEW, key).reply == reply
    assert PlainPromptDriver(REVIEW, {"y": "Yes", "n": "no"}[key]).reply == reply
    assert "y - send the answers; n - back to the last question" in " ".join(
        pressed(REVIEW, "?").live
    )


def test_home_and_end_move_to_the_ends_of_a_long_list() -> None:
    long = PROMPTS["select48"]

    assert RichPromptDriver(long).press("end").live[-2].startswith(">")
    assert RichPromptDriver(long).press("end", "enter").reply == Answered("src/module_47.py")
    assert RichPromptDriver(long).press("end", "home", "enter").reply == Answered(
        "src/module_00.py"
    )
    assert RichPromptDriver(long).press("4", "home", "c-d").live[1] == "filter:"


SMALL = [(40, 12), (32, 8)]
CHOICES = sorted(
    name for name, prompt in PROMPTS.items() if prompt.kind != "tool" or is_choice(prompt)
)


@pytest.mark.parametrize(("columns", "rows"), SMALL)
@pytest.mark.parametrize("name", CHOICES)
def test_a_small_window_has_a_fitting_row_of_keys(name: str, columns: int, rows: int) -> None:
    keys = RichPromptDriver(PROMPTS[name], columns=columns, rows=rows, height=rows)

    (named,) = [found for found in keys.live if found.endswith(("? all keys", "? more"))]
    assert "…" not in named.replace("because…", "")
    assert len(named) < columns


@pytest.mark.parametrize(("columns", "rows"), SMALL)
@pytest.mark.parametrize("name", ["select", "select_other", "multi", "multi_other"])
def test_a_list_in_a_small_window_shows_the_options_around_the_highlighted_one(
    name: str, columns: int, rows: int
) -> None:
    keys = RichPromptDriver(PROMPTS[name], columns=columns, rows=rows)
    for _ in range(8):
        (highlighted,) = [found for found in keys.live if found.startswith(">")]
        assert keys.frame().cursor[0] == keys.live.index(highlighted)
        keys.press("down")


def test_a_list_says_how_many_options_it_does_not_show() -> None:
    keys = RichPromptDriver(PROMPTS["multi"], columns=32, rows=8)

    assert "  … 3 more" in keys.live
    keys.press("end")
    assert any("more" in found for found in keys.live)
    assert any("docs build" in found for found in keys.live)


def test_a_row_too_narrow_for_its_keys_says_that_there_are_more() -> None:
    assert (
        RichPromptDriver(PROMPTS["boolean_default"], columns=32, rows=8).live[1]
        == "y yes (Enter) · n no · ? more"
    )


def shown_again(prompt: Prompt, *keys: str) -> RichPromptDriver:
    """Answer a prompt, and show it again with the answer as its initial value."""
    words, first = OwnWords(), RichPromptDriver(prompt)
    first.prompt.restore_own_words(words.of(prompt))
    reply = first.press(*keys).reply
    assert isinstance(reply, Answered)
    words.keep(prompt, first.prompt.own_words(reply))
    again = replace(prompt, prefill=reply.value)
    keys_of_next = RichPromptDriver(again)
    keys_of_next.prompt.restore_own_words(words.of(again))
    return keys_of_next


def test_own_words_are_kept_after_another_option_was_chosen() -> None:
    asked = PROMPTS["select_other"]
    typed = shown_again(asked, "o", *"the old one", "escape", "2")

    assert typed.press("o").live[-2].startswith("> the old one")
    assert typed.press("enter").reply == Answered({"other": "the old one"})


def test_own_words_that_were_the_answer_are_shown_again() -> None:
    assert shown_again(PROMPTS["select_other"], "o", *"mine", "enter").press(
        "o", "enter"
    ).reply == Answered({"other": "mine"})


def test_own_words_are_kept_per_question_and_call() -> None:
    asked = PROMPTS["select_other"]
    words = OwnWords()
    assert words.of(asked) == ""
    words.keep(asked, "mine")

    assert words.of(asked) == "mine"
    assert words.of(replace(asked, question=replace(asked.question, id="another"))) == ""
    assert words.of(replace(asked, tool="another")) == ""
    assert words.of(asked) == ""
