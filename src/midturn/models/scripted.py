"""A model that plays a script: no network, no key, the same turn loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from midturn import exchange
from midturn.errors import ModelError, ScriptError
from midturn.events.types import Event, said_to_model
from midturn.exchange import ModelEvent, ModelRequest
from midturn.models import script_reader
from midturn.question.json_value import Json, JsonObject, as_json
from midturn.question.public_names import public_repr
from midturn.routing.messages import unknown_tool

ReplyEntries: TypeAlias = Sequence[Any]
"""The entries of a script as a program writes them, in literals, for which type checkers find no common type; they are read strictly."""
_SHOWN = 2_000  # characters of a message that did not hold what was expected


class ScriptedModel:
    """Play `replies` to the turn and `inquiries` to questions that are routed to the assistant.

    Where the conversation stands is read from what is recorded, so a new object with the same script goes on where another stopped.

    Args:
        replies: One entry for each request, shaped as in a script file.
        inquiries: `{"tool", "question", "answers"}`; the first that matches answers, its last answer repeats.
        sleep: Waits for `delay_ms`; a test may pass one that does not wait.

    Raises:
        ConfigError: The script breaks a rule; every problem is listed.
    """

    def __init__(
        self,
        replies: ReplyEntries = (),
        inquiries: ReplyEntries = (),
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._script = script_reader.build_script({"replies": replies, "inquiries": inquiries}, origin="The script")
        self._origin = "The script"
        self._sleep = sleep
        self._progress = script_reader.Progress()
        self._played = 0
        self._failed: list[str] = []
        self._misspelt: list[str] = []

    def __repr__(self) -> str:
        return public_repr(self, "ScriptedModel", f"name={self.name!r}")

    def problems(self) -> list[str]:
        """Return what a test should know when it is over: what the script could not play, and whether replies are left over."""
        left = len(self._script.replies) - self._played
        return [*self._failed, *([f"{self._origin} has {_count(left, 'reply', 'replies')} left over."] if left > 0 else [])]

    def misspelt(self) -> list[str]:
        """Return the calls that no tool could take, which a model may make and a test seldom means: of no tool, with other arguments."""
        return list(self._misspelt)

    @classmethod
    def from_file(cls, path: str | Path, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> ScriptedModel:
        """Read the script from a `.toml` or `.json` file.

        Args:
            path: The file.
            sleep: Waits where the script says so; a test need not.

        Raises:
            ConfigError: The file cannot be read or breaks a rule; every problem is listed with its place.
        """
        model = cls(sleep=sleep)
        model._script = script_reader.read_script(Path(path))
        model._origin = f"The script {path}"
        return model

    @property
    def name(self) -> str:
        """The id under which answers are recorded."""
        return "scripted"

    @property
    def script(self) -> script_reader.Script:
        """The script being played."""
        return self._script

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the next entry of the script.

        Args:
            request: What goes to the model.

        Raises:
            ModelError: The entry is an error.
            ScriptError: The script is at its end, has no answer for this question, or expected another message.
        """
        return self._reply(request) if request.inquiry is None else self._answer(request, request.inquiry)

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
            self._misspelt += [f"{self._origin}, reply {index + 1}: {what}" for what in _misspelt(answer.parts, request.tools)]
            self._progress.delivered(request, index)
            yield answer
        finally:
            if not delivered:
                self._progress.give_back(request, index)

    async def _answer(self, request: ModelRequest, asked: exchange.InquiryAsked) -> AsyncIterator[ModelEvent]:
        inquiry, answers = self._answers(asked)
        index = self._progress.take(request, inquiry)
        delivered = False
        try:
            answer = answers[min(index, len(answers) - 1)]
            metadata = script_reader.position(index + 1, inquiry)
            await self._sleep(answer.delay_ms / 1000)
            delivered = True
            if answer.error:
                raise script_reader.failure(answer.error, metadata)
            yield exchange.Finished((exchange.StructuredPart(_answer_object(answer), metadata),), answer.usage.counted())
        finally:
            if not delivered:
                self._progress.give_back(request, index, inquiry)

    def _entry(self, index: int) -> script_reader.ScriptedReply:
        replies = self._script.replies
        if index < len(replies):
            self._played = max(self._played, index + 1)
            return replies[index]
        raise self._failure(
            f"{self._origin} is at its end: it has {_count(len(replies), 'reply', 'replies')}, and the "
            f"conversation asks for reply {index + 1}. Add an entry to `replies`."
        )

    def _failure(self, message: str) -> ScriptError:
        self._failed.append(message)
        return ScriptError(message)

    def _answers(self, asked: exchange.InquiryAsked) -> tuple[int, tuple[script_reader.ScriptedAnswer, ...]]:
        for index, inquiry in enumerate(self._script.inquiries):
            if inquiry.matches(asked.tool, asked.question_id):
                return index, inquiry.answers
        raise self._failure(
            f"{self._origin} has no answer to `{asked.question_id}` of `{asked.tool}`. Add an entry to `inquiries` that matches it."
        )

    def _check_expectation(self, reply: script_reader.ScriptedReply, index: int, request: ModelRequest) -> None:
        newest = newest_message(request.events)
        if reply.expect is not None and reply.expect not in newest:
            raise self._failure(
                f"{self._origin} expects at reply {index + 1} that the newest message contains:\n{reply.expect}\n"
                f"The newest message is:\n{newest[:_SHOWN]}{'…' if len(newest) > _SHOWN else ''}"
            )


def newest_message(events: Sequence[Event]) -> str:
    """Return what the model reads last: the user's words, or the results of the calls that it made at once."""
    texts: list[str] = []
    for event in reversed(events):
        text = said_to_model(event)
        if text is None:
            break
        texts.append(text)
    return "\n".join(reversed(texts))


def _misspelt(parts: Sequence[exchange.Part], tools: Sequence[exchange.ToolDefinition]) -> Iterator[str]:
    """Say which calls are of no tool, or have arguments that it does not have."""
    known = {tool.name: tool.parameters for tool in tools}
    for part in parts:
        if not isinstance(part, exchange.ToolCallPart) or not isinstance(part.arguments, Mapping):
            continue
        if part.name not in known:
            yield unknown_tool(part.name, list(known))
            continue
        declared = known[part.name].get("properties")
        unknown = part.arguments.keys() - (declared if isinstance(declared, Mapping) else part.arguments).keys()
        if unknown and isinstance(declared, Mapping):
            yield f"{part.name} has no argument {', '.join(map(repr, sorted(unknown)))}. It has: {', '.join(declared) or 'none'}."


def _answer_object(answer: script_reader.ScriptedAnswer) -> dict[str, Json]:
    reason: dict[str, Json] = {} if answer.reason is None else {"reason": answer.reason}
    return {**reason, "answer": None if answer.answer is UNSET else answer.answer}


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


# ----------------------------------------------------------------------------------------------------------------------
# A model that is a function: for tests, and for bringing your own


FunctionReply: TypeAlias = str | JsonObject | exchange.Part | Sequence[exchange.Part] | exchange.Finished
Function: TypeAlias = Callable[[ModelRequest], FunctionReply | Awaitable[FunctionReply] | AsyncIterator[ModelEvent]]
_AT_ONCE = (str, dict, list, tuple, Struct)
"""Types that are never awaitable, as nearly every reply: asking a class for a protocol is slow."""


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

    def __repr__(self) -> str:
        return public_repr(self, "FunctionModel", f"name={self._name!r}")

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
                case exchange.TextPart(text):
                    yield exchange.TextDelta(text, part.metadata)
                case exchange.ReasoningPart(text):
                    yield exchange.ReasoningDelta(text, part.metadata)
                case exchange.StructuredPart() | exchange.ToolCallPart():
                    pass
        yield answer


def _finished(said: FunctionReply, request: ModelRequest) -> exchange.Finished:
    match said:
        case exchange.Finished():
            return said
        case str():
            return exchange.Finished((exchange.TextPart(said),))
        case exchange.TextPart() | exchange.ReasoningPart() | exchange.StructuredPart() | exchange.ToolCallPart():
            return exchange.Finished((said,), stop_reason=script_reader.stop_reason([said]))
        case Mapping() if request.schema is not None:
            return exchange.Finished((exchange.StructuredPart(as_json(said)),))
        case Mapping():
            script = script_reader.build_script({"replies": [said]}, origin="What the function returned")
            return script_reader.finished(script.replies[0], request)
        case Sequence():
            return exchange.Finished(tuple(said), stop_reason=script_reader.stop_reason(said))
        case _:
            kind = type(said).__name__
            raise ModelError(f"The function returned a `{kind}`. Return a text, a mapping, parts of an answer, or `Finished`.")
