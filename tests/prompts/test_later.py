"""Keys that leave a question open.

`l` works at every prompt. Ctrl-C, Ctrl-D and Escape work where the prompt says so.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import (
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectOption,
    SelectType,
    TextType,
)
from midturn.question.reply import Answered, Deferred, EndedTurn
from midturn.terminal.prompts.keys import LATER, commands
from midturn.terminal.prompts.rich.keyboard import Press
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import PROMPTS, SELECT
from support.rich_prompt_driver import RichPromptDriver, pressed

WRITTEN = (TextType, SchemaType, SecretType)


def is_list(prompt: Prompt) -> bool:
    """Return whether the prompt is a list of options."""
    return isinstance(prompt.question.answer_type, SelectType | MultiSelectType)


def select_prompt(*names: str) -> Prompt:
    """Return a select prompt whose options have these names."""
    options = SelectType(tuple(map(SelectOption, names)))
    return replace(SELECT, question=replace(SELECT.question, answer_type=options, default=names[0]))


def as_visited(prompt: Prompt) -> Prompt:
    """Return a prompt as `midturn answer` shows it."""
    return replace(prompt, exit_leaves_open=True)


@pytest.mark.parametrize("name", PROMPTS)
def test_every_plain_prompt_has_a_key_for_later(name: str) -> None:
    prompt = PROMPTS[name]
    key = (
        ":l" if prompt.kind == "tool" and isinstance(prompt.question.answer_type, WRITTEN) else "l"
    )

    talk = PlainPromptDriver(prompt, key)

    assert talk.reply == Deferred()
    assert talk.said[-1] == "Answer: (later)"


@pytest.mark.parametrize("name", PROMPTS)
def test_every_rich_prompt_has_a_key_for_later(name: str) -> None:
    prompt = PROMPTS[name]
    is_menu = prompt.kind == "tool" and (
        isinstance(prompt.question.answer_type, WRITTEN) or name == "select48"
    )

    keys = RichPromptDriver(prompt).press(*(["escape"] if is_menu else []), "l")

    assert keys.reply == Deferred()
    assert keys.transcript.endswith("(later)")


@pytest.mark.parametrize(
    "name", [name for name, prompt in PROMPTS.items() if prompt.kind == "tool" and is_list(prompt)]
)
def test_the_escape_menu_lists_later_with_the_other_exits(name: str) -> None:
    keys = pressed(PROMPTS[name], "escape")

    assert "l later" in keys.live[-1]
    assert keys.press("l").reply == Deferred()


def test_an_option_key_takes_precedence_over_later() -> None:
    twenty = select_prompt(*(f"option {number}" for number in range(20)))

    assert pressed(twenty, "l").reply == Answered("option 17")
    assert pressed(twenty, "escape", "l").reply == Deferred()
    assert not any("l later" in row for row in RichPromptDriver(twenty).live)


def test_at_a_plain_prompt_an_option_named_like_the_key_takes_precedence() -> None:
    sizes = select_prompt("s", "m", "L")

    assert PlainPromptDriver(sizes, "l").reply == Answered("L")
    assert PlainPromptDriver(sizes, "later").reply == Deferred()
    assert "later" in PlainPromptDriver(sizes).said[-1]
    assert PlainPromptDriver(SELECT, "later").reply == Deferred()


def test_a_question_of_a_command_outside_a_turn_cannot_be_left_open() -> None:
    ours = Prompt(question=SELECT.question, asked_by="midturn", can_reply=False)

    assert LATER not in commands(ours)


@pytest.mark.parametrize("key", ["c-c", "c-d"])
@pytest.mark.parametrize("name", PROMPTS)
def test_ctrl_c_and_ctrl_d_leave_the_question_open_if_the_prompt_says_so(
    name: str, key: str
) -> None:
    prompt = PROMPTS[name]
    if key == "c-d" and name in (
        "text",
        "schema",
        "error",
    ):  # the field contains a default, and Ctrl-D deletes a character of it
        return

    assert pressed(as_visited(prompt), key).reply == Deferred()


def test_ctrl_c_in_the_pager_leaves_the_question_open() -> None:
    viewed = pressed(as_visited(PROMPTS["run"]), "v")

    assert viewed.pager is not None
    assert viewed.pager.press(Press("c-c"), 0) == Deferred()


@pytest.mark.parametrize("name", PROMPTS)
def test_escape_leaves_the_question_open_if_the_prompt_says_so(name: str) -> None:
    assert pressed(as_visited(PROMPTS[name]), "escape").reply == Deferred()


def test_escape_first_closes_help_and_filter() -> None:
    assert pressed(as_visited(SELECT), "r", "escape").reply is None
    assert pressed(as_visited(SELECT), "r", "escape", "escape").reply == Deferred()
    assert pressed(as_visited(PROMPTS["select48"]), "m", "escape").reply is None
    assert pressed(as_visited(PROMPTS["select48"]), "m", "escape", "escape").reply == Deferred()


def test_typed_text_is_dropped_only_by_a_second_escape() -> None:
    field = RichPromptDriver(as_visited(PROMPTS["text_empty"])).type("half a li")

    assert field.press("escape").reply is None
    assert "discard what you typed" in " ".join(field.live)
    assert field.press("x").reply is None
    assert field.press("escape", "escape").reply == Deferred()


def test_f1_opens_the_menu_if_escape_does_not() -> None:
    field = RichPromptDriver(as_visited(PROMPTS["text_empty"]))

    assert "Esc later · F1 menu" in field.live[-1]
    assert field.press("f1", "r").press(*"Why?", "enter").reply is not None


def test_the_help_explains_the_keys() -> None:
    help_of_answer = " ".join(pressed(as_visited(SELECT), "?").live)
    help_of_turn = " ".join(pressed(SELECT, "?").live)

    assert "Ctrl-C - leave the question open" in help_of_answer
    assert "Ctrl-C - cancel and end the turn" in help_of_turn
    assert "l - leave the question open, and decide later" in help_of_turn
    assert (
        "Ctrl-C or Ctrl-D - leave the question open"
        in PlainPromptDriver(as_visited(SELECT), "?").text
    )


def test_in_a_turn_ctrl_c_still_ends_it() -> None:
    assert pressed(SELECT, "c-c").reply == EndedTurn()
    assert pressed(SELECT, "escape").reply is None
