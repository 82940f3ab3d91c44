"""Remote agents that speak AG-UI over real HTTP, for the client."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import midturn as mt
from midturn.integrations import agui
from support.a2a_remote import listening

Event = dict[str, Any]
Respond = Callable[[Event], "Iterable[Event | bytes] | Response"]
STARTED: Event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0"}
FINISHED: Event = {
    "type": "RUN_FINISHED",
    "threadId": "t",
    "runId": "r",
    "outcome": {"type": "success"},
}


class ScriptedAgent:
    """An agent that sends what a test says. `runs` are the received requests.

    Args:
        respond: Returns the events of a run, or another response. Bytes are sent as they are.
    """

    def __init__(self, respond: Respond) -> None:
        self.runs: list[Event] = []
        self.headers: list[dict[str, str]] = []
        self._respond = respond
        self.app = Starlette(routes=[Route("/{path:path}", self._run, methods=["POST"])])

    async def _run(self, request: Request) -> Response:
        self.runs.append(json.loads(await request.body()))
        self.headers.append(dict(request.headers))
        response = self._respond(self.runs[-1])
        if isinstance(response, Response):
            return response
        chunks = (
            each if isinstance(each, bytes) else b"data: %s\n\n" % json.dumps(each).encode()
            for each in response
        )
        return StreamingResponse(chunks, media_type="text/event-stream")


@asynccontextmanager
async def scripted_agent(respond: Respond) -> AsyncGenerator[tuple[str, ScriptedAgent]]:
    """Serve a scripted agent. Yield its address and the agent."""
    agent = ScriptedAgent(respond)
    async with listening(agent.app) as url:
        yield url, agent


@asynccontextmanager
async def midturn_agent(agent: mt.Agent, **options: Any) -> AsyncGenerator[str]:
    """Serve an agent of midturn. Yield its address."""
    given: dict[str, Any] = {"user": _caller, "work": False, **options}
    async with listening(agui.app(agent, **given)) as url:
        yield f"{url}/"


def _caller(_: object) -> str:
    return "caller"


def said(text: str, id: str = "a1") -> list[Event]:
    """Return the events of a text."""
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text},
        {"type": "TEXT_MESSAGE_END", "messageId": id},
    ]


def called(id: str, name: str, arguments: object) -> list[Event]:
    """Return the events of a call."""
    return [
        {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name},
        {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": json.dumps(arguments)},
        {"type": "TOOL_CALL_END", "toolCallId": id},
    ]


def interrupted(*interrupts: Event) -> Event:
    """Return the end of a run that asks."""
    return {**FINISHED, "outcome": {"type": "interrupt", "interrupts": list(interrupts)}}


def asking(*interrupts: Event, first: Sequence[Event] = ()) -> Respond:
    """Return an agent that asks in its first run, and ends in its second one."""

    def respond(run: Event) -> Iterable[Event]:
        if run.get("resume"):
            return [STARTED, *said("Done."), FINISHED]
        return [STARTED, *first, interrupted(*interrupts)]

    return respond


@contextmanager
def in_background(app: Any) -> Generator[str]:
    """Serve an application in a thread. Yield its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    try:
        while not server.started:
            assert running.is_alive()
            time.sleep(0.01)  # uvicorn has no event for it
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        running.join(30)
