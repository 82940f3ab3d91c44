"""Questions that only people may answer: AUTH_REQUIRED, and their answers in the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from support.a2a import (
    Peer,
    answer_text,
    answers,
    call,
    questions,
    require_sdk,
    scripted,
    serving,
    state,
    texts,
)

require_sdk()


@mt.tool
async def sign(ctx: mt.ToolContext) -> str:
    """Ask a person."""
    return f"signed: {await ctx.ask(mt.Question.boolean('sign', 'Sign it?', exclusive=True))}"


@mt.tool
async def log_in(ctx: mt.ToolContext) -> str:
    """Ask for a secret."""
    secret = await ctx.ask(mt.Question.secret("password", "Password?"))
    return f"length {len(secret.reveal())}"


@mt.tool
async def log_in_with_form(ctx: mt.ToolContext) -> str:
    """Ask a form with a secret."""
    await ctx.ask_form(
        mt.Form([mt.Question.text("name", "Name?"), mt.Question.secret("password", "Password?")])
    )
    return "ok"


@mt.tool(run="ask")
async def pay() -> str:
    """Pay."""
    return "paid"


def _person(principal: str) -> str:
    return principal.title()


@pytest.mark.parametrize("tool", [sign, log_in, log_in_with_form, pay])
@pytest.mark.parametrize("has_extension", [False, True])
def test_program_may_not_answer_what_only_people_may(tool: Any, *, has_extension: bool) -> None:
    async def scene() -> None:
        agent = scripted(call(tool.definition.name), {"text": "x"}, tools=[tool])
        async with serving(agent) as client:
            peer = Peer(client, has_extension=has_extension)
            asked = await peer.send("Go.")
            assert state(asked) == "auth_required"
            (waiting,) = await agent.store.pending()
            shown = "\n".join(texts(asked))
            assert waiting.question.text in shown
            assert "http" not in shown
            for part in ("yes", answers(**{waiting.id: {"answer": True, "approved": True}})):
                again = await peer.answer(asked, part)
                assert state(again) == "auth_required"
                assert "Only a person" in "\n".join(texts(again))
            reply = answers(**{waiting.id: {"reply": "I decide."}})
            assert state(await peer.answer(asked, reply)) == "auth_required"
            assert await agent.store.pending() == [waiting]
            assert all(not each["answerable"] for each in questions(asked))

    asyncio.run(scene())


def test_answer_of_a_person_continues_the_task_while_the_client_is_subscribed() -> None:
    async def scene() -> None:
        agent = scripted(call("sign"), {"text": "Signed."}, tools=[sign])
        async with serving(agent) as client:
            peer = Peer(client)
            asked = await peer.send("Sign.")
            subscribed = asyncio.create_task(peer.stream("SubscribeToTask", id=asked["id"]))
            await asyncio.sleep(0.2)
            (waiting,) = await agent.store.pending()
            await agent.store.answer(waiting, True, user="grace", via="inbox")
            updates = await asyncio.wait_for(subscribed, 20)
            assert updates[0]["task"]["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
            states = [
                each["statusUpdate"]["status"]["state"]
                for each in updates
                if "statusUpdate" in each
            ]
            assert states[-1] == "TASK_STATE_COMPLETED"
            assert answer_text(await peer.get(asked)) == ["Signed."]

    asyncio.run(scene())


def test_answer_of_a_person_continues_the_task_without_a_request() -> None:
    async def scene() -> None:
        agent = scripted(call("sign"), {"text": "Signed."}, tools=[sign])
        async with serving(agent, work=True) as client:
            peer = Peer(client)
            asked = await peer.send("Sign.")
            (waiting,) = await agent.store.pending()
            await agent.store.answer(waiting, True, user="grace", via="inbox")
            assert answer_text(await peer.completed(asked)) == ["Signed."]

    asyncio.run(scene())


def test_person_behind_a_client_may_answer() -> None:
    async def scene() -> None:
        agent = scripted(call("sign"), {"text": "Signed."}, tools=[sign])
        async with serving(agent, people=_person) as client:
            peer = Peer(client)
            asked = await peer.send("Sign.")
            assert state(asked) == "input_required"
            assert state(await peer.answer(asked, "yes")) == "completed"

    asyncio.run(scene())


def test_secret_is_not_taken_even_from_a_person() -> None:
    async def scene() -> None:
        agent = scripted(call("log_in"), {"text": "x"}, tools=[log_in])
        async with serving(agent, people=_person) as client:
            peer = Peer(client, has_extension=True)
            asked = await peer.send("Log in.")
            assert state(asked) == "auth_required"
            (question,) = questions(asked)
            again = await peer.answer(asked, answers(**{question["id"]: {"answer": "hunter2"}}))
            assert state(again) == "auth_required"
            result = await agent.resume(
                asked["id"].partition("-")[0], secrets={question["id"]: "hunter2"}, user="ada"
            )
            assert result.status == "completed"
            ended = await peer.get(asked)
            assert "hunter2" not in f"{ended}"

    asyncio.run(scene())


def test_out_of_band_state_can_be_input_required() -> None:
    async def scene() -> None:
        agent = scripted(call("sign"), {"text": "x"}, tools=[sign])
        async with serving(agent, out_of_band="input_required") as client:
            asked = await Peer(client).send("Sign.")
            assert state(asked) == "input_required"
            assert "waits for a person" in texts(asked)[0]

    asyncio.run(scene())


def test_may_answer_refuses_a_client() -> None:
    @mt.tool
    async def ask(ctx: mt.ToolContext) -> str:
        """Ask."""
        return await ctx.ask(mt.Question.text("what", "What?"))

    async def scene() -> None:
        agent = scripted(call("ask"), {"text": "x"}, tools=[ask])
        async with serving(agent, may_answer=only_bob) as client:
            asked = await Peer(client).send("Ask.")
            assert state(asked) == "auth_required"

    def only_bob(_: object, user: str | None) -> bool:
        return user == "bob"

    asyncio.run(scene())


def test_text_for_a_closed_question_does_not_answer_the_next_one() -> None:
    @mt.tool
    async def confirm(ctx: mt.ToolContext) -> str:
        """Ask two questions."""
        first = await ctx.ask(mt.Question.boolean("first", "Delete the copy?"))
        return f"{first} {await ctx.ask(mt.Question.boolean('second', 'Delete all?'))}"

    async def scene() -> None:
        agent = scripted(call("confirm"), {"text": "x"}, tools=[confirm])
        async with serving(agent) as client:
            peer = Peer(client)
            asked = await peer.send("Ask.")
            (first,) = await agent.store.pending()
            await agent.store.answer(first, False, user="grace", via="inbox")
            await agent.resume(first.conversation)
            again = await peer.answer(asked, "yes")
            assert texts(again)[-1] == "Delete all? (yes or no)"
            assert "closed" in texts(again)[0]
            (second,) = await agent.store.pending()
            assert second.question_id == "second"
            assert state(await peer.answer(asked, "yes")) == "completed"

    asyncio.run(scene())
