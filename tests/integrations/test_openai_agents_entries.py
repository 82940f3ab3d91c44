"""The entry points of the OpenAI Agents SDK: streams, programs without asyncio, sessions and
handoffs. Each has a question.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from agents import Agent, RunConfig, RunContextWrapper, RunState, SQLiteSession, ToolOutputImage
from agents.testing import ScriptedModel, assistant_message, function_call

import midturn as mt
from midturn.events.types import ToolCallRequest
from midturn.integrations.openai_agents import Asking
from midturn.stores.store import ConversationStore

QUIET = RunConfig(tracing_disabled=True)


async def deploy(env: str) -> str:
    """Deploy."""
    if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    return f"{env} is live"


class Program:
    """An agent that deploys once. Each entry creates it again."""

    def __init__(self, store: ConversationStore, *replies: Any) -> None:
        self.store = store
        deploying = [function_call("deploy", {"env": "eu"}, call_id="c1")]
        self.model = ScriptedModel([*(replies or (deploying,)), [assistant_message("Done.")]])

    def made(
        self, conversation: str, prompter: mt.Prompter | None = None
    ) -> tuple[Asking, Agent[Any]]:
        """Return the tools and the agent."""
        asking = Asking(mt.Inquirer(self.store, conversation, prompter))
        return asking, Agent[Any](name="Shop", model=self.model, tools=[asking.tool(deploy)])


def read(result: Any) -> list[Any]:
    """Return what the model read of its calls."""
    items = cast("list[dict[str, Any]]", result.to_input_list())
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def test_a_stream_has_the_events_of_the_sdk_and_the_questions(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation, seen = Program(store), await store.new(), list[str]()
        asking, agent = program.made(conversation, mt.ScriptedPrompter({"deploy.confirm": True}))
        async with asking.stream(agent, "Go.", run_config=QUIET) as events:
            async for event in events:
                seen.append(getattr(event, "name", type(event).__name__))
        ours = [
            name
            for name in seen
            if name in ("ToolStarted", "Asked", "QuestionAnswered", "ToolFinished")
        ]
        assert ours == ["ToolStarted", "Asked", "QuestionAnswered", "ToolFinished"]
        assert seen.index("tool_called") < seen.index("tool_output")
        assert seen.index("ToolFinished") < seen.index("tool_output")
        assert (events.result.final_output, read(events.result)) == ("Done.", ["eu is live"])

    asyncio.run(scene())


def test_waiting_stream_ends_with_interruptions_and_continues_from_its_state(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        program, conversation = Program(store), await store.new()
        asking, agent = program.made(conversation)
        async with asking.stream(agent, "Go.", run_config=QUIET) as events:
            asked = [event.question async for event in events if isinstance(event, mt.Asked)]
        assert [item.tool_name for item in events.result.interruptions] == ["deploy"]
        saved = json.dumps(events.result.to_state().to_json())
        await store.answer(asked[0], True)
        asking, agent = program.made(conversation)
        async with asking.stream(
            agent, await RunState.from_json(agent, json.loads(saved)), run_config=QUIET
        ) as events:
            async for _ in events:
                pass
        assert (events.result.final_output, read(events.result)) == ("Done.", ["eu is live"])
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())


def test_ending_the_turn_ends_a_stream(store: ConversationStore) -> None:
    async def scene() -> None:
        asking, agent = Program(store).made(
            await store.new(), mt.ScriptedPrompter({"deploy.confirm": mt.EndedTurn()})
        )
        async with asking.stream(agent, "Go.", run_config=QUIET) as events:
            with pytest.raises(mt.CallEnded) as raised:
                [event async for event in events]
        assert raised.value.turn_ended

    asyncio.run(scene())


def in_thread(work: Callable[[], Any]) -> Any:
    """Run `work` in its own thread, as a web server runs a request; return its result."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_program_without_asyncio_continues_in_other_threads(store: ConversationStore) -> None:
    program, conversation = Program(store), store.new_sync()

    def first() -> str:
        asking, agent = program.made(conversation)
        return json.dumps(asking.run_sync(agent, "Go.", run_config=QUIET).to_state().to_json())

    def second() -> str:
        asking, agent = program.made(conversation)
        state = asyncio.run(RunState.from_json(agent, json.loads(saved)))
        return asking.run_sync(agent, state, run_config=QUIET).final_output

    saved = in_thread(first)
    (question,) = store.pending_sync(conversation)
    store.answer_sync(question.id, True)
    assert in_thread(second) == "Done."


def test_program_with_a_running_loop_gets_a_hint(store: ConversationStore) -> None:
    async def scene() -> None:
        asking, agent = Program(store).made(await store.new())
        with pytest.raises(RuntimeError, match=r"Use `await asking\.run\(…\)`"):
            asking.run_sync(agent, "Go.", run_config=QUIET)

    asyncio.run(scene())


def test_a_session_keeps_the_items_of_a_run_that_waited(
    store: ConversationStore, tmp_path: Path
) -> None:
    async def scene() -> None:
        program, conversation = Program(store), await store.new()
        session = SQLiteSession("shop", tmp_path / "session.sqlite")
        asking, agent = program.made(conversation)
        waiting = await asking.run(agent, "Go.", session=session, run_config=QUIET)
        (question,) = await store.pending(conversation)
        await store.answer(question.id, True)
        state = json.dumps(waiting.to_state().to_json())
        asking, agent = program.made(conversation)
        await asking.run(
            agent,
            await RunState.from_json(agent, json.loads(state)),
            session=session,
            run_config=QUIET,
        )
        items = [cast("dict[str, Any]", item) for item in await session.get_items()]
        assert [
            item.get("type", item.get("role")) for item in items if item.get("role") != "assistant"
        ] == [
            "user",
            "function_call",
            "function_call_output",
        ]
        assert items[2]["output"] == "eu is live"
        session.close()

    asyncio.run(scene())


def test_handoff_agents_call_waits_and_continues_with_its_context(store: ConversationStore) -> None:
    async def scene() -> None:
        ran, conversation = list[str](), await store.new()

        async def delete(ctx: RunContextWrapper[dict[str, str]], path: str) -> str:
            """Delete."""
            ran.append(f"{ctx.context['user']} deleted {path}")
            return ran[-1]

        handoff = function_call("transfer_to_cleaner", {}, call_id="h1")
        model = ScriptedModel(
            [
                [handoff],
                [function_call("delete", {"path": "/srv"}, call_id="c1")],
                [assistant_message("Done.")],
            ]
        )

        def made() -> tuple[Asking, Agent[Any]]:
            asking = Asking(mt.Inquirer(store, conversation))
            cleaner = Agent[Any](
                name="cleaner", model=model, tools=[asking.tool(delete, needs_approval=True)]
            )
            return asking, Agent[Any](name="planner", model=model, handoffs=[cleaner])

        asking, planner = made()
        waiting = await asking.run(planner, "Clean up.", context={"user": "ana"}, run_config=QUIET)
        (question,) = await store.pending(conversation)
        assert (question.kind, question.tool, question.arguments) == (
            "run",
            "delete",
            {"path": "/srv"},
        )
        await store.answer(question, True)
        saved = json.dumps(waiting.to_state().to_json())
        asking, planner = made()
        result = await asking.run(
            planner, await RunState.from_json(planner, json.loads(saved)), run_config=QUIET
        )
        assert (ran, result.final_output, result.last_agent.name) == (
            ["ana deleted /srv"],
            "Done.",
            "cleaner",
        )

    asyncio.run(scene())


def test_new_context_replaces_the_saved_context(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new()

        async def pay(ctx: RunContextWrapper[dict[str, str]]) -> str:
            """Pay."""
            return f"paid by {ctx.context['user']}"

        model = ScriptedModel(
            [[function_call("pay", {}, call_id="c1")], [assistant_message("Done.")]]
        )

        def made() -> tuple[Asking, Agent[Any]]:
            asking = Asking(mt.Inquirer(store, conversation))
            return asking, Agent[Any](
                name="Shop", model=model, tools=[asking.tool(pay, needs_approval=True)]
            )

        asking, agent = made()
        waiting = await asking.run(agent, "Go.", context={"user": "ana"}, run_config=QUIET)
        (question,) = await store.pending(conversation)
        await store.answer(question, True)
        state = json.dumps(waiting.to_state().to_json())
        asking, agent = made()
        result = await asking.run(
            agent,
            await RunState.from_json(agent, json.loads(state)),
            context={"user": "bo"},
            run_config=QUIET,
        )
        assert read(result) == ["paid by bo"]

    asyncio.run(scene())


def test_timeout_applies_to_a_continued_run_and_is_recorded(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new()

        async def slow() -> str:
            """Ask, and never come back."""
            await mt.ask(mt.Question.boolean("sure", "Sure?"))
            await asyncio.Event().wait()
            return ""

        model = ScriptedModel(
            [[function_call("slow", {}, call_id="c1")], [assistant_message("Done.")]]
        )

        def made() -> tuple[Asking, Agent[Any]]:
            asking = Asking(mt.Inquirer(store, conversation))
            return asking, Agent[Any](
                name="Shop", model=model, tools=[asking.tool(slow, timeout=2)]
            )

        asking, agent = made()
        waiting = await asking.run(agent, "Go.", run_config=QUIET)
        (question,) = await store.pending(conversation)
        await store.answer(question, True)
        state = json.dumps(waiting.to_state().to_json())
        asking, agent = made()
        result = await asking.run(
            agent, await RunState.from_json(agent, json.loads(state)), run_config=QUIET
        )
        assert read(result) == ["Tool 'slow' timed out after 2 seconds."]
        assert (
            len(
                [
                    event
                    for event in (await store.read(conversation)).events
                    if isinstance(event, ToolCallRequest)
                ]
            )
            == 1
        )

    asyncio.run(scene())


def test_an_image_of_an_edited_call_comes_after_what_ran(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new()

        async def draw(n: int) -> ToolOutputImage:
            """Draw."""
            return ToolOutputImage(image_url=f"data:image/png;base64,{'A' * n}")

        model = ScriptedModel(
            [[function_call("draw", {"n": 8}, call_id="c1")], [assistant_message("Done.")]]
        )
        prompter = mt.ScriptedPrompter({"draw.__run__": mt.Edited({"n": 4})})
        asking = Asking(mt.Inquirer(store, conversation, prompter))
        agent = Agent[Any](name="Shop", model=model, tools=[asking.tool(draw, needs_approval=True)])
        (output,) = read(await asking.run(agent, "Go.", run_config=QUIET))
        assert (
            output[0]["text"] == 'The user edited the arguments of this call. It ran with: {"n": 4}'
        )
        assert output[1]["image_url"] == "data:image/png;base64,AAAA"

    asyncio.run(scene())
