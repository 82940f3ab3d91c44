"""A remote agent as the model of a turn, for commands.

A user message starts a run of the remote agent, and the texts of the run are the response.
Interrupts become a call to the tool `ask_user_for_agent`, which asks people. Its result starts the
next run. Each response records the messages and the state of the thread in the log, so any process
can continue the turn after a crash. A run that was cut off is sent again with the same ID.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from midturn.errors import ModelError
from midturn.events.types import (
    CallValue,
    ChatRequest,
    ChatResponse,
    Event,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.exchange import (
    BrokeOff,
    Finished,
    ModelEvent,
    ModelRequest,
    Part,
    TextDelta,
    TextPart,
    ToolCallPart,
)
from midturn.integrations.agui.protocol import AguiMessage
from midturn.integrations.agui.remote_answers import AskedAgent
from midturn.integrations.agui.remote_client import RemoteAgent, Restarted, RunRequest
from midturn.integrations.agui.remote_interrupts import Interrupt, checked_interrupts
from midturn.integrations.agui.remote_run import (
    Cancelled,
    Failed,
    Interrupted,
    RemoteRun,
    Succeeded,
)
from midturn.integrations.agui.remote_tool import answer_of, failure_text
from midturn.integrations.remote_http import RemoteError, check_url
from midturn.question.json_value import Json, JsonObject, items, members
from midturn.question.text import single_line
from midturn.tools.asking import ToolContext
from midturn.tools.function import FunctionTool, tool as function_tool

ASK_TOOL: Final = "ask_user_for_agent"
"""Name of the tool that asks people the questions in the remote agent's interrupts."""
MAX_THREAD_BYTES: Final = 1024 * 1024
"""Maximum size of the messages and the state that are recorded with a response, in bytes."""
_METADATA: Final = "agui"
_ENTRIES: Final = "entries"
_MAX_NAME_LENGTH: Final = 128


def ask_tool(agent: str) -> FunctionTool[Any, Any]:
    """Return the tool that asks people the questions in an agent's interrupts."""

    async def ask_user_for_agent(ctx: ToolContext, interrupts: list[dict[str, Any]]) -> str:
        asked = AskedAgent(ctx, agent)
        given = msgspec.convert(interrupts, list[Interrupt])
        entries = await asyncio.gather(
            *(asked.entry(each, f"ask_{place}") for place, each in enumerate(given, 1))
        )
        await ctx.keep(_ENTRIES, entries)
        return "The answers are sent to the remote agent."

    description = "Ask the user the questions of the remote agent."
    return function_tool(name=ASK_TOOL, description=description)(ask_user_for_agent)


class RemoteModel:
    """A remote agent that speaks AG-UI, as a model.

    Args:
        url: Address to which runs are sent.
        headers: Headers of each request. They are not recorded.

    Raises:
        ConfigError: The address is not valid.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        check_url(url)
        self._agent = RemoteAgent(url=url, headers=headers)

    @property
    def name(self) -> str:
        """The model ID."""
        return f"agui:{self._agent.url}"

    @property
    def agent_name(self) -> str:
        """The name of the agent that asks: its host."""
        return single_line(urlsplit(self._agent.url).netloc)[:_MAX_NAME_LENGTH]

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send a run, and yield its texts.

        Args:
            request: The request. Only its recorded events are used.

        Raises:
            ModelError: The remote agent cannot be reached, fails, or breaks the protocol.
        """
        return self._stream(request)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if request.inquiry is not None or request.schema is not None:
            raise ModelError("A remote agent cannot answer with a schema.")
        thread = _Thread.of(request.recorded)
        if thread.unanswered is not None:
            yield Finished((TextPart(thread.unanswered),))
            return
        run = RunRequest(
            thread=request.conversation,
            run=thread.run,
            messages=thread.messages,
            state=thread.state,
            entries=thread.entries,
        )
        streamed: list[str] = []
        try:
            async with aclosing(self._agent.run(run)) as events:
                async for received in events:
                    match received:
                        case str():
                            streamed.append(received)
                            yield TextDelta(received, _mark())
                        case Restarted():
                            streamed.clear()
                            yield BrokeOff()
                        case RemoteRun():
                            text = "".join(streamed)
                            whole = self._text(received)
                            if whole.startswith(text) and (rest := whole.removeprefix(text)):
                                text = whole
                                yield TextDelta(rest, _mark())
                            yield Finished(tuple(self._parts(received, text, thread)))
        except RemoteError as error:
            raise ModelError(str(error)) from None

    def _text(self, run: RemoteRun) -> str:
        match run.outcome:
            case Succeeded() as outcome if run.text or outcome.open_calls:
                written = RemoteRun(
                    outcome=outcome, messages=(), state=None, text=run.text
                )  # the structured result repeats the text
                return answer_of(written, Succeeded(None, outcome.open_calls), self.agent_name)
            case Succeeded() as outcome:
                return answer_of(run, outcome, self.agent_name)
            case Cancelled():
                note = f"The run of {self.agent_name} was cancelled there."
                return "\n\n".join(filter(None, (run.text, note)))
            case _:
                return run.text

    def _parts(self, run: RemoteRun, text: str, thread: _Thread) -> list[Part]:
        """Return the parts of the response for a run.

        Raises:
            RemoteError: The run failed, its thread is too large, or its interrupts are not valid.
        """
        recorded: dict[str, Json] = {
            "messages": cast("Json", [*run.messages]),
            "state": run.state,
        }
        size = len(msgspec.json.encode(recorded))
        if size > MAX_THREAD_BYTES:
            raise RemoteError(
                f"The thread of {self.agent_name} has {size:,} bytes. At most"
                f" {MAX_THREAD_BYTES:,} can be recorded to continue it."
            )
        match run.outcome:
            case Interrupted(interrupts):
                asked = checked_interrupts(interrupts, run.messages)
                arguments = {"interrupts": msgspec.to_builtins(asked)}
                call = ToolCallPart(thread.run, ASK_TOOL, arguments, metadata=_mark(recorded))
                texts = [TextPart(text, _mark())] if text else []
                return [*texts, call]
            case Failed(message, code):
                raise RemoteError(failure_text(self.agent_name, message, code))
            case _:
                return [TextPart(text, _mark(recorded))]


def _mark(recorded: JsonObject | None = None) -> dict[str, Json]:
    """Return the metadata for a part of a response."""
    return {_METADATA: {} if recorded is None else recorded}


class _Thread(Struct):
    """The AG-UI thread of a conversation, with the ID and answers of its next run.

    Args:
        messages: The messages of the thread.
        state: State of the agent.
        run: ID of the next run.
        entries: Answers to the interrupts of the last run.
        unanswered: The result of the call that asked people, if they gave no answers. None if the
            next run can be sent.
    """

    messages: list[AguiMessage] = []
    state: Json = msgspec.field(default_factory=dict[str, Json])
    run: str = ""
    entries: Sequence[Json] = ()
    unanswered: str | None = None

    @classmethod
    def of(cls, events: Sequence[Event]) -> _Thread:
        """Return the thread that the events of a conversation describe."""
        thread, request, rounds = cls(), "", 1
        answers: dict[str, Json] = {}
        asking: set[str] = set()
        for event in events:
            match event:
                case ChatRequest():
                    request, rounds = event.event_id, 1
                    thread.entries, thread.unanswered = (), None
                    message: AguiMessage = {"id": request, "role": "user", "content": event.content}
                    thread.messages.append(message)
                case ToolCallRequest(name=name) if name == ASK_TOOL:
                    asking.add(event.event_id)
                    thread._take(event)
                case ChatResponse(message=str()):
                    thread._take(event)
                case CallValue(call=call, name=name) if name == _ENTRIES:
                    answers[call] = event.value
                case ToolCallResponse(call=call) if call in asking:
                    rounds += 1
                    thread.entries = items(answers.get(call))
                    thread.unanswered = None if call in answers else event.content
                case _:
                    pass
        thread.run = f"{request}.{rounds}"
        return thread

    def _take(self, event: ChatResponse | ToolCallRequest) -> None:
        """Update the thread from a part of a response. A response from another model has no
        recorded thread, so only its text is added.
        """
        recorded = (event.metadata or {}).get(_METADATA)
        if "messages" in members(recorded):
            found = items(members(recorded)["messages"])
            self.messages = [dict(members(message)) for message in found]
            self.state = members(recorded).get("state")
        elif recorded is None and isinstance(event, ChatResponse):
            content = event.message or ""
            self.messages.append({"id": event.event_id, "role": "assistant", "content": content})
