"""A model that is a function: for tests, and for bringing your own."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from midturn.core.exchange import (
    Finished,
    ModelEvent,
    ModelRequest,
    Part,
    ReasoningDelta,
    ReasoningPart,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
)
from midturn.core.json_value import JsonObject
from midturn.errors import ModelError
from midturn.models.reply_parts import finished, stop_reason
from midturn.models.script_reader import build_script

FunctionReply: TypeAlias = str | JsonObject | Part | Sequence[Part] | Finished
Function: TypeAlias = Callable[[ModelRequest], FunctionReply | Awaitable[FunctionReply] | AsyncIterator[ModelEvent]]
_AT_ONCE = (str, dict, list, tuple, Struct)
"""What needs not be waited for, as nearly every reply: asking a class for a protocol is slow."""


class FunctionModel:
    """Answer each request with what `fn(request)` returns.

    `fn` may be a coroutine function, or an async generator of model events. It returns a text, a mapping (the shape that the request's
    `schema` asks for, else an entry of `replies` as in a script), parts, or `Finished`. What it raises reaches the caller.

    Args:
        fn: The function.
        name: The id under which answers are recorded.
    """

    def __init__(self, fn: Function, *, name: str = "function") -> None:
        self._fn = fn
        self._name = name

    @property
    def name(self) -> str:
        """The id under which answers are recorded."""
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield what the function says.

        Args:
            request: What goes to the model.

        Raises:
            ModelError: The function returned something that is not an answer.
        """
        said = self._fn(request)
        if not isinstance(said, _AT_ONCE):
            if isinstance(said, AsyncIterator):
                async for event in said:
                    yield event
                return
            said = await said if inspect.isawaitable(said) else said
        answer = _finished(said, request)
        for part in answer.parts:
            match part:
                case TextPart(text):
                    yield TextDelta(text, part.metadata)
                case ReasoningPart(text):
                    yield ReasoningDelta(text, part.metadata)
                case StructuredPart() | ToolCallPart():
                    pass
        yield answer


def _finished(said: FunctionReply, request: ModelRequest) -> Finished:
    match said:
        case Finished():
            return said
        case str():
            return Finished((TextPart(said),))
        case TextPart() | ReasoningPart() | StructuredPart() | ToolCallPart():
            return Finished((said,), stop_reason=stop_reason([said]))
        case Mapping() if request.schema is not None:
            return Finished((StructuredPart(said),))
        case Mapping():
            script = build_script({"replies": [said]}, origin="What the function returned")
            return finished(script.replies[0], request)
        case Sequence():
            return Finished(tuple(said), stop_reason=stop_reason(said))
        case _:
            kind = type(said).__name__
            raise ModelError(f"The function returned a `{kind}`. Return a text, a mapping, parts of an answer, or `Finished`.")
