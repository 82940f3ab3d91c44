"""Recorded decisions in pydantic-ai: denials, open approvals, errors and retries, results and
exceptions of tools.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import pytest
from pydantic import AfterValidator
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    DeferredToolRequests,
    FunctionToolset,
    ImageUrl,
    ModelRetry,
    RunContext,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import midturn as mt
from midturn.events.types import ChatRequest, TurnEnd
from midturn.integrations.pydantic_ai import run
from midturn.stores.store import ConversationStore

Shop: TypeAlias = "Agent[None, str | DeferredToolRequests]"
PNG = BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png")


class Program:
    """An agent whose model makes one call and repeats its result. All state between two runs
    is passed as JSON.
    """

    def __init__(
        self,
        store: ConversationStore,
        name: str = "pay",
        arguments: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.store = store
        self.call = ToolCallPart(name, arguments or {}, tool_call_id="call_1")
        self.seen: list[Any] = []
        self.down: list[Exception] = []
        self.agent: Shop = Agent(
            FunctionModel(self._model), output_type=[str, DeferredToolRequests], **options
        )
        self.saved = b"[]"

    def _model(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        returned = [
            part
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        if not returned:
            return ModelResponse(parts=[self.call])
        if self.down:
            raise self.down.pop()
        self.seen.append(returned[-1].content)
        return ModelResponse(parts=[TextPart(str(returned[-1].content))])

    async def enter(
        self,
        conversation: str,
        text: str | None = "Go.",
        prompter: mt.Prompter | None = None,
        **options: Any,
    ) -> Any:
        """Run from the saved state; save the new state."""
        saved = ModelMessagesTypeAdapter.validate_json(self.saved)
        result = await run(
            self.agent,
            mt.Inquirer(self.store, conversation, prompter),
            text,
            message_history=saved,
            **options,
        )
        self.saved = result.all_messages_json()
        return result.output


def raises(program: Program, ran: list[int]) -> None:
    """A tool that raises `ApprovalRequired`."""

    @program.agent.tool
    def pay(ctx: RunContext[None], n: int) -> str:
        """Pay."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        ran.append(n)
        return f"paid {n}"


def of_a_toolset(program: Program, ran: list[int]) -> None:
    """A toolset whose calls need approval, as those of MCP servers are gated."""

    def pay(n: int) -> str:
        """Pay."""
        ran.append(n)
        return f"paid {n}"

    program.agent = Agent(
        program.agent.model,
        output_type=[str, DeferredToolRequests],
        toolsets=[FunctionToolset([pay]).approval_required()],
    )


def of_a_validator(program: Program, ran: list[int]) -> None:
    """A tool whose validator wants approval."""

    def validate(ctx: RunContext[None], n: int) -> None:  # noqa: ARG001
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    @program.agent.tool_plain(args_validator=validate)
    def pay(n: int) -> str:
        """Pay."""
        ran.append(n)
        return f"paid {n}"


@pytest.mark.parametrize("gated", [raises, of_a_toolset, of_a_validator])
@pytest.mark.parametrize("answer", [True, False, None])
def test_recorded_decision_counts_for_each_kind_of_approval(
    store: ConversationStore,
    gated: Callable[[Program, list[int]], None],
    answer: bool | None,  # noqa: FBT001  None: there is no answer yet
) -> None:
    async def scene() -> None:
        program, ran, conversation = (
            Program(store, arguments={"n": 5}),
            list[int](),
            await store.new(),
        )
        gated(program, ran)
        assert isinstance(await program.enter(conversation), DeferredToolRequests)
        (question,) = await store.pending(conversation)
        if answer is None:
            assert isinstance(await program.enter(conversation, None), DeferredToolRequests)
            assert [found.id for found in await store.pending(conversation)] == [question.id]
            assert ran == []
            return
        await store.answer(question.id, answer, user="ana")
        output = await program.enter(conversation, None)
        assert (output == "paid 5", ran) == ((True, [5]) if answer else (False, []))

    asyncio.run(scene())


def test_recorded_no_counts_even_if_the_tool_needs_no_approval_now(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        program, ran, strict, conversation = (
            Program(store, arguments={"n": 5}),
            list[int](),
            [True],
            await store.new(),
        )

        @program.agent.tool
        def pay(ctx: RunContext[None], n: int) -> str:
            """Pay."""
            if strict and not ctx.tool_call_approved:
                raise ApprovalRequired
            ran.append(n)
            return f"paid {n}"

        await program.enter(conversation)
        (question,) = await store.pending(conversation)
        await store.answer(question.id, False, user="ana")
        strict.clear()
        assert "skipped by the user" in await program.enter(conversation, None)
        assert ran == []

    asyncio.run(scene())


def test_an_error_after_the_work_is_done_is_retried_without_asking_or_running_again(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        program, charged, conversation = Program(store, "charge"), list[int](), await store.new()

        @program.agent.tool_plain
        async def charge() -> str:
            """Charge."""
            await mt.ask(mt.Question.boolean("sure", "Charge the card?"))
            charged.append(1)
            return "charged"

        await program.enter(conversation)
        (question,) = await store.pending(conversation)
        await store.answer(question.id, True)
        program.down = [ConnectionError("503")]
        with pytest.raises(ConnectionError):
            await program.enter(conversation, None)
        assert await program.enter(conversation, None) == "charged"
        assert charged == [1]
        events = (await store.read(conversation)).events
        assert [event.status for event in events if isinstance(event, TurnEnd)] == ["completed"]
        assert len((await store.read(conversation)).pairs()) == 1

    asyncio.run(scene())


@pytest.mark.parametrize(
    "error", [UsageLimitExceeded("the budget is used up"), UserError("wrong"), KeyError("a bug")]
)
def test_exception_ends_the_run_and_the_next_run_repeats_the_call(
    store: ConversationStore, error: Exception
) -> None:
    async def scene() -> None:
        program, failing, conversation = Program(store, "work"), [error], await store.new()

        @program.agent.tool_plain
        async def work() -> str:
            """Work."""
            assert await mt.ask(mt.Question.boolean("sure", "Sure?"))
            if failing:
                raise failing.pop()
            return "worked"

        person = mt.ScriptedPrompter({"work.sure": mt.Answered(True)})
        with pytest.raises(type(error)):
            await program.enter(conversation, prompter=person)
        assert await program.enter(conversation, prompter=person) == "worked"
        assert len(person.prompts) == 1

    asyncio.run(scene())


def test_new_message_is_refused_while_a_call_waits(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, arguments={"n": 1}), await store.new()

        @program.agent.tool_plain(requires_approval=True)
        def pay(n: int) -> str:
            """Pay."""
            return f"paid {n}"

        await program.enter(conversation, "Pay 1.")
        for _ in range(2):
            with pytest.raises(
                mt.TurnOpen, match=r"The new message was not recorded\.\n.*pay asks: Run pay\?"
            ) as raised:
                await program.enter(conversation, "No wait, make it 2.")
            assert raised.value.text == "Pay 1."
        (question,) = await store.pending(conversation)
        assert question.tool == "pay"
        await store.answer(question.id, approve=False, reason="No wait, make it 2.")
        with pytest.raises(mt.TurnOpen):  # the call has ended, but the model has not read that yet
            await program.enter(conversation, "And another thing.")
        assert "No wait, make it 2." in await program.enter(conversation, None)

    asyncio.run(scene())


def test_a_new_message_is_the_reply_to_the_open_question_of_its_author(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "work"), await store.new()

        @program.agent.tool_plain
        async def work() -> str:
            """Work."""
            return str(await mt.ask(mt.Question.text("what", "What first?")))

        await program.enter(conversation, "Go.", author="ana", on_open="reply")
        output = await program.enter(
            conversation, "Wait until Monday.", author="ana", on_open="reply"
        )
        assert "Wait until Monday." in output
        assert (
            await program.enter(conversation, "Next.", author="ana", on_open="reply") == output
        )  # it starts a turn; the model repeats
        said = [
            event
            for event in (await store.read(conversation)).events
            if isinstance(event, ChatRequest)
        ]
        assert [(event.content, event.author) for event in said] == [
            ("Go.", "ana"),
            ("Next.", "ana"),
        ]

    asyncio.run(scene())


def test_images_of_a_tool_reach_the_model_also_after_a_crash(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "chart"), await store.new()

        @program.agent.tool_plain
        def chart() -> list[Any]:
            """Draw."""
            return ["A chart:", PNG]

        program.down = [ConnectionError("503")]
        with pytest.raises(ConnectionError):
            await program.enter(conversation)
        await program.enter(conversation)
        (content,) = program.seen
        assert [item for item in content if isinstance(item, BinaryContent)] == [PNG]
        assert any("A chart:" in item for item in content if isinstance(item, str))

    asyncio.run(scene())


def test_message_with_an_image_is_sent_and_its_text_recorded(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "look"), await store.new()

        @program.agent.tool_plain
        def look() -> str:
            """Look."""
            return "seen"

        picture = ImageUrl("https://example.org/a.png")
        result = await run(
            program.agent, mt.Inquirer(store, conversation), ["Look at this.", picture]
        )
        prompts = [
            part.content
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]
        assert prompts == [["Look at this.", picture]]
        (request,) = [
            event
            for event in (await store.read(conversation)).events
            if event.type == "chat_request"
        ]
        assert request.to_json()["content"] == "Look at this.\n[image-url]"

    asyncio.run(scene())


def test_restarted_run_with_new_call_ids_leaves_no_stale_question(store: ConversationStore) -> None:
    """The program died before it saved the messages. The model gives its call another ID."""

    async def scene() -> None:
        program, conversation = Program(store, arguments={"n": 1}), await store.new()

        @program.agent.tool_plain(requires_approval=True)
        def pay(n: int) -> str:
            """Pay."""
            return f"paid {n}"

        await program.enter(conversation)
        (ghost,) = await store.pending(conversation)
        program.saved = b"[]"
        program.call = ToolCallPart("pay", {"n": 1}, tool_call_id="call_2")
        await program.enter(conversation)
        (question,) = await store.pending(conversation)
        assert question.id != ghost.id
        with pytest.raises(mt.NotOpen):
            await store.answer(ghost.id, True)
        await store.answer(question.id, True)
        assert await program.enter(conversation, None) == "paid 1"
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())


def test_a_person_approves_the_arguments_that_run(store: ConversationStore) -> None:
    """A validator of a type may change the model's arguments."""

    async def scene() -> None:
        program, ran, conversation = (
            Program(store, arguments={"n": 100}),
            list[int](),
            await store.new(),
        )

        @program.agent.tool_plain(requires_approval=True)
        def pay(n: Annotated[int, AfterValidator(lambda n: min(n, 50))]) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        await program.enter(conversation)
        (question,) = await store.pending(conversation)
        assert json.loads(question.question.context or "") == {"n": 50}
        await store.answer(question.id, True)
        assert await program.enter(conversation, None) == "paid 50"
        assert ran == [50]

    asyncio.run(scene())


@pytest.mark.parametrize("returns_image", [False, True])
def test_a_person_edits_the_arguments_and_the_model_is_told(
    store: ConversationStore, *, returns_image: bool
) -> None:
    async def scene() -> None:
        program, ran, conversation = (
            Program(store, arguments={"n": 5}),
            list[int](),
            await store.new(),
        )

        def validate(ctx: RunContext[None], n: int) -> None:  # noqa: ARG001
            if n == 13:
                raise ModelRetry("13 is unlucky")

        @program.agent.tool_plain(requires_approval=True, args_validator=validate)
        def pay(n: Annotated[int, AfterValidator(lambda n: min(n, 50))]) -> Any:
            """Pay."""
            ran.append(n)
            return PNG if returns_image else f"paid {n}"

        await program.enter(conversation)
        (question,) = await store.pending(conversation)
        assert (question.kind, question.arguments) == ("run", {"n": 5})
        with pytest.raises(mt.AnswerError):
            await store.answer(question, arguments={"n": "a lot"}, digest=question.digest)
        assert [found.id for found in await store.pending(conversation)] == [question.id]
        await store.answer(question, arguments={"n": 70}, digest=question.digest)
        output = await program.enter(conversation, None)
        assert ran == [50]
        assert 'The user edited the arguments of this call. It ran with: {"n": 70}' in output
        assert returns_image or output.endswith("paid 50")

    asyncio.run(scene())


def test_edit_rejected_by_the_validator_is_not_attributed_to_the_model(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        program, ran, conversation = (
            Program(store, arguments={"n": 5}),
            list[int](),
            await store.new(),
        )

        def validate(ctx: RunContext[None], n: int) -> None:  # noqa: ARG001
            if n == 13:
                raise ModelRetry("13 is unlucky")

        @program.agent.tool_plain(requires_approval=True, args_validator=validate)
        def pay(n: int) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        await program.enter(conversation)
        (question,) = await store.pending(conversation)
        await store.answer(question, arguments={"n": 13}, digest=question.digest)
        output = await program.enter(conversation, None)
        assert "The user edited the arguments" in output
        assert "13 is unlucky" in output
        assert ran == []

    asyncio.run(scene())


def test_an_approval_takes_no_message_as_its_reply(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, arguments={"n": 5}), await store.new()

        @program.agent.tool_plain(requires_approval=True)
        def pay(n: int) -> str:
            """Pay."""
            return f"paid {n}"

        await program.enter(conversation, author="ana")
        with pytest.raises(mt.TurnOpen) as refused:
            await program.enter(conversation, "Yes, go ahead.", author="ana", on_open="reply")
        assert [question.kind for question in refused.value.pending] == ["run"]

    asyncio.run(scene())
