"""Values of LangGraph and LangChain as midturn records them: inputs, messages of tools, and what interrupts hold."""

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


def words(given: object) -> str:
    """Return what the user says in an input that has messages, as most graphs of agents have: a mapping, an object or a `Command`."""
    state = cast("object", given.update) if isinstance(given, Command) else given
    messages: object = fields(state)["messages"] if "messages" in fields(state) else getattr(state, "messages", ())
    said = [_said(message) for message in cast("Sequence[object]", messages if isinstance(messages, list | tuple) else [messages])]
    return next((words for words in reversed(said) if words), "")


def _said(message: object) -> str:
    """Return the words of a message of the user, in each shape that LangChain takes."""
    if isinstance(message, HumanMessage):
        return _text_of(cast("object", message.content))
    if isinstance(message, str):
        return message
    pair = cast("Sequence[object]", message) if isinstance(message, list | tuple) else ()
    if len(pair) == 2:  # noqa: PLR2004  the role and the content
        role, content = pair
    else:
        shape = fields(cast("object", message))
        role, content = shape.get("role", shape.get("type")), cast("object", shape.get("content"))
    return _text_of(content) if role in ("user", "human") else ""


def _text_of(content: object) -> str:
    """Return the texts of a message; if it has none, the types of its parts, so that a message of images is a message, too."""
    parts = cast("Sequence[object]", content if isinstance(content, list) else [content])
    texts = [part if isinstance(part, str) else str(fields(part).get("text", "")) for part in parts]
    return "".join(texts) or "\n".join(f"[{fields(part).get('type')}]" for part in parts if fields(part))


def recorded_text(message: ToolMessage) -> str:
    """Return what is recorded of a tool's message."""
    content = cast("object", message.content)
    return content if isinstance(content, str) else json.dumps(as_json(content), ensure_ascii=False)


def content_blocks(text: str) -> Any:
    """Return the content of a message that was recorded: its blocks, if it had some."""
    if not text.startswith("[{"):
        return text
    try:
        read: object = json.loads(text)
    except ValueError:
        return text
    blocks = cast("list[object]", read)
    return blocks if all("type" in fields(block) for block in blocks) else text


def fields(value: object) -> Mapping[str, Any]:
    """Return the fields of a mapping; none of anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def json_object(value: object) -> JsonObject:
    """Return a mapping as a JSON object."""
    return cast("JsonObject", as_json(fields(value)))


def read_object(content: str) -> dict[str, Any]:
    """Read a JSON object; an empty one if the text is none."""
    try:
        return dict(fields(msgspec.json.decode(content)))
    except msgspec.DecodeError:
        return {}


def question_of(value: object, schema: object) -> Question[Any]:
    """Return what an interrupt asks that says nothing of us: its text, and the type that it wants."""
    text = value if isinstance(value, str) else "The graph waits for a value."
    context = None if isinstance(value, str) else json.dumps(as_json(value), ensure_ascii=False, indent=2)
    if isinstance(schema, Mapping):
        try:
            return Question.schema("value", text, cast("JsonObject", schema), context=context)
        except QuestionError:  # a schema that cannot be asked: its answer is a text
            context = f"{context or ''}\n{json.dumps(schema, ensure_ascii=False, indent=2)}".strip()
    return Question.text("value", text, context=context)


def as_json(value: object) -> Json:
    """Return a value as JSON that is the same in each process: its content counts, not its order in memory or its address."""
    match value:
        case Mapping():
            return {str(key): as_json(held) for key, held in cast("Mapping[object, object]", value).items()}
        case AbstractSet():
            return sorted((as_json(held) for held in cast("AbstractSet[object]", value)), key=canonical)
        case list() | tuple():
            return [as_json(held) for held in cast("Sequence[object]", value)]
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
        has_own_text = type(value).__str__ is not object.__str__ or type(value).__repr__ is not object.__repr__
        return str(value) if has_own_text else f"{type(value).__module__}.{type(value).__qualname__}"
    return as_json(simple) if type(simple) is not type(value) else str(value)
