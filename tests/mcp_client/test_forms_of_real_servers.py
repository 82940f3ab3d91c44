"""Forms as real MCP servers send them.

Each form is displayed, answered by a person, and sent back in the shape that its schema
requires.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from midturn import Agent, MemoryStore, ScriptedModel, ScriptedPrompter, open_store
from midturn.events.types import ToolCallResponse
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from midturn.protocol_forms import form_of
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SelectType,
    TextType,
)
from midturn.question.json_value import Json
from support.depth import tries
from support.warm_commands import started_by_others

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"
pytestmark = pytest.mark.timeout(600)


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else required,
    }


TEXT: dict[str, Any] = {"type": "string"}
NULLABLE = {"anyOf": [TEXT, {"type": "null"}]}
MANY = [f"city {number}" for number in range(400)]
DEEP = {
    "type": "object",
    "properties": {"deep": {"type": "integer"}},
    "additionalProperties": False,
}
COLOUR = {"$ref": "#/$defs/Colour"}
DEFINED = {"$defs": {"Colour": {"enum": ["red", "blue"], "title": "Colour", "type": "string"}}}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Json], dict[str, Json]]] = {
    "no properties": (_object(), {"confirm": True}, {}),
    "a title that is pydantic's own": (
        _object(answer={**TEXT, "title": "Answer"}),
        {"answer": "x"},
        {"answer": "x"},
    ),
    "optional by anyOf, skipped": (_object([], note=NULLABLE), {"note": None}, {}),
    "optional by anyOf, given": (_object([], note=NULLABLE), {"note": "x"}, {"note": "x"}),
    "required and nullable, skipped": (_object(note=NULLABLE), {"note": None}, {"note": None}),
    "optional by a list of types": (
        _object([], note={"type": ["string", "null"]}),
        {"note": "x"},
        {"note": "x"},
    ),
    "a nullable enum": (_object(note={"enum": ["a", None]}), {"note": None}, {"note": None}),
    "a nullable choice": (
        _object([], note={"oneOf": [{"const": "a", "title": "A"}, {"type": "null"}]}),
        {"note": "a"},
        {"note": "a"},
    ),
    "a list of words": (
        _object(tags={"type": "array", "items": TEXT}),
        {"tags": "a b\n\n c\n"},
        {"tags": ["a b", " c"]},
    ),
    "an empty list of words": (
        _object(tags={"type": "array", "items": TEXT}),
        {"tags": ""},
        {"tags": []},
    ),
    "a list of numbers": (
        _object(sizes={"type": "array", "items": {"type": "integer"}}),
        {"sizes": [1, 2.0]},
        {"sizes": ["1", "2"]},
    ),
    "a choice by capitals": (
        _object(unit={"enum": ["mm", "Mm", "m"]}),
        {"unit": "Mm (2)"},
        {"unit": "Mm"},
    ),
    "several by capitals": (
        _object(units={"type": "array", "items": {"enum": ["mm", "Mm", "m"]}}),
        {"units": ["mm (1)", "m"]},
        {"units": ["mm", "m"]},
    ),
    "a choice of objects": (
        _object(one={"enum": [{"a": 1}, {"a": 2}]}),
        {"one": '{"a": 2}'},
        {"one": '{"a": 2}'},
    ),
    "an option without a letter": (_object(one={"enum": ["", "x"]}), {"one": " (1)"}, {"one": ""}),
    "the same option twice": (_object(one={"enum": ["a", "a", "b"]}), {"one": "a"}, {"one": "a"}),
    "a format of its own": (
        _object(phone={**TEXT, "format": "phone"}),
        {"phone": "call me"},
        {"phone": "call me"},
    ),
    "a format of the protocol": (
        _object(mail={**TEXT, "format": "email"}),
        {"mail": "a@example.org"},
        {"mail": "a@example.org"},
    ),
    "a pattern with lookaround": (
        _object(code={**TEXT, "pattern": "(?=a)b"}),
        {"code": "zzz"},
        {"code": "zzz"},
    ),
    "a constant": (
        _object(kind={**TEXT, "const": "refund"}),
        {"kind": "refund"},
        {"kind": "refund"},
    ),
    "400 options": (_object(city={"enum": MANY}), {"city": "city 399"}, {"city": "city 399"}),
    "25 fields": (
        _object(None, **{f"f{number}": TEXT for number in range(25)}),
        {f"f{number}": str(number) for number in range(25)},
        {f"f{number}": str(number) for number in range(25)},
    ),
    "250 fields": (
        _object(None, **{f"f{number}": TEXT for number in range(250)}),
        {"answer": {"f1": "x"}},
        {"f1": "x"},
    ),
    "an object inside": (_object(at=DEEP), {"at": {"deep": 3.0}}, {"at": '{"deep": 3}'}),
    "a schema that we do not check": (
        _object(at={"type": "object", "patternProperties": {"a": {}}}),
        {"at": {"b": 1}},
        {"at": '{"b": 1}'},
    ),
    "no type": (_object(at={"description": "Anything."}), {"at": [1]}, {"at": ["1"]}),
    "a reference to an enum": (_object(c=COLOUR) | DEFINED, {"c": "red"}, {"c": "red"}),
    "a reference in allOf": (
        _object(c={"allOf": [COLOUR], "default": "blue"}) | DEFINED,
        {"c": "red"},
        {"c": "red"},
    ),
    "a nullable reference": (
        _object([], c={"anyOf": [COLOUR, {"type": "null"}]}) | DEFINED,
        {"c": None},
        {},
    ),
    "a list of references": (
        _object(c={"type": "array", "items": COLOUR}) | DEFINED,
        {"c": ["red"]},
        {"c": ["red"]},
    ),
    "an object with a reference": (
        _object(at={"type": "object", "properties": {"c": COLOUR}}) | DEFINED,
        {"at": {"c": "red"}},
        {"at": '{"c": "red"}'},
    ),
    "a reference that leads nowhere": (_object(c=COLOUR), {"c": "red"}, {"c": "red"}),
    "a long option": (
        _object(one={"enum": ["x" * 3000, "y"]}),
        {"one": f"{'x' * 2000}… (1)"},
        {"one": "x" * 3000},
    ),
    "a format that is no text": (_object(one={**TEXT, "format": {}}), {"one": "x"}, {"one": "x"}),
    "an integer": (_object(count={"type": "integer"}), {"count": 4.0}, {"count": 4}),
    "crossed bounds": (
        _object(count={"type": "integer", "minimum": 5, "maximum": 1}),
        {"count": 7},
        {"count": 7},
    ),
    "an empty enum": (_object(one={**TEXT, "enum": []}), {"one": "x"}, {"one": "x"}),
}


@pytest.fixture(params=["modern", "legacy"], scope="module")
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[McpServers]:
    command = (*started_by_others(SERVER), request.param)
    place = str(tmp_path_factory.mktemp("server"))
    with McpServers(
        [ServerSpec(name="probe", command=command, environment=dict(os.environ), cwd=place)]
    ) as connected:
        yield connected


def _received_content(servers: McpServers, schema: dict[str, Any], replies: dict[str, Any]) -> str:
    """Let the server ask a form, answer it, and return the content that the server received."""
    calls: list[Any] = [
        {"calls": [{"name": "probe_ask", "arguments": {"schema": schema}}]},
        {"text": "Done."},
    ]
    tools = [tool for some in servers.tools.values() for tool in some]
    prompter = ScriptedPrompter({f"probe_ask.{key}": value for key, value in replies.items()})
    store = MemoryStore()
    limits: dict[str, object] = {"shown": 300}
    result = Agent(
        model=ScriptedModel(calls), tools=tools, prompter=prompter, store=store, limits=limits
    ).run_sync("Go")
    (response,) = [
        event
        for event in store.read_sync(result.conversation).events
        if isinstance(event, ToolCallResponse)
    ]
    return response.content


@pytest.mark.parametrize("shape", SHAPES)
def test_a_form_of_a_real_server_is_asked_and_answered(servers: McpServers, shape: str) -> None:
    schema, replies, content = SHAPES[shape]
    assert _received_content(servers, schema, replies) == f"accept {content}"


def test_declining_a_form_without_properties(servers: McpServers) -> None:
    assert _received_content(servers, _object(), {"confirm": False}) == "decline None"


@pytest.mark.parametrize(
    "shape",
    [
        "no properties",
        "a choice by capitals",
        "400 options",
        "25 fields",
        "250 fields",
        "an object inside",
    ],
)
def test_a_form_of_a_real_server_is_answered_later(
    servers: McpServers, shape: str, tmp_path: Path
) -> None:
    """The limits for the project's own forms do not apply when a recorded form is read."""
    schema, replies, content = SHAPES[shape]
    calls: list[Any] = [
        {"calls": [{"name": "probe_ask", "arguments": {"schema": schema}}]},
        {"text": "Done."},
    ]
    store = open_store(tmp_path)
    tools = [tool for some in servers.tools.values() for tool in some]
    agent = Agent(model=ScriptedModel(calls), tools=tools, store=store)
    (asked, *_) = agent.run_sync("Go").pending
    store.answer_sync(asked.id, replies if asked.form else next(iter(replies.values())))
    result = agent.resume_sync(asked.conversation)
    for question in result.pending:  # answers the review, too
        store.answer_sync(question.id, approve=True)
        agent.resume_sync(asked.conversation)
    (response,) = [
        event
        for event in store.read_sync(asked.conversation).events
        if isinstance(event, ToolCallResponse)
    ]
    assert response.content == f"accept {content}"


@pytest.mark.parametrize(
    ("asked", "control"),
    [
        (_object(), BooleanType),
        (_object(a={"enum": ["mm", "Mm"]}), SelectType),
        (
            _object(a={"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}),
            MultiSelectType,
        ),
        (_object(a={"type": "array", "items": TEXT}), TextType),
        (_object(a={**TEXT, "format": "password"}), TextType),
        (_object(a=COLOUR) | DEFINED, SelectType),
        (
            _object(a={"anyOf": [{"$ref": "#/$defs/Other"}, {"type": "null"}]})
            | {"$defs": {"Other": {"allOf": [COLOUR]}, **DEFINED["$defs"]}},
            SelectType,
        ),
        (_object(a={"type": "array", "items": COLOUR}) | DEFINED, MultiSelectType),
        (_object(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"$ref": "#/$defs/A"}}}, SchemaType),
        (_object(a={"type": "array", "items": {"type": "object"}}), SchemaType),
    ],
)
def test_a_property_gets_the_simplest_control_that_fits(
    asked: dict[str, Any], control: type
) -> None:
    (question,) = form_of(asked, "Where?").form.questions
    assert isinstance(question.answer_type, control)
    assert question.exclusive


def test_the_schema_is_shown_if_the_control_does_not_check_it() -> None:
    (question,) = form_of(_object(code={**TEXT, "pattern": "(?=a)b"}), "Where?").form.questions
    assert '{"pattern": "(?=a)b"}' in (question.context or "")
    (question,) = form_of(_object(tags={"type": "array", "items": TEXT}), "Where?").form.questions
    assert "One entry per line." in (question.context or "")


def test_a_displayed_schema_includes_the_definitions_it_refers_to() -> None:
    (question,) = form_of(
        _object(at={"type": "object", "properties": {"c": COLOUR}}) | DEFINED, "Where?"
    ).form.questions
    assert isinstance(question.answer_type, SchemaType)
    assert question.answer_type.schema["$defs"] == DEFINED["$defs"]
    assert '"enum": ["red", "blue"]' in (question.context or "")


@pytest.mark.parametrize("message", ["", "x" * 70_000, "one\ntwo", " \t", "one\x84two", "\x84"])
@pytest.mark.parametrize("name", ["a", "", "__run__", "\t", "\x84", "x" * 5000])
def test_any_message_and_any_name_can_be_asked(message: str, name: str) -> None:
    assert len(form_of(_object(), message).form.questions) == 1
    assert form_of({"properties": {name: TEXT}}, message).fields[0].name == name


WORDS = st.sampled_from(
    [
        "type",
        "title",
        "enum",
        "const",
        "format",
        "anyOf",
        "oneOf",
        "allOf",
        "items",
        "$ref",
        "properties",
        "a",
        "default",
        "maxItems",
    ]
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.text(max_size=3)
    | st.sampled_from(["string", "array", "object", "null", "#/$defs/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=tries(200), deadline=None)
@given(st.dictionaries(st.text(max_size=3), ANYTHING, max_size=3), ANYTHING, ANYTHING)
def test_any_schema_can_be_asked(
    properties: dict[str, Any], required: Any, definitions: Any
) -> None:
    """No form is answered without a person only because it is hard to display."""
    elicited = form_of(
        {"properties": properties, "required": required, "$defs": definitions}, "Where?"
    )
    assert [field.name for field in elicited.fields] == [*properties] or not properties


def test_a_default_keeps_the_form_of_the_control() -> None:
    form = form_of(
        _object(
            [],
            tags={"type": "array", "items": TEXT, "default": ["a", "b"]},
            unit={"enum": ["mm", "Mm"], "default": "Mm"},
        ),
        "",
    )
    assert [question.default for question in form.form.questions] == ["a\nb", "Mm (2)"]


@pytest.mark.parametrize(
    "shape",
    [
        shape
        for shape, (schema, _, _) in SHAPES.items()
        if 0 < len(schema["properties"]) < 200 and shape not in ("a list of numbers", "no type")
    ],
)
def test_recorded_content_is_read_as_answers(shape: str) -> None:
    schema, _, content = SHAPES[shape]
    elicited = form_of(schema, "Where?")
    assert elicited.content(elicited.answers(content)) == content
