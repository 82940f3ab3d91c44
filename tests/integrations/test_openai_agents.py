"""midturn in the real OpenAI Agents SDK, with its scripted model. All state between two runs
is passed as JSON, as after a restart.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from agents import Agent, RunConfig, RunResult, RunState
from agents.testing import ScriptedModel, assistant_message, function_call

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.integrations.openai_agents import Asking
from midturn.stores.store import ConversationStore
from midturn.testing import Clock
from support.shop import Shop, answer_after_deadline, answer_by_two_people, recorded_counts

REGION = mt.Question.select("region", "Which region?", ["eu-1", "us-2"])


class Program(Shop):
    """A program that uses the SDK. It counts its effects across processes."""

    def __init__(self, store: ConversationStore, *calls: tuple[str, str]) -> None:
        super().__init__()
        self.store = store
        made = [
            function_call(name, {"env": env}, call_id=f"call_{place}")
            for place, (name, env) in enumerate(calls)
        ]
        self.model = ScriptedModel([made, [assistant_message("Done.")]])

    def agent(self, asking: Asking) -> Agent[Any]:
        """Create the agent again, as another process would."""
        tools = [
            asking.tool(self.deploy),
            asking.tool(self.look),
            asking.tool(self.sell),
            asking.tool(self.drop, needs_approval=True),
        ]
        return Agent(name="Shop", model=self.model, tools=[*tools])

    async def deploy(self, env: str) -> str:
        """Deploy, after two questions at most."""
        if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
            raise mt.Rejected(f"Not deployed to {env}.")
        region = await mt.ask(REGION)
        self.effects[env] += 1
        return f"{env} is live in {region}."

    async def enter(
        self, conversation: str, saved: str | None = None, prompter: mt.Prompter | None = None
    ) -> RunResult:
        """Run, or continue."""
        asking = Asking(mt.Inquirer(self.store, conversation, prompter))
        agent = self.agent(asking)
        given = "Ship it." if saved is None else await RunState.from_json(agent, json.loads(saved))
        return await asking.run(agent, given, run_config=RunConfig(tracing_disabled=True))

    async def until_done(self, conversation: str, *answers: str | bool) -> list[str]:
        """Run; answer the open questions one after the other. Return what the model read of
        its calls.
        """
        result = await self.enter(conversation)
        for answer in answers:
            assert result.interruptions
            question = (await self.store.pending(conversation))[0]
            await self.store.answer(question.id, answer, reason="As agreed.")
            result = await self.enter(conversation, json.dumps(result.to_state().to_json()))
        assert result.final_output == "Done."
        return read(result)


def read(result: RunResult) -> list[str]:
    """Return what the model read of its calls."""
    items = cast("list[dict[str, str]]", result.to_input_list())
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def test_call_is_answered_by_an_attached_person(store: ConversationStore) -> None:
    async def scene() -> None:
        program = Program(store, ("deploy", "staging"))
        person = mt.ScriptedPrompter({"deploy.confirm": True, "deploy.region": "us-2"})
        result = await program.enter(await store.new(), prompter=person)
        assert read(result) == ["staging is live in us-2."]
        assert program.effects == {"staging": 1}

    asyncio.run(scene())


def test_a_call_is_answered_after_a_restart(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("deploy", "staging")), await store.new()
        assert await program.until_done(conversation, True, "us-2") == ["staging is live in us-2."]
        assert program.effects == {"staging": 1}
        assert await recorded_counts(store, conversation) == (1, 2, 1)

    asyncio.run(scene())


def test_two_calls_at_once_are_answered_one_question_at_a_time(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = (
            Program(store, ("deploy", "staging"), ("look", "logs")),
            await store.new(),
        )
        assert sorted(await program.until_done(conversation, True, "calm", "eu-1")) == [
            "logs: calm",
            "staging is live in eu-1.",
        ]
        assert program.effects == {"staging": 1, "look logs": 1}
        assert await recorded_counts(store, conversation) == (2, 3, 2)

    asyncio.run(scene())


def test_no_is_recorded_and_read_by_the_model(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = (
            Program(store, ("deploy", "production"), ("deploy", "staging")),
            await store.new(),
        )
        result, answers = (
            await program.enter(conversation),
            {"production": False, "staging": True, "region": "eu-1"},
        )
        while result.interruptions:
            for question in await store.pending(conversation):
                named = (
                    "region"
                    if question.question.text == "Which region?"
                    else str(question.arguments["env"])
                )
                await store.answer(question.id, answers[named], reason="As agreed.")
            result = await program.enter(conversation, json.dumps(result.to_state().to_json()))
        said = read(result)
        assert program.effects == {"staging": 1}
        assert any(content.endswith("Not deployed to production.") for content in said)
        recorded = [
            event.content
            for event in (await store.read(conversation)).events
            if isinstance(event, ToolCallResponse)
        ]
        assert sorted(recorded) == sorted(said)

    asyncio.run(scene())


@pytest.mark.parametrize("approved", [True, False])
def test_a_tool_that_needs_approval_is_approved_by_a_person_like_any_question(
    store: ConversationStore, *, approved: bool
) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("drop", "table")), await store.new()
        (said,) = await program.until_done(conversation, approved)
        assert said.endswith(
            "table is gone." if approved else 'skipped by the user. Reason: "As agreed."'
        )
        assert program.effects == ({"drop table": 1} if approved else {})
        assert await recorded_counts(store, conversation) == (1, 0, 1)

    asyncio.run(scene())


def test_reply_is_read_by_the_model(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("deploy", "staging")), await store.new()
        result = await program.enter(conversation)
        (question,) = await store.pending(conversation)
        await store.answer(question.id, reply="Which one is it?")
        result = await program.enter(conversation, json.dumps(result.to_state().to_json()))
        assert "Which one is it?" in read(result)[0]
        assert program.effects == {}

    asyncio.run(scene())


def test_ending_the_turn_ends_the_run(store: ConversationStore) -> None:
    async def scene() -> None:
        program = Program(store, ("deploy", "staging"))
        with pytest.raises(mt.CallEnded) as raised:
            await program.enter(
                await store.new(), prompter=mt.ScriptedPrompter({"deploy.confirm": mt.EndedTurn()})
            )
        assert raised.value.turn_ended

    asyncio.run(scene())


def test_tool_error_reads_as_in_the_plain_sdk_and_is_logged(
    store: ConversationStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        program = Program(store, ("broken", "staging"))

        def broken(env: str) -> str:
            """Break."""
            raise KeyError(env)

        asking = Asking(mt.Inquirer(store, await store.new()))
        agent = Agent(name="Shop", model=program.model, tools=[asking.tool(broken)])
        result = await asking.run(agent, "Ship it.", run_config=RunConfig(tracing_disabled=True))
        assert read(result) == ["An error occurred while running the tool. Please try again."]

    asyncio.run(scene())
    assert any(record.name == "midturn.tools" and record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    ("is_late", "reads"), [(False, "the shop is sold."), (True, "the shop stays: deadline.")]
)
def test_two_person_question_waits_for_both_until_its_deadline(
    store: ConversationStore,
    clock: Clock,
    is_late: bool,  # noqa: FBT001  whether time passes
    reads: str,
) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("sell", "the shop")), await store.new()
        waiting = await program.enter(conversation)
        assert waiting.interruptions
        await (
            answer_after_deadline(store, conversation, clock)
            if is_late
            else answer_by_two_people(store, conversation)
        )
        done = await program.enter(conversation, json.dumps(waiting.to_state().to_json()))
        assert read(done) == [reads]

    asyncio.run(scene())
