"""MCP interfaces: agents that ask through `midturn mcp`, and their own dialogs."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from mcp import Client, types
from mcp.client.context import ClientRequestContext

from midturn.clock import SYSTEM
from midturn.integrations.mcp_server.asking import ServerWait
from midturn.integrations.mcp_server.server import make_server
from midturn.question.json_value import members
from midturn.stores.opening import FileStore
from support.cli import CommandLine
from support.hooks import until
from support.mcp_clients import LEGACY, MODERN, HttpServer, connected, connected_to, served
from support.shared_resources import SESSION_RESOURCES
from support.stories.agents import ENDED, HookedAgent, called, reply_in_words
from support.stories.outcome import OPEN, Outcome, outcome_of
from support.stories.people import Dialogs, OutsidePerson, StorePerson
from support.stories.scene import Scene, in_ask_user_format

_PATIENCE = 120.0
_NAME = "opencode"  # a client without forms


class ConnectedClient:
    """A client that stays connected, in its own thread."""

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.connected: Future[Client] = Future()
        self.leaving = asyncio.Event()
        self.looks = 0
        self.waiting = 0
        self.thread = threading.Thread(
            target=self.loop.run_until_complete, args=(self._stay(connect),), daemon=True
        )
        self.thread.start()
        self.client = self.connected.result(_PATIENCE)

    def call(self, tool: str, arguments: dict[str, Any]) -> Future[str]:
        """Call a tool. If nobody has answered yet, look again, as models do."""
        return asyncio.run_coroutine_threadsafe(self._told(tool, arguments), self.loop)

    def give_up(self, call: Future[str]) -> None:
        """Cancel a call and notify the server before anything else is sent."""
        waiting = self.waiting
        call.cancel()
        until(lambda: self.waiting, lambda now: now < waiting)

    def wait_until_received(self) -> None:
        """Wait until the server has received all earlier messages. It handles them in order."""
        asyncio.run_coroutine_threadsafe(self.client.list_tools(), self.loop).result(_PATIENCE)

    def leave(self) -> None:
        """Close the connection."""
        self.loop.call_soon_threadsafe(self.leaving.set)
        self.thread.join(_PATIENCE)
        self.loop.close()

    async def _stay(self, connect: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        async with connect() as client:
            self.connected.set_result(client)
            await self.leaving.wait()

    async def _told(self, tool: str, arguments: dict[str, Any]) -> str:
        self.waiting += 1
        try:
            return await self._asked(tool, arguments)
        finally:
            self.waiting -= 1

    async def _asked(self, tool: str, arguments: dict[str, Any]) -> str:
        result = await self.client.call_tool(tool, arguments)
        while (said := members(result.structured_content)).get("status") == "waiting":
            self.looks += 1
            result = await self.client.call_tool(
                "check_answer", {"id": said["id"], "ticket": said["ticket"]}
            )
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        assert said.get("text", block.text) == block.text
        return block.text


class McpAgent:
    """An agent that asks by `ask_user`, and for permissions by `permission_prompt`. Each call
    is a conversation.
    """

    def __init__(self, scene: Scene, talk: ConnectedClient, store: FileStore) -> None:
        self.scene = scene
        self.store = store
        self.talk = talk
        self.asked = scene.ask
        self.before = set(store.ids_sync())
        self.calls: list[Future[str]] = []

    def begin(self) -> None:
        """Make the calls one after the other, and wait for all of them."""
        for questions in (
            (self.scene.ask, self.scene.second) if self.scene.second else (self.scene.ask,)
        ):
            self._call(questions)
            until(self.store.pending_sync, lambda found: len(found) == len(self.calls))

    def go_on(self) -> None:
        """Do nothing: the agent continues by itself."""

    def die(self) -> None:
        """Not played: the death and restart of this agent have separate tests."""
        raise NotImplementedError

    begin_in_namespace = end_in_namespace = die

    def again(self) -> None:
        """Cancel the call and make it again. An answer recorded before the server receives the
        cancellation goes to the first call.
        """
        self.talk.give_up(self.calls.pop())
        self._call(self.asked)
        self.talk.wait_until_received()

    def change(self) -> None:
        self.asked = self.scene.changed

    def outcome(self) -> Outcome:
        """Wait until the agent was told everything; return the recorded outcome with what it
        was told.
        """
        told = tuple(call.result(_PATIENCE) for call in self.calls)
        made = [
            self.store.read_sync(id).events
            for id in sorted(set(self.store.ids_sync()) - self.before)
        ]
        found = [outcome_of([event.to_json() for event in events]) for events in made]
        assert all(one.end != OPEN for one in found)
        return Outcome(tuple(line for one in found for line in one.record), told, found[-1].end)

    def stop(self) -> None:
        """Close the open calls."""
        for call in self.calls:
            call.cancel()
        for question in self.store.pending_sync():
            asyncio.run(self.store.answer(question.id, cancel=True))

    @classmethod
    def text_read(cls, outcome: Outcome) -> str:
        """Return what the model reads: a sentence for people, then the answers as midturn's
        own model reads them.
        """
        (words,) = outcome.words
        if not outcome.record or outcome.record[0].startswith("run:"):
            return _Delegating.text_read(outcome)
        if outcome.end == "ended_by_user":
            return ENDED
        answers, *reasons = words.split("\n")
        given = json.loads(answers)
        if "cancelled" in given:
            return reply_in_words(given)
        listed = [f"- {id}: {_in_words(value)}" for id, value in given.items()]
        return "\n".join(["The user answered:", *listed, answers, *reasons])

    def _call(self, questions: Sequence[dict[str, Any]]) -> None:
        if self.scene.run == "ask":
            call: dict[str, Any] = {
                "tool_name": called(questions),
                "input": self.scene.arguments,
                "tool_use_id": uuid4().hex,
            }
            self.calls.append(self.talk.call("permission_prompt", call))
        else:
            self.calls.append(
                self.talk.call(
                    "ask_user",
                    {"questions": [in_ask_user_format(question) for question in questions]},
                )
            )


class LookingAgent(McpAgent):
    """An agent whose calls are short. It polls by `check_answer`."""

    def again(self) -> None:
        """Wait until it has polled."""
        until(lambda: self.talk.looks, bool)


class ShownAgent(McpAgent):
    """An agent that shows its questions in its own dialog."""

    def __init__(self, scene: Scene, person: FormPerson, store: FileStore) -> None:
        super().__init__(scene, with_dialog(store, person), store)
        self.person = person

    def again(self) -> None:
        """Cancel the call and make it again. Its dialog opens again."""
        until(lambda: self.person.dialogs.shown, bool)
        super().again()
        until(lambda: self.person.dialogs.shown, lambda shown: len(shown) > 1)


class _Delegating(HookedAgent):
    """An agent that asks for permissions through a tool, which returns the arguments of a yes."""

    takes_arguments = True

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """The answer contains the arguments, changed or not."""
        return {"behavior": "allow", "updatedInput": Scene(say="Deployed.").arguments, **more}

    @classmethod
    def denied(cls, message: str, *, asks: bool = False) -> Any:
        del asks
        return {"behavior": "deny", "message": message}


class LateAnswerer(StorePerson):
    """Answers by `store.answer`. A late answer is given once the agent has closed the
    question.
    """

    def refusal(self, id: str) -> str:
        """Answer yes after that."""
        until(
            lambda: [question.id for question in self.store.pending_sync()],
            lambda open_: id not in open_,
        )
        return super().refusal(id)

    def tries(self, id: str) -> str:
        """Answer yes before that."""
        return super().refusal(id)


class FormPerson(OutsidePerson):
    """Answers in the dialog of a client, which shows a form."""

    def __init__(self, store: FileStore) -> None:
        super().__init__(store)
        self.dialogs = Dialogs()

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Show a form."""
        del context
        return types.ElicitResult(action="accept", content=await self.dialogs.show(params))

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        assert reason is None
        self.dialogs.reply(
            lambda form: list(form.requested_schema["properties"]) == [question],
            lambda _: {question: value},
        )


# Connections
# --------------------------------------------------------------------------------------------------


@cache
def over_stdio() -> tuple[ConnectedClient, FileStore]:
    """Return an agent with its own server process on stdin and stdout. All stories share it."""
    midturn, store = _place()
    talk = ConnectedClient(lambda: connected(midturn, "--store", store, name=_NAME, era=LEGACY))
    SESSION_RESOURCES.callback(talk.leave)
    return talk, FileStore(Path(store))


@cache
def http_server() -> tuple[HttpServer, FileStore]:
    """Return an HTTP server process. All stories share it. Its calls are short."""
    midturn, store = _place()
    return SESSION_RESOURCES.enter_context(
        served(midturn, "--slice", "0.5", "--store", store)
    ), FileStore(Path(store))


def over_http(server: HttpServer) -> ConnectedClient:
    """Return an agent at a server that others use, too."""
    return ConnectedClient(lambda: connected_to(server, _NAME, era=MODERN))


def with_dialog(store: FileStore, person: FormPerson) -> ConnectedClient:
    """Return an agent with its own dialog, at a server in this process."""

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Client]:
        server = make_server(store, {}, SYSTEM, ServerWait(quickest=0))
        info = types.Implementation(name="claude-code", version="1")
        async with Client(
            server, mode=LEGACY, client_info=info, elicitation_callback=person
        ) as client:
            yield client

    return ConnectedClient(connect)


def _place() -> tuple[CommandLine, str]:
    directory = Path(SESSION_RESOURCES.enter_context(tempfile.TemporaryDirectory()))
    return CommandLine(directory), str(directory / "store")


def _in_words(value: Any) -> str:
    return (
        "(no answer)"
        if value is None
        else {True: "yes", False: "no"}[value]
        if isinstance(value, bool)
        else str(value)
    )
