"""A run that stops in the middle leaves its turn open, and a later run continues it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

import midturn as mt
from midturn.stores.store import ConversationStore
from support.agents import CONFIRM, calling, careful, tool_results
from support.people import Chat
from support.processes import Forked, line, output, python
from support.waiting import until


def test_cancelled_task_leaves_the_turn_open_and_asks_once(store: ConversationStore) -> None:
    @mt.tool
    async def two_steps(ctx: mt.ToolContext) -> str:
        """Ask twice."""
        first = await ctx.ask(CONFIRM)
        return f"{first} {await ctx.ask(mt.Question.text('why', 'Why?'))}"

    async def scene() -> None:
        chat = Chat()
        agent = mt.Agent(calling("two_steps"), tools=[two_steps], store=store)
        run = asyncio.create_task(agent.run("Go", prompter=chat))
        await until(lambda: "confirm" in chat.waiting)
        chat.says("confirm", mt.Answered(value=True))
        await until(lambda: "why" in chat.waiting)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert chat.taken_away == ["why"]
        (question,) = await store.pending()
        assert question.question.text == "Why?"

        person = mt.ScriptedPrompter({"two_steps.why": "because"})
        result = await agent.resume(question.conversation, prompter=person)
        assert (result.status, tool_results(store, result.conversation)) == (
            "completed",
            ["True because"],
        )
        assert [prompt.question.id for prompt in person.prompts] == ["why"]

    asyncio.run(scene())


def test_a_cancelled_run_lets_its_tools_clean_up(store: ConversationStore) -> None:
    cleaned: list[str] = []

    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask, and clean up."""
        try:
            await ctx.ask(CONFIRM)
        finally:
            await asyncio.sleep(0)
            cleaned.append("cleaned" if ctx.cancelled else "too early")
        return "never"

    async def scene() -> None:
        chat = Chat()
        run = asyncio.create_task(
            mt.Agent(calling("asks"), tools=[asks], store=store, prompter=chat).run("Go")
        )
        await until(lambda: chat.waiting)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert cleaned == ["cleaned"]

    asyncio.run(scene())


def test_unavailable_model_leaves_the_turn_open(store: ConversationStore) -> None:
    script = [
        {"calls": [{"name": "careful"}]},
        {"error": {"status": 401, "message": "no such key"}},
        {"text": "Done."},
    ]

    async def scene() -> None:
        agent = mt.Agent(mt.ScriptedModel(script), tools=[careful], store=store)
        person = mt.ScriptedPrompter({"careful.confirm": True})
        with pytest.raises(mt.ModelError) as raised:
            await agent.run("Go", prompter=person)
        error = raised.value
        assert error.conversation
        assert [error.conversation] == await store.ids()
        assert (error.status, error.transient) == (401, False)
        assert "no such key" in str(error)
        assert f"Resume it with `await agent.resume({error.conversation!r})`" in str(error)
        assert isinstance(error.__cause__, mt.ModelError)

        again = mt.Agent(mt.FunctionModel(lambda _: "It is back."), tools=[careful], store=store)
        result = await again.resume(error.conversation)
        assert (result.status, result.text) == ("completed", "It is back.")
        assert tool_results(store, result.conversation) == ["went ahead"]

    asyncio.run(scene())


def test_exception_of_a_model_is_raised_and_leaves_the_turn_open(store: ConversationStore) -> None:
    def broken(_: mt.ModelRequest) -> str:
        raise ValueError("no such setting") from KeyError("temperature")

    async def scene() -> None:
        with pytest.raises(ValueError, match="no such setting") as raised:
            await mt.Agent(mt.FunctionModel(broken), store=store).run("Go")
        assert isinstance(raised.value.__cause__, KeyError), "what led to it is not lost"
        result = await mt.Agent(mt.FunctionModel(lambda _: "Done."), store=store).resume(
            (await store.ids())[0]
        )
        assert result.text == "Done."

    asyncio.run(scene())


def test_two_runs_on_one_conversation_do_not_mix(store: ConversationStore) -> None:
    async def scene() -> None:
        chat = Chat()
        agent = mt.Agent(calling("careful"), tools=[careful], store=store)
        run = asyncio.create_task(agent.run("Go", prompter=chat))
        await until(lambda: chat.waiting)
        for second in (
            agent.run("Go", conversation=(await store.ids())[0]),
            agent.resume((await store.ids())[0]),
        ):
            with pytest.raises(mt.StoreLocked) as raised:
                await second
            assert raised.value.holder == f"pid {os.getpid()} on {os.uname().nodename}"
            assert raised.value.since
            assert raised.value.since in str(raised.value)
        chat.says("confirm", mt.Answered(value=True))
        assert (await run).status == "completed"

    asyncio.run(scene())


HOLDS = """
import asyncio, sys
import midturn as mt

@mt.tool
async def careful(ctx: mt.ToolContext) -> str:
    "Ask first."
    return str(await ctx.ask(mt.Question.boolean("confirm", "Sure?")))

async def main():
    prompter = mt.InboxPrompter(lambda prompt: print(prompt.conversation, flush=True))
    model = mt.ScriptedModel([{"calls": [{"name": "careful"}]}, {"text": "Done."}])
    result = await mt.Agent(model, tools=[careful], store=mt.open_store(sys.argv[1]), prompter=prompter).run("Go")
    print(result.status)

asyncio.run(main())
"""


def test_lock_error_names_the_holding_process(tmp_path: Path) -> None:
    holder = Forked(HOLDS, tmp_path)
    conversation = line(holder)
    agent = mt.Agent(calling("careful"), tools=[careful], store=mt.open_store(tmp_path))

    with pytest.raises(mt.StoreLocked) as raised:
        asyncio.run(agent.resume(conversation))

    assert raised.value.holder == f"pid {holder.pid} on {os.uname().nodename}"
    assert raised.value.since
    asyncio.run(agent.store.answer(agent.store.pending_sync()[0].id, True))
    assert output(holder) == "completed\n"


PRESSED = """
import asyncio, sys, threading, warnings
import midturn as mt

@mt.tool
def {name}(ctx: mt.ToolContext) -> str:
    "Ask first."
    return str(ctx.ask_sync(mt.Question.boolean("confirm", "Sure?")))

class Person(mt.Prompter):
    async def prompt(self, prompt):
        print("asked", flush=True)
        await asyncio.Event().wait()

model = mt.ScriptedModel([{{"calls": [{{"name": "{name}"}}]}}, {{"text": "Done."}}])
agent = mt.Agent(model, tools=[{name}], store=mt.open_store(sys.argv[1]))
try:
    agent.run_sync("Go", prompter=Person())
except KeyboardInterrupt:
    print("interrupted", [question.question.text for question in agent.store.pending_sync()])
def alive():
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    return [name for name in threads if name != "midturn: disk"]  # it ends when it has been idle for a while

print("threads", [name for name in alive() if not name.startswith("midturn-tool")])
for thread in threading.enumerate():
    if thread.name.startswith("midturn-tool"):
        thread.join(120)
print("threads", alive())
"""


def test_ctrl_c_during_run_sync_leaves_the_turn_open_and_nothing_behind(tmp_path: Path) -> None:
    process = python(
        f"import warnings; warnings.simplefilter('error')\n{PRESSED.format(name='careful')}",
        tmp_path,
    )
    assert line(process) == "asked"
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=120)

    assert (process.returncode, errors) == (0, "")
    assert printed.splitlines() == ["interrupted ['Sure?']", "threads []", "threads []"]
    store = mt.open_store(tmp_path)
    agent = mt.Agent(calling("careful"), tools=[careful], store=store)
    result = asyncio.run(
        agent.resume(store.ids_sync()[0], prompter=mt.ScriptedPrompter({"careful.confirm": True}))
    )
    assert (result.status, tool_results(store, result.conversation)) == (
        "completed",
        ["went ahead"],
    )


def test_ctrl_c_while_a_tool_in_a_thread_works_does_not_wait_for_it(tmp_path: Path) -> None:
    code = """
import sys, threading, time
import midturn as mt

@mt.tool
def slow(ctx: mt.ToolContext) -> str:
    "Work."
    print("working", flush=True)
    while not ctx.cancelled:
        time.sleep(0.01)
    print("heard of it", flush=True)
    return "never"

model = mt.ScriptedModel([{"calls": [{"name": "slow"}]}, {"text": "Done."}])
try:
    mt.Agent(model, tools=[slow], store=mt.open_store(sys.argv[1])).run_sync("Go")
except KeyboardInterrupt:
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(120)
    print("interrupted")
"""
    process = python(code, tmp_path)
    assert line(process) == "working"
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert printed.splitlines() == ["heard of it", "interrupted"]


def test_answer_before_a_resumed_turn_asks_again_is_kept(store: ConversationStore) -> None:
    async def scene() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        go_on.set()

        @mt.tool
        async def slow(ctx: mt.ToolContext) -> str:
            begun.set()
            await go_on.wait()
            return str(await ctx.ask(CONFIRM))

        agent = mt.Agent(calling("slow"), tools=[slow], store=store)
        result = await agent.run("Go")
        begun.clear()
        go_on.clear()
        resumed = asyncio.create_task(agent.resume(result.conversation))
        await begun.wait()
        answered = asyncio.create_task(store.answer(result.pending[0].id, True, user="ada"))
        await asyncio.sleep(0.3)  # the turn has polled more than once
        go_on.set()

        assert not (await answered).held
        # the run is detached: it may be suspended before it reads the answer
        assert (await resumed).status in ("suspended", "completed")
        if await store.ready():
            await agent.resume(result.conversation)
        assert tool_results(store, result.conversation) == ["True"]

    asyncio.run(scene())


def test_turn_with_a_missing_tool_is_not_changed(store: ConversationStore) -> None:
    model = calling("careful")
    waiting = mt.Agent(model, tools=[careful], store=store).run_sync("Go").pending[0]
    store.answer_sync(waiting.id, value=True, user="ada")
    before = store.read_sync(waiting.conversation).events

    with pytest.raises(
        mt.ConfigError,
        match=(
            r"in a call of 'careful', and there is no such tool here; the tools are: ask_user\."
            r" Continue"
        ),
    ):
        mt.Agent(model, tools=[mt.ask_user], store=store).resume_sync(waiting.conversation)
    assert store.read_sync(waiting.conversation).events == before
    assert store.ready_sync() == [waiting.conversation]

    result = mt.Agent(model, tools=[careful], store=store).resume_sync(waiting.conversation)
    assert result.status == "completed"


def test_cancelled_turn_is_reported_on_resume(store: ConversationStore) -> None:
    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        return str(await ctx.ask(CONFIRM))

    async def scene() -> None:
        agent = mt.Agent(calling("asks"), tools=[asks], store=store)
        (question,) = (await agent.run("Go")).pending
        await store.answer(question.id, cancel=True, user="ada")

        assert (await agent.resume(question.conversation)).status == "ended_by_user"
        with pytest.raises(mt.NotOpen, match=r"its turn was ended by ada \(api\)"):
            await store.answer(question.id, True)

    asyncio.run(scene())


def test_answered_turn_with_a_missing_tool_can_be_ended(store: ConversationStore) -> None:
    @mt.tool(run="ask")
    async def pay() -> str:
        """Pay."""
        return "paid"

    async def scene() -> None:
        model = mt.ScriptedModel([{"calls": [{"name": "pay"}]}, {"text": "Done."}])
        waiting = await mt.Agent(model, tools=[pay], store=store).run("Pay.")
        await store.answer(waiting.pending[0], approve=True)
        without = mt.Agent(mt.ScriptedModel([{"text": "Hello."}] * 2), store=store)
        with pytest.raises(
            mt.ConfigError,
            match=(
                rf"no such tool here.*`await store\.end\('{waiting.conversation}'\)` in a program"
            ),
        ):
            await without.resume(waiting.conversation)
        assert not await store.end(waiting.conversation, user="ana")
        assert (
            await without.run("Hello?", conversation=waiting.conversation)
        ).status == "completed"

    asyncio.run(scene())


def test_inquirer_turn_with_a_missing_tool_can_be_ended(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new()

        async def pay() -> None:
            async with (inquirer := mt.Inquirer(store, conversation)).turn("Pay."):
                await inquirer.run("pay", "c1", {}, lambda _: "paid", permission=True)

        with pytest.raises(mt.Suspended) as waiting:
            await pay()
        await store.answer(waiting.value.pending[0], approve=True)
        async with mt.Inquirer(store, conversation).turn():
            pass  # the loop no longer has this tool
        assert await store.open_turns(conversation) == {conversation}
        await store.end(conversation)
        async with mt.Inquirer(store, conversation).turn("Hello?"):
            pass
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())
