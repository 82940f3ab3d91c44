"""Stories about answers: the effect of each decision that a person makes immediately, later, or in
another process.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Final

from midturn.errors import AlreadyAnswered, AnswerError, CallEnded
from midturn.question.question import Question
from midturn.testing.adapters.program import PlannedCall, Program, ProgramTool
from midturn.testing.adapters.scene import (
    NO,
    Scene,
    confirm,
    expect_error,
    expect_same,
    reads,
    replies,
)
from midturn.testing.prompter import ScriptedPrompter
from midturn.tools.returned import Rejected


async def a_yes(scene: Scene) -> None:
    """A yes: the tool continues in another process and has its effect once."""
    program = scene.program()
    await scene.waits(program)
    expect_same("effects before the answer", scene.effects, [])
    await scene.answer(True)
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))
    expect_same("effects", scene.effects, ["eu"])
    expect_same("the turn is over", await scene.statuses(), ["completed"])


async def a_no(scene: Scene) -> None:
    """A no: the tool has no effect, and the model reads the tool's reason."""
    program = scene.program()
    await scene.waits(program)
    await scene.answer(False)
    outcome = await scene.enter(program)
    expect_same("what the model reads", reads(outcome), f"read: {NO}")
    expect_same("effects", scene.effects, [])


async def an_answer_at_once(scene: Scene) -> None:
    """An attached person answers immediately: the run does not stop."""
    program = scene.program()
    outcome = await scene.enter(program, prompter=ScriptedPrompter({"deploy.confirm": True}))
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))
    expect_same("effects", scene.effects, ["eu"])


async def no_answer_yet(scene: Scene) -> None:
    """No answer yet: repeated runs do not ask the question again."""
    program = scene.program()
    first = await scene.waits(program)
    for _ in range(3):
        expect_same(
            "the open question",
            [each.id for each in await scene.waits(program)],
            [each.id for each in first],
        )
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])


async def a_reply(scene: Scene) -> None:
    """A person replies with a message instead of an answer: the message is the result of the call,
    and the tool has no effect.
    """
    program = scene.program()
    await scene.waits(program)
    await scene.store().answer(await scene.question(), reply="Not before the audit.", user="ada")
    outcome = await scene.enter(program)
    expect_same("the model reads the reply", "Not before the audit." in str(outcome.text), True)
    expect_same("effects", scene.effects, [])


async def an_end(scene: Scene) -> None:
    """A person ends the turn at the prompt: the run ends with `CallEnded`."""
    from midturn.question.reply import EndedTurn

    prompter = ScriptedPrompter({"deploy.confirm": EndedTurn()})
    ended = await expect_error(
        "the run", CallEnded, scene.enter(scene.program(), prompter=prompter)
    )
    expect_same("`turn_ended`", getattr(ended, "turn_ended", None), True)
    expect_same("effects", scene.effects, [])
    expect_same("the turn is over", await scene.statuses(), ["ended_by_user"])


async def an_end_meanwhile(scene: Scene) -> None:
    """A person ends the turn while no process runs it: the next run raises `CallEnded`, and no
    question is asked again.
    """
    program = scene.program()
    await scene.waits(program)
    await scene.store().end(scene.conversation, user="ada")
    ended = await expect_error("the next entry", CallEnded, scene.enter(program))
    expect_same("`turn_ended`", getattr(ended, "turn_ended", None), True)
    expect_same("recorded questions", await scene.asked(), ["Deploy to eu?"])
    expect_same("effects", scene.effects, [])


async def two_answers(scene: Scene) -> None:
    """Two answers at the same time: the first one wins, the other is rejected."""
    program = scene.program()
    (question,) = await scene.waits(program)
    both = await asyncio.gather(
        *(
            scene.store().answer(question, value, user=user)
            for value, user in ((True, "ada"), (True, "ben"))
        ),
        return_exceptions=True,
    )
    refused = [result for result in both if isinstance(result, BaseException)]
    expect_same(
        "the answer that came second", [type(error) for error in refused], [AlreadyAnswered]
    )
    await scene.enter(program)
    expect_same("effects", scene.effects, ["eu"])


async def a_late_answer(scene: Scene) -> None:
    """An answer after the turn has ended is rejected."""
    program = scene.program()
    (question,) = await scene.waits(program)
    await scene.answer(False)
    await scene.enter(program)
    await expect_error("the second answer", AlreadyAnswered, scene.store().answer(question, True))
    expect_same("effects", scene.effects, [])


async def an_answer_of_a_wrong_type(scene: Scene) -> None:
    """An answer of the wrong type is rejected, and the question stays open."""
    program = scene.program()
    (question,) = await scene.waits(program)
    await expect_error("the answer", AnswerError, scene.store().answer(question, "perhaps"))
    await scene.waits(program)
    await scene.answer(True)
    await scene.enter(program)
    expect_same("effects", scene.effects, ["eu"])


async def answers_keep_their_types(scene: Scene) -> None:
    """Answers keep the types of their questions in another process: options, lists, decimals, and
    text with line breaks.
    """
    region = Question.select("region", "Which region?", ["eu-1", "us-2"])
    teams = Question.multi_select("teams", "Which teams?", ["web", "data", "ops"])
    share = Question.schema("share", "Which share?", Decimal)
    note = Question.text("note", "What to note?")

    async def plan() -> str:
        """Plan the release."""
        answers = [
            await scene.ask(region),
            await scene.ask(teams),
            await scene.ask(share),
            await scene.ask(note),
        ]
        return repr(answers)

    program = Program(replies([PlannedCall("call_1", "plan")]), [ProgramTool("plan", plan)])
    given = {
        "region": "us-2",
        "teams": ["web", "ops"],
        "share": Decimal("0.10"),
        "note": "one\ntwo — ünï 🙂",
    }
    for value in given.values():
        await scene.waits(program)
        await scene.answer(str(value) if isinstance(value, Decimal) else value)
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, given))


async def several_questions(scene: Scene) -> None:
    """Three questions in one call, each answered in another process."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        for name in ("one", "two", "three"):
            if not await scene.ask(Question.boolean(name, f"Step {name} of {env}?")):
                raise Rejected(NO)
        return scene.deployed(env)

    program = scene.program(tool=ProgramTool("deploy", deploy))
    for name in ("one", "two", "three"):
        expect_same(
            "the open question",
            [each.question.text for each in await scene.waits(program)],
            [f"Step {name} of eu?"],
        )
        await scene.answer(True)
    await scene.enter(program)
    expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", len(await scene.asked()), 3)


async def a_question_far_down(scene: Scene) -> None:
    """A question that is asked in a nested function call, in a separate task."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        yes = await asyncio.create_task(scene.ask(confirm(env)))
        return scene.deployed(env) if yes else NO

    program = scene.program(tool=ProgramTool("deploy", deploy))
    await scene.waits(program)
    await scene.answer(True)
    await scene.enter(program)
    expect_same("effects", scene.effects, ["eu"])


async def a_secret(scene: Scene) -> None:
    """A secret reaches the tool, but not the model and not the log."""
    passphrase = "correct horse battery"  # noqa: S105  an invented one

    async def sign(env: str) -> str:
        """Sign the release."""
        secret = await scene.ask(Question.secret("passphrase", "The passphrase?"))
        return f"{env} is signed with {secret.reveal()}."

    program = scene.program(tool=ProgramTool("sign", sign))
    outcome = await scene.enter(program, prompter=ScriptedPrompter({"sign.passphrase": passphrase}))
    expect_same("the model reads the secret", passphrase in str(outcome.text), False)
    recorded = b"".join(file.read_bytes() for file in scene.folder.rglob("*") if file.is_file())
    expect_same("the secret is on disk", passphrase.encode() in recorded, False)


# Permissions
# --------------------------------------------------------------------------------------------------


def _gated(scene: Scene, *, needs_approval: bool = True) -> Program:
    """Return an agent whose tool does not ask questions, but may need approval."""

    async def deploy(env: str, replicas: int = 1) -> str:
        """Deploy the service."""
        _ = replicas
        return scene.deployed(env)

    return scene.program(tool=ProgramTool("deploy", deploy, needs_approval=needs_approval))


async def an_approval(scene: Scene) -> None:
    """A call needs approval by the framework's own mechanism: once approved, it runs once."""
    program = _gated(scene)
    (question,) = await scene.waits(program)
    expect_same(
        "the tool and its arguments are shown",
        (question.tool, question.arguments),
        ("deploy", {"env": "eu"}),
    )
    await scene.store().answer(question, approve=True, user="ada")
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("effects", scene.effects, ["eu"])
    expect_same("recorded questions", len(await scene.asked()), 1)


async def a_refusal(scene: Scene) -> None:
    """A call that needs approval is refused with a reason: the model reads the reason."""
    program = _gated(scene)
    (question,) = await scene.waits(program)
    await scene.store().answer(question, approve=False, reason="The audit is not over.", user="ada")
    outcome = await scene.enter(program)
    expect_same("the model reads the reason", "The audit is not over." in str(outcome.text), True)
    expect_same("effects", scene.effects, [])


async def a_refusal_outlives_new_code(scene: Scene) -> None:
    """A refusal counts, even if new code no longer asks for approval."""
    (question,) = await scene.waits(_gated(scene))
    await scene.store().answer(question, approve=False, user="ada")
    await scene.enter(_gated(scene, needs_approval=False))
    expect_same("effects", scene.effects, [])


async def an_edit(scene: Scene) -> None:
    """A person edits the arguments: the edited arguments are used, and the model is informed."""
    program = _gated(scene)
    (question,) = await scene.waits(program)
    await scene.store().answer(question, arguments={"env": "us"}, user="ada")
    outcome = await scene.enter(program)
    expect_same("effects", scene.effects, ["us"])
    expect_same(
        "the model reads the arguments that ran",
        '"us"' in str(outcome.text) and "us is live." in str(outcome.text),
        True,
    )


async def an_edit_that_does_not_fit(scene: Scene) -> None:
    """Edited arguments that do not match the tool's schema are rejected, and the question stays
    open.
    """
    program = _gated(scene)
    (question,) = await scene.waits(program)
    await expect_error(
        "the edit",
        AnswerError,
        scene.store().answer(question, arguments={"env": "us", "replicas": "many"}, user="ada"),
    )
    expect_same("the question is open", [each.id for each in await scene.pending()], [question.id])
    await scene.store().answer(question, arguments={"env": "us", "replicas": 3}, user="ada")
    await scene.enter(program)
    expect_same("effects", scene.effects, ["us"])


async def a_gated_call_next_to_another(scene: Scene) -> None:
    """Two concurrent calls, only one of which needs approval: the other call runs once."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        return scene.deployed(env)

    async def look(env: str) -> str:
        """Look at the service."""
        scene.effects.append(f"looked at {env}")
        return f"{env} looks well."

    calls = [
        PlannedCall("call_1", "deploy", {"env": "eu"}),
        PlannedCall("call_2", "look", {"env": "eu"}),
    ]
    program = Program(
        replies(calls),
        [ProgramTool("deploy", deploy, needs_approval=True), ProgramTool("look", look)],
    )
    (question,) = await scene.waits(program)
    await scene.store().answer(question, approve=True, user="ada")
    outcome = await scene.enter(program)
    expect_same("effects", sorted(scene.effects), ["eu", "looked at eu"])
    expect_same(
        "what the model reads",
        sorted(str(outcome.text).removeprefix("read: ").split(" | ")),
        ["eu is live.", "eu looks well."],
    )
    expect_same("the turn is over", await scene.statuses(), ["completed"])


STORIES: Final = (
    a_yes,
    a_no,
    an_answer_at_once,
    no_answer_yet,
    a_reply,
    an_end,
    an_end_meanwhile,
    two_answers,
    a_late_answer,
    an_answer_of_a_wrong_type,
    answers_keep_their_types,
    several_questions,
    a_question_far_down,
    a_secret,
    an_approval,
    a_refusal,
    a_refusal_outlives_new_code,
    an_edit,
    an_edit_that_does_not_fit,
    a_gated_call_next_to_another,
)
