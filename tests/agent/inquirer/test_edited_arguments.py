"""Edited arguments of a call that needs permission are checked against the tool's schema."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.question.json_value import Json, JsonObject
from midturn.stores.store import ConversationStore

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 10}},
    "required": ["n"],
    "additionalProperties": False,
}


async def pay(inquirer: mt.Inquirer, seen: list[Json]) -> mt.CallContent:

    async def function(call: mt.InquirerCall) -> str:
        seen.append(dict(call.context.arguments))
        return f"paid {call.context.arguments['n']}"

    async with inquirer.turn("Pay."):
        return await inquirer.run(
            "pay", "call_1", {"n": 5}, function, permission=True, schema=SCHEMA
        )


@pytest.mark.parametrize("edit", [{"n": 50}, {"n": "7"}, {}, {"n": 1, "to": "me"}])
def test_invalid_edit_is_refused_and_the_question_stays_open(
    store: ConversationStore, edit: JsonObject
) -> None:
    async def scene() -> None:
        seen, conversation = list[Json](), await store.new("Pay.")
        with pytest.raises(mt.Suspended) as waiting:
            await pay(mt.Inquirer(store, conversation), seen)
        (question,) = waiting.value.pending
        with pytest.raises(mt.AnswerError) as refused:
            await store.answer(question, arguments=edit, digest=question.digest, user="ana")
        assert refused.value.problems
        assert [one.id for one in await store.pending(conversation)] == [question.id]
        await store.answer(question, arguments={"n": 7}, digest=question.digest, user="ana")
        assert str(await pay(mt.Inquirer(store, conversation), seen)).endswith("\npaid 7")
        assert seen == [{"n": 7}]

    asyncio.run(scene())


def test_invalid_edit_at_a_prompt_is_asked_for_again(store: ConversationStore) -> None:
    async def scene() -> None:
        seen, conversation = list[Json](), await store.new("Pay.")
        prompter = mt.ScriptedPrompter({"pay.__run__": [mt.Edited({"n": 50}), mt.Edited({"n": 7})]})
        assert str(await pay(mt.Inquirer(store, conversation, prompter), seen)).endswith("\npaid 7")
        assert len(prompter.prompts) == 2
        assert seen == [{"n": 7}]

    asyncio.run(scene())


def test_only_concurrent_calls_that_need_permission_are_asked_about(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        conversation = await store.new("Pay.")
        inquirer = mt.Inquirer(store, conversation)

        async def both() -> None:
            async with inquirer.turn("Pay."):
                made = await asyncio.gather(
                    inquirer.run(
                        "pay", "call_1", {"n": 500}, lambda _: "paid 500", permission=True
                    ),
                    inquirer.run("pay", "call_2", {"n": 5}, lambda _: "paid 5"),
                    return_exceptions=True,
                )
                assert isinstance(made[0], mt.Suspended)
                assert made[1] == "paid 5"

        with pytest.raises(mt.Suspended):
            await asyncio.wait_for(both(), 120)
        (question,) = await store.pending(conversation)
        assert question.arguments == {"n": 500}

    asyncio.run(scene())
