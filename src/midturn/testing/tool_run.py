"""One tool, without an agent, and what a conversation recorded about its questions: in forms that a test can compare."""

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
    """Report of one call: `content` is what a model would read, `exception` what the tool raised, `asked` every prompt in order.

    Args:
        is_error: Whether that is an error.
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
    """Call a tool once, in a test that is not async (see `run_tool`).

    Raises:
        RuntimeError: An event loop is running in this thread; use `await run_tool(…)` there.
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
    """Call a tool once, and answer what it asks, by question id.

    Args:
        tool: The tool, or a function that could be one.
        arguments: What a model would send.
        replies: What is replied, by question id, as for `ScriptedPrompter`; in a list, one after the other.
        deps: What the tool finds as `ctx.deps`.

    Raises:
        AssertionError: A question had no reply, or one of the wrong type; or a reply was left over.
        ConfigError: The tool declares the type of its `deps`, and none were passed.
    """
    (made,) = tools_of([tool])
    name = made.definition.name
    person = ScriptedPrompter({f"{name}.{question}": reply for question, reply in (replies or {}).items()})
    call: Json = {"name": name, "arguments": dict(arguments or {})}
    finished: list[ToolFinished] = []

    def note(event: Streamed) -> None:
        if isinstance(event, ToolFinished):
            finished.append(event)

    agent = Agent(ScriptedModel([{"calls": [call]}, {"text": "Done."}]), tools=[made], prompter=person)
    await agent.run("Run the tool.", deps=deps, on_event=note)
    _check(person, finished)
    content, is_error, exception = (finished[0].content, finished[0].is_error, finished[0].exception) if finished else ("", True, None)
    return ToolRunReport(content=content, is_error=is_error, exception=exception, asked=tuple(person.prompts))


def _check(person: ScriptedPrompter, finished: Sequence[ToolFinished]) -> None:
    try:
        person.assert_exhausted()
    except AssertionError as error:
        if finished and finished[0].is_error and not person.prompts:  # wrong arguments, say: then nothing is asked
            raise AssertionError(f"{error} The call ended before it asked anything: {finished[0].content}") from finished[0].exception
        raise


class HasEvents(Protocol):
    """A conversation, a journal: anything that holds events."""

    @property
    def events(self) -> Iterable[Event]:
        """Everything recorded, oldest first."""
        ...


HasRecord: TypeAlias = HasEvents | Iterable[Event]


class RecordedPair(Struct, frozen=True):
    """One question and its response. `question` is `<tool>.<question id>`; `outcome` is `answered`, `cancelled`, `redacted` or `open`.

    `reason` is the answer's explanation, or the tag of a cancelled response.

    Args:
        answer: The answer; `UNSET` where there is none.
        by: Who gave it: `user`, `assistant`, …
    """

    question: str
    outcome: str
    answer: Json | UnsetType = UNSET
    by: str | None = None
    reason: str | None = None


def recorded_pairs(source: HasRecord) -> list[RecordedPair]:
    """Return every question that was recorded, in order, with its response.

    Args:
        source: A conversation, or its events.
    """
    events = list(cast("HasEvents", source).events if hasattr(source, "events") else cast("Iterable[Event]", source))
    tools = {call.event_id: call.name for call in call_requests(events)}
    return [_recorded(pair, tools) for pair in pairs(events)]


def assert_answers(source: HasRecord, expected: Mapping[str, Any]) -> None:
    """Fail unless exactly these questions were answered, in this order, with these answers; of several attempts the last counts.

    That a secret was given is stated as `midturn.REDACTED`, where anything is said of secrets at all.

    Args:
        source: A conversation, or its events.
        expected: The answers by `<tool>.<question id>`, in order.

    Raises:
        AssertionError: It shows what was recorded.
    """
    found = recorded_pairs(source)
    secrets = {pair.question for pair in found if pair.outcome == "redacted"} if REDACTED in expected.values() else set[str]()
    answered = {
        pair.question: REDACTED if pair.question in secrets else cast("Json", pair.answer)
        for pair in found
        if pair.outcome == "answered" or pair.question in secrets
    }
    if list(answered) != list(expected) or not json_equal(answered, expected):
        listing = "\n".join(f"  {pair}" for pair in found) or "  nothing"
        raise AssertionError(f"Expected the answers {dict(expected)!r}. Recorded was:\n{listing}")


def _recorded(pair: Exchange, tools: Mapping[str, str]) -> RecordedPair:
    request, response = pair
    question = f"{_tool(request, tools)}.{request.question_id}"
    if response is None:
        return RecordedPair(question, "open")
    if response.outcome == "cancelled":
        return RecordedPair(question, "cancelled", reason=response.reason)
    by = response.answered_by.by if response.answered_by else None
    if response.outcome == "redacted":
        return RecordedPair(question, "redacted", by=by)
    return RecordedPair(question, "answered", response.answer, by, response.reason)


def _tool(request: InquiryRequest, tools: Mapping[str, str]) -> str:
    return tools.get(request.call) or request.source.header
