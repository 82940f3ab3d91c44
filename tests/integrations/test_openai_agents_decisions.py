"""Recorded decisions in the OpenAI Agents SDK: denials, guardrails, equal names, errors and
retries, SDK options.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    RunContextWrapper,
    RunResult,
    RunState,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputImage,
    UserError,
    tool_input_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic import AfterValidator

import midturn as mt
from midturn.events.types import ToolCallResponse, TurnEnd
from midturn.integrations.openai_agents import Asking
from midturn.stores.store import ConversationStore
from support.shop import recorded_counts

QUIET = RunConfig(tracing_disabled=True)
SURE = mt.Question.boolean("sure", "Sure?")


class Program:
    """An agent with some tools. Each entry creates it again, and all state between two entries
    is passed as JSON.
    """

    def __init__(
        self,
        store: ConversationStore,
        tools: Callable[[Asking], Sequence[FunctionTool]],
        *replies: Any,
    ) -> None:
        self.store = store
        self.tools = tools
        self.model = ScriptedModel([*replies, [assistant_message("Done.")]])

    async def enter(
        self,
        conversation: str,
        given: Any = "Go.",
        prompter: mt.Prompter | None = None,
        **options: Any,
    ) -> RunResult:
        """Run, or continue from a result."""
        asking = Asking(mt.Inquirer(self.store, conversation, prompter))
        agent = Agent[Any](name="Shop", model=self.model, tools=[*self.tools(asking)])
        if isinstance(given, RunResult):
            given = await RunState.from_json(
                agent, json.loads(json.dumps(given.to_state().to_json()))
            )
        return await asking.run(agent, given, run_config=QUIET, **options)


def read(result: RunResult) -> list[Any]:
    """Return what the model read of its calls."""
    items = cast("list[dict[str, Any]]", result.to_input_list())
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


async def recorded(store: ConversationStore, conversation: str) -> list[str]:
    """Return the recorded results."""
    return [
        event.content
        for event in (await store.read(conversation)).events
        if isinstance(event, ToolCallResponse)
    ]


@pytest.mark.parametrize("answer", [True, False])
def test_recorded_decision_counts_despite_a_later_needs_approval(
    store: ConversationStore, *, answer: bool
) -> None:
    async def scene() -> None:
        ran, conversation = list[int](), await store.new()

        async def pay(n: int) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        async def needs(
            ctx: RunContextWrapper[Any],
            arguments: dict[str, Any],  # noqa: ARG001
            call_id: str,  # noqa: ARG001
        ) -> bool:
            return ctx.context is not None and bool(ctx.context["strict"])

        program = Program(
            store,
            lambda asking: [asking.tool(pay, needs_approval=needs)],
            [function_call("pay", {"n": 5}, call_id="c1")],
        )
        waiting = await program.enter(conversation, context={"strict": True})
        (question,) = await store.pending(conversation)
        await store.answer(question.id, answer, user="ana")
        result = await program.enter(conversation, waiting, context={"strict": False})
        assert ran == ([5] if answer else [])
        assert await recorded(store, conversation) == read(result)

    asyncio.run(scene())


def test_agents_with_equal_tool_names_run_their_own_tool(store: ConversationStore) -> None:
    async def scene() -> None:
        ran, conversation = list[str](), await store.new()

        async def dry_run(path: str) -> str:
            """Look."""
            assert await mt.ask(SURE)
            ran.append(f"dry run of {path}")
            return "looked"

        async def delete(path: str) -> str:
            """Delete."""
            ran.append(f"deleted {path}")
            return "deleted"

        calls = [function_call("delete", {"path": "/srv"}, call_id=id) for id in ("c1", "c2")]
        handoff = function_call("transfer_to_cleaner", {}, call_id="h1")
        model = ScriptedModel([calls[:1], [handoff], calls[1:], [assistant_message("Done.")]])

        def made() -> tuple[Asking, Agent[Any]]:
            asking = Asking(mt.Inquirer(store, conversation))
            cleaner = Agent[Any](
                name="cleaner",
                model=model,
                tools=[asking.tool(delete, name_override="delete", needs_approval=True)],
            )
            tools = [asking.tool(dry_run, name_override="delete")]
            return asking, Agent[Any](
                name="planner", model=model, tools=[*tools], handoffs=[cleaner]
            )

        asking, planner = made()
        result = await asking.run(planner, "Clean up.", run_config=QUIET)
        for text in ("Sure?", "Run delete?"):
            (question,) = await store.pending(conversation)
            assert question.question.text == text
            await store.answer(question.id, True)
            saved = json.dumps(result.to_state().to_json())
            asking, planner = made()
            result = await asking.run(
                planner, await RunState.from_json(planner, json.loads(saved)), run_config=QUIET
            )
        assert ran == ["dry run of /srv", "deleted /srv"]
        assert result.final_output == "Done."

    asyncio.run(scene())


@pytest.mark.parametrize("ends", [False, True])
def test_input_guardrail_refuses_before_any_question(
    store: ConversationStore, *, ends: bool
) -> None:
    async def scene() -> None:
        ran, judged, conversation = list[int](), list[str](), await store.new()

        @tool_input_guardrail
        def limit(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
            judged.append(data.agent.name)
            if json.loads(data.context.tool_arguments)["n"] <= 100:
                return ToolGuardrailFunctionOutput.allow()
            if ends:
                return ToolGuardrailFunctionOutput.raise_exception()
            return ToolGuardrailFunctionOutput.reject_content("over the limit, not paid")

        async def pay(n: int) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        calls = [function_call("pay", {"n": 5_000}, call_id="c1")]
        program = Program(
            store,
            lambda asking: [asking.tool(pay, needs_approval=True, tool_input_guardrails=[limit])],
            calls,
        )
        if ends:
            with pytest.raises(ToolInputGuardrailTripwireTriggered):
                await program.enter(conversation)
        else:
            assert (
                read(await program.enter(conversation))
                == await recorded(store, conversation)
                == ["over the limit, not paid"]
            )
        assert ran == []
        assert judged == ["Shop"]
        assert (await store.read(conversation)).pairs() == []

    asyncio.run(scene())


def test_an_error_after_the_work_is_done_is_retried_without_asking_or_running_again(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        charged, conversation = list[int](), await store.new()

        async def charge() -> str:
            """Charge."""
            assert await mt.ask(SURE)
            charged.append(1)
            return "charged"

        program = Program(
            store,
            lambda asking: [asking.tool(charge)],
            [function_call("charge", {}, call_id="c1")],
            ConnectionError("503"),
        )
        waiting = await program.enter(conversation)
        (question,) = await store.pending(conversation)
        await store.answer(question.id, True)
        with pytest.raises(ConnectionError):
            await program.enter(conversation, waiting)
        result = await program.enter(conversation, waiting)
        assert result.final_output == "Done."
        assert charged == [1]
        assert await recorded_counts(store, conversation) == (1, 1, 1)
        assert [
            event.status
            for event in (await store.read(conversation)).events
            if isinstance(event, TurnEnd)
        ] == ["completed"]

    asyncio.run(scene())


def test_run_context_is_restored(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new()

        async def pay(ctx: RunContextWrapper[dict[str, str]]) -> str:
            """Pay."""
            return f"paid by {ctx.context['user']}"

        program = Program(
            store,
            lambda asking: [asking.tool(pay, needs_approval=True)],
            [function_call("pay", {}, call_id="c1")],
        )
        waiting = await program.enter(conversation, context={"user": "ana"})
        (question,) = await store.pending(conversation)
        await store.answer(question.id, True)
        assert read(await program.enter(conversation, waiting)) == ["paid by ana"]

    asyncio.run(scene())


def test_timeouts_and_error_functions_work_as_in_the_sdk(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new()

        async def slow() -> str:
            """Never come back."""
            await asyncio.Event().wait()
            return ""

        async def broken() -> str:
            """Break."""
            raise KeyError("a bug")

        def excused(ctx: RunContextWrapper[Any], error: Exception) -> str:  # noqa: ARG001
            return f"excused: {error}"

        def tools(asking: Asking) -> list[FunctionTool]:
            return [
                asking.tool(slow, timeout=0.01),
                asking.tool(broken, failure_error_function=excused),
            ]

        program = Program(
            store,
            tools,
            [function_call("slow", {}, call_id="c1"), function_call("broken", {}, call_id="c2")],
        )
        assert read(await program.enter(conversation)) == [
            "Tool 'slow' timed out after 0.01 seconds.",
            "excused: 'a bug'",
        ]
        strict = Program(
            store,
            lambda asking: [asking.tool(broken, failure_error_function=None)],
            [function_call("broken", {}, call_id="c1")],
        )
        with pytest.raises((KeyError, UserError)):
            await strict.enter(await store.new())

    asyncio.run(scene())


def test_a_list_is_an_input_and_a_new_message_over_waiting_calls_is_refused(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        conversation = await store.new()

        async def pay() -> str:
            """Pay."""
            return "paid"

        program = Program(
            store,
            lambda asking: [asking.tool(pay, needs_approval=True)],
            [function_call("pay", {}, call_id="c1")],
        )
        picture = {
            "type": "input_image",
            "image_url": "data:image/png;base64,AAAA",
            "detail": "auto",
        }
        first = [{"role": "user", "content": [{"type": "input_text", "text": "Pay."}, picture]}]
        waiting = await program.enter(conversation, first)
        (request,) = [
            event
            for event in (await store.read(conversation)).events
            if event.type == "chat_request"
        ]
        assert request.to_json()["content"] == "Pay.\n[input_image]"
        with pytest.raises(mt.TurnOpen, match="pay asks: Run pay"):
            await program.enter(
                conversation, [*waiting.to_input_list(), {"role": "user", "content": "Wait."}]
            )
        (question,) = await store.pending(conversation)
        await store.answer(question.id, True)
        assert read(await program.enter(conversation, waiting)) == ["paid"]

    asyncio.run(scene())


def test_images_of_a_tool_reach_the_model_also_after_a_crash(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation, drawn = await store.new(), list[int]()

        async def draw() -> ToolOutputImage:
            """Draw."""
            assert await mt.ask(SURE)
            drawn.append(1)
            return ToolOutputImage(image_url="data:image/png;base64,AAAA")

        program = Program(
            store,
            lambda asking: [asking.tool(draw)],
            [function_call("draw", {}, call_id="c1")],
            ConnectionError("503"),
        )
        waiting = await program.enter(conversation)
        (question,) = await store.pending(conversation)
        await store.answer(question.id, True)
        with pytest.raises(ConnectionError):
            await program.enter(conversation, waiting)
        result = await program.enter(conversation, waiting)
        assert read(result) == [
            [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]
        ]
        assert drawn == [1]

    asyncio.run(scene())


def test_a_new_message_is_the_reply_to_the_open_question_of_its_author(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        async def work() -> str:
            """Work."""
            return str(await mt.ask(mt.Question.text("what", "What first?")))

        conversation = await store.new()
        program = Program(
            store, lambda asking: [asking.tool(work)], [function_call("work", {}, call_id="c1")]
        )
        waiting = await program.enter(
            conversation, author="ana", on_open="reply"
        )  # no question is open yet
        with pytest.raises(mt.TurnOpen) as refused:
            await program.enter(conversation, waiting, author="ana", text="Wait until Monday.")
        assert [question.question.text for question in refused.value.pending] == ["What first?"]
        result = await program.enter(
            conversation, waiting, author="ana", text="Wait until Monday.", on_open="reply"
        )
        assert "Wait until Monday." in read(result)[0]
        assert await recorded(store, conversation) == read(result)
        for given in ("Go.", result):
            with pytest.raises(mt.ConfigError, match="`text` needs the state of a waiting run"):
                await program.enter(conversation, given, text="Wait.", on_open="reply")

    asyncio.run(scene())


def test_a_person_edits_the_arguments_and_the_model_is_told(store: ConversationStore) -> None:
    async def scene() -> None:
        ran, conversation = list[int](), await store.new()

        async def pay(n: Annotated[int, AfterValidator(lucky)]) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        calls = [function_call("pay", {"n": 5}, call_id=id) for id in ("c1", "c2")]
        program = Program(store, lambda asking: [asking.tool(pay, needs_approval=True)], calls)
        waiting = await program.enter(conversation, author="ana")
        first, second = await store.pending(conversation)
        assert (first.kind, first.arguments) == ("run", {"n": 5})
        with pytest.raises(mt.AnswerError):
            await store.answer(first, arguments={"n": "a lot"}, digest=first.digest)
        with pytest.raises(mt.TurnOpen):
            await program.enter(
                conversation, waiting, author="ana", text="Yes, go ahead.", on_open="reply"
            )
        assert len(await store.pending(conversation)) == 2
        await store.answer(first, arguments={"n": 7}, digest=first.digest)
        await store.answer(second, arguments={"n": 13}, digest=second.digest)
        edited, refused = read(await program.enter(conversation, waiting))
        assert edited == 'The user edited the arguments of this call. It ran with: {"n": 7}\npaid 7'
        assert "`pay` does not accept the edit" in refused
        assert ran == [7]

    asyncio.run(scene())


def lucky(n: int) -> int:
    """Refuse one number."""
    if n == 13:
        raise ValueError("13 is unlucky")
    return n
