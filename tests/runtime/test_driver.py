"""The driver runs tools, prompts and models as tasks, and handles their failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import midturn as mt
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, InquiryAnswered
from midturn.exchange import Finished, ModelEvent, ModelRequest, TextDelta, TextPart
from midturn.ports import Notice, TextShown
from midturn.question.json_value import Limits
from midturn.question.reply import Answered, Reply
from midturn.testing.prompter import ScriptedPrompter
from midturn.turn.inputs import FormWanted, TurnRequested
from support.sessions import OneConversation
from support.waiting import until

SHIP_IT = TurnRequested("Ship it")
CONFIRM = mt.Question.boolean("confirm", "Sure?")


def calling(*names: str) -> mt.ScriptedModel:
    """Return a model that calls tools once and then finishes."""
    return mt.ScriptedModel([{"calls": [{"name": name} for name in names]}, {"text": "Done."}])


def test_an_exception_of_a_tool_is_an_error_for_the_model() -> None:
    @mt.tool
    def broken() -> str:
        """Fail."""
        raise ValueError("no disk")

    conversation = OneConversation()
    ending = asyncio.run(conversation.session(calling("broken"), [broken]).run(SHIP_IT))

    assert ending.status == "completed"
    assert "no disk" in conversation.contents[0]


def test_a_tool_that_cancels_itself_does_not_hang_the_turn() -> None:
    @mt.tool
    async def gives_up() -> str:
        """Give up."""
        raise asyncio.CancelledError

    conversation = OneConversation()
    asyncio.run(conversation.session(calling("gives_up"), [gives_up]).run(SHIP_IT))

    assert conversation.recorded("tool_call_response")[0]["is_error"]


def test_tools_of_one_cycle_run_concurrently() -> None:
    meeting = asyncio.Barrier(2)

    @mt.tool
    async def left() -> str:
        """Meet."""
        await meeting.wait()
        return "left"

    @mt.tool
    async def right() -> str:
        """Meet."""
        await meeting.wait()
        return "right"

    conversation = OneConversation()
    asyncio.run(conversation.session(calling("left", "right"), [left, right]).run(SHIP_IT))

    assert sorted(conversation.contents) == ["left", "right"]


def test_an_exception_of_a_prompter_closes_the_question_and_the_turn_continues() -> None:
    class Broken(mt.Prompter):
        async def prompt(self, prompt: Prompt) -> Reply:
            raise OSError(f"no screen for {prompt.question.id}")

    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return str(await ctx.ask(CONFIRM))

    conversation = OneConversation()
    ending = asyncio.run(
        conversation.session(calling("careful"), [careful], prompter=Broken()).run(SHIP_IT)
    )

    assert ending.status == "completed"
    assert conversation.contents == [
        'careful: the prompt for "Sure?" failed: no screen for confirm.'
    ]
    assert conversation.recorded("inquiry_response")[0]["reason"] == "backend_error"


def test_suspending_the_turn_runs_finally_blocks_of_a_waiting_coroutine() -> None:
    finished: list[str] = []

    @mt.tool
    async def tidy(ctx: mt.ToolContext) -> str:
        """Ask, and tidy up whatever happens."""
        try:
            return str(await ctx.ask(CONFIRM))
        finally:
            finished.append("tidied")

    conversation = OneConversation()
    ending = asyncio.run(conversation.session(calling("tidy"), [tidy]).run(SHIP_IT))

    assert ending.status == "suspended"
    assert finished == ["tidied"]
    assert conversation.recorded("inquiry_response") == []


def test_other_calls_continue_while_a_question_waits() -> None:
    """The turn stops when no other call can continue."""

    @mt.tool
    async def waits(ctx: mt.ToolContext) -> str:
        """Ask."""
        return str(await ctx.ask(CONFIRM))

    @mt.tool
    async def works() -> str:
        """Work for a while."""
        await asyncio.sleep(0.05)
        return "worked"

    conversation = OneConversation()
    ending = asyncio.run(
        conversation.session(calling("waits", "works"), [waits, works]).run(SHIP_IT)
    )

    assert ending.status == "suspended"
    assert conversation.contents == ["worked"]


def test_an_outside_answer_closes_the_prompt_and_names_the_responder() -> None:
    class Patient(mt.Prompter):
        """Waits forever, and is notified if another user answers."""

        asked: Prompt | None = None
        heard: tuple[str, str] | None = None

        async def prompt(self, prompt: Prompt) -> Reply:
            self.asked = prompt
            await asyncio.Event().wait()
            return Answered(False)

        def withdrawn(self, id: str, by: str) -> None:
            self.heard = (id, by)

    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return str(await ctx.ask(CONFIRM))

    async def play() -> None:
        turn = asyncio.create_task(
            conversation.session(calling("careful"), [careful], prompter=patient).run(SHIP_IT)
        )
        await until(lambda: patient.asked)
        await conversation.store.answer(
            (await conversation.store.pending())[0].id, True, user="ada"
        )
        assert (await turn).status == "completed"

    conversation, patient = OneConversation(), Patient()
    asyncio.run(play())

    assert conversation.contents == ["True"]
    assert patient.asked
    assert patient.heard == (patient.asked.id, "ada")


def test_an_early_outside_answer_is_used_when_the_resumed_turn_asks() -> None:
    """The question is already recorded. Asking it again records nothing."""
    let_it_ask = asyncio.Event()
    let_it_ask.set()
    resumed: list[str] = []

    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        resumed.append("begun")
        await let_it_ask.wait()
        return str(await ctx.ask(CONFIRM))

    async def play() -> None:
        assert (
            await conversation.session(calling("careful"), [careful]).run(SHIP_IT)
        ).status == "suspended"
        (question,) = await conversation.store.pending()
        let_it_ask.clear()
        turn = asyncio.create_task(
            conversation.session(
                calling("careful"), [careful], prompter=mt.InboxPrompter()
            ).resume()
        )
        await until(lambda: len(resumed) > 1)
        assert (await conversation.store.answer(question.id, True, user="ada")).held
        let_it_ask.set()
        async with asyncio.timeout(120):
            assert (await turn).status == "completed"

    conversation = OneConversation()
    asyncio.run(play())

    assert conversation.contents == ["True"]


def test_an_interrupt_keeps_the_partial_response() -> None:
    async def slowly(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("I was about to")
        await asyncio.sleep(30)
        yield Finished((TextPart("never"),))

    async def play() -> str:
        session = conversation.session(mt.FunctionModel(slowly))
        turn = asyncio.create_task(session.run(SHIP_IT))
        await until(
            lambda: any(
                isinstance(happening, TextShown) for happening in conversation.seen.happenings
            )
        )
        session.interrupt()
        return (await turn).status

    conversation = OneConversation()
    assert asyncio.run(play()) == "ended_by_user"
    assert conversation.recorded("chat_response")[0]["message"] == "I was about to"
    assert conversation.recorded("turn_end")[0]["status"] == "ended_by_user"


def test_an_interrupt_stops_a_running_tool() -> None:
    began: list[str] = []
    stopped: list[str] = []

    @mt.tool
    async def endless() -> str:
        """Never end."""
        began.append("began")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.append("stopped")
            raise
        return "never"

    async def play() -> None:
        session = conversation.session(calling("endless"), [endless])
        turn = asyncio.create_task(session.run(SHIP_IT))
        await until(lambda: began)
        session.interrupt()
        await turn

    conversation = OneConversation()
    asyncio.run(play())

    assert stopped == ["stopped"]
    assert conversation.contents == ["Tool call cancelled: the user ended the turn."]


def test_cancelling_the_task_leaves_the_turn_open() -> None:
    @mt.tool
    async def endless() -> str:
        """Never end."""
        await asyncio.sleep(30)
        return "never"

    async def play() -> None:
        turn = asyncio.create_task(conversation.session(calling("endless"), [endless]).run(SHIP_IT))
        await until(lambda: conversation.recorded("tool_call_request"))
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)

    conversation = OneConversation()
    asyncio.run(play())

    assert conversation.recorded("turn_end") == []
    assert conversation.session(calling("endless"), [endless]).turn_is_open


def test_the_time_limit_of_a_turn_excludes_waiting_for_people() -> None:
    @mt.tool
    async def endless() -> str:
        """Never end."""
        await asyncio.sleep(30)
        return "never"

    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return str(await ctx.ask(CONFIRM))

    async def slowly(_: Prompt) -> bool:
        await asyncio.sleep(
            2.2
        )  # longer than the limit of the turn, and long enough for a busy machine
        return True

    limits = Limits(seconds=2.0)
    thinking = OneConversation()
    person = ScriptedPrompter({"careful.confirm": slowly})
    assert (
        asyncio.run(
            thinking.session(calling("careful"), [careful], prompter=person, limits=limits).run(
                SHIP_IT
            )
        ).status
        == "completed"
    )

    working = OneConversation()
    ending = asyncio.run(working.session(calling("endless"), [endless], limits=limits).run(SHIP_IT))
    assert (ending.status, ending.error) == (
        "failed",
        "stopped after 2 seconds; raise limits.seconds to allow more",
    )
    assert working.contents == ["Tool call interrupted before it finished."]


def test_an_incomplete_response_of_a_model_leaves_the_turn_open() -> None:
    async def cut(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("half a")

    conversation = OneConversation()
    ending = asyncio.run(conversation.session(mt.FunctionModel(cut)).run(SHIP_IT))

    assert ending.status == "open"
    assert conversation.recorded("turn_end") == []


def test_a_secret_returned_by_a_tool_is_not_sent_or_recorded() -> None:
    @mt.tool
    async def login(ctx: mt.ToolContext) -> str:
        """Log in."""
        token = await ctx.ask(mt.Question.secret("token", "The token?"))
        return f"logged in with {token.reveal()}"

    conversation = OneConversation()
    person = ScriptedPrompter({"login.token": "hunter2"})
    asyncio.run(conversation.session(calling("login"), [login], prompter=person).run(SHIP_IT))

    assert conversation.contents == ["logged in with [redacted]"]
    assert "hunter2" not in repr(conversation.journal.events)


def test_a_leftover_task_of_a_tool_cannot_ask_after_its_run() -> None:
    """This holds whether the run ended with a result or with a question."""
    refused: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    class Leaves(mt.Tool):
        @property
        def definition(self) -> mt.ToolDefinition:
            return mt.ToolDefinition(
                "leaves", "Leave a task behind.", {"type": "object", "properties": {}}
            )

        async def execute(self, run: mt.ToolRun) -> mt.Outcome:
            if "confirm" in run.answers:
                await tasks[0]
                return mt.Success("done")
            tasks.append(asyncio.create_task(self._late(run)))
            return mt.NeedsInput(mt.Form([CONFIRM]))

        async def _late(self, run: mt.ToolRun) -> None:
            await asyncio.sleep(0)
            try:
                await run.ask(
                    FormWanted(
                        mt.Form([mt.Question.text("late", "Late?")]), mt.Source.tool("leaves")
                    )
                )
            except RuntimeError as error:
                refused.append(str(error))

    conversation = OneConversation()
    prompter = ScriptedPrompter({"leaves.confirm": True})
    ending = asyncio.run(
        conversation.session(calling("leaves"), [Leaves()], prompter=prompter).run(SHIP_IT)
    )

    assert ending.status == "completed"
    assert refused == [
        "This run of leaves is over: a task that it has left behind cannot ask any more."
    ]
    assert [event["question_id"] for event in conversation.recorded("inquiry_request")] == [
        "confirm"
    ]


def test_an_invalid_recorded_answer_is_reported_and_asked_again() -> None:
    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return str(await ctx.ask(CONFIRM))

    conversation = OneConversation()
    session = conversation.session(calling("careful"), [careful])
    assert asyncio.run(session.run(SHIP_IT)).status == "suspended"
    asked = next(event for event in conversation.journal.events if event.type == "inquiry_request")
    edited = InquiryAnswered(
        event_id="by-hand",
        id=str(asked.to_json()["id"]),
        answer="perhaps",
        answered_by=AnsweredBy("user"),
    )
    asyncio.run(conversation.journal.append([edited]))
    line = len(conversation.journal.events)

    prompter = ScriptedPrompter({"careful.confirm": True})
    ending = asyncio.run(
        conversation.session(calling("careful"), [careful], prompter=prompter).resume()
    )

    assert ending.status == "completed"
    assert conversation.contents == ["True"]
    (notice,) = [one for one in conversation.seen.happenings if isinstance(one, Notice)]
    assert "careful.confirm: the recorded answer to 'Sure?' does not fit" in notice.text
    assert (
        f"line {line} of the events of conversation {conversation.journal.conversation}"
        in notice.text
    )


def test_a_suspended_turn_cancels_its_newest_call_first() -> None:
    """An older call may hold a lock that a newer one waits for.

    The newer call must not acquire it while both are cancelled.
    """
    cancelled: list[str] = []

    async def ask(name: str, ctx: mt.ToolContext) -> str:
        try:
            return str(await ctx.ask(CONFIRM))
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    @mt.tool
    async def older(ctx: mt.ToolContext) -> str:
        """Ask."""
        return await ask("older", ctx)

    @mt.tool
    async def newer(ctx: mt.ToolContext) -> str:
        """Ask."""
        return await ask("newer", ctx)

    ending = asyncio.run(
        OneConversation().session(calling("older", "newer"), [older, newer]).run(SHIP_IT)
    )

    assert (ending.status, cancelled) == ("suspended", ["newer", "older"])
