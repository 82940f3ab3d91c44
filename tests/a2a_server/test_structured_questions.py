"""The extension for structured questions and answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from support.a2a import (
    EXTENSION,
    Peer,
    RpcError,
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
async def deploy(ctx: mt.ToolContext) -> str:
    """Ask three questions at once."""
    where, count, sure = await asyncio.gather(
        ctx.ask(mt.Question.select("where", "Where to?", ["prod", "staging"])),
        ctx.ask(mt.Question.number("count", "How many?", type=int)),
        ctx.ask(mt.Question.boolean("sure", "Sure?")),
    )
    return f"{where} {count!r} {sure}"


@mt.tool
async def form(ctx: mt.ToolContext) -> str:
    """Ask a form."""
    given = await ctx.ask_form(
        mt.Form(
            [
                mt.Question.boolean("ship", "Ship it?"),
                mt.Question.text("where", "Where to?", when=mt.When("ship", True)),
            ]
        )
    )
    return f"{given.to_json()}"


@mt.tool(run="ask")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def _result(events: Any) -> str:
    return next(each.content for each in events if each.type == "tool_call_response")


async def _events(agent: mt.Agent) -> Any:
    (conversation,) = await agent.store.ids()
    return (await agent.store.read(conversation)).events


def test_several_questions_are_answered_at_once() -> None:
    async def scene() -> None:
        agent = scripted(call("deploy"), {"text": "Done."}, tools=[deploy])
        async with serving(agent) as client:
            peer = Peer(client, has_extension=True)
            asked = await peer.send("Deploy it.")
            assert state(asked) == "input_required"
            assert asked["status"]["message"]["extensions"] == [EXTENSION]
            found = {each["question_id"]: each for each in questions(asked)}
            assert list(found) == ["where", "count", "sure"]
            assert all(each["midturn"] == "question" for each in found.values())
            assert found["where"]["question"]["answer_type"]["options"] == [
                {"value": "prod"},
                {"value": "staging"},
            ]
            assert texts(asked)[1] == "How many? (a number)"
            given = {
                found["where"]["id"]: {"answer": "staging", "reason": "Safer."},
                found["count"]["id"]: {"answer": 7.0},
                found["sure"]["id"]: {"answer": "perhaps"},
            }
            again = await peer.answer(asked, answers(**given))
            assert state(again) == "input_required"
            (left,) = questions(again)
            assert left["question_id"] == "sure"
            assert "perhaps" in left["problem"]
            last = await peer.answer(again, answers(**{left["id"]: {"answer": True}}))
            assert state(last) == "completed"
            assert _result(await _events(agent)) == "staging 7 True"

    asyncio.run(scene())


def test_form_is_answered_as_a_map_or_question_by_question() -> None:
    async def scene() -> None:
        script = (call("form"), {"text": "One."}, call("form"), {"text": "Two."})
        async with serving(scripted(*script, tools=[form])) as client:
            peer = Peer(client, has_extension=True)
            asked = await peer.send("Ask.")
            (first,) = questions(asked)
            whole = {"ship": True, "where": "prod"}
            assert state(await peer.answer(asked, answers(**{first["id"]: {"answer": whole}}))) == (
                "completed"
            )
            asked = await peer.send("Ask.", contextId=asked["contextId"])
            (first,) = questions(asked)
            step = await peer.answer(asked, answers(**{first["id"]: {"answer": True}}))
            (second,) = questions(step)
            assert (second["question_id"], "problem" in second) == ("where", False)
            ended = await peer.answer(asked, answers(**{second["id"]: {"answer": "prod"}}))
            assert state(ended) == "completed"

    asyncio.run(scene())


def test_words_instead_of_an_answer_go_to_the_model() -> None:
    async def scene() -> None:
        agent = scripted(call("form"), {"text": "One."}, tools=[form])
        async with serving(agent) as client:
            peer = Peer(client, has_extension=True)
            asked = await peer.send("Ask.")
            (first,) = questions(asked)
            ended = await peer.answer(asked, answers(**{first["id"]: {"reply": "Not today."}}))
            assert state(ended) == "completed"
            assert "Not today." in _result(await _events(agent))

    asyncio.run(scene())


def test_answer_to_an_unknown_question_is_reported_and_the_others_are_recorded() -> None:
    async def scene() -> None:
        async with serving(scripted(call("form"), {"text": "x"}, tools=[form])) as client:
            peer = Peer(client, has_extension=True)
            asked = await peer.send("Ask.")
            (first,) = questions(asked)
            given = {"17-nothing": {"answer": 1}, first["id"]: {"answer": {"ship": False}}}
            ended = await peer.answer(asked, answers(**given))
            assert state(ended) == "completed"
            assert "17-nothing" in texts(ended)[0]

    asyncio.run(scene())


def test_approval_of_a_person_can_edit_the_arguments() -> None:
    async def scene() -> None:
        agent = scripted(call("pay", amount=10), {"text": "Paid."}, tools=[pay])
        people = {"ada": "Ada Lovelace"}.get
        async with serving(agent, people=people) as client:
            peer = Peer(client, has_extension=True)
            asked = await peer.send("Pay.")
            assert state(asked) == "input_required"
            (approval,) = questions(asked)
            assert (approval["kind"], approval["arguments"]) == ("run", {"amount": 10})
            wrong = {"approved": True, "editedArgs": {"amount": "much"}}
            again = await peer.answer(asked, answers(**{approval["id"]: wrong}))
            assert "amount" in questions(again)[0]["problem"]
            edited = {"approved": True, "editedArgs": {"amount": 3}, "reason": "Less."}
            ended = await peer.answer(asked, answers(**{approval["id"]: edited}))
            assert state(ended) == "completed"
            events = await _events(agent)
            assert _result(events).endswith("paid 3")
            decided = [each for each in events if each.type == "approval"][-1].answered_by
            assert (decided.by, decided.user, decided.via) == ("user", "Ada Lovelace", "a2a")

    asyncio.run(scene())


@pytest.mark.parametrize(
    "given",
    [None, [1], {"a": 1}, dict.fromkeys(map(str, range(101)), 1)],
)
def test_malformed_answers_are_refused(given: Any) -> None:
    async def scene() -> None:
        async with serving(scripted(call("form"), {"text": "x"}, tools=[form])) as client:
            peer = Peer(client, has_extension=True)
            asked = await peer.send("Ask.")
            with pytest.raises(RpcError) as refused:
                await peer.answer(asked, {"data": {"midturn": "answers", "answers": given}})
            assert refused.value.code == -32602
            with pytest.raises(RpcError) as refused:
                await peer.send(answers())
            assert refused.value.code == -32602

    asyncio.run(scene())
