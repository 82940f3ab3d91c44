"""Doors of the Model Context Protocol: agents that ask through `midturn mcp`, and the dialogs that they have of their own."""

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
from support.lasting import UNTIL_THE_END
from support.mcp_clients import LEGACY, MODERN, HttpServer, connected, connected_to, served
from support.stories.agents import ENDED, HookedAgent, called, reply_in_words
from support.stories.outcome import OPEN, Outcome, outcome_of
from support.stories.people import Dialogs, OutsidePerson, StorePerson
from support.stories.scene import Scene, as_asked_by_a_model

_PATIENCE = 60.0
_NAME = "opencode"  # a client that shows no forms


class Talk:
    """A client that stays connected, in a thread of its own."""

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.met: Future[Client] = Future()
        self.leaving = asyncio.Event()
        self.looks = 0
        self.waiting = 0
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self._stay(connect),), daemon=True)
        self.thread.start()
        self.client = self.met.result(_PATIENCE)

    def call(self, tool: str, arguments: dict[str, Any]) -> Future[str]:
        """Call a tool; whoever is told that nobody has answered yet looks again, as models do."""
        return asyncio.run_coroutine_threadsafe(self._told(tool, arguments), self.loop)

    def give_up(self, call: Future[str]) -> None:
        """Cancel a call, and say so to the server before anything else."""
        waiting = self.waiting
        call.cancel()
        until(lambda: self.waiting, lambda now: now < waiting)

    def heard(self) -> None:
        """Wait until the server has heard all that was said so far: it begins with one thing after the other."""
        asyncio.run_coroutine_threadsafe(self.client.list_tools(), self.loop).result(_PATIENCE)

    def leave(self) -> None:
        """Hang up."""
        self.loop.call_soon_threadsafe(self.leaving.set)
        self.thread.join(_PATIENCE)
        self.loop.close()

    async def _stay(self, connect: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        async with connect() as client:
            self.met.set_result(client)
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
            result = await self.client.call_tool("check_answer", {"id": said["id"], "ticket": said["ticket"]})
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        assert said.get("text", block.text) == block.text
        return block.text


class McpAgent:
    """An agent that asks by `ask_user`, and by `permission_prompt` whether it may. Each of its calls is a conversation."""

    def __init__(self, scene: Scene, talk: Talk, store: FileStore) -> None:
        self.scene = scene
        self.store = store
        self.talk = talk
        self.asked = scene.ask
        self.before = set(store.ids_sync())
        self.calls: list[Future[str]] = []

    def begin(self) -> None:
        """Make its calls, one after the other, and wait for all of them."""
        for questions in (self.scene.ask, self.scene.second) if self.scene.second else (self.scene.ask,):
            self._call(questions)
            until(self.store.pending_sync, lambda found: len(found) == len(self.calls))

    def go_on(self) -> None:
        """It goes on by itself."""

    def die(self) -> None:
        """Its death, and what it does when it is back, are tests of its own."""
        raise NotImplementedError

    begin_apart = end_apart = die

    def again(self) -> None:
        """Give its call up, and make it again. An answer that is recorded before the server has heard of that is told to the first call."""
        self.talk.give_up(self.calls.pop())
        self._call(self.asked)
        self.talk.heard()

    def change(self) -> None:
        """Ask something else from now on."""
        self.asked = self.scene.changed

    def outcome(self) -> Outcome:
        """Wait until it was told everything; say what is on record, and what it heard."""
        told = tuple(call.result(_PATIENCE) for call in self.calls)
        made = [self.store.read_sync(id).events for id in sorted(set(self.store.ids_sync()) - self.before)]
        found = [outcome_of([event.to_json() for event in events]) for events in made]
        assert all(one.end != OPEN for one in found)
        return Outcome(tuple(line for one in found for line in one.record), told, found[-1].end)

    def stop(self) -> None:
        """Leave nothing open for whoever comes next."""
        for call in self.calls:
            call.cancel()
        for question in self.store.pending_sync():
            asyncio.run(self.store.answer(question.id, cancel=True))

    @classmethod
    def hears(cls, outcome: Outcome) -> str:
        """Say what the model reads: a sentence for people, then the answers as our own model reads them."""
        (words,) = outcome.words
        if not outcome.record or outcome.record[0].startswith("run:"):
            return _Delegating.hears(outcome)
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
            call: dict[str, Any] = {"tool_name": called(questions), "input": self.scene.arguments, "tool_use_id": uuid4().hex}
            self.calls.append(self.talk.call("permission_prompt", call))
        else:
            self.calls.append(self.talk.call("ask_user", {"questions": [as_asked_by_a_model(question) for question in questions]}))


class LookingAgent(McpAgent):
    """An agent whose calls are short: it asks again by `check_answer`."""

    def again(self) -> None:
        """Wait until it has done so."""
        until(lambda: self.talk.looks, bool)


class ShownAgent(McpAgent):
    """An agent that shows what it asks in its own dialog."""

    def __init__(self, scene: Scene, person: FormPerson, store: FileStore) -> None:
        super().__init__(scene, with_dialog(store, person), store)
        self.person = person

    def again(self) -> None:
        """Give its call up, and make it again: its dialog opens once more."""
        until(lambda: self.person.dialogs.shown, bool)
        super().again()
        until(lambda: self.person.dialogs.shown, lambda shown: len(shown) > 1)


class _Delegating(HookedAgent):
    """An agent that has a tool asked for its permissions; it takes the arguments of a yes from there."""

    takes_arguments = True

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """The arguments are there, changed or not."""
        return {"behavior": "allow", "updatedInput": Scene(say="Deployed.").arguments, **more}

    @classmethod
    def denied(cls, message: str, *, asks: bool = False) -> Any:
        """Its no."""
        del asks
        return {"behavior": "deny", "message": message}


class Latecomer(StorePerson):
    """Answers by `store.answer`; who comes late comes when the question is closed, which its agent does by itself."""

    def refusal(self, id: str) -> str:
        """Say yes, after that."""
        until(lambda: [question.id for question in self.store.pending_sync()], lambda open_: id not in open_)
        return super().refusal(id)

    def tries(self, id: str) -> str:
        """Say yes before that."""
        return super().refusal(id)


class FormPerson(OutsidePerson):
    """Answers in the dialog of a client, which shows a form."""

    def __init__(self, store: FileStore) -> None:
        super().__init__(store)
        self.dialogs = Dialogs()

    async def __call__(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Show a form."""
        del context
        return types.ElicitResult(action="accept", content=await self.dialogs.show(params))

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        """Fill it in."""
        assert reason is None
        self.dialogs.reply(lambda form: list(form.requested_schema["properties"]) == [question], lambda _: {question: value})


# Connections --------------------------------------------------------------------------------------------------------------


@cache
def over_stdio() -> tuple[Talk, FileStore]:
    """Return an agent with a server of its own, a process, which has its stdin and stdout; one for all stories."""
    midturn, store = _place()
    talk = Talk(lambda: connected(midturn, "--store", store, name=_NAME, era=LEGACY))
    UNTIL_THE_END.callback(talk.leave)
    return talk, FileStore(Path(store))


@cache
def http_server() -> tuple[HttpServer, FileStore]:
    """Return a server over HTTP, a process; one for all stories. Its calls are short."""
    midturn, store = _place()
    return UNTIL_THE_END.enter_context(served(midturn, "--slice", "0.5", "--store", store)), FileStore(Path(store))


def over_http(server: HttpServer) -> Talk:
    """Return an agent at a server that others use, too."""
    return Talk(lambda: connected_to(server, _NAME, era=MODERN))


def with_dialog(store: FileStore, person: FormPerson) -> Talk:
    """Return an agent with a dialog of its own, at a server in this process."""

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Client]:
        server = make_server(store, {}, SYSTEM, ServerWait(quickest=0))
        info = types.Implementation(name="claude-code", version="1")
        async with Client(server, mode=LEGACY, client_info=info, elicitation_callback=person) as client:
            yield client

    return Talk(connect)


def _place() -> tuple[CommandLine, str]:
    directory = Path(UNTIL_THE_END.enter_context(tempfile.TemporaryDirectory()))
    return CommandLine(directory), str(directory / "store")


def _in_words(value: Any) -> str:
    return "(no answer)" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
