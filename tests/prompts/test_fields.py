"""A question with a flat object schema is asked field by field."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from midturn.events.prompt import FormSubject, Prompt
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SelectType,
    TextType,
)
from midturn.question.json_value import Json
from midturn.question.reply import Answered, EndedTurn, Replied, Reply, Submitted, WentBack
from midturn.terminal.prompts.answer_text import reply_text
from midturn.terminal.prompts.field_walk import FieldWalk, field_walk
from midturn.terminal.prompts.keys import AsJson, BackTo
from midturn.terminal.prompts.schema_controls import flat_fields
from midturn.web.schema_fields import fields_of
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import SCHEMA
from support.rich_prompt_driver import RichPromptDriver, pressed

MACHINE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cpu": {"type": "integer", "minimum": 1, "title": "CPUs", "description": "Whole ones."},
        "memory": {"type": "string"},
        "burst": {"type": "boolean"},
        "tier": {"enum": ["small", "large"]},
        "zones": {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b"]}},
        "version": {"const": 2},
        "note": {"type": ["string", "null"]},
    },
    "required": ["cpu", "memory", "burst", "version", "note"],
}


def asking(schema: dict[str, Any], **terms: Any) -> Prompt:
    """Return a prompt with an answer schema."""
    question = replace(
        SCHEMA.question,
        answer_type=SchemaType(schema),
        default=terms.pop("default", UNSET),
        context=terms.pop("context", None),
    )
    return replace(SCHEMA, question=question, **terms)


def walk_of(schema: dict[str, Any], **terms: Any) -> FieldWalk:
    """Return the field walk of a schema."""
    walk = field_walk(asking(schema, **terms))
    assert walk is not None
    return walk


def answered(walk: FieldWalk, *values: Json) -> None:
    """Answer the fields one after the other."""
    for value in values:
        assert walk.take(Answered(value)) is None


def test_each_field_is_a_question_of_its_type() -> None:
    walk = walk_of(MACHINE, context="For the build.")
    asked: list[Prompt] = []
    for value in (2, "4 GiB", True, None, ["a"], None):
        asked.append(walk.prompt)
        answered(walk, value)

    assert [prompt.question.text for prompt in asked] == [
        f"Deployment settings? · {name}"
        for name in ("CPUs", "memory", "burst", "tier", "zones", "note")
    ]
    kinds = [type(prompt.question.answer_type) for prompt in asked]
    assert kinds == [SchemaType, TextType, BooleanType, SelectType, MultiSelectType, TextType]
    assert [prompt.question.optional for prompt in asked] == [False, False, False, True, True, True]
    assert [(prompt.index, prompt.total, prompt.can_go_back) for prompt in asked[:2]] == [
        (1, 6, False),
        (2, 6, True),
    ]
    assert [prompt.question.context for prompt in asked[:2]] == [
        "For the build.\n\nWhole ones.",
        None,
    ]
    assert not any(prompt.may_remember for prompt in asked)


def test_all_answers_are_shown_before_submission() -> None:
    walk = walk_of(MACHINE)
    answered(walk, 2, "4 GiB", True, None, ["a"], None)
    review = walk.prompt

    assert (review.kind, review.question.text) == ("review", "Send these answers?")
    assert isinstance(review.subject, FormSubject)
    assert pressed(review, "y").reply == Submitted()
    assert walk.take(Submitted()) == Answered(
        {"cpu": 2, "memory": "4 GiB", "burst": True, "zones": ["a"], "version": 2, "note": None}
    )
    assert list(walk._value()) == ["cpu", "memory", "burst", "zones", "version", "note"]


def test_a_single_field_is_submitted_at_once() -> None:
    walk = walk_of(
        {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}
    )

    assert walk.take(Answered("Because.")) == Answered({"why": "Because."})


def test_going_back_shows_the_earlier_answer() -> None:
    walk = walk_of(MACHINE)
    answered(walk, 2, "4 GiB")
    assert walk.take(WentBack()) is None
    assert (walk.prompt.question.text, walk.prompt.prefill) == (
        "Deployment settings? · memory",
        "4 GiB",
    )

    answered(walk, "8 GiB", False, "small", [], "x")
    assert walk.take(BackTo(index=1)) is None
    assert walk.prompt.prefill == 2


@pytest.mark.parametrize("can_go_back", [True, False])
def test_back_at_the_first_field_goes_back_in_the_form(*, can_go_back: bool) -> None:
    walk = walk_of(MACHINE, can_go_back=can_go_back, index=2, total=3)

    assert (walk.prompt.can_go_back, walk.prompt.index, walk.prompt.total) == (can_go_back, 2, 3)
    assert walk.take(WentBack()) == WentBack()


@pytest.mark.parametrize("reply", [EndedTurn(), Replied("Which?")])
def test_the_question_can_be_cancelled_at_each_field(reply: Reply) -> None:
    walk = walk_of(MACHINE)
    answered(walk, 2)

    assert walk.take(reply) == reply


def test_j_answers_as_json_and_starts_with_the_earlier_answers() -> None:
    walk = walk_of(MACHINE)
    answered(walk, 2)
    assert pressed(walk.prompt, "escape", "j").reply == AsJson()
    assert reply_text(walk.prompt, AsJson()) == "(as JSON)"
    assert walk.take(AsJson()) is None
    assert (walk.prompt.question.text, walk.prompt.prefill) == (
        "Deployment settings?",
        {"cpu": 2, "version": 2},
    )

    assert walk.take(WentBack()) is None
    assert walk.prompt.question.text == "Deployment settings? · memory"
    assert walk.take(AsJson()) is None
    assert walk.take(Answered({"cpu": 1})) == Answered({"cpu": 1})


def test_j_keeps_typed_unsubmitted_text() -> None:
    walk = walk_of(MACHINE)
    answered(walk, 2)

    reply = RichPromptDriver(walk.prompt).type("4 GiB").press("escape", "j").outcome
    assert isinstance(reply, AsJson)
    assert walk.take(reply) is None
    assert walk.prompt.prefill == {"cpu": 2, "memory": "4 GiB", "version": 2}

    assert walk.take(WentBack()) is None
    assert (walk.prompt.question.text, walk.prompt.prefill) == (
        "Deployment settings? · memory",
        "4 GiB",
    )
    answered(walk, "8 GiB")
    assert walk.prompt.prefill is UNSET
    assert walk.take(AsJson()) is None
    assert walk.prompt.prefill == {"cpu": 2, "memory": "8 GiB", "version": 2}


@pytest.mark.parametrize(("typed", "kept"), [("4", 4), ("4,5", "4,5"), ("[4]", "[4]")])
def test_j_keeps_a_typed_number(typed: str, kept: Json) -> None:
    walk = walk_of(MACHINE)

    reply = RichPromptDriver(walk.prompt).type(typed).press("escape", "j").outcome
    assert isinstance(reply, AsJson)
    assert walk.take(reply) is None
    assert walk.prompt.prefill == {"cpu": kept, "version": 2}
    assert walk.take(WentBack()) is None
    assert walk.prompt.prefill == (4 if kept == 4 else UNSET)


def test_j_keeps_marked_options_and_a_default() -> None:
    walk = walk_of(
        MACHINE, default={"cpu": 1, "memory": "1", "burst": False, "version": 2, "note": None}
    )
    answered(walk, 2, "4 GiB", True, None)

    reply = RichPromptDriver(walk.prompt).press("1", "escape", "j").outcome
    assert isinstance(reply, AsJson)
    assert walk.take(reply) is None
    assert walk.prompt.prefill == {
        "cpu": 2,
        "memory": "4 GiB",
        "burst": True,
        "zones": ["a"],
        "version": 2,
    }

    begun = walk_of(
        MACHINE, default={"cpu": 1, "memory": "1", "burst": False, "version": 2, "note": None}
    )
    assert begun.take(AsJson("7")) is None
    assert begun.prompt.prefill == {
        "cpu": 7,
        "memory": "1",
        "burst": False,
        "version": 2,
        "note": None,
    }


def test_j_in_a_plain_prompt_keeps_refused_text() -> None:
    walk = walk_of(MACHINE)

    reply = PlainPromptDriver(walk.prompt, "0", ":j").reply
    assert reply is not None
    assert reply == AsJson("0")
    assert walk.take(reply) is None
    assert walk.prompt.prefill == {"cpu": 0, "version": 2}


def test_j_moves_in_a_list_and_is_available_in_its_menu() -> None:
    walk = walk_of(MACHINE)
    answered(walk, 2, "4 GiB", True)

    assert pressed(walk.prompt, "j", "enter").reply == Answered("large")
    assert pressed(walk.prompt, "escape", "j").reply == AsJson()


def test_yes_no_fields_accept_j_and_have_no_reason() -> None:
    walk = walk_of(MACHINE)
    answered(walk, 2, "4 GiB")

    assert pressed(walk.prompt, "j").reply == AsJson()
    assert pressed(walk.prompt, "p").reply is None
    assert not any("because" in row for row in RichPromptDriver(walk.prompt).live)


def test_a_plain_prompt_takes_j() -> None:
    walk = walk_of(MACHINE)

    assert PlainPromptDriver(walk.prompt, ":j").reply == AsJson()
    assert PlainPromptDriver(walk.prompt, "0", "3").reply == Answered(3)
    answered(walk, 2, "4 GiB")
    assert PlainPromptDriver(walk.prompt, "as json").reply == AsJson()


def test_an_answer_invalid_as_a_whole_is_shown_as_json_with_the_reason() -> None:
    either = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "minProperties": 1,
    }
    walk = walk_of(either)
    answered(walk, None, None)

    assert walk.take(Submitted()) is None
    assert walk.prompt.prefill == {}
    assert walk.prompt.error is not None
    assert walk.prompt.error.startswith("$: ")


def test_a_default_fills_the_fields() -> None:
    walk = walk_of(
        MACHINE, default={"cpu": 4, "memory": "1 GiB", "burst": False, "version": 2, "note": None}
    )

    assert pressed(walk.prompt, "enter").reply == Answered(4)
    answered(walk, 4, "1 GiB", False)
    assert pressed(walk.prompt, "enter").reply == Answered(None)


def test_a_value_without_a_field_is_edited_as_json() -> None:
    assert field_walk(asking(MACHINE, default={"cpu": "four"})) is None
    assert field_walk(asking(MACHINE, default={"disk": 1})) is None
    assert field_walk(asking(MACHINE, prefill=[1])) is None


FLAT = {"a": {"type": "string"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "object", "properties": FLAT}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
        },
        {"type": "object", "properties": {"a": {"type": ["string", "number"]}}},
        {"type": "object", "properties": FLAT, "required": ["b"]},
        {
            "type": "object",
            "properties": {f"p{number}": {"type": "string"} for number in range(21)},
        },
        {"type": "object"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
    ],
)
def test_a_nested_schema_is_asked_as_json(schema: dict[str, Any]) -> None:
    assert flat_fields(schema) == ()
    assert field_walk(asking(schema)) is None


def test_references_and_null_are_handled_as_on_the_page() -> None:
    cpu_or_none: Any = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    schema: dict[str, Any] = {
        "$ref": "#/$defs/machine",
        "$defs": {
            "machine": {
                "type": "object",
                "properties": {"tier": {"$ref": "#/$defs/tier"}, "cpu": cpu_or_none},
            },
            "tier": {"enum": ["small", "large"], "title": "Tier"},
        },
    }
    tier, cpu = flat_fields(schema)

    assert (tier.control, tier.label, cpu.control, cpu.is_nullable) == (
        "choice",
        "Tier",
        "number",
        True,
    )
    form = fields_of(schema, UNSET)
    assert form is not None
    assert [(part.kind, part.label) for part in form.parts] == [
        ("choice", "Tier"),
        ("number", "cpu"),
    ]
