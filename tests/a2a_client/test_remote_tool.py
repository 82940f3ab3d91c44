"""A remote agent as a tool: its questions are asked of people, and its answer is the result."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from support.a2a import call, require_sdk, scripted

require_sdk()

from midturn.integrations import a2a  # noqa: E402
from support.a2a_remote import midturn_agent, sdk_agent  # noqa: E402

_ASKING = Path(__file__).with_name("asking_process.py")


def caller(url: str, store: Any = None, **options: Any) -> mt.Agent:
    """Return an agent that calls the remote agent once."""
    remote = a2a.tool(url, name="remote", description="Deploys.", **options)
    script = (call("remote", message="Deploy it."), {"text": "Done."})
    return scripted(*script, tools=[remote], store=store)


async def result_of(agent: mt.Agent, conversation: str) -> str:
    events: Any = (await agent.store.read(conversation)).events
    return next(each.content for each in events if each.type == "tool_call_response")


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Ask three questions at once."""
    where, count, sure = await asyncio.gather(
        ctx.ask(mt.Question.select("where", "Where to?", ["prod", "staging"])),
        ctx.ask(mt.Question.number("count", "How many?", type=int)),
        ctx.ask(mt.Question.boolean("sure", "Sure?")),
    )
    return f"{where} {count!r} {sure}"


@mt.tool
async def sign(ctx: mt.ToolContext) -> str:
    """Ask a person."""
    return f"signed: {await ctx.ask(mt.Question.boolean('sign', 'Sign it?', exclusive=True))}"


def remote_agent(tool: Any, **more: Any) -> mt.Agent:
    name = tool.definition.name
    return scripted(call(name), {"text": "Remote done."}, tools=[tool], **more)


def test_questions_of_a_midturn_agent_are_asked_as_they_are() -> None:
    async def scene() -> None:
        remote = remote_agent(deploy)
        async with midturn_agent(remote) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            assert asked.status == "suspended"
            found = {each.question.text: each for each in asked.pending}
            assert list(found) == ["Where to?", "How many?", "Sure?"]
            for each in asked.pending:
                assert each.question.exclusive
                assert each.question.persistence == "none"
                assert (each.source.source, each.source.name) == ("other", "remote")
                with pytest.raises(mt.MidturnError):
                    await agent.store.answer(each, True, answered_by="agent")
            await agent.store.answer(found["Where to?"], "staging")
            await agent.store.answer(found["How many?"], 7)
            await agent.store.answer(found["Sure?"], True)
            ended = await agent.resume(asked.conversation)
            assert ended.status == "completed"
            assert await result_of(agent, asked.conversation) == "Remote done."
            (theirs,) = await remote.store.ids()
            assert await result_of(remote, theirs) == "staging 7 True"

    asyncio.run(scene())


def test_remote_question_that_waits_for_a_person_is_confirmed() -> None:
    async def scene() -> None:
        remote = remote_agent(sign)
        async with midturn_agent(remote) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            (question,) = asked.pending
            assert question.question.text == "remote waits for a person. Is it done there?"
            assert "Sign it?" in (question.question.context or "")
            (theirs,) = await remote.store.pending()
            await remote.store.answer(theirs, True, user="grace")
            await agent.store.answer(question, True)
            ended = await agent.resume(asked.conversation)
            assert ended.status == "completed"
            assert await result_of(agent, asked.conversation) == "Remote done."

    asyncio.run(scene())


def test_reply_of_a_person_is_passed_to_a_midturn_agent() -> None:
    @mt.tool
    async def ask(ctx: mt.ToolContext) -> str:
        """Ask."""
        return await ctx.ask(mt.Question.text("what", "What?"))

    async def scene() -> None:
        remote = remote_agent(ask)
        async with midturn_agent(remote) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            await agent.store.answer(asked.pending[0], reply="Ask me tomorrow.")
            assert (await agent.resume(asked.conversation)).status == "completed"
            (theirs,) = await remote.store.ids()
            assert "Ask me tomorrow." in await result_of(remote, theirs)

    asyncio.run(scene())


def test_text_question_of_another_agent() -> None:
    texts: list[str] = []

    async def execute(context: Any, updater: Any) -> None:
        from a2a.types.a2a_pb2 import Part

        texts.append(context.get_user_input())
        if len(texts) == 1:
            message = updater.new_agent_message([Part(text="Which file?\nA path, please.")])
            await updater.requires_input(message)
        else:
            await updater.add_artifact([Part(text="Filed.")])
            await updater.complete()

    async def scene() -> None:
        async with sdk_agent(execute) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            (question,) = asked.pending
            assert question.question.text == "Which file?"
            assert "A path, please." in (question.question.context or "")
            assert "passwords" in (question.question.context or "")
            await agent.store.answer(question, "a.txt")
            ended = await agent.resume(asked.conversation)
            assert ended.status == "completed"
            assert await result_of(agent, asked.conversation) == "Filed."
            assert texts == ["Deploy it.", "a.txt"]

    asyncio.run(scene())


def test_call_of_google_adk_is_answered_as_a_function_response() -> None:
    given: list[Any] = []

    async def execute(context: Any, updater: Any) -> None:
        from a2a.types.a2a_pb2 import Part
        from google.protobuf.json_format import MessageToDict, ParseDict

        if not given:
            given.append(None)
            part = {
                "data": {"id": "c1", "name": "approve", "args": {"amount": 5}},
                "metadata": {"adk_type": "function_call", "adk_is_long_running": True},
            }
            message = updater.new_agent_message([Part(text="…"), ParseDict(part, Part())])
            await updater.requires_input(message)
        else:
            given[0] = [MessageToDict(part) for part in context.message.parts]
            await updater.complete()

    async def scene() -> None:
        async with sdk_agent(execute) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            (question,) = asked.pending
            assert question.question.text == "approve needs input."
            assert '{"amount":5}' in (question.question.context or "")
            await agent.store.answer(question, "fine")
            await agent.resume(asked.conversation)
            (part,) = given[0]
            assert part["metadata"] == {"adk_type": "function_response"}
            response = {"id": "c1", "name": "approve", "response": {"result": "fine"}}
            assert part["data"] == response

    asyncio.run(scene())


def test_secret_is_never_asked() -> None:
    async def execute(_: Any, updater: Any) -> None:
        from a2a.types.a2a_pb2 import Part
        from google.protobuf.json_format import ParseDict

        part = {
            "data": {
                "midturn": "question",
                "answerable": True,
                "id": "1-a",
                "kind": "tool",
                "question": {"text": "Your password?", "answer_type": {"type": "secret"}},
            }
        }
        message = updater.new_agent_message([Part(text="Password?"), ParseDict(part, Part())])
        await updater.requires_input(message)

    async def scene() -> None:
        async with sdk_agent(execute) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            assert asked.status == "completed"
            assert "secret" in await result_of(agent, asked.conversation)

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["failed", "reject"])
def test_failure_of_the_remote_agent_is_the_result(how: str) -> None:
    async def execute(_: Any, updater: Any) -> None:
        from a2a.types.a2a_pb2 import Part

        message = updater.new_agent_message([Part(text="No budget.")])
        await getattr(updater, how)(message)

    async def scene() -> None:
        async with sdk_agent(execute) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            assert asked.status == "completed"
            assert "No budget." in await result_of(agent, asked.conversation)

    asyncio.run(scene())


def test_unreachable_agent_is_an_error_of_the_call() -> None:
    async def scene() -> None:
        agent = caller("http://127.0.0.1:9")
        asked = await agent.run("Go.")
        assert "cannot be reached" in await result_of(agent, asked.conversation)

    asyncio.run(scene())


@pytest.mark.parametrize("url", ["http://example.org", "ftp://x", "x", "https://", "http://[x"])
def test_unsafe_address_is_refused(url: str) -> None:
    with pytest.raises(mt.ConfigError):
        a2a.tool(url, name="remote", description="x")


def test_card_cannot_send_requests_to_another_host() -> None:
    async def scene() -> None:
        remote = scripted({"text": "x"})
        async with midturn_agent(remote) as good, midturn_agent(remote) as other:
            from support.a2a import served
            from support.a2a_remote import listening

            card = {"name": "Evil", "description": "x", "url": other}
            async with listening(served(remote, card=card)) as evil:
                agent = caller(evil, headers={"authorization": "Bearer needle"})
                asked = await agent.run("Go.")
                assert "not on the host" in await result_of(agent, asked.conversation)
                assert "needle" not in await result_of(agent, asked.conversation)
            assert good != other

    asyncio.run(scene())


def test_killed_caller_continues_the_remote_task(tmp_path: Path) -> None:
    begun = asyncio.Event

    async def scene() -> None:
        started, release = begun(), begun()

        @mt.tool
        async def work(ctx: mt.ToolContext) -> str:
            """Work for a while, and ask."""
            started.set()
            await release.wait()
            return await ctx.ask(mt.Question.text("what", "What?"))

        remote = remote_agent(work)
        async with midturn_agent(remote, work=True) as url:
            arguments = (str(_ASKING), url, str(tmp_path / "store"))
            asking = await asyncio.create_subprocess_exec(sys.executable, *arguments)
            await asyncio.wait_for(started.wait(), 60)
            await asyncio.sleep(0.5)
            os.kill(asking.pid, signal.SIGKILL)
            await asking.wait()
            release.set()
            agent = caller(url, store=mt.open_store(tmp_path / "store"))
            (conversation,) = await agent.store.ids()
            asked = await agent.resume(conversation)
            (question,) = asked.pending
            await agent.store.answer(question, "this", user="ada", via="inbox")
            ended = await agent.resume(conversation)
            assert ended.status == "completed"
            assert await result_of(agent, conversation) == "Remote done."
            assert len(await remote.store.ids()) == 1
            log = json.dumps(
                [each.to_json() for each in (await agent.store.read(conversation)).events]
            )
            assert log.count('"answered_by"') == 1

    asyncio.run(scene())
