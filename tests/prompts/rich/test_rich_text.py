"""Rich prompts for text, JSON and secrets."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType
from typing import Any, cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import SchemaType
from midturn.question.json_value import SecretValue
from midturn.question.reply import Answered, EndedTurn, Replied, WentBack
from midturn.terminal.prompts.plain_scene import Edit
from midturn.terminal.prompts.rich.keyboard import Paste
from midturn.terminal.prompts.rich.screen import Span
from support.prompt_catalogue import PROMPTS, SCHEMA, SECRET, SELECT, TEXT
from support.rich_prompt_driver import RichPromptDriver, pressed

ASKED = PROMPTS["text"]
EMPTY = PROMPTS["text_empty"]
MENU = "What next?", "a answer (Enter) · b back · r reply · s end turn · l later · ? all keys"


def test_the_field_opens_with_the_default() -> None:
    keys = pressed(TEXT)

    assert keys.live[1] == "> none"
    assert keys.press("enter").reply == Answered("none")


def test_letters_in_a_field_are_text() -> None:
    """The `s` of `staging` must not end the turn."""
    assert pressed(EMPTY, *"staging?-", "enter").reply == Answered("staging?-")


@pytest.mark.parametrize("key", ["m-enter", "s-enter", "c-j"])
def test_a_line_break_does_not_submit(key: str) -> None:
    keys = pressed(EMPTY, *"one", key, *"two", "enter")

    assert keys.reply == Answered("one\ntwo")
    assert keys.transcript == "Note for the migration log? one⏎ two"


def test_a_paste_is_inserted_and_never_submits() -> None:
    assert pressed(EMPTY, Paste("one\ntwo\n")).reply is None
    assert pressed(EMPTY, Paste("one\ntwo\n"), "enter").reply == Answered("one\ntwo\n")


def test_escape_opens_the_menu_and_keeps_the_text() -> None:
    keys = pressed(ASKED, *" so far", "escape")
    assert keys.live == ["Note for the migration log?", "> none so far", *MENU]

    for back in ("a", "enter", "escape"):
        keys.press(back)
        assert keys.live[1] == "> none so far"
        keys.press("escape")
    assert keys.press("b").reply == WentBack()


def test_the_menu_can_be_configured_to_open_first() -> None:
    keys = RichPromptDriver(ASKED, menu_first=True)

    assert keys.live == ["Note for the migration log?", "> none", *MENU]
    assert keys.press("enter", "enter").reply == Answered("none")
    assert RichPromptDriver(ASKED, menu_first=True).press("r", *"why?", "enter").reply == Replied(
        "why?"
    )


def test_ctrl_d_deletes_and_ends_the_turn_only_at_the_end() -> None:
    assert pressed(TEXT, "home", "c-d").live[1] == "> one"
    assert pressed(EMPTY, "c-d").reply == EndedTurn()


def test_only_enter_can_be_too_early() -> None:
    keys = RichPromptDriver(EMPTY, quiet=0.3).press(*"note", "enter")
    assert keys.reply is None
    assert keys.live[1] == "> note"

    keys.now = 1
    assert keys.press("enter").reply == Answered("note")


def test_the_editor_gets_the_text_and_its_result_is_not_submitted() -> None:
    keys = pressed(TEXT, "c-x")
    assert keys.outcome == Edit("none")

    keys.prompt.edited("from the editor")
    assert keys.live[1] == "> from the editor"
    assert keys.press("enter").reply == Answered("from the editor")


def test_unprintable_characters_are_shown_as_one_mark_and_kept() -> None:
    keys = pressed(EMPTY, Paste("a\x1b[31m\u202eb"))

    assert keys.live[1] == "> a?[31m?b"
    assert Span("?", "hidden") in keys.frame().rows[1]
    assert keys.press("enter").reply == Answered("a\x1b[31m\u202eb")


def test_a_long_text_scrolls_with_its_cursor() -> None:
    keys = RichPromptDriver(EMPTY, rows=6).press(Paste("\n".join(map(str, range(50)))))
    assert "  49" in keys.live
    assert len(keys.live) <= 6

    keys.press("c-home")
    assert "> 0" in keys.live


@pytest.mark.parametrize("length", range(75, 83))
def test_a_full_row_loses_no_character(length: int) -> None:
    keys = RichPromptDriver(EMPTY).type("x" * length)

    assert "".join(line[2:] for line in keys.live[1:-1]) == "x" * length


def test_invalid_json_is_kept_with_its_errors_below() -> None:
    keys = pressed(SCHEMA, "c-home", "down", "end", "left", "backspace", *"99", "enter")
    assert keys.reply is None
    assert any(line.startswith("! $.replicas: ") for line in keys.live)
    assert '    "replicas": 99,' in keys.live

    keys.press("backspace", "enter")
    assert keys.reply == Answered({"replicas": 9, "region": "eu"})
    assert keys.transcript == 'Deployment settings? {"replicas": 9, "region": "eu"}'


def test_the_cursor_moves_to_the_json_error() -> None:
    keys = pressed(SCHEMA, "c-home", "down", "end", "backspace", "c-end", "enter")

    assert keys.live[keys.frame().cursor[0]] == '    "region": "eu"'


def test_json_starts_with_a_skeleton() -> None:
    assert pressed(PROMPTS["schema_skeleton"]).live[1:5] == [
        "> {",
        '    "replicas": 0,',
        '    "region": ""',
        "  }",
    ]


def test_new_json_lines_keep_the_indentation() -> None:
    keys = pressed(SCHEMA, "c-home", "down", "end", "m-enter", "x")

    assert "    x" in keys.live


@pytest.mark.parametrize("columns", [80, 40, 10])
def test_the_screen_does_not_depend_on_the_length_of_a_secret(columns: int) -> None:
    keys = RichPromptDriver(SECRET, columns=columns)
    frames = [keys.frame()]
    for key in (*"hunter2 本", "backspace", Paste("pasted\n"), "left", "c-u", *"x"):
        keys.press(key)
        frames.append(keys.frame())

    assert all(frame == frames[0] for frame in frames)


def test_a_secret_is_returned_as_typed() -> None:
    keys = pressed(SECRET, *"hunx", "backspace", *"ter2", "enter")

    assert keys.reply == Answered(SecretValue("hunter2"))
    assert keys.transcript == "API token? (hidden)"
    assert pressed(SECRET, Paste("one\ntwo\n"), "enter").reply == Answered(SecretValue("one\ntwo"))
    assert pressed(SECRET, *"abc", "c-u", "d", "enter").reply == Answered(SecretValue("d"))


def test_the_prompt_forgets_a_submitted_secret() -> None:
    keys = RichPromptDriver(SECRET).type("hunter2").press("enter")
    assert isinstance(keys.outcome, Answered)

    reached, todo = set[int](), list[Any]([keys.prompt])
    while todo:
        found = todo.pop()
        if id(found) in reached or isinstance(found, type | ModuleType | FunctionType):
            continue
        reached.add(id(found))
        assert not (isinstance(found, str) and "hunter2" in found)
        assert not (
            isinstance(found, list)
            and {"h", "u", "n"}
            <= {letter for letter in cast("list[Any]", found) if isinstance(letter, str)}
        )
        todo += gc.get_referents(found)
    assert len(reached) > 50


def test_a_secret_has_no_editor_and_stays_in_its_menu() -> None:
    keys = pressed(SECRET, *"abc", "c-x")
    assert keys.outcome is None

    assert keys.press("escape", "a", "enter").reply == Answered(SecretValue("abc"))
    assert pressed(SECRET, "escape", "s", "s").reply == EndedTurn()


def test_ctrl_d_in_a_secret_ends_the_turn_only_if_empty() -> None:
    assert pressed(SECRET, "c-d").reply == EndedTurn()
    assert pressed(SECRET, "x", "c-d").reply is None


def test_an_optional_text_is_skipped_from_the_menu() -> None:
    optional = replace(TEXT, question=replace(TEXT.question, optional=True))

    assert pressed(optional, "escape", "-").reply == Answered(None)


def test_an_empty_text_needs_confirmation() -> None:
    keys = pressed(EMPTY, "enter")
    assert keys.reply is None
    assert "! the text is empty: press Enter again to send it" in keys.live
    assert keys.press("enter").reply == Answered("")

    optional = replace(EMPTY, question=replace(EMPTY.question, optional=True))
    assert pressed(optional, "enter").reply == Answered("")


def test_an_unchanged_skeleton_is_not_an_answer() -> None:
    asked = PROMPTS["schema_skeleton"]
    assert pressed(asked, "enter").reply is None

    keys = pressed(asked, "tab", "enter")
    assert keys.reply is None
    assert "! this is only a template: fill it in" in keys.live
    assert keys.press(
        "c-home", *["c-k"] * 10, *'{"replicas": 1, "region": "eu"}', "enter"
    ).reply == Answered({"replicas": 1, "region": "eu"})


def schema_prompt(schema: dict[str, Any]) -> Prompt:
    """Return a prompt for JSON with a schema."""
    return replace(
        ASKED, question=replace(ASKED.question, answer_type=SchemaType(schema), default=UNSET)
    )


def test_a_scalar_schema_by_reference_is_asked_by_its_type() -> None:
    definitions = {
        "colour": {"$ref": "#/$defs/basic"},
        "basic": {"enum": ["red", "blue"]},
        "size": {"type": "integer", "minimum": 2},
    }
    assert pressed(
        schema_prompt({"$ref": "#/$defs/colour", "$defs": definitions}), "2"
    ).reply == Answered("blue")
    number = schema_prompt({"$ref": "#/$defs/size", "$defs": definitions, "title": "The size"})
    assert RichPromptDriver(number).live[1] == "a whole number, at least 2"
    assert pressed(number, "1", "enter").reply is None
    assert pressed(number, "3", "enter").reply == Answered(3)


def test_a_scalar_schema_is_asked_by_its_type() -> None:
    assert pressed(schema_prompt({"type": "boolean"}), "enter").reply is None
    assert pressed(schema_prompt({"type": "boolean"}), "n").reply == Answered(False)
    assert pressed(schema_prompt({"enum": ["free", "pro"]}), "2").reply == Answered("pro")
    same = RichPromptDriver(schema_prompt({"enum": [1, "1", True, "x"]}))
    assert same.live[1:5] == ["> 1 1     a number", "  2 1     text", "  3 true", "  4 x"]
    assert same.press("2").reply == Answered("1")
    number = schema_prompt({"type": "integer", "minimum": 1, "maximum": 9})
    assert RichPromptDriver(number).live[1] == "a whole number, at least 1, at most 9"
    assert pressed(number, "enter").reply is None
    assert pressed(number, "1", "2", "enter").reply is None
    assert pressed(number, "3", "enter").reply == Answered(3)
    named = schema_prompt({"type": "string", "minLength": 2})
    assert RichPromptDriver(named).live[1] == "text, at least 2 characters"
    assert pressed(named, "a", "enter").reply is None
    assert pressed(named, "a", "b", "enter").reply == Answered("ab")


def test_f1_explains_the_keys_and_keeps_the_text() -> None:
    keys = RichPromptDriver(TEXT).type("!?").press("f1")

    assert any(
        line.startswith("  in the text - Enter submits, Alt+Enter begins a new line")
        for line in keys.live
    )
    assert any(line.startswith("  r - reply to the assistant") for line in keys.live)
    assert keys.live[1].startswith("> none!?")
    assert keys.type(" more").live[1].startswith("> none!? more")
    assert not any("in the text" in line for line in keys.press("escape").live)
    assert keys.press("enter").reply == Answered("none!? more")


def test_f1_hides_the_help_and_a_long_help_scrolls() -> None:
    keys = RichPromptDriver(TEXT, columns=40, rows=10)
    before = keys.live

    first = keys.press("f1").live
    assert first[: len(before)] == before
    assert any("PgUp and PgDn scroll" in line for line in first)
    assert keys.press("pagedown").live != first
    assert keys.press("f1").live == before


def test_f1_in_a_reply_keeps_the_reply() -> None:
    keys = RichPromptDriver(SELECT).press("r").type("Why?").press("f1")

    assert any("go back to the question" in line for line in keys.live)
    assert keys.type("!").press("enter").reply == Replied("Why?!")


def test_an_empty_json_field_explains_how_to_submit() -> None:
    assert any("Enter submits" in line for line in RichPromptDriver(of_schema(WINDOW)).live)


def test_f1_works_in_a_filter_and_in_a_secret() -> None:
    assert any(
        "letters filter" in line for line in RichPromptDriver(PROMPTS["select48"]).press("f1").live
    )
    assert any("Ctrl+U all of them" in line for line in RichPromptDriver(SECRET).press("f1").live)


def test_a_pasted_tab_is_displayed() -> None:
    keys = RichPromptDriver(TEXT).press("c-u", Paste("a\tb"))

    assert keys.live[1] == "> a⇥b"
    assert keys.press("enter").outcome == Answered("a\tb")


@pytest.mark.parametrize("prompt", [PROMPTS["run"], PROMPTS["select"], PROMPTS["multi"]])
def test_a_help_longer_than_the_window_scrolls(prompt: Prompt) -> None:
    keys = RichPromptDriver(prompt, columns=40, rows=8).press("?")
    seen = {*keys.live}
    for _ in range(40):
        seen |= {*keys.press("down").live}

    assert any("Ctrl-C - cancel" in line for line in seen)
    assert any("scrolls" in line for line in keys.live)
    assert keys.press("?").outcome is None
    assert not any("scrolls" in line for line in keys.live)


def of_schema(schema: dict[str, Any]) -> Prompt:
    """Return a prompt for JSON without a default."""
    return replace(
        SCHEMA, question=replace(SCHEMA.question, answer_type=SchemaType(schema), default=UNSET)
    )


WINDOW: dict[str, Any] = {
    "type": "object",
    "properties": {"start": {"type": "string"}, "minutes": {"type": "integer"}},
}


def test_an_object_without_required_keys_shows_all_keys() -> None:
    assert pressed(of_schema(WINDOW)).live[1:5] == [
        "> {",
        '    "start": "",',
        '    "minutes": 0',
        "  }",
    ]


def test_a_list_skeleton_shows_one_item() -> None:
    names = of_schema({"type": "array", "items": {"type": "string"}})

    assert pressed(names).live[1] == '> [""]'
    assert pressed(names, "enter").reply is None
    assert pressed(names, *"[]", "enter").reply == Answered([])


@pytest.mark.parametrize(
    ("schema", "about"),
    [
        ({"type": "object"}, "a JSON object"),
        ({"type": "array"}, "a JSON array"),
        ({"not": {"type": "null"}}, "JSON"),
    ],
)
def test_without_a_skeleton_the_expected_type_is_shown(schema: dict[str, Any], about: str) -> None:
    keys = pressed(of_schema(schema))
    assert keys.live[1:3] == [about, ">"]

    assert keys.press("enter").live[3:5] == ["! nothing was typed", f"! expected: {about}"]


def test_invalid_json_gets_the_expected_type_in_the_error() -> None:
    keys = pressed(of_schema(WINDOW), *"tonight", "enter")

    assert keys.reply is None
    assert '! expected: a JSON object, such as {"start": "", "minutes": 0}' in keys.live


def test_skeleton_and_expected_type_stay_visible_while_the_menu_is_open() -> None:
    assert '    "start": "",' in pressed(of_schema(WINDOW), "escape").live
    assert (
        "a whole number, at most 9"
        in pressed(of_schema({"type": "integer", "maximum": 9}), "escape").live
    )
