"""Stories of entries: errors, refused writes, new code, new messages, and other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from midturn.errors import StoreLocked, TurnOpen
from midturn.events.prompt import Prompt
from midturn.prompter import Prompter
from midturn.question.question import Question
from midturn.question.reply import Reply
from midturn.testing.adapters.program import ModelCall, ModelReply, Program, ProgramTool, Saved
from midturn.testing.adapters.scene import MESSAGE, NO, Refusals, Scene, confirm, raises, reads, replies, same

_MOST_ENTRIES: Final = 12
"""Entries after which a story that does not end is given up."""


class ModelDown(Exception):  # noqa: N818  it stands for one of another library
    """Stands for a provider that cannot be reached."""


async def a_bug_before_the_question(scene: Scene) -> None:
    """A tool that raises: what comes of that is the framework's, as without midturn."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        raise ValueError(f"no place {env!r}")

    program = scene.program(tool=ProgramTool("deploy", deploy))
    try:
        came = str((await scene.enter(program)).text)
    except Exception as error:  # noqa: BLE001  whatever the framework raises is compared
        came = type(error).__name__
    same("what comes of it", came, await scene.plain(program, {}))


async def a_bug_after_the_answer(scene: Scene) -> None:
    """A tool fails once after its answer: if the framework ends the run, the next entry does not ask again."""
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
        same("effects", scene.effects, ["eu"])
    same("questions on record", await scene.asked(), ["Deploy to eu?"])


async def a_model_that_is_down(scene: Scene) -> None:
    """The model fails after a call: the next entry neither asks nor runs it again."""
    down = [True]

    def reply(number: int, read: Sequence[str]) -> ModelReply:
        if number == 0:
            return ModelReply("", (ModelCall("call_1", "deploy", {"env": "eu"}),))
        if down:
            down.clear()
            raise ModelDown
        return ModelReply("read: " + " | ".join(read))

    program = Program(reply, [ProgramTool("deploy", scene.deploy)])
    await scene.waits(program)
    await scene.answer(True)
    await raises("the entry", ModelDown, scene.enter(program))
    outcome = await scene.enter(program)
    same("what the model reads", outcome.text, "read: eu is live.")
    same("effects", scene.effects, ["eu"])
    same("questions on record", await scene.asked(), ["Deploy to eu?"])


async def a_refused_write(scene: Scene) -> None:
    """Each write of a run is refused once: nobody is asked twice, and a repeated call has the same idempotency key."""
    number = 0
    while True:
        number += 1
        refusals = Refusals(number)
        part = Scene(scene.harness, scene.folder / str(number))
        await part.begin()
        program = part.program()
        for _ in range(_MOST_ENTRIES):
            try:
                outcome = await part.enter(program, refusals=refusals)
            except Exception:
                if not refusals.is_over:
                    raise
                continue
            if outcome.text is not None:
                break
            for question in await part.pending():
                await part.store().answer(question, True, user="ada")
        else:
            raise AssertionError(f"write {number} was refused, and {_MOST_ENTRIES} entries later the run is not over")
        same(f"questions on record, where write {number} was refused", await part.asked(), ["Deploy to eu?"])
        same(f"calls with an effect, where write {number} was refused", len(part.keys), 1)
        await part.check_effects()
        if not refusals.is_over:
            return


async def a_cancelled_run(scene: Scene) -> None:
    """A run that is cancelled while a person looks at the question: the turn stays open, and another process goes on."""
    shown = asyncio.Event()

    class Thinking(Prompter):
        """A person who never answers."""

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
    same("the run was cancelled", run.cancelled(), True)
    await scene.waits(program)
    await scene.answer(True)
    outcome = await scene.enter(program)
    same("what the model reads", outcome.text, "read: eu is live.")
    same("effects", scene.effects, ["eu"])


async def two_processes(scene: Scene) -> None:
    """Two processes enter at the same time: one goes on, and nothing runs twice."""
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    saved, other = scene.saved.content, Saved()
    other.content = saved
    second = Scene(scene.harness, scene.folder)
    second.conversation, second.saved = scene.conversation, other
    second.entered = MESSAGE
    both = await asyncio.gather(scene.enter(program), second.enter(program), return_exceptions=True)
    refused = [one for one in both if isinstance(one, BaseException)]
    same("what the other process raises", [type(one) for one in refused if not isinstance(one, StoreLocked)], [])
    same("effects", scene.effects, ["eu"])
    same("questions on record", await scene.asked(), ["Deploy to eu?"])


# New code -----------------------------------------------------------------------------------------------------------------


def _asking(scene: Scene, *questions: Question[bool]) -> Program:
    """Return an agent whose tool asks these questions, and runs after as many times yes."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        for question in questions:
            if not await scene.ask(question):
                return NO
        scene.effects.append(env)
        return f"{env} is live."

    return scene.program(tool=ProgramTool("deploy", deploy))


async def another_text(scene: Scene) -> None:
    """New code asks with another text: the answer to the old text does not count."""
    await scene.waits(_asking(scene, Question.boolean("confirm", "Deploy to staging?")))
    await scene.answer(True)
    changed = _asking(scene, Question.boolean("confirm", "Deploy to production?"))
    same("the open question", [one.question.text for one in await scene.waits(changed)], ["Deploy to production?"])
    same("effects", scene.effects, [])
    await scene.answer(False)
    await scene.enter(changed)
    same("effects", scene.effects, [])


async def a_question_in_front(scene: Scene) -> None:
    """New code asks something else first: the answer stays with its own question."""
    deploy = Question.boolean("confirm", "Deploy?")
    await scene.waits(_asking(scene, deploy))
    await scene.answer(True)
    changed = _asking(scene, Question.boolean("migrate", "Drop the old tables?"), deploy)
    same("the open question", [one.question.text for one in await scene.waits(changed)], ["Drop the old tables?"])
    await scene.answer(True)
    outcome = await scene.enter(changed)
    same("what the model reads", outcome.text, "read: eu is live.")
    same("questions on record", await scene.asked(), ["Deploy?", "Drop the old tables?"])


async def no_question_any_more(scene: Scene) -> None:
    """New code asks nothing: the open question closes with its call."""
    await scene.waits(scene.program())
    outcome = await scene.enter(_asking(scene))
    same("what the model reads", outcome.text, "read: eu is live.")
    same("open questions", await scene.pending(), [])


async def other_arguments(scene: Scene) -> None:
    """The framework has lost what it saved, and the model now calls with other arguments: a yes to the old ones does not count."""
    await scene.waits(scene.program("eu"))
    await scene.answer(True)
    scene.saved.content = None
    changed = scene.program("us")
    same("the open question", [one.question.text for one in await scene.waits(changed)], ["Deploy to us?"])
    same("effects", scene.effects, [])
    await scene.answer(False)
    await scene.enter(changed)
    same("effects", scene.effects, [])


async def lost_state(scene: Scene) -> None:
    """The framework has lost what it saved, and the model makes the same call again: its answer counts, and nobody is asked twice."""
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    scene.saved.content = None
    outcome = await scene.enter(program)
    same("what the model reads", outcome.text, "read: eu is live.")
    same("effects", scene.effects, ["eu"])
    same("questions on record", await scene.asked(), ["Deploy to eu?"])


async def lost_record(scene: Scene) -> None:
    """What is recorded is gone, and the framework has its state: a person is asked, and nothing runs before."""
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    await scene.store().remove(scene.conversation)
    await scene.begin()
    same("the open question", [one.question.text for one in await scene.waits(program)], ["Deploy to eu?"])
    same("effects", scene.effects, [])
    await scene.answer(True)
    await scene.enter(program)
    same("effects", scene.effects, ["eu"])


# Messages -----------------------------------------------------------------------------------------------------------------


async def a_new_message(scene: Scene) -> None:
    """A new message while a question is open is refused with a list of what is open, and the turn can continue."""
    program = scene.program()
    (question,) = await scene.waits(program)
    refused = await raises("the new message", TurnOpen, scene.enter(program, "What is the weather?"))
    same("`pending`", [one.id for one in getattr(refused, "pending", ())], [question.id])
    scene.entered = MESSAGE  # the refused message began nothing
    await scene.answer(True)
    await scene.enter(program)
    same("effects", scene.effects, ["eu"])


async def a_message_as_the_reply(scene: Scene) -> None:
    """With `on_open="reply"`, a new message is the reply to the open question, and the model reads it."""
    program = scene.program()
    await scene.waits(program)
    outcome = await scene.enter(program, "Wait until Monday.", on_open="reply", author="ada")
    same("the model reads the message", "Wait until Monday." in str(outcome.text), True)
    same("effects", scene.effects, [])
    same("questions on record", await scene.asked(), ["Deploy to eu?"])


async def the_next_message(scene: Scene) -> None:
    """After a turn is over, the next message begins a new one, in which the same call is asked again."""
    program = scene.program()
    await scene.waits(program)
    await scene.answer(True)
    await scene.enter(program)
    program = scene.program(call_id="later")
    await scene.waits(program, "Once more.")
    await scene.answer(False)
    outcome = await scene.enter(program, "Once more.")
    same("what the model reads", reads(outcome), "read: Not deployed.")
    same("effects", scene.effects, ["eu"])
    same("questions on record", await scene.asked(), ["Deploy to eu?", "Deploy to eu?"])


async def a_key(scene: Scene) -> None:
    """A program that dies after the end of a turn with a key, before it has saved that: nothing runs again."""
    program = scene.program()
    await scene.waits(program, key="job-17")
    before = scene.saved.content
    await scene.answer(True)
    await scene.enter(program, key="job-17")
    scene.saved.content = before
    outcome = await scene.enter(program, key="job-17")
    same("what the model reads", outcome.text, "read: eu is live.")
    same("effects", scene.effects, ["eu"])
    same("questions on record", await scene.asked(), ["Deploy to eu?"])


async def no_question_at_all(scene: Scene) -> None:
    """An agent that asks nothing runs as without midturn."""

    async def look(env: str) -> str:
        """Look at the service."""
        return f"{env} looks well."

    calls = [ModelCall("call_1", "look", {"env": "eu"})]
    program = Program(replies(calls), [ProgramTool("look", look)])
    outcome = await scene.enter(program)
    same("what the model reads", outcome.text, await scene.plain(program, {}))
    same("the turn is over", await scene.statuses(), ["completed"])


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
