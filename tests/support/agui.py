"""A front end that speaks AG-UI over HTTP, without the SDK."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

import midturn as mt
from midturn.integrations import agui
from midturn.stores.store import ConversationStore

Event = dict[str, Any]


class Run:
    """The events of one run."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def end(self) -> Event:
        return self.events[-1]

    @property
    def outcome(self) -> str | None:
        return self.end.get("outcome", {}).get("type")

    @property
    def interrupts(self) -> list[Event]:
        return list(self.end.get("outcome", {}).get("interrupts", ()))

    @property
    def interrupt(self) -> Event:
        (only,) = self.interrupts
        return only

    @property
    def messages(self) -> list[Event]:
        """The last snapshot."""
        return next(
            event["messages"]
            for event in reversed(self.events)
            if event["type"] == "MESSAGES_SNAPSHOT"
        )

    @property
    def text(self) -> str:
        """The streamed text."""
        return "".join(
            event["delta"] for event in self.events if event["type"] == "TEXT_MESSAGE_CONTENT"
        )

    def custom(self, name: str) -> list[Any]:
        """The values of midturn's own events with a name."""
        return [
            event["value"]
            for event in self.events
            if event["type"] == "CUSTOM" and event["name"] == f"midturn.{name}"
        ]

    @property
    def not_taken(self) -> list[Any]:
        return self.custom("not_taken")

    @property
    def results(self) -> list[str]:
        """The results of tool calls."""
        return [event["content"] for event in self.events if event["type"] == "TOOL_CALL_RESULT"]


class FrontEnd:
    """Sends runs of one thread, and keeps the messages as a front end does."""

    def __init__(
        self, client: httpx.AsyncClient, thread: str = "t1", user: str = "ada", version: str = "1.0"
    ) -> None:
        self.client = client
        self.thread = thread
        self._headers = {"x-user": user}
        self._version = version
        self._runs = 0
        self.messages: list[Event] = []

    async def say(self, text: str, **more: Any) -> Run:
        self.messages.append({"id": f"user-{len(self.messages)}", "role": "user", "content": text})
        return await self.run(**more)

    async def answer(self, interrupt: Event, payload: Any, **more: Any) -> Run:
        return await self.resume(resolved(interrupt, payload), **more)

    async def resume(self, *entries: Event, **more: Any) -> Run:
        return await self.run(resume=list(entries), **more)

    async def run(self, **more: Any) -> Run:
        response = await self.post(self.body(**more))
        assert response.status_code == 200, response.text
        run = read_run(response.text)
        check_events(run.events)
        self.messages = run.messages if run.outcome or run.end["type"] == "RUN_FINISHED" else []
        return run

    def body(self, **more: Any) -> Event:
        self._runs += 1
        version = {"protocolVersion": self._version} if self._version else {}
        return {
            "threadId": self.thread,
            "runId": f"run-{self._runs}",
            "messages": self.messages,
            "state": {},
            "tools": [],
            "context": [],
            "forwardedProps": {},
            **version,
            **more,
        }

    async def post(self, body: object) -> httpx.Response:
        return await self.client.post("/", json=body, headers=self._headers)


def resolved(interrupt: Event | str, payload: Any, **midturn: Any) -> Event:
    """Return an entry with an answer."""
    id = interrupt if isinstance(interrupt, str) else interrupt["id"]
    metadata = {"metadata": {"midturn": midturn}} if midturn else {}
    return {"interruptId": id, "status": "resolved", "payload": payload, **metadata}


def cancelled(interrupt: Event | str, **midturn: Any) -> Event:
    """Return an entry without an answer."""
    id = interrupt if isinstance(interrupt, str) else interrupt["id"]
    metadata = {"metadata": {"midturn": midturn}} if midturn else {}
    return {"interruptId": id, "status": "cancelled", **metadata}


def read_run(text: str) -> Run:
    """Parse a stream. Comments are left out."""
    lines = [line for line in text.split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return Run([json.loads(line.removeprefix("data: ")) for line in lines])


# Every event is valid
# --------------------------------------------------------------------------------------------------


def _sdk() -> Any:
    """Return the reader of the SDK, which is a development dependency. Without it, only the order
    of the events is checked.
    """
    try:
        core: Any = importlib.import_module("ag_ui.core")
    except ImportError:
        return None
    reader: Any = importlib.import_module("pydantic").TypeAdapter(core.Event)
    return reader


_SDK = _sdk()
_PAIRS = {
    "TEXT_MESSAGE": ("messageId", "TEXT_MESSAGE_CONTENT"),
    "TOOL_CALL": ("toolCallId", "TOOL_CALL_ARGS"),
    "REASONING_MESSAGE": ("messageId", "REASONING_MESSAGE_CONTENT"),
}


def check_events(events: Sequence[Event]) -> None:
    """Check the order of the events of a run, and that the SDK reads each one as it was sent."""
    types = [event["type"] for event in events]
    assert types[0] == "RUN_STARTED"
    assert types.count("RUN_STARTED") == 1
    ends = [place for place, name in enumerate(types) if name in ("RUN_FINISHED", "RUN_ERROR")]
    assert ends == [len(events) - 1]
    opened: tuple[str, str] | None = None
    for event in events:
        assert None not in event.values(), event
        for name, (id, content) in _PAIRS.items():
            if event["type"] == f"{name}_START":
                assert opened is None
                opened = (name, event[id])
            elif event["type"] == content:
                assert opened == (name, event[id])
                assert event["delta"] or name == "TOOL_CALL"
            elif event["type"] == f"{name}_END":
                assert opened == (name, event[id])
                opened = None
        if event["type"] in ("MESSAGES_SNAPSHOT", "TOOL_CALL_RESULT", "CUSTOM"):
            assert opened is None
    assert opened is None
    if _SDK is not None:
        for event in events:
            read = _SDK.validate_python(event)
            assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == event


def user_of(request: Any) -> str | None:
    """Return the user in a header of the test."""
    return request.headers.get("x-user")


@asynccontextmanager
async def serving(agent: mt.Agent, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve an agent in this process, with its lifespan."""
    given: dict[str, Any] = {"user": user_of, "work": False, **options}
    app: Any = agui.app(agent, **given)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://agent", timeout=30
    ) as client:
        yield client


def scripted(
    *script: Mapping[str, Any],
    tools: Sequence[Any] = (),
    store: ConversationStore | None = None,
    **more: Any,
) -> mt.Agent:
    """Return an agent with a scripted model."""
    model = mt.ScriptedModel([dict(step) for step in script])
    return mt.Agent(model, tools=list(tools), store=store or mt.MemoryStore(), **more)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a step of a script that calls a tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


@asynccontextmanager
async def held_by_a_program(agent: mt.Agent, conversation: str) -> AsyncGenerator[None]:
    """Let another program run the turn. Its questions are in the inbox."""
    holding = asyncio.create_task(agent.resume(conversation, prompter=mt.InboxPrompter()))
    async with asyncio.timeout(60):
        while not _is_held(await agent.store.port.look(conversation)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # there is no event for the lock
    try:
        yield
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


def _is_held(looked: object) -> bool:
    return type(looked).__name__ == "LockedBy"
