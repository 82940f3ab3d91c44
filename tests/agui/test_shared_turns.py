"""Turns that several requests, processes and interfaces share."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import midturn as mt
from midturn.events.types import InquiryAnswered
from midturn.integrations import agui
from midturn.integrations.agui.entries import EntryResults, EntryTaker
from midturn.integrations.agui.run_input import ResumeEntry
from midturn.stores.store import ConversationStore
from support.agui import (
    FrontEnd,
    call,
    cancelled,
    read_run,
    resolved,
    scripted,
    serving as serving_in_process,
    user_of,
)
from support.nested_agents import NestedAgents
from support.serving import serving

WHERE = mt.Question.text("where", "Where to?")


class SlowTool:
    """A tool that asks, and then waits until the test lets it go on."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.started = threading.Event()
        self.runs = 0

    @property
    def tool(self) -> Any:
        @mt.tool(name="deploy")
        async def deploy(ctx: mt.ToolContext) -> str:
            """Deploy."""
            where = await ctx.ask(WHERE)
            self.runs += 1
            self.started.set()
            await asyncio.to_thread(self.release.wait, 30)
            return f"deployed to {where}"

        return deploy


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"deployed to {await ctx.ask(WHERE)}"


def deploying(store: ConversationStore, tool: Any = deploy) -> mt.Agent:
    return scripted(call("deploy"), {"text": "Done."}, tools=[tool], store=store)


@contextmanager
def served(agent: mt.Agent, **options: Any) -> Generator[str]:
    given: dict[str, Any] = {"user": user_of, **options}
    app: Any = agui.app(agent, **given)
    with serving(app) as url:
        yield url


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        yield client


async def eventually(condition: Callable[[], Any]) -> None:
    """Wait until an awaitable condition holds."""
    for _ in range(400):
        if await condition():
            return
        await asyncio.sleep(0.05)
    pytest.fail("it did not become true")


def test_two_resumes_at_once_run_the_turn_once(store: ConversationStore) -> None:
    slow = SlowTool()

    async def scene() -> None:
        async with serving_in_process(deploying(store, slow.tool)) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            other = FrontEnd(client)
            other.messages = front_end.messages
            runs = asyncio.gather(
                front_end.answer(asked.interrupt, "prod", runId="a"),
                other.answer(asked.interrupt, "staging", runId="b"),
            )
            await asyncio.to_thread(slow.started.wait, 30)
            slow.release.set()
            both = await runs
            assert slow.runs == 1
            assert [run.outcome for run in both] == ["success", "success"]
            streamed = [run for run in both if run.results]  # a late one finds it in the thread
            assert len({tuple(run.results) for run in streamed}) == 1
            (refused,) = [each for run in both for each in run.not_taken]
            assert (refused["why"], refused["by"]) == ("already_answered", "ada")
            assert both[0].messages == both[1].messages
            assert {run.text for run in streamed} == {"Done."}

    asyncio.run(scene())


def test_lost_connection_stops_nothing(store: ConversationStore) -> None:
    slow = SlowTool()

    async def scene(url: str) -> None:
        async with connected(url) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            body = front_end.body(resume=[resolved(asked.interrupt, "prod")])
            async with client.stream("POST", "/", json=body, headers={"x-user": "ada"}) as response:
                assert response.status_code == 200
                await anext(response.aiter_bytes())
                assert await asyncio.to_thread(slow.started.wait, 120)
            slow.release.set()
            reloaded = await FrontEnd(client).run(runId="later")
            assert reloaded.outcome == "success"
            assert reloaded.messages[-1]["content"] == "Done."
            assert slow.runs == 1

    with served(deploying(store, slow.tool), work=False) as url:
        asyncio.run(scene(url))


def test_turn_that_was_answered_elsewhere_goes_on_by_itself(store: ConversationStore) -> None:
    async def scene(url: str) -> None:
        async with connected(url) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            await store.answer(asked.interrupt["id"], "mars", user="bob", via="inbox")
            (conversation,) = await store.ids()

            async def has_ended() -> bool:
                return not await store.open_turns(conversation)

            await eventually(has_ended)
            stale = await front_end.answer(asked.interrupt, "prod")
            (refused,) = stale.not_taken
            assert refused["why"] == "already_answered"
            assert (refused["by"], refused["via"]) == ("bob", "inbox")
            assert stale.outcome == "success"
            assert [each["content"] for each in stale.messages if each["role"] == "tool"] == [
                "deployed to mars"
            ]

    with served(deploying(store)) as url:
        asyncio.run(scene(url))


def test_turns_of_other_programs_are_left_alone(store: ConversationStore) -> None:
    """The server continues only what front ends have begun."""

    async def scene(url: str) -> None:
        async with connected(url) as client:
            waiting = await deploying(store).run("Go.")
            await store.answer(waiting.pending[0], "mars")
            await FrontEnd(client).run()  # begins the search
            await asyncio.sleep(1.5)
            assert await store.open_turns() == {waiting.conversation}

    with served(deploying(store)) as url:
        asyncio.run(scene(url))


def test_answer_is_recorded_although_the_connection_breaks_at_once(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The front end closes the connection when the request is sent. The store is slow, so that the
    server notices this before it has recorded the answer.
    """
    take = EntryTaker.take

    async def take_slowly(taker: EntryTaker, entries: Sequence[ResumeEntry]) -> EntryResults:
        await asyncio.sleep(0.5)
        return await take(taker, entries)

    monkeypatch.setattr(EntryTaker, "take", take_slowly)

    async def scene(url: str) -> None:
        async with connected(url) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            body = json.dumps(front_end.body(resume=[resolved(asked.interrupt, "mars")])).encode()
            await _send_and_close(url, body)
            await eventually(lambda: _is_answered(store))
            (question,) = [
                event
                for id in await store.ids()
                for event in (await store.read(id)).events
                if isinstance(event, InquiryAnswered)
            ]
            assert question.answer == "mars"

    with served(deploying(store), work=False) as url:
        asyncio.run(scene(url))


async def _send_and_close(url: str, body: bytes) -> None:
    parts = urlsplit(url)
    _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = (
        f"POST {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nX-User: ada\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    writer.close()


async def _is_answered(store: ConversationStore) -> bool:
    return not await store.pending()


def test_waiting_browser_is_told_who_answered(store: ConversationStore) -> None:
    async def scene(url: str) -> None:
        async with connected(url) as client:
            front_end = FrontEnd(client, thread="a/b c")
            asked = await front_end.say("Go.")
            path = "/threads/a%2Fb%20c/events"
            seen: list[tuple[str, Any]] = []
            async with client.stream("GET", path, headers={"x-user": "ada"}) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                async for kind, told in changes(response):
                    seen.append((kind, told))
                    if kind == "asked":
                        await store.answer(told["id"], "mars", user="bob", via="inbox")
                    if kind == "turn_ended":
                        break
            assert [kind for kind, _ in seen] == ["asked", "answered", "turn_ended"]
            assert seen[0][1]["id"] == asked.interrupt["id"]
            assert seen[1][1]["answered_by"] == {"by": "user", "user": "bob", "via": "inbox"}
            refreshed = await front_end.resume(cancelled(asked.interrupt, refresh=True))
            assert refreshed.outcome == "success"

    with served(deploying(store)) as url:
        asyncio.run(scene(url))


def test_browser_that_waits_before_the_first_message_gets_events(
    store: ConversationStore,
) -> None:
    """Ada's thread has the same ID, but Bob gets only the events of his own thread."""

    async def scene(url: str) -> None:
        async with connected(url) as client:
            ada, bob = FrontEnd(client, user="ada"), FrontEnd(client, user="bob")
            asked = await ada.say("Go.")
            path = "/threads/t1/events"
            async with client.stream("GET", path, headers={"x-user": "bob"}) as response:
                assert response.status_code == 200
                own = await bob.say("Go.")
                kind, told = await anext(changes(response))
            assert (kind, told["id"]) == ("asked", own.interrupt["id"])
            assert told["id"] != asked.interrupt["id"]

    with served(deploying(store)) as url:
        asyncio.run(scene(url))


def test_question_of_an_agent_inside_a_tool(store: ConversationStore) -> None:
    async def scene(url: str, agents: NestedAgents) -> None:
        async with connected(url) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            interrupt = asked.interrupt
            assert interrupt["message"] == "Sure?"
            assert "toolCallId" not in interrupt  # the thread does not show the inner call
            seen: list[str] = []
            path = "/threads/t1/events"
            async with client.stream("GET", path, headers={"x-user": "ada"}) as response:
                async for kind, told in changes(response):
                    seen.append(kind)
                    if kind == "asked":
                        assert told["id"] == interrupt["id"]
                        ended = await front_end.answer(interrupt, {"answer": True})
                        assert (ended.not_taken, ended.outcome) == ([], "success")
                    if kind == "turn_ended":
                        break
            assert sorted(seen) == ["answered", "asked", "turn_ended"]
            assert len(agents.ran) == 1
            stale = await front_end.answer(interrupt, {"answer": True})
            assert [each["why"] for each in stale.not_taken] == ["already_answered"]

    agents = NestedAgents(store, "bob")
    with served(agents.agent) as url:
        asyncio.run(scene(url, agents))


async def changes(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """Yield the server-sent events."""
    kind = ""
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def test_idle_stream_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowTool()
    module = __import__("midturn.integrations.agui.app", fromlist=["KEEPALIVE_INTERVAL"])
    monkeypatch.setattr(module, "KEEPALIVE_INTERVAL", 0.05)

    async def scene() -> None:
        async with serving_in_process(deploying(mt.MemoryStore(), slow.tool)) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            body = front_end.body(resume=[resolved(asked.interrupt, "prod")])
            posting = asyncio.create_task(front_end.post(body))
            await asyncio.to_thread(slow.started.wait, 30)
            await asyncio.sleep(0.3)
            slow.release.set()
            text = (await posting).text
            assert ": still here\n\n" in text
            assert read_run(text).outcome == "success"

    asyncio.run(scene())


def test_unavailable_model_leaves_the_turn_open() -> None:
    async def scene() -> None:
        store = mt.MemoryStore()
        script = ({"error": {"message": "down", "status": 401}}, {"text": "Done."})
        async with serving_in_process(scripted(*script, store=store)) as client:
            front_end = FrontEnd(client)
            said = await front_end.say("Go.")
            assert (said.end["type"], said.end["code"]) == ("RUN_ERROR", "model")
            (conversation,) = await store.ids()
            assert await store.open_turns(conversation)
            front_end.messages = [{"id": "user-0", "role": "user", "content": "Go."}]
            again = await front_end.run()
            assert again.outcome == "success"
            assert again.text == "Done."

    asyncio.run(scene())


def test_user_of_two_threads_has_two_conversations(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = scripted({"text": "One."}, {"text": "Two."}, store=store)
        async with serving_in_process(agent) as client:
            first, second = FrontEnd(client, "a"), FrontEnd(client, "b")
            said = [await first.say("Hi."), await second.say("Hi."), await first.say("More.")]
            assert [run.text for run in said] == ["One.", "One.", "Two."]
            assert len(await store.ids()) == 2

    asyncio.run(scene())
