"""Runs a single tool without an agent, and compares the recorded questions and answers of a
conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from msgspec import UNSET, Struct, UnsetType

from midturn.agent.agent import Agent
from midturn.agent.assembly.arguments import GivenTool, tools_of
from midturn.agent.turn_stream import Streamed, ToolFinished
from midturn.events.prompt import Prompt
from midturn.events.types import Event, InquiryRequest, call_requests
from midturn.models.scripted import ScriptedModel
from midturn.question.json_value import Json, json_equal
from midturn.stores.sync_forms import refuse_inside_a_loop
from midturn.testing.prompter import Scripted, ScriptedPrompter
from midturn.tools.returned import REDACTED
from midturn.turn.view import Exchange, pairs


class ToolRunReport(Struct, frozen=True, kw_only=True):
    """Report of one call.

    Args:
        content: Result as the model would read it.
        is_error: Whether the result is an error.
        exception: Exception that the tool raised.
        asked: All prompts, in order.
    """

    content: str
    is_error: bool
    exception: BaseException | None
    asked: tuple[Prompt, ...]


def run_tool_sync(
    tool: GivenTool | Callable[..., Any],
    arguments: Mapping[str, Any] | None = None,
    replies: Mapping[str, Scripted] | None = None,
    *,
    deps: object = None,
) -> ToolRunReport:
    """Call a tool once. Synchronous version of `run_tool`.

    Raises:
        RuntimeError: An event loop is running in this thread; use `await run_tool(…)` instead.
    """
    refuse_inside_a_loop("run_tool_sync", "await run_tool(…)")
    return asyncio.run(run_tool(tool, arguments, replies, deps=deps))


async def run_tool(
    tool: GivenTool | Callable[..., Any],
    arguments: Mapping[str, Any] | None = None,
    replies: Mapping[str, Scripted] | None = None,
    *,
    deps: object = None,
) -> ToolRunReport:
    """Call a tool once and answer its questions from a script.

    Args:
        tool: The tool, or a function to convert to a tool.
        arguments: Arguments as a model would send them.
        replies: Replies by question ID, as for `ScriptedPrompter`. Pass a list to reply several
            times to the same question.
        deps: Value of `ctx.deps` in the tool.

    Raises:
        AssertionError: A question had no reply or a reply of the wrong type, or a reply was left
            over.
        ConfigError: The tool declares a type for `deps`, and none were passed.
    """
    (made,) = tools_of([tool])
    name = made.definition.name
    prompter = ScriptedPrompter(
        {f"{name}.{question}": reply for question, reply in (replies or {}).items()}
    )
    call: Json = {"name": name, "arguments": dict(arguments or {})}
    finished: list[ToolFinished] = []

    def note(event: Streamed) -> None:
        if isinstance(event, ToolFinished):
            finished.append(event)

    agent = Agent(
        ScriptedModel([{"calls": [call]}, {"text": "Done."}]), tools=[made], prompter=prompter
    )
    await agent.run("Run the tool.", deps=deps, on_event=note)
    _check_replies(prompter, finished)
    content, is_error, exception = (
        (finished[0].content, finished[0].is_error, finished[0].exception)
        if finished
        else ("", True, None)
    )
    return ToolRunReport(
        content=content, is_error=is_error, exception=exception, asked=tuple(prompter.prompts)
    )


def _check_replies(prompter: ScriptedPrompter, finished: Sequence[ToolFinished]) -> None:
    try:
        prompter.assert_exhausted()
    except AssertionError as error:
        # the call ended early, for example because its arguments are invalid
        if finished and finished[0].is_error and not prompter.prompts:
            raise AssertionError(
                f"{error} The call ended before it asked anything: {finished[0].content}"
            ) from finished[0].exception
        raise


class HasEvents(Protocol):
    """Any object with events, such as a conversation."""

    @property
    def events(self) -> Iterable[Event]:
        """All recorded events, oldest first."""
        ...


HasRecord: TypeAlias = HasEvents | Iterable[Event]


class RecordedPair(Struct, frozen=True):
    """A recorded question and its response.

    Args:
        question: `<tool>.<question id>`.
        outcome: `answered`, `cancelled`, `redacted` or `open`.
        answer: The answer, or `UNSET` if there is none.
        by: Kind of the responder: `user`, `assistant`, …
        reason: Reason that was given with the answer, or the reason code of a cancelled response.
    """

    question: str
    outcome: str
    answer: Json | UnsetType = UNSET
    by: str | None = None
    reason: str | None = None


def recorded_pairs(source: HasRecord) -> list[RecordedPair]:
    """Return all recorded questions in order, each with its response.

    Args:
        source: A conversation, or its events.
    """
    events = list(
        cast("HasEvents", source).events
        if hasattr(source, "events")
        else cast("Iterable[Event]", source)
    )
    tools = {call.event_id: call.name for call in call_requests(events)}
    return [_recorded_pair(pair, tools) for pair in pairs(events)]


def assert_answers(source: HasRecord, expected: Mapping[str, Any]) -> None:
    """Fail unless exactly these questions were answered, in this order, with these answers.

    If a question was asked several times, the last answer counts. To check that a secret was
    entered, use `midturn.REDACTED` as the expected answer. If no expected answer is `REDACTED`,
    secrets are ignored.

    Args:
        source: A conversation, or its events.
        expected: Answers by `<tool>.<question id>`, in order.

    Raises:
        AssertionError: The answers differ. The message shows the recorded answers.
    """
    found = recorded_pairs(source)
    secrets = (
        {pair.question for pair in found if pair.outcome == "redacted"}
        if REDACTED in expected.values()
        else set[str]()
    )
    answered = {
        pair.question: REDACTED if pair.question in secrets else cast("Json", pair.answer)
        for pair in found
        if pair.outcome == "answered" or pair.question in secrets
    }
    if list(answered) != list(expected) or not json_equal(answered, expected):
        listing = "\n".join(f"  {pair}" for pair in found) or "  nothing"
        raise AssertionError(
            f"Expected the answers {dict(expected)!r}, but these were recorded:\n{listing}"
        )


def _recorded_pair(pair: Exchange, tools: Mapping[str, str]) -> RecordedPair:
    request, response = pair
    question = f"{_tool_name(request, tools)}.{request.question_id}"
    if response is None:
        return RecordedPair(question, "open")
    if response.outcome == "cancelled":
        return RecordedPair(question, "cancelled", reason=response.reason)
    by = response.answered_by.by if response.answered_by else None
    if response.outcome == "redacted":
        return RecordedPair(question, "redacted", by=by)
    return RecordedPair(question, "answered", response.answer, by, response.reason)


def _tool_name(request: InquiryRequest, tools: Mapping[str, str]) -> str:
    return tools.get(request.call) or request.source.header
