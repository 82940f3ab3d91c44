"""A question is left open with `l` at every prompt, and, where the prompt says so, with Ctrl-C, Ctrl-D and Escape."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import MultiSelectType, SchemaType, SecretType, SelectOption, SelectType, TextType
from midturn.question.reply import Answered, Deferred, EndedTurn
from midturn.terminal.prompts.keys import LATER, commands
from midturn.terminal.prompts.rich.keyboard import Press
from support.plain_talk import Talk
from support.prompt_catalogue import PROMPTS, SELECT
from support.rich_talk import Keys, pressed

WRITTEN = (TextType, SchemaType, SecretType)


def is_list(prompt: Prompt) -> bool:
    """Whether options are chosen."""
    return isinstance(prompt.question.answer_type, SelectType | MultiSelectType)


def of(*names: str) -> Prompt:
    """Return a select over options with these names."""
    options = SelectType(tuple(map(SelectOption, names)))
    return replace(SELECT, question=replace(SELECT.question, answer_type=options, default=names[0]))


def visited(prompt: Prompt) -> Prompt:
    """Return a prompt as `midturn answer` shows it."""
    return replace(prompt, exit_leaves_open=True)


@pytest.mark.parametrize("name", PROMPTS)
def test_every_plain_prompt_takes_a_key_that_leaves_the_question_open(name: str) -> None:
    prompt = PROMPTS[name]
    key = ":l" if prompt.kind == "tool" and isinstance(prompt.question.answer_type, WRITTEN) else "l"

    talk = Talk(prompt, key)

    assert talk.reply == Deferred()
    assert talk.said[-1] == "Answer: (later)"


@pytest.mark.parametrize("name", PROMPTS)
def test_every_rich_prompt_takes_a_key_that_leaves_the_question_open(name: str) -> None:
    prompt = PROMPTS[name]
    is_menu = prompt.kind == "tool" and (isinstance(prompt.question.answer_type, WRITTEN) or name == "select48")

    keys = Keys(prompt).press(*(["escape"] if is_menu else []), "l")

    assert keys.reply == Deferred()
    assert keys.transcript.endswith("(later)")


@pytest.mark.parametrize("name", [name for name, prompt in PROMPTS.items() if prompt.kind == "tool" and is_list(prompt)])
def test_the_menu_behind_escape_has_later_next_to_the_other_ways_out(name: str) -> None:
    keys = pressed(PROMPTS[name], "escape")

    assert "l later" in keys.live[-1]
    assert keys.press("l").reply == Deferred()


def test_the_key_of_an_option_is_the_options() -> None:
    twenty = of(*(f"option {number}" for number in range(20)))

    assert pressed(twenty, "l").reply == Answered("option 17")
    assert pressed(twenty, "escape", "l").reply == Deferred()
    assert not any("l later" in row for row in Keys(twenty).live)


def test_at_a_plain_prompt_an_option_with_the_name_of_the_key_is_the_option() -> None:
    sizes = of("s", "m", "L")

    assert Talk(sizes, "l").reply == Answered("L")
    assert Talk(sizes, "later").reply == Deferred()
    assert "later" in Talk(sizes).said[-1]
    assert Talk(SELECT, "later").reply == Deferred()


def test_what_a_command_asks_outside_of_a_turn_cannot_be_left_open() -> None:
    ours = Prompt(question=SELECT.question, asked_by="midturn", can_reply=False)

    assert LATER not in commands(ours)


@pytest.mark.parametrize("key", ["c-c", "c-d"])
@pytest.mark.parametrize("name", PROMPTS)
def test_ctrl_c_and_ctrl_d_leave_the_question_open_where_the_prompt_says_so(name: str, key: str) -> None:
    prompt = PROMPTS[name]
    if key == "c-d" and name in ("text", "schema", "error"):  # a default is in the field: Ctrl-D deletes in it
        return

    assert pressed(visited(prompt), key).reply == Deferred()


def test_ctrl_c_in_the_pager_leaves_the_question_open_as_well() -> None:
    viewed = pressed(visited(PROMPTS["run"]), "v")

    assert viewed.pager is not None
    assert viewed.pager.press(Press("c-c"), 0) == Deferred()


@pytest.mark.parametrize("name", PROMPTS)
def test_escape_leaves_the_question_open_where_the_prompt_says_so(name: str) -> None:
    assert pressed(visited(PROMPTS[name]), "escape").reply == Deferred()


def test_escape_first_takes_away_what_a_key_has_opened_and_what_filters() -> None:
    assert pressed(visited(SELECT), "r", "escape").reply is None
    assert pressed(visited(SELECT), "r", "escape", "escape").reply == Deferred()
    assert pressed(visited(PROMPTS["select48"]), "m", "escape").reply is None
    assert pressed(visited(PROMPTS["select48"]), "m", "escape", "escape").reply == Deferred()


def test_typed_text_is_dropped_by_a_second_escape_only() -> None:
    field = Keys(visited(PROMPTS["text_empty"])).type("half a li")

    assert field.press("escape").reply is None
    assert "drops what you typed" in " ".join(field.live)
    assert field.press("x").reply is None
    assert field.press("escape", "escape").reply == Deferred()


def test_f1_opens_the_menu_that_escape_does_not() -> None:
    field = Keys(visited(PROMPTS["text_empty"]))

    assert "Esc later · F1 menu" in field.live[-1]
    assert field.press("f1", "r").press(*"Why?", "enter").reply is not None


def test_the_help_says_what_the_keys_do() -> None:
    help_of_answer = " ".join(pressed(visited(SELECT), "?").live)
    help_of_turn = " ".join(pressed(SELECT, "?").live)

    assert "Ctrl-C - leave the question open" in help_of_answer
    assert "Ctrl-C - cancel and end the turn" in help_of_turn
    assert "l - leave the question open, and decide later" in help_of_turn
    assert "Ctrl-C or Ctrl-D - leave the question open" in Talk(visited(SELECT), "?").text


def test_in_a_turn_ctrl_c_ends_it_as_before() -> None:
    assert pressed(SELECT, "c-c").reply == EndedTurn()
    assert pressed(SELECT, "escape").reply is None
