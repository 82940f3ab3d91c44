"""Calls that wait for something other than a question: external results, and approvals of the
framework's own tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from agents import Agent as SdkAgent, RunConfig, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, ToolApproved, ToolDenied
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolResults

import midturn as mt
from midturn.integrations.openai_agents import Asking
from midturn.integrations.pydantic_ai import run
from midturn.stores.store import ConversationStore

QUIET = RunConfig(tracing_disabled=True)
RAN: list[str] = []
DEPLOY = ToolCallPart("deploy", {"env": "eu"}, tool_call_id="c1")
FETCH = ToolCallPart("fetch", {"page": "1"}, tool_call_id="f1")
FETCHED = DeferredToolResults(calls={"f1": "page 1"})


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    """Reset the recorded tool effects of other tests."""
    RAN.clear()


async def deploy(env: str) -> str:
    """Deploy the service."""
    if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    RAN.append(f"deploy {env}")
    return f"{env} is live."


async def fetch(page: str) -> str:
    """Fetch a page elsewhere."""
    RAN.append(f"fetch {page}")
    raise CallDeferred


def pay(amount: int) -> str:
    """Pay."""
    RAN.append(f"pay {amount}")
    return "Paid."


def scripted(*replies: Sequence[Any]) -> Agent[None, Any]:
    """Return an agent whose model gives these replies, and then repeats what it has read."""
    left = [*replies]

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if left:
            return ModelResponse(parts=[*left.pop(0)])
        read = [
            str(part.content)
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        return ModelResponse(parts=[TextPart(" | ".join(read))])

    agent: Agent[None, Any] = Agent(
        FunctionModel(model), output_type=[str, DeferredToolRequests], tools=[deploy, fetch]
    )
    agent.tool_plain(requires_approval=True)(pay)
    return agent


def test_a_deferred_call_runs_once_and_the_model_reads_the_result_that_came(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        agent, conversation = scripted([DEPLOY, FETCH]), await store.new("")
        inquirer = mt.Inquirer(store, conversation)
        waiting = (await run(agent, inquirer, "Go.")).all_messages()
        (question,) = await store.pending(conversation)
        await store.answer(question.id, True)

        result = await run(agent, inquirer, message_history=waiting)
        assert [call.tool_call_id for call in result.output.calls] == ["f1"]
        result = await run(
            agent, inquirer, message_history=result.all_messages(), deferred_tool_results=FETCHED
        )
        assert result.output == "eu is live. | page 1"
        assert sorted(RAN) == ["deploy eu", "fetch 1"]
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())


def test_a_turn_stays_open_while_a_deferred_call_waits(store: ConversationStore) -> None:
    async def scene() -> None:
        agent, conversation = scripted([FETCH], [DEPLOY]), await store.new("")
        inquirer = mt.Inquirer(store, conversation)
        waiting = (await run(agent, inquirer, "Go.", key="job-1")).all_messages()
        with pytest.raises(mt.TurnOpen):
            await run(
                agent,
                inquirer,
                "Something else.",
                message_history=waiting,
                deferred_tool_results=FETCHED,
            )
        result = await run(agent, inquirer, message_history=waiting, key="job-1")
        assert [call.tool_call_id for call in result.output.calls] == ["f1"]

        result = await run(
            agent, inquirer, message_history=waiting, deferred_tool_results=FETCHED, key="job-1"
        )
        assert [call.tool_call_id for call in result.output.approvals] == ["c1"]
        assert [open.question.text for open in await store.pending(conversation)] == [
            "Deploy to eu?"
        ]
        assert RAN == ["fetch 1"]

    asyncio.run(scene())


@pytest.mark.parametrize(
    "decision", [False, ToolDenied("No."), ToolApproved(override_args={"amount": 99})]
)
def test_a_decision_that_is_not_recorded_is_refused(
    store: ConversationStore, decision: Any
) -> None:
    async def scene() -> None:
        agent, conversation = (
            scripted([ToolCallPart("pay", {"amount": 3}, tool_call_id="p1")]),
            await store.new(""),
        )
        inquirer = mt.Inquirer(store, conversation)
        waiting = (await run(agent, inquirer, "Go.")).all_messages()
        (question,) = await store.pending(conversation)
        results = DeferredToolResults(approvals={"p1": decision})
        with pytest.raises(
            mt.ConfigError, match=r"`pay` \(p1\)\. No tool ran\. Only the recorded decision counts"
        ):
            await run(agent, inquirer, message_history=waiting, deferred_tool_results=results)
        assert [open.id for open in await store.pending(conversation)] == [question.id]

        await store.answer(question.id, True)
        results = DeferredToolResults(approvals={"p1": True})
        assert (
            await run(agent, inquirer, message_history=waiting, deferred_tool_results=results)
        ).output == "Paid."
        assert RAN == ["pay 3"]

    asyncio.run(scene())


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_rejection_in_a_state_of_the_sdk_is_refused(
    store: ConversationStore, *, is_answered: bool
) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        asking = Asking(mt.Inquirer(store, conversation))
        model = ScriptedModel(
            [[function_call("pay", {"amount": 3}, call_id="p1")], [assistant_message("Done.")]]
        )
        agent = SdkAgent[Any](
            name="Shop", model=model, tools=[asking.tool(pay, needs_approval=True)]
        )
        waiting = await asking.run(agent, "Go.", run_config=QUIET)
        (question,) = await store.pending(conversation)
        if is_answered:
            await store.answer(question.id, True)
        state = waiting.to_state()
        state.reject(state.get_interruptions()[0])
        with pytest.raises(mt.ConfigError, match=r"rejects the call `pay` \(p1\)\. No tool ran"):
            await asking.run(agent, state, run_config=QUIET)

        if not is_answered:
            await store.answer(question.id, True)
        assert (
            await asking.run(agent, waiting.to_state(), run_config=QUIET)
        ).final_output == "Done."
        assert RAN == ["pay 3"]

    asyncio.run(scene())


@pytest.mark.parametrize("key", [None, "job-1"])
def test_a_turn_stays_open_while_a_tool_of_the_sdk_waits_for_its_approval(
    store: ConversationStore, key: str | None
) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        asking = Asking(
            mt.Inquirer(store, conversation, mt.ScriptedPrompter({"deploy.confirm": True}))
        )
        calls = [
            [function_call("pay", {"amount": 3}, call_id="p1")],
            [function_call("deploy", {"env": "eu"}, call_id="c1")],
        ]
        model = ScriptedModel([*calls, [assistant_message("Done.")]])
        agent = SdkAgent[Any](
            name="Shop",
            model=model,
            tools=[asking.tool(deploy), function_tool(pay, needs_approval=True)],
        )
        state = (await asking.run(agent, "Go.", key=key, run_config=QUIET)).to_state()
        with pytest.raises(mt.TurnOpen):
            await asking.run(agent, state, text="Something else.", run_config=QUIET)

        for waiting in state.get_interruptions():
            state.approve(waiting)
        assert (await asking.run(agent, state, key=key, run_config=QUIET)).final_output == "Done."
        assert RAN == ["pay 3", "deploy eu"]
        assert len((await store.read(conversation)).turns) == 1
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())


def test_custom_loop_keeps_its_turn_open_while_it_waits(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        inquirer = mt.Inquirer(store, conversation, mt.ScriptedPrompter({"deploy.confirm": True}))
        async with inquirer.turn("Go."):
            await inquirer.run("deploy", "c1", {"env": "eu"}, lambda _: deploy("eu"))
            inquirer.keep_open()
        assert len(await store.open_turns(conversation)) == 1
        async with inquirer.turn("Go."):
            assert (
                await inquirer.run("deploy", "c1", {"env": "eu"}, lambda _: deploy("eu"))
                == "eu is live."
            )
        assert RAN == ["deploy eu"]
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())
