"""midturn in the real pydantic-ai, with a scripted model. All state between two runs is passed
as JSON, as after a restart.
"""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.integrations.pydantic_ai import run
from midturn.stores.store import ConversationStore
from midturn.testing import Clock
from support.shop import Shop, answer_after_deadline, answer_by_two_people, recorded_counts


def confirm(env: str) -> mt.Question[bool]:
    return mt.Question.boolean("confirm", f"Deploy to {env}?")


REGION = mt.Question.select("region", "Which region?", ["eu-1", "us-2"])


class Program(Shop):
    """A program that uses pydantic-ai. It counts its effects across processes."""

    def __init__(self, store: ConversationStore, *calls: tuple[str, str]) -> None:
        super().__init__()
        self.store = store
        self.asked = 0
        self._calls = [
            ToolCallPart(name, {"env": env}, tool_call_id=f"call_{place}")
            for place, (name, env) in enumerate(calls)
        ]
        self.agent: Agent[None, str | DeferredToolRequests] = Agent(
            FunctionModel(self._model), output_type=[str, DeferredToolRequests]
        )
        self.agent.tool_plain(self.deploy)
        self.agent.tool_plain(self.look)
        self.agent.tool_plain(self.sell)
        self.agent.tool_plain(requires_approval=True)(self.drop)

    def _model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.function_tools
        read = [
            part
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        if not read:
            return ModelResponse(parts=list(self._calls))
        return ModelResponse(parts=[TextPart(" ".join(str(part.content) for part in read))])

    async def deploy(self, env: str) -> str:
        """Deploy, after two questions at most."""
        if not await mt.ask(confirm(env)):
            raise mt.Rejected(f"Not deployed to {env}.")
        region = await self._choose()
        self.effects[env] += 1
        return f"{env} is live in {region}."

    async def _choose(self) -> str:
        return await mt.ask(REGION)

    async def until_done(
        self, conversation: str, *answers: str | bool, reason: str | None = None
    ) -> str:
        """Run; answer the open questions one after the other, each with the state after a
        restart.
        """
        saved = b"[]"
        for answer in (*answers, None):
            result = await run(
                self.agent,
                mt.Inquirer(self.store, conversation),
                "Ship it.",
                message_history=ModelMessagesTypeAdapter.validate_json(saved),
            )
            saved = result.all_messages_json()
            if isinstance(result.output, str):
                return result.output
            question = (await self.store.pending(conversation))[0]
            await self.store.answer(question.id, answer, reason=reason)
        raise AssertionError("it never ends")


def test_call_is_answered_by_an_attached_person(store: ConversationStore) -> None:
    async def scene() -> None:
        program = Program(store, ("deploy", "staging"))
        person = mt.ScriptedPrompter({"deploy.confirm": True, "deploy.region": "us-2"})
        result = await run(program.agent, mt.Inquirer(store, await store.new(), person), "Ship it.")
        assert result.output == "staging is live in us-2."
        assert program.effects == {"staging": 1}

    asyncio.run(scene())


def test_a_call_is_answered_after_a_restart(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("deploy", "staging")), await store.new()
        assert await program.until_done(conversation, True, "us-2") == "staging is live in us-2."
        assert program.effects == {"staging": 1}
        assert await recorded_counts(store, conversation) == (1, 2, 1)

    asyncio.run(scene())


def test_two_calls_at_once_are_answered_one_question_at_a_time(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = (
            Program(store, ("deploy", "staging"), ("look", "logs")),
            await store.new(),
        )
        assert (
            await program.until_done(conversation, True, "calm", "eu-1")
            == "staging is live in eu-1. logs: calm"
        )
        assert program.effects == {"staging": 1, "look logs": 1}
        assert await recorded_counts(store, conversation) == (2, 3, 2)

    asyncio.run(scene())


def test_no_is_recorded_and_read_by_the_model(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = (
            Program(store, ("deploy", "production"), ("deploy", "staging")),
            await store.new(),
        )
        said = await program.until_done(conversation, False, True, "eu-1")
        assert said.endswith("Not deployed to production. staging is live in eu-1.")
        assert program.effects == {"staging": 1}
        recorded = [
            event.content
            for event in (await store.read(conversation)).events
            if isinstance(event, ToolCallResponse)
        ]
        assert " ".join(recorded) == said

    asyncio.run(scene())


@pytest.mark.parametrize("approved", [True, False])
def test_a_tool_that_needs_approval_is_approved_by_a_person_like_any_question(
    store: ConversationStore, *, approved: bool
) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("drop", "table")), await store.new()
        said = await program.until_done(conversation, approved, reason="It is in use.")
        assert said.endswith(
            "table is gone." if approved else 'skipped by the user. Reason: "It is in use."'
        )
        assert program.effects == ({"drop table": 1} if approved else {})
        assert await recorded_counts(store, conversation) == (1, 0, 1)

    asyncio.run(scene())


def test_a_tool_that_asks_for_approval_itself_is_approved_in_the_same_call(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("guarded", "table")), await store.new()

        @program.agent.tool
        def guarded(ctx: RunContext[None], env: str) -> str:
            """Ask for approval where it matters."""
            if not ctx.tool_call_approved:
                raise ApprovalRequired
            program.effects[env] += 1
            return "Done."

        assert await program.until_done(conversation, True) == "Done."
        assert program.effects == {"table": 1}
        assert await recorded_counts(store, conversation) == (1, 0, 1)

    asyncio.run(scene())


def test_reply_is_read_by_the_model(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("deploy", "staging")), await store.new()
        first = await run(program.agent, mt.Inquirer(store, conversation), "Ship it.")
        assert isinstance(first.output, DeferredToolRequests)
        (question,) = await store.pending(conversation)
        await store.answer(question.id, reply="Which one is it?")
        second = await run(
            program.agent, mt.Inquirer(store, conversation), message_history=first.all_messages()
        )
        assert "Which one is it?" in str(second.output)
        assert program.effects == {}

    asyncio.run(scene())


def test_ending_the_turn_ends_the_run(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, ("deploy", "staging")), await store.new()
        with pytest.raises(mt.CallEnded) as raised:
            await run(
                program.agent,
                mt.Inquirer(
                    store, conversation, mt.ScriptedPrompter({"deploy.confirm": mt.EndedTurn()})
                ),
                "Ship it.",
            )
        assert raised.value.turn_ended

    asyncio.run(scene())


def test_control_exceptions_and_rich_results_reach_pydantic_ai(store: ConversationStore) -> None:
    """A tool that wants its model to try again, and one that returns more than text."""

    async def scene() -> None:
        program, conversation = (
            Program(store, ("fussy", "staging"), ("rich", "staging")),
            await store.new(),
        )

        @program.agent.tool_plain
        def fussy(env: str) -> str:
            """Refuse."""
            raise ModelRetry(f"Not {env}.")

        @program.agent.tool_plain
        def rich(env: str) -> ToolReturn[dict[str, str]]:
            """Return more than text."""
            return ToolReturn({"env": env}, content="A picture.")

        result = await run(program.agent, mt.Inquirer(store, conversation), "Ship it.")
        parts = [part for message in result.all_messages() for part in message.parts]
        assert [part.content for part in parts if isinstance(part, ToolReturnPart)] == [
            "Not staging.",
            '{"env":"staging"}',
        ]
        assert "A picture." in [part.content for part in parts if part.part_kind == "user-prompt"]

    asyncio.run(scene())


def test_equal_calls_of_two_responses_are_two_calls(store: ConversationStore) -> None:
    """Some models reuse call IDs in each response."""

    async def scene() -> None:
        program, conversation = Program(store), await store.new()
        done: list[str] = []

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            assert info.function_tools
            rounds = sum(isinstance(message, ModelResponse) for message in messages)
            return ModelResponse(
                parts=[TextPart("Done.")]
                if rounds == 2
                else [ToolCallPart("note", {}, tool_call_id="call_0")]
            )

        def note() -> str:
            """Note."""
            done.append("noted")
            return "Noted."

        agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests], tools=[note])
        await run(agent, mt.Inquirer(store, conversation), "Ship it.")
        assert done == ["noted", "noted"]
        assert (await recorded_counts(program.store, conversation))[0] == 2

    asyncio.run(scene())


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
        waiting = await run(program.agent, mt.Inquirer(store, conversation), "Ship it.")
        assert isinstance(waiting.output, DeferredToolRequests)
        await (
            answer_after_deadline(store, conversation, clock)
            if is_late
            else answer_by_two_people(store, conversation)
        )
        done = await run(
            program.agent,
            mt.Inquirer(store, conversation),
            "Ship it.",
            message_history=waiting.all_messages(),
        )
        assert done.output == reads

    asyncio.run(scene())
