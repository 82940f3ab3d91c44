"""Converts LangGraph and LangChain values to JSON for the log: inputs, tool messages and interrupt
values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import Any, cast

import msgspec

from midturn.errors import QuestionError
from midturn.integrations import needs_extra
from midturn.question.json_value import Json, JsonObject, canonical
from midturn.question.question import Question

with needs_extra("langgraph", "langchain_core"):
    from langchain_core.messages import HumanMessage, ToolMessage
with needs_extra("langgraph", "langgraph"):
    from langgraph.types import Command


def last_user_text(given: object) -> str:
    """Return the last user message in a graph's input, or an empty string. The input is a mapping,
    an object or a `Command` with messages.
    """
    state = cast("object", given.update) if isinstance(given, Command) else given
    messages: object = (
        fields(state)["messages"] if "messages" in fields(state) else getattr(state, "messages", ())
    )
    said = [
        _user_text(message)
        for message in cast(
            "Sequence[object]", messages if isinstance(messages, list | tuple) else [messages]
        )
    ]
    return next((text for text in reversed(said) if text), "")


def _user_text(message: object) -> str:
    """Return the text of a user message in any form that LangChain accepts. Empty for other
    messages.
    """
    if isinstance(message, HumanMessage):
        return _content_text(cast("object", message.content))
    if isinstance(message, str):
        return message
    pair = cast("Sequence[object]", message) if isinstance(message, list | tuple) else ()
    if len(pair) == 2:  # noqa: PLR2004  the role and the content
        role, content = pair
    else:
        shape = fields(cast("object", message))
        role, content = shape.get("role", shape.get("type")), cast("object", shape.get("content"))
    return _content_text(content) if role in ("user", "human") else ""


def _content_text(content: object) -> str:
    """Return the text of a message. If it has no text, return the types of its parts, so that
    something is recorded for an image.
    """
    parts = cast("Sequence[object]", content if isinstance(content, list) else [content])
    texts = [part if isinstance(part, str) else str(fields(part).get("text", "")) for part in parts]
    return "".join(texts) or "\n".join(
        f"[{fields(part).get('type')}]" for part in parts if fields(part)
    )


def recorded_text(message: ToolMessage) -> str:
    """Return the text to record for a tool message."""
    content = cast("object", message.content)
    return content if isinstance(content, str) else json.dumps(as_json(content), ensure_ascii=False)


def content_blocks(text: str) -> Any:
    """Return the content of a recorded message: its text, or its blocks."""
    if not text.startswith("[{"):
        return text
    try:
        read: object = json.loads(text)
    except ValueError:
        return text
    blocks = cast("list[object]", read)
    return blocks if all("type" in fields(block) for block in blocks) else text


def fields(value: object) -> Mapping[str, Any]:
    """Return a mapping unchanged. For any other value, return an empty mapping."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def json_object(value: object) -> JsonObject:
    """Return a mapping as a JSON object. Any other value becomes an empty object."""
    return cast("JsonObject", as_json(fields(value)))


def read_object(content: str) -> dict[str, Any]:
    """Parse a JSON object. If the text is not a JSON object, return an empty object."""
    try:
        return dict(fields(msgspec.json.decode(content)))
    except msgspec.DecodeError:
        return {}


def question_for(value: object, schema: object) -> Question[Any]:
    """Return the question for an interrupt from the graph's own code. Its text comes from the
    interrupt, and its answer type from the schema of the expected value.
    """
    text = value if isinstance(value, str) else "The graph is waiting for a value."
    context = (
        None if isinstance(value, str) else json.dumps(as_json(value), ensure_ascii=False, indent=2)
    )
    if isinstance(schema, Mapping):
        try:
            return Question.schema("value", text, cast("JsonObject", schema), context=context)
        except QuestionError:  # the schema is not supported, so ask for plain text
            context = f"{context or ''}\n{json.dumps(schema, ensure_ascii=False, indent=2)}".strip()
    return Question.text("value", text, context=context)


def as_json(value: object) -> Json:
    """Convert a value to JSON. The result does not depend on set order or memory addresses, so it is
    the same in each process.
    """
    match value:
        case Mapping():
            return {
                str(key): as_json(item)
                for key, item in cast("Mapping[object, object]", value).items()
            }
        case AbstractSet():
            return sorted(
                (as_json(item) for item in cast("AbstractSet[object]", value)), key=canonical
            )
        case list() | tuple():
            return [as_json(item) for item in cast("Sequence[object]", value)]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return _object_as_json(value)


def _object_as_json(value: object) -> Json:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return as_json(dump())
    try:
        simple: object = msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError):
        has_own_text = (
            type(value).__str__ is not object.__str__ or type(value).__repr__ is not object.__repr__
        )
        return (
            str(value) if has_own_text else f"{type(value).__module__}.{type(value).__qualname__}"
        )
    return as_json(simple) if type(simple) is not type(value) else str(value)
