"""Stories of answers: what each decision of a person does, at once, later, and in another process."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Final

from midturn.errors import AlreadyAnswered, AnswerError, CallEnded
from midturn.question.question import Question
from midturn.testing.adapters.program import ModelCall, Program, ProgramTool
from midturn.testing.adapters.scene import NO, Scene, confirm, raises, reads, replies, same
from midturn.testing.prompter import ScriptedPrompter
from midturn.tools.returned import Rejected


async def a_yes(scene: Scene) -> None:
    """A yes: the tool goes on in another process, once."""
    program = scene.program()
    await scene.waits(program)
    same("effects before the answer", scene.effects, [])
    await scene.answer(True)
    outcome = await scene.enter(program)
    same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))
    same("effects", scene.effects, ["eu"])
    same("the turn is over", await scene.statuses(), ["completed"])


async def a_no(scene: Scene) -> None:
    """A no: nothing runs, and the model reads the tool's reason."""
    program = scene.program()
    await scene.waits(program)
    await scene.answer(False)
    outcome = await scene.enter(program)
    same("what the model reads", reads(outcome), f"read: {NO}")
    same("effects", scene.effects, [])


async def an_answer_at_once(scene: Scene) -> None:
    """A person who is there: the run does not stop."""
    program = scene.program()
    outcome = await scene.enter(program, prompter=ScriptedPrompter({"deploy.confirm": True}))
    same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))
    same("effects", scene.effects, ["eu"])


async def no_answer_yet(scene: Scene) -> None:
    """No answer yet: entering again and again asks nothing twice."""
    program = scene.program()
    first = await scene.waits(program)
    for _ in range(3):
        same("the open question", [one.id for one in await scene.waits(program)], [one.id for one in first])
    same("questions on record", await scene.asked(), ["Deploy to eu?"])


async def a_reply(scene: Scene) -> None:
    """A reply in place of an answer: it is the result of the call, and nothing runs."""
    program = scene.program()
    await scene.waits(program)
    await scene.store().answer(await scene.question(), reply="Not before the audit.", user="ada")
    outcome = await scene.enter(program)
    same("the model reads the reply", "Not before the audit." in str(outcome.text), True)
    same("effects", scene.effects, [])


async def an_end(scene: Scene) -> None:
    """A person ends the turn at once: the run ends, and the program is told."""
    from midturn.question.reply import EndedTurn

    prompter = ScriptedPrompter({"deploy.confirm": EndedTurn()})
    ended = await raises("the run", CallEnded, scene.enter(scene.program(), prompter=prompter))
    same("`turn_ended`", getattr(ended, "turn_ended", None), True)
    same("effects", scene.effects, [])
    same("the turn is over", await scene.statuses(), ["ended_by_user"])


async def an_end_meanwhile(scene: Scene) -> None:
    """A person ends the turn while no process runs it: the next entry raises `CallEnded`, and nobody is asked again."""
    program = scene.program()
    await scene.waits(program)
    await scene.store().end(scene.conversation, user="ada")
    ended = await raises("the next entry", CallEnded, scene.enter(program))
    same("`turn_ended`", getattr(ended, "turn_ended", None), True)
    same("questions on record", await scene.asked(), ["Deploy to eu?"])
    same("effects", scene.effects, [])


async def two_answers(scene: Scene) -> None:
    """Two answers at the same time: one counts, the other is refused."""
    program = scene.program()
    (question,) = await scene.waits(program)
    both = await asyncio.gather(
        *(scene.store().answer(question, value, user=user) for value, user in ((True, "ada"), (True, "ben"))), return_exceptions=True
    )
    refused = [one for one in both if isinstance(one, BaseException)]
    same("the answer that came second", [type(one) for one in refused], [AlreadyAnswered])
    await scene.enter(program)
    same("effects", scene.effects, ["eu"])


async def a_late_answer(scene: Scene) -> None:
    """An answer after the turn is over is refused."""
    program = scene.program()
    (question,) = await scene.waits(program)
    await scene.answer(False)
    await scene.enter(program)
    await raises("the second answer", AlreadyAnswered, scene.store().answer(question, True))
    same("effects", scene.effects, [])


async def an_answer_of_a_wrong_type(scene: Scene) -> None:
    """An answer of a wrong type is refused to its author, and the question stays open."""
    program = scene.program()
    (question,) = await scene.waits(program)
    await raises("the answer", AnswerError, scene.store().answer(question, "perhaps"))
    await scene.waits(program)
    await scene.answer(True)
    await scene.enter(program)
    same("effects", scene.effects, ["eu"])


async def answers_keep_their_types(scene: Scene) -> None:
    """Answers have the types of their questions in another process: options, lists, decimals, texts with line breaks."""
    region = Question.select("region", "Which region?", ["eu-1", "us-2"])
    teams = Question.multi_select("teams", "Which teams?", ["web", "data", "ops"])
    share = Question.schema("share", "Which share?", Decimal)
    note = Question.text("note", "What to note?")

    async def plan() -> str:
        """Plan the release."""
        answers = [await scene.ask(region), await scene.ask(teams), await scene.ask(share), await scene.ask(note)]
        return repr(answers)

    program = Program(replies([ModelCall("call_1", "plan")]), [ProgramTool("plan", plan)])
    given = {"region": "us-2", "teams": ["web", "ops"], "share": Decimal("0.10"), "note": "one\ntwo — ünï 🙂"}
    for value in given.values():
        await scene.waits(program)
        await scene.answer(str(value) if isinstance(value, Decimal) else value)
    outcome = await scene.enter(program)
    same("what the model reads", outcome.text, await scene.plain(program, given))


async def several_questions(scene: Scene) -> None:
    """Three questions of one call, each answered in another process."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        for name in ("one", "two", "three"):
            if not await scene.ask(Question.boolean(name, f"Step {name} of {env}?")):
                raise Rejected(NO)
        return scene.deployed(env)

    program = scene.program(tool=ProgramTool("deploy", deploy))
    for name in ("one", "two", "three"):
        same("the open question", [one.question.text for one in await scene.waits(program)], [f"Step {name} of eu?"])
        await scene.answer(True)
    await scene.enter(program)
    same("effects", scene.effects, ["eu"])
    same("questions on record", len(await scene.asked()), 3)


async def a_question_far_down(scene: Scene) -> None:
    """A question that is asked by a function of a function, in a task of its own."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        yes = await asyncio.create_task(scene.ask(confirm(env)))
        return scene.deployed(env) if yes else NO

    program = scene.program(tool=ProgramTool("deploy", deploy))
    await scene.waits(program)
    await scene.answer(True)
    await scene.enter(program)
    same("effects", scene.effects, ["eu"])


async def a_secret(scene: Scene) -> None:
    """A secret reaches the tool, and neither the model nor the record."""
    passphrase = "correct horse battery"  # noqa: S105  an invented one

    async def sign(env: str) -> str:
        """Sign the release."""
        secret = await scene.ask(Question.secret("passphrase", "The passphrase?"))
        return f"{env} is signed with {secret.reveal()}."

    program = scene.program(tool=ProgramTool("sign", sign))
    outcome = await scene.enter(program, prompter=ScriptedPrompter({"sign.passphrase": passphrase}))
    same("the model reads the secret", passphrase in str(outcome.text), False)
    recorded = b"".join(file.read_bytes() for file in scene.folder.rglob("*") if file.is_file())
    same("the secret is on disk", passphrase.encode() in recorded, False)


# Permissions ------------------------------------------------------------------------------------------------------------


def _gated(scene: Scene, *, needs_approval: bool = True) -> Program:
    """Return an agent whose tool asks nothing itself, and may need approval."""

    async def deploy(env: str, replicas: int = 1) -> str:
        """Deploy the service."""
        _ = replicas
        return scene.deployed(env)

    return scene.program(tool=ProgramTool("deploy", deploy, needs_approval=needs_approval))


async def an_approval(scene: Scene) -> None:
    """A call that needs approval, in the framework's own way: a yes lets it run once."""
    program = _gated(scene)
    (question,) = await scene.waits(program)
    same("the tool and its arguments are shown", (question.tool, question.arguments), ("deploy", {"env": "eu"}))
    await scene.store().answer(question, approve=True, user="ada")
    outcome = await scene.enter(program)
    same("what the model reads", outcome.text, "read: eu is live.")
    same("effects", scene.effects, ["eu"])
    same("questions on record", len(await scene.asked()), 1)


async def a_refusal(scene: Scene) -> None:
    """A call that needs approval: a no with a reason, which the model reads."""
    program = _gated(scene)
    (question,) = await scene.waits(program)
    await scene.store().answer(question, approve=False, reason="The audit is not over.", user="ada")
    outcome = await scene.enter(program)
    same("the model reads the reason", "The audit is not over." in str(outcome.text), True)
    same("effects", scene.effects, [])


async def a_refusal_outlives_new_code(scene: Scene) -> None:
    """A no counts, also if the program that goes on would ask no more."""
    (question,) = await scene.waits(_gated(scene))
    await scene.store().answer(question, approve=False, user="ada")
    await scene.enter(_gated(scene, needs_approval=False))
    same("effects", scene.effects, [])


async def an_edit(scene: Scene) -> None:
    """Edited arguments run, and the model is told."""
    program = _gated(scene)
    (question,) = await scene.waits(program)
    await scene.store().answer(question, arguments={"env": "us"}, user="ada")
    outcome = await scene.enter(program)
    same("effects", scene.effects, ["us"])
    same("the model reads the arguments that ran", '"us"' in str(outcome.text) and "us is live." in str(outcome.text), True)


async def an_edit_that_does_not_fit(scene: Scene) -> None:
    """An edit that does not fit the tool's schema is refused to its author, and the question stays open."""
    program = _gated(scene)
    (question,) = await scene.waits(program)
    await raises("the edit", AnswerError, scene.store().answer(question, arguments={"env": "us", "replicas": "many"}, user="ada"))
    same("the question is open", [one.id for one in await scene.pending()], [question.id])
    await scene.store().answer(question, arguments={"env": "us", "replicas": 3}, user="ada")
    await scene.enter(program)
    same("effects", scene.effects, ["us"])


async def a_gated_call_next_to_another(scene: Scene) -> None:
    """Of two calls at once, one needs approval: the other runs, once."""

    async def deploy(env: str) -> str:
        """Deploy the service."""
        return scene.deployed(env)

    async def look(env: str) -> str:
        """Look at the service."""
        scene.effects.append(f"looked at {env}")
        return f"{env} looks well."

    calls = [ModelCall("call_1", "deploy", {"env": "eu"}), ModelCall("call_2", "look", {"env": "eu"})]
    program = Program(replies(calls), [ProgramTool("deploy", deploy, needs_approval=True), ProgramTool("look", look)])
    (question,) = await scene.waits(program)
    await scene.store().answer(question, approve=True, user="ada")
    outcome = await scene.enter(program)
    same("effects", sorted(scene.effects), ["eu", "looked at eu"])
    same("what the model reads", sorted(str(outcome.text).removeprefix("read: ").split(" | ")), ["eu is live.", "eu looks well."])
    same("the turn is over", await scene.statuses(), ["completed"])


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
