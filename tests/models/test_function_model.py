from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from midturn.errors import ConfigError, ModelError
from midturn.events.types import ChatRequest
from midturn.exchange import (
    Finished,
    ModelEvent,
    ModelRequest,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
    Usage,
)
from midturn.models.scripted import FunctionModel
from support.exchanges import ask, finish


def echo(request: ModelRequest) -> str:
    newest = request.events[-1]
    assert isinstance(newest, ChatRequest)
    return newest.content.upper()


def test_a_returned_text_is_the_answer() -> None:
    assert ask(FunctionModel(echo), ModelRequest(events=[ChatRequest(content="hi")])) == [
        TextDelta("HI"),
        Finished((TextPart("HI"),)),
    ]


def test_a_mapping_has_the_format_of_a_script() -> None:
    answer = finish(
        FunctionModel(
            lambda _: {
                "text": "-",
                "calls": [{"name": "deploy", "arguments": {"env": "x"}}],
                "usage": {"input_tokens": 2},
            }
        )
    )

    assert answer == Finished(
        (TextPart("-"), ToolCallPart("call_1", "deploy", {"env": "x"})), Usage(2), "tool_calls"
    )


def test_a_mapping_is_the_value_if_a_schema_is_requested() -> None:
    request = ModelRequest(schema={"type": "object"})

    assert finish(FunctionModel(lambda _: {"text": "value"}), request).parts == (
        StructuredPart({"text": "value"}),
    )


def test_a_mapping_can_be_an_error() -> None:
    with pytest.raises(ModelError, match="busy"):
        ask(FunctionModel(lambda _: {"error": {"status": 429, "message": "busy"}}))


def test_an_unknown_mapping_is_refused() -> None:
    with pytest.raises(ConfigError, match="The function's reply is not a valid script"):
        ask(FunctionModel(lambda _: {"answer": 1}))


def test_coroutines_parts_and_generators_are_accepted() -> None:
    async def later(_: ModelRequest) -> list[TextPart]:
        return [TextPart("a"), TextPart("b")]

    async def events(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("x")
        yield Finished((TextPart("x"),))

    assert finish(FunctionModel(later)).parts == (TextPart("a"), TextPart("b"))
    assert finish(FunctionModel(lambda _: TextPart("c"))).parts == (TextPart("c"),)
    assert ask(FunctionModel(events))[0] == TextDelta("x")


def test_other_return_types_are_refused_with_their_name() -> None:
    with pytest.raises(ModelError, match="returned a `NoneType`"):
        ask(FunctionModel(lambda _: cast("Any", None)))
