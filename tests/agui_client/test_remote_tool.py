"""A remote agent as a tool: its interrupts are asked of people, and its answer is the result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.integrations import agui
from support.agui import call, scripted
from support.agui_remote import asking, called, midturn_agent, scripted_agent


def caller(url: str, store: Any = None, **options: Any) -> mt.Agent:
    """Return an agent that calls the remote agent once."""
    remote = agui.tool(url, name="remote", description="Deploys.", **options)
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


def remote_agent(tool: Any, **arguments: Any) -> mt.Agent:
    name = tool.definition.name
    return scripted(call(name, **arguments), {"text": "Remote done."}, tools=[tool])


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


def test_call_is_approved_with_other_arguments() -> None:
    @mt.tool(run="ask")
    async def pay(amount: int, to: str) -> str:
        """Pay."""
        return f"paid {amount} to {to}"

    async def scene() -> None:
        remote = remote_agent(pay, amount=500, to="ada")
        async with midturn_agent(remote) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            (question,) = asked.pending
            assert question.question.text == "Run pay?"
            assert '{"amount":500,"to":"ada"}' in (question.question.context or "")
            await agent.store.answer(question, "approve with other arguments")
            again = await agent.resume(asked.conversation)
            (question,) = again.pending
            assert question.question.default == {"amount": 500, "to": "ada"}
            await agent.store.answer(question, {"amount": 5, "to": "ada"})
            ended = await agent.resume(asked.conversation)
            assert ended.status == "completed"
            (theirs,) = await remote.store.ids()
            assert (await result_of(remote, theirs)).endswith("paid 5 to ada")

    asyncio.run(scene())


def test_refusal_reaches_the_remote_agent_with_its_reason() -> None:
    @mt.tool(run="ask")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async def scene() -> None:
        remote = remote_agent(pay, amount=500)
        async with midturn_agent(remote) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            await agent.store.answer(asked.pending[0], "refuse", reason="Too much.")
            assert (await agent.resume(asked.conversation)).status == "completed"
            (theirs,) = await remote.store.ids()
            assert "Too much." in await result_of(remote, theirs)

    asyncio.run(scene())


def test_form_keeps_its_conditions() -> None:
    ship = mt.Question.boolean("ship", "Ship it?")
    env = mt.Question.select(
        "env", "Where to?", ["prod", "staging"], when=mt.When("ship", equals=True)
    )

    @mt.tool
    async def release(ctx: mt.ToolContext) -> str:
        """Ask a form."""
        return str((await ctx.ask_form(mt.Form([ship, env]))).to_json())

    async def scene(answers: dict[str, Any], expected: str) -> None:
        remote = remote_agent(release)
        async with midturn_agent(remote) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            while asked.status == "suspended":
                question = asked.pending[0]
                if question.kind == "review":
                    await agent.store.answer(question, approve=True)
                else:
                    await agent.store.answer(question, answers[question.question.text])
                asked = await agent.resume(asked.conversation)
            (theirs,) = await remote.store.ids()
            assert await result_of(remote, theirs) == expected

    shipped = {"Ship it?": True, "Where to?": "staging"}
    asyncio.run(scene(shipped, "{'ship': True, 'env': 'staging'}"))
    asyncio.run(scene({"Ship it?": False}, "{'ship': False, 'env': None}"))


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


def test_question_that_a_person_answers_at_the_remote_agent_is_confirmed() -> None:
    @mt.tool
    async def login(ctx: mt.ToolContext) -> str:
        """Ask for a secret."""
        secret = await ctx.ask(mt.Question.secret("password", "Password?"))
        return f"{len(secret.reveal())} characters"

    async def scene() -> None:
        remote = remote_agent(login)
        async with midturn_agent(remote) as url:
            agent = caller(url)
            asked = await agent.run("Go.")
            (question,) = asked.pending
            assert question.question.text == "remote waits for a person. Is it done there?"
            assert "Password?" in (question.question.context or "")
            (theirs,) = await remote.store.pending()
            given = {theirs.id: "needle"}
            there = await remote.resume(theirs.conversation, secrets=given)
            assert there.status == "completed"
            await agent.store.answer(question, True)
            assert (await agent.resume(asked.conversation)).status == "completed"
            assert await result_of(agent, asked.conversation) == "Remote done."

    asyncio.run(scene())


SCHEMA = {"type": "object", "properties": {"password": {"type": "string", "format": "password"}}}
WRITE_ONLY = {"type": "object", "properties": {"a": {"type": "string", "writeOnly": True}}}
MIDTURN: dict[str, Any] = {"kind": "tool", "answerable": True}
PERSISTED = {**MIDTURN, "question": {"text": "x", "answer_type": {"type": "secret"}}}
AUTHORED = {**MIDTURN, "question": {"text": "x", "answer_type": "secret"}}


@pytest.mark.parametrize(
    "interrupt",
    [
        {"responseSchema": SCHEMA},
        {"responseSchema": {"$defs": {"s": WRITE_ONLY}, "type": "object"}},
        {"reason": "midturn:secret"},
        {"metadata": {"midturn": PERSISTED}},
        {"metadata": {"midturn": AUTHORED}},
    ],
)
def test_secret_is_never_asked(interrupt: dict[str, Any]) -> None:
    async def scene() -> None:
        fine = {"id": "i0", "reason": "input_required", "message": "Name?"}
        asks = asking(fine, {"id": "i1", "reason": "input_required", **interrupt})
        async with scripted_agent(asks) as (url, remote):
            agent = caller(url)
            ended = await agent.run("Go.")
            assert ended.status == "completed"
            assert "midturn gives no secret" in await result_of(agent, ended.conversation)
            assert len(remote.runs) == 1

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("interrupt", "text", "answer", "payload"),
    [
        ({"message": "Name?"}, "Name?", "Ada", "Ada"),
        ({"message": "Sure?", "reason": "confirmation"}, "Sure?", True, True),
        ({"responseSchema": {"type": "boolean"}}, "The remote agent needs input.", False, False),
        ({"message": "Pick", "responseSchema": {"enum": ["a", "b"]}}, "Pick", "b", "b"),
        (
            {
                "message": "Pick",
                "responseSchema": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["a", "b"]},
                },
            },
            "Pick",
            ["a"],
            ["a"],
        ),
        ({"message": "N", "responseSchema": {"type": "integer", "minimum": 1}}, "N", 3, 3),
        (
            {
                "message": "Which\nfile?",
                "responseSchema": {
                    "type": "object",
                    "properties": {"answer": {"type": "string"}, "reason": {"type": "string"}},
                    "required": ["answer"],
                },
            },
            "Which file?",
            "a.txt",
            {"answer": "a.txt"},
        ),
        (
            {
                "message": "Map?",
                "responseSchema": {
                    "type": "object",
                    "properties": {"place": {"type": "object", "properties": {"x": {}}}},
                    "required": ["place"],
                },
            },
            "place",
            {"x": [1]},
            {"place": {"x": [1]}},
        ),
        (
            {"message": "Go?", "responseSchema": {"properties": {"approved": {"type": "boolean"}}}},
            "Go?",
            True,
            {"approved": True},
        ),
    ],
)
def test_answer_has_the_shape_of_the_schema(
    interrupt: dict[str, Any], text: str, answer: Any, payload: Any
) -> None:
    async def scene() -> None:
        asks = asking({"id": "i1", "reason": "input_required", **interrupt})
        async with scripted_agent(asks) as (url, remote):
            agent = caller(url)
            asked = await agent.run("Go.")
            (question,) = asked.pending
            assert question.question.text == text
            assert "Do not enter passwords" in (question.question.context or "")
            await agent.store.answer(question, answer)
            assert (await agent.resume(asked.conversation)).status == "completed"
            assert await result_of(agent, asked.conversation) == "Done."
            entry = {"interruptId": "i1", "status": "resolved", "payload": payload}
            assert remote.runs[1]["resume"] == [entry]

    asyncio.run(scene())


def test_messages_and_state_are_sent_back_to_agents_that_keep_nothing() -> None:
    first = [
        {"type": "STATE_SNAPSHOT", "snapshot": {"step": 1}},
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/step", "value": 2}]},
        *called("c1", "pay", {"amount": 5}),
    ]
    approval = {
        "id": "int-c1",
        "reason": "tool_call",
        "message": "Approve?",
        "toolCallId": "c1",
        "responseSchema": {
            "type": "object",
            "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}},
        },
    }

    async def scene() -> None:
        async with scripted_agent(asking(approval, first=first)) as (url, remote):
            agent = caller(url)
            asked = await agent.run("Go.")
            assert 'pay {"amount":5}' in (asked.pending[0].question.context or "")
            await agent.store.answer(asked.pending[0], "approve")
            await agent.resume(asked.conversation)
            one, two = remote.runs
            assert (one["state"], two["state"]) == ({}, {"step": 2})
            assert one["threadId"] == two["threadId"]
            assert one["runId"] != two["runId"]
            user, message = two["messages"]
            assert user == one["messages"][0]
            assert user["content"] == "Deploy it."
            function = {"name": "pay", "arguments": '{"amount": 5}'}
            assert message["toolCalls"] == [{"id": "c1", "type": "function", "function": function}]
            entry = {"interruptId": "int-c1", "status": "resolved", "payload": {"approved": True}}
            assert two["resume"] == [entry]
            assert remote.headers[0]["accept"] == "text/event-stream"

    asyncio.run(scene())


def test_deadline_of_the_remote_agent_closes_the_question() -> None:
    async def scene() -> None:
        late = {"id": "i1", "reason": "x", "message": "A?", "expiresAt": "2020-01-01T00:00:00Z"}
        odd = {"id": "i2", "reason": "x", "message": "B?", "expiresAt": "soon"}
        async with scripted_agent(asking(late, odd)) as (url, remote):
            agent = caller(url)
            asked = await agent.run("Go.")
            (question,) = asked.pending
            assert (question.question.text, question.deadline) == ("B?", None)
            await agent.store.answer(question, "b")
            assert (await agent.resume(asked.conversation)).status == "completed"
            assert remote.runs[1]["resume"] == [
                {"interruptId": "i1", "status": "cancelled"},
                {"interruptId": "i2", "status": "resolved", "payload": "b"},
            ]

    asyncio.run(scene())
