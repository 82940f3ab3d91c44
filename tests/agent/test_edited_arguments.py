"""Edited arguments of a call are checked against the tool's schema in every process that accepts
the edit.
"""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.question.json_value import JsonObject
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive


@mt.tool(run="ask")
async def pay(n: int, currency: str = "EUR") -> str:
    """Pay."""
    if n == 0:
        raise mt.Rejected("Nothing to pay.")
    return f"paid {n} {currency}"


def payer(store: ConversationStore) -> mt.Agent:
    """Return an agent that makes one payment."""
    model = mt.ScriptedModel(
        [{"calls": [{"name": "pay", "arguments": {"n": 5}}]}, {"text": "Done."}]
    )
    return mt.Agent(model, tools=[pay], store=store)


@pytest.mark.parametrize("edit", [{"n": "a lot"}, {"currency": "USD"}, {"n": 1, "to": "me"}])
def test_invalid_edit_is_refused_and_the_question_stays_open(
    store: ConversationStore, edit: JsonObject
) -> None:
    async def scene() -> None:
        waiting = await payer(store).run("Pay.")
        (question,) = waiting.pending
        with pytest.raises(mt.AnswerError) as refused:  # from a store without tools
            await store.answer(question, arguments=edit, digest=question.digest, user="ana")
        assert refused.value.problems
        assert [one.id for one in await store.pending()] == [question.id]
        await store.answer(question, arguments={"n": 7}, digest=question.digest, user="ana")
        assert (await payer(store).resume(waiting.conversation)).status == "completed"
        contents = [
            getattr(event, "content", "")
            for event in (await store.read(waiting.conversation)).events
        ]
        assert any("paid 7 EUR" in str(content) for content in contents)

    asyncio.run(scene())


def test_model_reads_the_edited_arguments_before_the_result(store: ConversationStore) -> None:
    async def scene() -> None:
        async def read(edit: JsonObject) -> str:
            prompter = mt.ScriptedPrompter({"pay.__run__": mt.Edited(edit)})
            result = await payer(store).run("Pay.", prompter=prompter)
            (event,) = [
                event
                for event in (await store.read(result.conversation)).events
                if isinstance(event, ToolCallResponse)
            ]
            return event.content

        changed, unchanged, failed = [
            await read(edit) for edit in ({"n": 7}, {"n": 5, "currency": "EUR"}, {"n": 0})
        ]
        assert (
            changed
            == 'The user edited the arguments of this call. It ran with: {"n": 7}\npaid 7 EUR'
        )
        assert unchanged.endswith("paid 5 EUR")
        assert failed == 'The user edited the arguments of this call to: {"n": 0}\nNothing to pay.'

    asyncio.run(scene())


def test_fraction_for_an_integer_in_an_edit_is_refused(store: ConversationStore) -> None:
    async def scene() -> None:
        waiting = await payer(store).run("Pay.")
        (question,) = waiting.pending
        await store.answer(question, arguments={"n": 4.0}, digest=question.digest, user="ana")
        result = await payer(store).resume(waiting.conversation)
        (event,) = [
            event
            for event in (await store.read(result.conversation)).events
            if isinstance(event, ToolCallResponse)
        ]
        assert (
            event.content
            == 'The user edited the arguments of this call. It ran with: {"n": 4}\npaid 4 EUR'
        )

    asyncio.run(scene())


def test_the_model_reads_the_beginning_of_long_edited_arguments(store: ConversationStore) -> None:
    prompter = mt.ScriptedPrompter({"pay.__run__": mt.Edited({"n": 7, "currency": "E" * 20_000})})
    result = asyncio.run(payer(store).run("Pay.", prompter=prompter))
    (content,) = [
        event.content
        for event in drive(store.read(result.conversation)).events
        if isinstance(event, ToolCallResponse)
    ]
    note = content.partition("\n")[0]
    assert note.endswith("E … (cut: 20024 characters in all)")
    assert len(note) < 10_200


def test_invalid_edit_at_a_prompt_is_asked_for_again(store: ConversationStore) -> None:
    prompter = mt.ScriptedPrompter(
        {"pay.__run__": [mt.Edited({"n": "a lot"}), mt.Edited({"n": 7})]}
    )
    result = asyncio.run(payer(store).run("Pay.", prompter=prompter))
    assert result.status == "completed"
    assert len(prompter.prompts) == 2


def test_an_open_approval_has_the_schema_of_its_arguments() -> None:
    @mt.tool(run="ask")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = mt.ScriptedModel([{"calls": [{"name": "pay", "arguments": {"amount": 7}}]}])
    (question,) = mt.Agent(model, tools=[pay], store=mt.MemoryStore()).run_sync("Pay.").pending

    assert question.arguments_schema == pay.definition.parameters
    assert question.form_schema is None
