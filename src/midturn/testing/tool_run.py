"""One tool, without an agent: what it asks, what it is answered, what it ends in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from midturn.agent.agent import Agent
from midturn.agent.turn_stream import Streamed, ToolFinished
from midturn.compose.given import GivenTool, tools_of
from midturn.models.scripted import ScriptedModel
from midturn.record.prompt import Prompt
from midturn.store.sync_forms import refuse_inside_a_loop
from midturn.testing.prompter import Scripted, ScriptedPrompter
from midturn.values.json_value import Json, JsonObject


class ToolRunReport(Struct, frozen=True, kw_only=True):
    """What came of one call: `content` is what a model would read, `exception` what the tool raised, `asked` every prompt in order.

    Args:
        is_error: Whether that is an error.
    """

    content: str
    is_error: bool
    exception: BaseException | None
    asked: tuple[Prompt, ...]


def run_tool_sync(
    tool: GivenTool | Callable[..., Any],
    arguments: JsonObject | None = None,
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
    arguments: JsonObject | None = None,
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
