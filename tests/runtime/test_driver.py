"""The shell around the machine: tools, prompts and models as tasks, and what happens when they misbehave."""

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
from midturn.turn.step import FormWanted, TurnRequested
from support.sessions import OneConversation
from support.waiting import until

SHIP_IT = TurnRequested("Ship it")
CONFIRM = mt.Question.boolean("confirm", "Sure?")


def calling(*names: str) -> mt.ScriptedModel:
    """Return a model that calls tools once, and then finishes."""
    return mt.ScriptedModel([{"calls": [{"name": name} for name in names]}, {"text": "Done."}])


def test_a_tool_that_raises_is_an_error_that_the_model_reads() -> None:
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


def test_tools_of_one_cycle_run_at_the_same_time() -> None:
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


def test_a_prompter_that_raises_closes_the_question_and_the_turn_goes_on() -> None:
    class Broken(mt.Prompter):
        async def prompt(self, prompt: Prompt) -> Reply:
            raise OSError(f"no screen for {prompt.question.id}")

    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return str(await ctx.ask(CONFIRM))

    conversation = OneConversation()
    ending = asyncio.run(conversation.session(calling("careful"), [careful], prompter=Broken()).run(SHIP_IT))

    assert ending.status == "completed"
    assert conversation.contents == ['careful: the prompt for "Sure?" failed: no screen for confirm.']
    assert conversation.recorded("inquiry_response")[0]["reason"] == "backend_error"


def test_a_waiting_coroutine_runs_its_finally_when_the_turn_is_suspended() -> None:
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


def test_siblings_go_on_while_a_question_waits() -> None:
    """The turn stops when nothing else can move."""

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
    ending = asyncio.run(conversation.session(calling("waits", "works"), [waits, works]).run(SHIP_IT))

    assert ending.status == "suspended"
    assert conversation.contents == ["worked"]


def test_an_answer_from_elsewhere_closes_the_prompt_and_says_who_answered() -> None:
    class Patient(mt.Prompter):
        """Waits for ever, and hears that somebody else answered."""

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
        turn = asyncio.create_task(conversation.session(calling("careful"), [careful], prompter=patient).run(SHIP_IT))
        await until(lambda: patient.asked)
        await conversation.store.answer((await conversation.store.pending())[0].id, True, user="ada")
        assert (await turn).status == "completed"

    conversation, patient = OneConversation(), Patient()
    asyncio.run(play())

    assert conversation.contents == ["True"]
    assert patient.asked
    assert patient.heard == (patient.asked.id, "ada")


def test_an_answer_that_comes_before_a_resumed_turn_has_asked_again_is_taken_when_it_asks() -> None:
    """The question is on record already: asking it again records nothing."""
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
        assert (await conversation.session(calling("careful"), [careful]).run(SHIP_IT)).status == "suspended"
        (question,) = await conversation.store.pending()
        let_it_ask.clear()
        turn = asyncio.create_task(conversation.session(calling("careful"), [careful], prompter=mt.InboxPrompter()).resume())
        await until(lambda: len(resumed) > 1)
        assert (await conversation.store.answer(question.id, True, user="ada")).held
        let_it_ask.set()
        async with asyncio.timeout(30):
            assert (await turn).status == "completed"

    conversation = OneConversation()
    asyncio.run(play())

    assert conversation.contents == ["True"]


def test_an_interrupt_keeps_what_the_model_had_said() -> None:
    async def slowly(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("I was about to")
        await asyncio.sleep(30)
        yield Finished((TextPart("never"),))

    async def play() -> str:
        session = conversation.session(mt.FunctionModel(slowly))
        turn = asyncio.create_task(session.run(SHIP_IT))
        await until(lambda: any(isinstance(happening, TextShown) for happening in conversation.seen.happenings))
        session.interrupt()
        return (await turn).status

    conversation = OneConversation()
    assert asyncio.run(play()) == "ended_by_user"
    assert conversation.recorded("chat_response")[0]["message"] == "I was about to"
    assert conversation.recorded("turn_end")[0]["status"] == "ended_by_user"


def test_an_interrupt_stops_a_tool_that_runs() -> None:
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


def test_a_turn_stops_after_its_seconds_without_counting_people() -> None:
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
        await asyncio.sleep(2.2)  # longer than the turn may take, which is much longer than it needs on a machine that is busy
        return True

    limits = Limits(seconds=2.0)
    thinking = OneConversation()
    person = ScriptedPrompter({"careful.confirm": slowly})
    assert asyncio.run(thinking.session(calling("careful"), [careful], prompter=person, limits=limits).run(SHIP_IT)).status == "completed"

    working = OneConversation()
    ending = asyncio.run(working.session(calling("endless"), [endless], limits=limits).run(SHIP_IT))
    assert (ending.status, ending.error) == ("failed", "stopped after 2 seconds; raise limits.seconds to allow more")
    assert working.contents == ["Tool call interrupted before it finished."]


def test_a_model_that_never_finishes_its_response_leaves_the_turn_open() -> None:
    async def cut(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("half a")

    conversation = OneConversation()
    ending = asyncio.run(conversation.session(mt.FunctionModel(cut)).run(SHIP_IT))

    assert ending.status == "open"
    assert conversation.recorded("turn_end") == []


def test_a_secret_that_a_tool_echoes_never_reaches_the_model_or_the_log() -> None:
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


def test_a_task_that_a_tool_left_behind_cannot_ask_after_its_run() -> None:
    """Whether the run ended with a result or with a question: a person is never shown what nobody waits for."""
    refused: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    class Leaves(mt.Tool):
        @property
        def definition(self) -> mt.ToolDefinition:
            return mt.ToolDefinition("leaves", "Leave a task behind.", {"type": "object", "properties": {}})

        async def execute(self, run: mt.ToolRun) -> mt.Outcome:
            if "confirm" in run.answers:
                await tasks[0]
                return mt.Success("done")
            tasks.append(asyncio.create_task(self._late(run)))
            return mt.NeedsInput(mt.Form([CONFIRM]))

        async def _late(self, run: mt.ToolRun) -> None:
            await asyncio.sleep(0)
            try:
                await run.ask(FormWanted(mt.Form([mt.Question.text("late", "Late?")]), mt.Source.tool("leaves")))
            except RuntimeError as error:
                refused.append(str(error))

    conversation = OneConversation()
    prompter = ScriptedPrompter({"leaves.confirm": True})
    ending = asyncio.run(conversation.session(calling("leaves"), [Leaves()], prompter=prompter).run(SHIP_IT))

    assert ending.status == "completed"
    assert refused == ["This run of leaves is over: a task that it has left behind cannot ask any more."]
    assert [event["question_id"] for event in conversation.recorded("inquiry_request")] == ["confirm"]


def test_a_recorded_answer_that_does_not_fit_is_told_with_its_place_and_asked_again() -> None:
    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return str(await ctx.ask(CONFIRM))

    conversation = OneConversation()
    session = conversation.session(calling("careful"), [careful])
    assert asyncio.run(session.run(SHIP_IT)).status == "suspended"
    asked = next(event for event in conversation.journal.events if event.type == "inquiry_request")
    edited = InquiryAnswered(event_id="by-hand", id=str(asked.to_json()["id"]), answer="perhaps", answered_by=AnsweredBy("user"))
    asyncio.run(conversation.journal.append([edited]))
    line = len(conversation.journal.events)

    prompter = ScriptedPrompter({"careful.confirm": True})
    ending = asyncio.run(conversation.session(calling("careful"), [careful], prompter=prompter).resume())

    assert ending.status == "completed"
    assert conversation.contents == ["True"]
    (notice,) = [one for one in conversation.seen.happenings if isinstance(one, Notice)]
    assert "careful.confirm: the answer on record to 'Sure?' does not fit" in notice.text
    assert f"line {line} of the events of conversation {conversation.journal.conversation}" in notice.text
