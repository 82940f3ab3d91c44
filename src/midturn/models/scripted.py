"""Models for tests. `ScriptedModel` plays a script and needs no network or API key. `FunctionModel`
calls a function.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from midturn import exchange
from midturn.errors import ModelError, ScriptError
from midturn.events.types import Event, model_input_text
from midturn.exchange import ModelEvent, ModelRequest
from midturn.models import script_reader
from midturn.question.json_value import Json, JsonObject, as_json
from midturn.question.public_names import public_repr
from midturn.routing.messages import unknown_tool

ReplyEntries: TypeAlias = Sequence[Any]
"""Script entries as Python literals. Type checkers cannot infer a common type for them, so they are
validated at run time.
"""
_MAX_SHOWN_LENGTH = 2_000  # maximum length of an unexpected message in the error, in characters


class ScriptedModel:
    """Sends `replies` to the turn, and `inquiries` in answer to questions that are routed to the
    assistant.

    The position in the script is computed from the recorded events, so a new object with the same
    script continues where an earlier object stopped.

    Args:
        replies: One entry per request, in the format of a script file.
        inquiries: `{"tool", "question", "answers"}`. The first matching entry answers. When all its
            answers are used, the last answer is repeated.
        sleep: Waits for `delay_ms`. Tests may pass a function that returns immediately.

    Raises:
        ConfigError: The script is invalid. The message lists every problem.
    """

    def __init__(
        self,
        replies: ReplyEntries = (),
        inquiries: ReplyEntries = (),
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._script = script_reader.build_script(
            {"replies": replies, "inquiries": inquiries}, origin="The script"
        )
        self._origin = "The script"
        self._sleep = sleep
        self._progress = script_reader.Progress()
        self._played = 0
        self._failed: list[str] = []
        self._misspelt: list[str] = []

    def __repr__(self) -> str:
        return public_repr(self, "ScriptedModel", f"name={self.name!r}")

    def problems(self) -> list[str]:
        """Return the problems of a finished test: requests for which the script had no reply, and
        unused replies.
        """
        left = len(self._script.replies) - self._played
        return [
            *self._failed,
            *(
                [f"{self._origin} has {_count(left, 'reply', 'replies')} left over."]
                if left > 0
                else []
            ),
        ]

    def misspelt(self) -> list[str]:
        """Return the scripted calls with an unknown tool or unknown arguments. Such calls are
        allowed, but rarely intended in a test.
        """
        return list(self._misspelt)

    @classmethod
    def from_file(
        cls, path: str | Path, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> ScriptedModel:
        """Read the script from a `.toml` or `.json` file.

        Args:
            path: The file.
            sleep: Waits for `delay_ms`. Tests may pass a function that returns at once.

        Raises:
            ConfigError: The file cannot be read or is invalid. The message lists every problem
                and where it is.
        """
        model = cls(sleep=sleep)
        model._script = script_reader.read_script(Path(path))
        model._origin = f"The script {path}"
        return model

    @property
    def name(self) -> str:
        """The model id recorded with answers."""
        return "scripted"

    @property
    def script(self) -> script_reader.Script:
        """The script being played."""
        return self._script

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the next entry of the script.

        Args:
            request: The request.

        Raises:
            ModelError: The entry is an error.
            ScriptError: The script has no more replies, has no answer for this question, or
                expected a different message.
        """
        return (
            self._reply(request)
            if request.inquiry is None
            else self._answer(request, request.inquiry)
        )

    async def _reply(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        index = self._progress.take(request)
        delivered = False
        try:
            reply = self._entry(index)
            self._check_expectation(reply, index, request)
            metadata = script_reader.position(index + 1)
            pieces = [*script_reader.deltas(reply, metadata)]
            pause = reply.delay_ms / 1000 / max(len(pieces), 1)
            for delta in pieces or [None]:
                await self._sleep(pause)
                if delta is not None:
                    yield delta
            delivered = True
            answer = script_reader.finished(reply, request, metadata)
            self._misspelt += [
                f"{self._origin}, reply {index + 1}: {problem}"
                for problem in _misspelt(answer.parts, request.tools)
            ]
            self._progress.delivered(request, index)
            yield answer
        finally:
            if not delivered:
                self._progress.give_back(request, index)

    async def _answer(
        self, request: ModelRequest, inquiry_asked: exchange.InquiryAsked
    ) -> AsyncIterator[ModelEvent]:
        inquiry, answers = self._answers(inquiry_asked)
        index = self._progress.take(request, inquiry)
        delivered = False
        try:
            answer = answers[min(index, len(answers) - 1)]
            metadata = script_reader.position(index + 1, inquiry)
            await self._sleep(answer.delay_ms / 1000)
            delivered = True
            if answer.error:
                raise script_reader.failure(answer.error, metadata)
            yield exchange.Finished(
                (exchange.StructuredPart(_answer_object(answer), metadata),), answer.usage.counted()
            )
        finally:
            if not delivered:
                self._progress.give_back(request, index, inquiry)

    def _entry(self, index: int) -> script_reader.ScriptedReply:
        replies = self._script.replies
        if index < len(replies):
            self._played = max(self._played, index + 1)
            return replies[index]
        raise self._failure(
            f"{self._origin} has no more replies: it has"
            f" {_count(len(replies), 'reply', 'replies')}, and the conversation requests reply"
            f" {index + 1}. Add an entry to `replies`."
        )

    def _failure(self, message: str) -> ScriptError:
        self._failed.append(message)
        return ScriptError(message)

    def _answers(
        self, inquiry_asked: exchange.InquiryAsked
    ) -> tuple[int, tuple[script_reader.ScriptedAnswer, ...]]:
        for index, inquiry in enumerate(self._script.inquiries):
            if inquiry.matches(inquiry_asked.tool, inquiry_asked.question_id):
                return index, inquiry.answers
        raise self._failure(
            f"{self._origin} has no answer for `{inquiry_asked.question_id}` of"
            f" `{inquiry_asked.tool}`. Add a matching entry to `inquiries`."
        )

    def _check_expectation(
        self, reply: script_reader.ScriptedReply, index: int, request: ModelRequest
    ) -> None:
        newest = newest_message(request.events)
        if reply.expect is not None and reply.expect not in newest:
            raise self._failure(
                f"{self._origin} expects at reply {index + 1} that the newest message"
                f" contains:\n{reply.expect}\n"
                "The newest message"
                f" is:\n{newest[:_MAX_SHOWN_LENGTH]}{'…' if len(newest) > _MAX_SHOWN_LENGTH else ''}"
            )


def newest_message(events: Sequence[Event]) -> str:
    """Return the newest input of the model: the user's message, or the results of its latest
    calls.
    """
    texts: list[str] = []
    for event in reversed(events):
        text = model_input_text(event)
        if text is None:
            break
        texts.append(text)
    return "\n".join(reversed(texts))


def _misspelt(
    parts: Sequence[exchange.Part], tools: Sequence[exchange.ToolDefinition]
) -> Iterator[str]:
    """Describe calls with an unknown tool or unknown arguments."""
    known = {tool.name: tool.parameters for tool in tools}
    for part in parts:
        if not isinstance(part, exchange.ToolCallPart) or not isinstance(part.arguments, Mapping):
            continue
        if part.name not in known:
            yield unknown_tool(part.name, list(known))
            continue
        declared = known[part.name].get("properties")
        unknown = (
            part.arguments.keys()
            - (declared if isinstance(declared, Mapping) else part.arguments).keys()
        )
        if unknown and isinstance(declared, Mapping):
            yield (
                f"{part.name} has no argument {', '.join(map(repr, sorted(unknown)))}. It has:"
                f" {', '.join(declared) or 'none'}."
            )


def _answer_object(answer: script_reader.ScriptedAnswer) -> dict[str, Json]:
    reason: dict[str, Json] = {} if answer.reason is None else {"reason": answer.reason}
    return {**reason, "answer": None if answer.answer is UNSET else answer.answer}


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


# --------------------------------------------------------------------------------------------------
# A model implemented by a function


FunctionReply: TypeAlias = (
    str | JsonObject | exchange.Part | Sequence[exchange.Part] | exchange.Finished
)
Function: TypeAlias = Callable[
    [ModelRequest], FunctionReply | Awaitable[FunctionReply] | AsyncIterator[ModelEvent]
]
_PLAIN_REPLY_TYPES = (str, dict, list, tuple, Struct)
"""Types that are never awaitable. Most replies have one of these types, and checking whether an
object is awaitable is slow.
"""


class FunctionModel:
    """Answers each request with the return value of `fn(request)`.

    `fn` may also be a coroutine function or an async generator of model events. The function
    returns a string, a mapping, parts or `Finished`. If the request has a `schema`, a mapping is
    the value for this schema; otherwise it is a script entry. Exceptions from the function are
    passed on to the caller.

    Args:
        fn: The function.
        name: The model id recorded with answers.
    """

    def __init__(self, fn: Function, *, name: str = "function") -> None:
        self._fn = fn
        self._name = name

    def __repr__(self) -> str:
        return public_repr(self, "FunctionModel", f"name={self._name!r}")

    @property
    def name(self) -> str:
        """The model id recorded with answers."""
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the function's reply as model events.

        Args:
            request: The request.

        Raises:
            ModelError: The function returned an unsupported value.
        """
        reply = self._fn(request)
        if not isinstance(reply, _PLAIN_REPLY_TYPES):
            if isinstance(reply, AsyncIterator):
                async for event in reply:
                    yield event
                return
            reply = await reply if inspect.isawaitable(reply) else reply
        answer = _finished(reply, request)
        for part in answer.parts:
            match part:
                case exchange.TextPart(text):
                    yield exchange.TextDelta(text, part.metadata)
                case exchange.ReasoningPart(text):
                    yield exchange.ReasoningDelta(text, part.metadata)
                case exchange.StructuredPart() | exchange.ToolCallPart():
                    pass
        yield answer


def _finished(reply: FunctionReply, request: ModelRequest) -> exchange.Finished:
    match reply:
        case exchange.Finished():
            return reply
        case str():
            return exchange.Finished((exchange.TextPart(reply),))
        case (
            exchange.TextPart()
            | exchange.ReasoningPart()
            | exchange.StructuredPart()
            | exchange.ToolCallPart()
        ):
            return exchange.Finished((reply,), stop_reason=script_reader.stop_reason([reply]))
        case Mapping() if request.schema is not None:
            return exchange.Finished((exchange.StructuredPart(as_json(reply)),))
        case Mapping():
            script = script_reader.build_script({"replies": [reply]}, origin="The function's reply")
            return script_reader.finished(script.replies[0], request)
        case Sequence():
            return exchange.Finished(tuple(reply), stop_reason=script_reader.stop_reason(reply))
        case _:
            kind = type(reply).__name__
            raise ModelError(
                f"The function returned a `{kind}`. Return a text, a mapping, parts of an answer,"
                " or `Finished`."
            )
