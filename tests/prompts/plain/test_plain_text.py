"""Plain prompts for text, JSON and secrets."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import SchemaType
from midturn.question.json_value import JsonObject, SecretValue
from midturn.question.reply import Answered, EndedTurn, Replied, WentBack
from midturn.terminal.prompts.plain_scene import Edit, PromptBase
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import PROMPTS, SCHEMA, SECRET, TEXT

EMPTY = PROMPTS["text_empty"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a note"], "a note"),
        (["  spaces stay "], "  spaces stay "),
        (["one \\", "two"], "one \ntwo"),
        (["C:\\\\"], "C:\\"),
        (["::s"], ":s"),
        ([":-) fine"], ":-) fine"),
        (["y"], "y"),
        (["one\ntwo"], "one\ntwo"),
        (["?", "a note"], "a note"),
        (["\\?"], "?"),
    ],
)
def test_a_text_is_returned_as_typed(lines: list[str], text: str) -> None:
    assert PlainPromptDriver(EMPTY, *lines).reply == Answered(text)


def test_enter_takes_the_default_text() -> None:
    assert PlainPromptDriver(TEXT, "").reply == Answered("none")
    assert PlainPromptDriver(TEXT, ":empty").reply == Answered("")
    assert PlainPromptDriver(EMPTY, "").reply is None
    assert PlainPromptDriver(EMPTY, "", "").reply == Answered("")


def test_a_default_of_several_lines_is_shown_with_the_gutter() -> None:
    prompt = replace(TEXT, prefill="one\nAssistant asks:")

    talk = PlainPromptDriver(prompt, "")

    assert talk.said[2:5] == ["Draft:", "| one", "| Assistant asks:"]
    assert "(Enter to keep the draft)" in talk.text
    assert talk.reply == Answered("one\nAssistant asks:")


def test_the_editor_opens_with_the_draft() -> None:
    talk = PlainPromptDriver(TEXT, ":e", "", edited="from the editor")

    assert talk.given == [Edit("none")]
    assert talk.reply == Answered("from the editor")


def test_commands_end_a_text() -> None:
    prompt = PROMPTS["text"]

    assert PlainPromptDriver(prompt, ":b").reply == WentBack()
    assert PlainPromptDriver(prompt, ":s", "s").reply == EndedTurn()
    assert PlainPromptDriver(prompt, ":r", "why?").reply == Replied("why?")
    assert PlainPromptDriver(prompt, "one \\", ":s", "s").reply == EndedTurn()


def test_help_in_a_text_lists_the_commands() -> None:
    assert "  :e - edit it in your editor" in PlainPromptDriver(TEXT, ":?").said


def test_invalid_json_is_kept_with_the_paths_of_its_errors() -> None:
    talk = PlainPromptDriver(
        SCHEMA, '{"replicas": 99, "region": "eu"}', "", '{"replicas": 9, "region": "eu"}'
    )

    assert talk.text.count("  $.replicas: ") == 2
    assert talk.reply == Answered({"replicas": 9, "region": "eu"})
    assert talk.said[-1] == 'Answer: {"replicas": 9, "region": "eu"}'


def test_enter_keeps_the_default_json() -> None:
    assert PlainPromptDriver(SCHEMA, "").reply == Answered({"replicas": 3, "region": "eu"})


def test_a_skeleton_is_shown_but_not_sent_by_enter() -> None:
    talk = PlainPromptDriver(PROMPTS["schema_skeleton"], "")

    assert "Answer in JSON of this shape:" in talk.said
    assert talk.reply is None


def test_the_editor_opens_with_the_skeleton() -> None:
    talk = PlainPromptDriver(
        PROMPTS["schema_skeleton"], ":e", "", edited='{"replicas": 1, "region": "eu"}'
    )

    assert talk.given[0].text == '{\n  "replicas": 0,\n  "region": ""\n}'
    assert talk.reply == Answered({"replicas": 1, "region": "eu"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON: "),
        ('{"a": 1, "a": 2}', 'the key "a" appears twice in one object'),
        ("NaN", "NaN is not JSON"),
        ("1e999", "1e999 is too large for a number"),
        ("[" * 100_000, "not accepted: nested too deeply"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("9" * 5000, "a number with too many digits"),
    ],
)
def test_json_is_read_strictly(text: str, message: str) -> None:
    talk = PlainPromptDriver(SCHEMA, text)

    assert message in talk.text
    assert talk.reply is None


@pytest.mark.parametrize("line", ["hunter2", "ends in \\", ":secret", "  spaces  "])
def test_a_secret_is_returned_as_typed_and_never_displayed(line: str) -> None:
    talk = PlainPromptDriver(SECRET, line)

    assert talk.reply == Answered(SecretValue(line))
    assert talk.said[-1] == "Answer: (hidden)"
    assert not line or line not in talk.text


def test_commands_end_a_secret_and_two_colons_escape_one() -> None:
    assert PlainPromptDriver(SECRET, ":s", "s").reply == EndedTurn()
    assert PlainPromptDriver(SECRET, "").reply is None
    assert PlainPromptDriver(SECRET, "", "").reply == Answered(SecretValue(""))
    assert PlainPromptDriver(SECRET, "::s").reply == Answered(SecretValue(":s"))
    assert (
        PlainPromptDriver(SECRET, ":?", ":s").said[3]
        == "  :r - reply to the assistant instead of answering"
    )


def of_schema(schema: JsonObject) -> Prompt:
    """Return a prompt for JSON without a default."""
    return replace(
        SCHEMA, question=replace(SCHEMA.question, answer_type=SchemaType(schema), default=UNSET)
    )


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        (EMPTY, "the text is empty: press Enter again to send it"),
        (of_schema({"type": "integer"}), "nothing was typed: a number is expected"),
        (of_schema({"type": "object"}), "nothing was typed"),
    ],
)
def test_a_refused_enter_does_not_offer_a_kept_text(asked: Prompt, wrong: str) -> None:
    """No text exists that could be kept."""
    said = PlainPromptDriver(asked, "").said

    assert f"  {wrong}" in said
    assert not any("kept" in row or "Enter for" in row for row in said)


def test_a_refused_text_is_kept_and_not_offered_as_an_answer() -> None:
    said = PlainPromptDriver(of_schema({"type": "integer", "maximum": 9}), "12", "").said

    assert said.count("Your text is kept; Enter shows these errors again, :e edits it.") == 2
    assert not any("Enter for" in row for row in said)


def test_an_object_prompt_shows_the_expected_shape() -> None:
    window: JsonObject = {"type": "object", "properties": {"start": {"type": "string"}}}

    assert PlainPromptDriver(of_schema(window)).said[2:6] == [
        "Answer in JSON of this shape:",
        "| {",
        '|   "start": ""',
        "| }",
    ]
    assert (
        '  expected: a JSON object, such as {"start": ""}'
        in PlainPromptDriver(of_schema(window), "").said
    )
    assert (
        '  expected: a JSON object, such as {"start": ""}'
        in PlainPromptDriver(of_schema(window), "tonight").said
    )
    assert "Answer with a JSON array." in PlainPromptDriver(of_schema({"type": "array"})).said


def test_the_editor_still_opens_with_the_skeleton_after_a_refused_enter() -> None:
    talk = PlainPromptDriver(
        PROMPTS["schema_skeleton"], "", ":e", "", edited='{"replicas": 1, "region": "eu"}'
    )

    assert talk.given[0].text.startswith('{\n  "replicas": 0')
    assert talk.reply == Answered({"replicas": 1, "region": "eu"})


def test_the_skeleton_is_shown_again_on_return() -> None:
    assert (
        PlainPromptDriver(PROMPTS["schema_skeleton"], ":s", "").text.count(
            "Answer in JSON of this shape:"
        )
        == 2
    )
    assert (
        PlainPromptDriver(PROMPTS["schema_skeleton"], ":?").text.count(
            "Answer in JSON of this shape:"
        )
        == 1
    )


def test_a_header_wraps_between_words_with_the_gutter() -> None:
    asked = replace(
        PROMPTS["text"], question=replace(PROMPTS["text"].question, optional=True), index=3, total=3
    )
    rows = PromptBase(asked, 30).opening()

    assert rows[:2] == ["| Assistant asks, question 3", "|   of 3 (optional):"]
