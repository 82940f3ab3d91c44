"""Stories about repeated runs of a program: after errors and failed writes, with new code or new
messages, and in other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from midturn.errors import StoreLocked, TurnOpen
from midturn.events.prompt import Prompt
from midturn.prompter import Prompter
from midturn.question.question import Question
from midturn.question.reply import Reply
from midturn.testing.adapters.program import ModelReply, PlannedCall, Program, ProgramTool, Saved
from midturn.testing.adapters.scene import (
    MESSAGE,
    NO,
    Scene,
    WriteFailure,
    confirm,
    expect_error,
    expect_same,
    reads,
    replies,
)

_MAX_ENTRIES: Final = 12
"""Maximum number of runs before a story counts as failed."""


class ModelDown(Exception):  # noqa: N818  simulates an exception of another library
    """Simulates a model provider that cannot be reached."""


async def a_bug_before_the_question(scene: Scene) -> None:
    """A tool raises an error before it asks: the framework handles the error as without midturn."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        raise ValueError(f"no place {env!r}")

    program = scene.program(tool=ProgramTool("deploy", deploy))
    try:
        result = str((await scene.enter(program)).text)
    except Exception as error:  # noqa: BLE001  the exception is compared, whatever its type
        result = type(error).__name__
    expect_same("the result of the error", result, await scene.plain(program, {}))


async def a_bug_after_the_answer(scene: Scene) -> None:
    """A tool fails once after its answer: if the error ends the run, the next run does not ask
    again.
    """
    failures = ["the network"]

    async def deploy(env: str) -> str:
        """Deploy the service."""
        await scene.ask(confirm(env))
        if failures:
            raise ConnectionError(failures.pop())
        return scene.deployed(env)

    program = scene.program(tool=ProgramTool("deploy", deploy))
    await scene.waits(program)
    await scene.answer(True)
    try:
        await scene.enter(program)
    except ConnectionError:
        await scene.enter(program)
        expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])


async def a_model_that_is_down(scene: Scene) -> None:
    """The model fails after a call: the next run does not ask again and does not run the call
    again.
    """
    down = [True]

    def reply(number: int, read: Sequence[str]) -> ModelReply:
        if number == 0:
            return ModelReply("", (PlannedCall("call_1", "deploy", {"env": "eu"}),))
        if down:
            down.clear()
            raise ModelDown
        return ModelReply("read: " + " | ".join(read))

    program = Program(reply, [ProgramTool("deploy", scene.deploy)])
    await scene.waits(program)
    await scene.answer(True)
    await expect_error("the entry", ModelDown, scene.enter(program))
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])


async def a_refused_write(scene: Scene) -> None:
    """Each write of a run fails once: no question is asked twice, and a repeated call has the
    same idempotency key.
    """
    number = 0
    while True:
        number += 1
        write_failure = WriteFailure(number)
        part = Scene(scene.harness, scene.folder / str(number))
        await part.begin()
        program = part.program()
        for _ in range(_MAX_ENTRIES):
            try:
                outcome = await part.enter(program, write_failure=write_failure)
            except Exception:
                if not write_failure.has_failed:
                    raise
                continue
            if outcome.text is not None:
                break
            for question in await part.pending():
                await part.store().answer(question, True, user="ada")
        else:
            raise AssertionError(
                f"the run is not complete {_MAX_ENTRIES} entries after write {number} failed"
            )
        expect_same(
            f"recorded questions after write {number} failed",
            await part.asked(),
            ["Deploy to eu?"],
        )
        expect_same(f"calls with an effect after write {number} failed", len(part.keys), 1)
        await part.check_effects()
        if not write_failure.has_failed:
            return


async def a_cancelled_run(scene: Scene) -> None:
    """A run is cancelled while the question is shown: the turn stays open, and another process
    continues it.
    """
    shown = asyncio.Event()

    class Thinking(Prompter):
        """A prompter that never answers."""

        async def prompt(self, prompt: Prompt) -> Reply:
            _ = prompt
            shown.set()
            await asyncio.Event().wait()
            raise AssertionError

    program = scene.program()
    run = asyncio.create_task(scene.enter(program, prompter=Thinking()))
    await shown.wait()
    run.cancel()
    await asyncio.wait({run})
    expect_same("the run was cancelled", run.cancelled(), True)
    await scene.waits(program)
    await scene.answer(True)
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("effects", scene.effects, ["eu"])


async def two_processes(scene: Scene) -> None:
    """Two processes run the agent at the same time: one of them continues the turn, and no tool
    runs twice.
    """
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    saved, other = scene.saved.content, Saved()
    other.content = saved
    second = Scene(scene.harness, scene.folder)
    second.conversation, second.saved = scene.conversation, other
    second.entered = MESSAGE
    both = await asyncio.gather(scene.enter(program), second.enter(program), return_exceptions=True)
    refused = [result for result in both if isinstance(result, BaseException)]
    expect_same(
        "what the other process raises",
        [type(error) for error in refused if not isinstance(error, StoreLocked)],
        [],
    )
    expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])


# New code
# --------------------------------------------------------------------------------------------------


def _asking(scene: Scene, *questions: Question[bool]) -> Program:
    """Return an agent whose tool asks these questions and has its effect if all are yes."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        for question in questions:
            if not await scene.ask(question):
                return NO
        scene.effects.append(env)
        return f"{env} is live."

    return scene.program(tool=ProgramTool("deploy", deploy))


async def another_text(scene: Scene) -> None:
    """New code changes the text of a question: an answer to the old text does not count."""
    await scene.waits(_asking(scene, Question.boolean("confirm", "Deploy to staging?")))
    await scene.answer(True)
    changed = _asking(scene, Question.boolean("confirm", "Deploy to production?"))
    expect_same(
        "the open question",
        [each.question.text for each in await scene.waits(changed)],
        ["Deploy to production?"],
    )
    expect_same("effects", scene.effects, [])
    await scene.answer(False)
    await scene.enter(changed)
    expect_same("effects", scene.effects, [])


async def a_question_in_front(scene: Scene) -> None:
    """New code asks another question first: the recorded answer still belongs to its own
    question.
    """
    deploy = Question.boolean("confirm", "Deploy?")
    await scene.waits(_asking(scene, deploy))
    await scene.answer(True)
    changed = _asking(scene, Question.boolean("migrate", "Drop the old tables?"), deploy)
    expect_same(
        "the open question",
        [each.question.text for each in await scene.waits(changed)],
        ["Drop the old tables?"],
    )
    await scene.answer(True)
    outcome = await scene.enter(changed)
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("recorded questions", await scene.asked(), ["Deploy?", "Drop the old tables?"])


async def no_question_any_more(scene: Scene) -> None:
    """New code asks no question: the open question is closed when its call ends."""
    await scene.waits(scene.program())
    outcome = await scene.enter(_asking(scene))
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("open questions", await scene.pending(), [])


async def other_arguments(scene: Scene) -> None:
    """The framework lost its saved state, and the model makes the call with other arguments: the
    earlier yes does not count.
    """
    await scene.waits(scene.program("eu"))
    await scene.answer(True)
    scene.saved.content = None
    changed = scene.program("us")
    expect_same(
        "the open question",
        [each.question.text for each in await scene.waits(changed)],
        ["Deploy to us?"],
    )
    expect_same("effects", scene.effects, [])
    await scene.answer(False)
    await scene.enter(changed)
    expect_same("effects", scene.effects, [])


async def lost_state(scene: Scene) -> None:
    """The framework lost its saved state, and the model makes the same call: the recorded answer
    counts, and no one is asked again.
    """
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    scene.saved.content = None
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])


async def lost_record(scene: Scene) -> None:
    """The log is lost, but the framework still has its state: the person is asked again before the
    tool has an effect.
    """
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    await scene.store().remove(scene.conversation)
    await scene.begin()
    expect_same(
        "the open question",
        [one.question.text for one in await scene.waits(program)],
        ["Deploy to eu?"],
    )
    expect_same("effects", scene.effects, [])
    await scene.answer(True)
    await scene.enter(program)
    expect_same("effects", scene.effects, ["eu"])


# Messages
# --------------------------------------------------------------------------------------------------


async def a_new_message(scene: Scene) -> None:
    """A new message while a question is open is rejected with a list of the open questions, and the
    turn can continue.
    """
    program = scene.program()
    (question,) = await scene.waits(program)
    refused = await expect_error(
        "the new message", TurnOpen, scene.enter(program, "What is the weather?")
    )
    expect_same("`pending`", [each.id for each in getattr(refused, "pending", ())], [question.id])
    scene.entered = MESSAGE  # the rejected message did not start a turn
    await scene.answer(True)
    await scene.enter(program)
    expect_same("effects", scene.effects, ["eu"])


async def a_message_as_the_reply(scene: Scene) -> None:
    """With `on_open="reply"`, a new message becomes the reply to the open question, and the model
    reads it.
    """
    program = scene.program()
    await scene.waits(program)
    outcome = await scene.enter(program, "Wait until Monday.", on_open="reply", author="ada")
    expect_same("the model reads the message", "Wait until Monday." in str(outcome.text), True)
    expect_same("effects", scene.effects, [])
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])


async def the_next_message(scene: Scene) -> None:
    """The next message after the end of a turn starts a new turn, in which the same call is
    asked again.
    """
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    await scene.enter(program)
    program = scene.program(call_id="later")
    await scene.waits(program, "Once more.")
    await scene.answer(False)
    outcome = await scene.enter(program, "Once more.")
    expect_same("what the model reads", reads(outcome), "read: Not deployed.")
    expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?", "Deploy to eu?"])


async def a_key(scene: Scene) -> None:
    """A turn with a key ends, and the program dies before saving the result: no tool runs again."""
    program = scene.program()
    await scene.waits(program, key="job-17")
    before = scene.saved.content
    await scene.answer(True)
    await scene.enter(program, key="job-17")
    scene.saved.content = before
    outcome = await scene.enter(program, key="job-17")
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])


async def no_question_at_all(scene: Scene) -> None:
    """An agent that does not ask questions runs as without midturn."""

    async def look(env: str) -> str:
        """Look at the service."""
        return f"{env} looks well."

    calls = [PlannedCall("call_1", "look", {"env": "eu"})]
    program = Program(replies(calls), [ProgramTool("look", look)])
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {}))
    expect_same("the turn is over", await scene.statuses(), ["completed"])


STORIES: Final = (
    a_bug_before_the_question,
    a_bug_after_the_answer,
    a_model_that_is_down,
    a_refused_write,
    a_cancelled_run,
    two_processes,
    another_text,
    a_question_in_front,
    no_question_any_more,
    other_arguments,
    lost_state,
    lost_record,
    a_new_message,
    a_message_as_the_reply,
    the_next_message,
    a_key,
    no_question_at_all,
)
