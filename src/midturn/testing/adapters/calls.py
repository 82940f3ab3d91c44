"""Stories about calls: concurrent and identical calls, large and unusual values, and framework
features such as guardrails and streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from midturn.question.question import Question
from midturn.testing.adapters.program import (
    Entry,
    ModelReply,
    PlannedCall,
    Program,
    ProgramTool,
    Saved,
)
from midturn.testing.adapters.scene import Scene, confirm, expect_same, reads, replies
from midturn.testing.prompter import ScriptedPrompter

_PNG: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
_UNUSUAL: Final = "“q” \\ \" ' \u202e \u200b 🙂 é e\u0301 <b> %s {x} \n\t end"


async def two_calls(scene: Scene) -> None:
    """Two concurrent calls: both questions are open at the same time and are answered in reverse
    order.
    """
    program = scene.program("eu", "us")
    expect_same(
        "open questions",
        sorted(each.question.text for each in await scene.waits(program)),
        ["Deploy to eu?", "Deploy to us?"],
    )
    await scene.answer(True, "us")
    await scene.answer(True, "eu")
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))
    expect_same("effects", sorted(scene.effects), ["eu", "us"])


async def one_of_two_calls(scene: Scene) -> None:
    """One of two concurrent calls is answered: the other stays open, and no tool runs twice."""
    program = scene.program("eu", "us")
    await scene.waits(program)
    await scene.answer(True, "us")
    expect_same(
        "open questions",
        [each.question.text for each in await scene.waits(program)],
        ["Deploy to eu?"],
    )
    await scene.answer(False, "eu")
    outcome = await scene.enter(program)
    expect_same(
        "what the model reads",
        sorted(reads(outcome).removeprefix("read: ").split(" | ")),
        ["Not deployed.", "us is live."],
    )
    expect_same("effects", scene.effects, ["us"])
    expect_same(
        "recorded questions", sorted(await scene.asked()), ["Deploy to eu?", "Deploy to us?"]
    )


async def equal_calls(scene: Scene) -> None:
    """Two concurrent calls with equal arguments and different ids: each gets its own answer."""
    program = scene.program("eu", "eu")
    first, second = await scene.waits(program)
    await scene.store().answer(first, False, user="ada")
    await scene.store().answer(second, True, user="ada")
    outcome = await scene.enter(program)
    expect_same("what the model reads", reads(outcome), "read: Not deployed. | eu is live.")
    expect_same("effects", scene.effects, ["eu"])


def _repeating(scene: Scene) -> Program:
    """Return an agent whose first two model replies contain the same call with the same id."""

    def reply(number: int, read: Sequence[str]) -> ModelReply:
        call = PlannedCall("call_1", "deploy", {"env": "eu"})
        return (
            ModelReply("", (call,)) if number in (0, 1) else ModelReply("read: " + " | ".join(read))
        )

    return Program(reply, [ProgramTool("deploy", scene.deploy)])


async def equal_ids(scene: Scene) -> None:
    """The model uses the same call id in two replies: the second call is asked separately."""
    program = _repeating(scene)
    await scene.waits(program)
    await scene.answer(True)
    await scene.waits(program)
    await scene.answer(False)
    outcome = await scene.enter(program)
    expect_same("what the model reads", reads(outcome), "read: eu is live. | Not deployed.")
    expect_same("effects", scene.effects, ["eu"])


async def one_call_after_another(scene: Scene) -> None:
    """The model makes another call after each result: each call waits for its own answer, in
    order.
    """

    def reply(number: int, read: Sequence[str]) -> ModelReply:
        envs = ("eu", "us", "ap")
        if number < len(envs):
            return ModelReply("", (PlannedCall(f"call_{number}", "deploy", {"env": envs[number]}),))
        return ModelReply("read: " + " | ".join(read))

    program = Program(reply, [ProgramTool("deploy", scene.deploy)])
    for env in ("eu", "us", "ap"):
        expect_same(
            "the open question",
            [each.question.text for each in await scene.waits(program)],
            [f"Deploy to {env}?"],
        )
        await scene.answer(True)
    outcome = await scene.enter(program)
    expect_same(
        "what the model reads", outcome.text, "read: eu is live. | us is live. | ap is live."
    )
    expect_same("effects", scene.effects, ["eu", "us", "ap"])


async def the_same_question_of_two_tools(scene: Scene) -> None:
    """Two tools ask questions with the same id and text: a yes to one question does not answer the
    other.
    """

    async def deploy(env: str) -> str:
        """Deploy the service."""
        return (
            scene.deployed(env)
            if await scene.ask(Question.boolean("sure", "Are you sure?"))
            else "Not deployed."
        )

    async def drop(env: str) -> str:
        """Drop the database."""
        return (
            scene.deployed(f"dropped {env}")
            if await scene.ask(Question.boolean("sure", "Are you sure?"))
            else "Not dropped."
        )

    calls = [
        PlannedCall("call_1", "deploy", {"env": "eu"}),
        PlannedCall("call_2", "drop", {"env": "eu"}),
    ]
    program = Program(replies(calls), [ProgramTool("deploy", deploy), ProgramTool("drop", drop)])
    questions = {question.tool: question for question in await scene.waits(program)}
    await scene.store().answer(questions["deploy"], True, user="ada")
    await scene.waits(program)
    expect_same("effects", [effect for effect in scene.effects if "dropped" in effect], [])
    await scene.store().answer(questions["drop"], False, user="ada")
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, "read: eu is live. | Not dropped.")


def _delegating(scene: Scene) -> ProgramTool:
    """Return a tool that runs a nested agent of the framework. The nested agent has a tool with the
    same name, which asks a question.
    """

    async def deploy(env: str) -> str:
        """Have the service deployed."""
        said = await scene.harness.run(
            scene.program(f"{env}-1", f"{env}-2"), Saved(), Entry(None, f"Deploy {env}.")
        )
        return str(said.text).replace(" | ", ", ")

    return ProgramTool("deploy", deploy)


async def an_agent_inside_a_tool(scene: Scene) -> None:
    """A tool runs a nested agent whose tool asks a question: the question belongs to the outer call
    and suspends the outer run.
    """
    program = scene.program(tool=_delegating(scene))
    for env in ("eu-1", "eu-2"):
        await scene.waits(program)
        await scene.answer(True, f"Deploy to {env}?")
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, "read: read: eu-1 is live., eu-2 is live.")
    expect_same(
        "recorded questions", sorted(await scene.asked()), ["Deploy to eu-1?", "Deploy to eu-2?"]
    )


async def two_agents_inside_tools(scene: Scene) -> None:
    """Two concurrent calls run a nested agent each: each answer reaches the agent that asked."""
    program = scene.program("eu", "us", tool=_delegating(scene))
    outcome = await scene.enter(program)
    while outcome.text is None:
        for question in await scene.pending():
            await scene.store().answer(question, "eu" in question.question.text, user="ada")
        outcome = await scene.enter(program)
    expect_same(
        "the model reads of the first agent",
        "eu-1 is live., eu-2 is live." in str(outcome.text),
        True,
    )
    expect_same("effects that no one allowed", [env for env in scene.effects if "us" in env], [])


async def large_and_unusual_values(scene: Scene) -> None:
    """Large, nested and unusual arguments and results are unchanged, as without midturn."""

    async def store(values: dict[str, Any]) -> str:
        """Store values."""
        await scene.ask(Question.boolean("confirm", "Store it?"))
        return f"{len(str(values['long']))} {values['nested']} {values['text']}"

    values: dict[str, Any] = {
        "long": "x" * 100_000,
        "nested": {"a": [1, 2.5, None, True, {"": []}]},
        "text": _UNUSUAL,
        "__proto__": "p",
        "number": 10**15,
    }
    program = Program(
        replies([PlannedCall("call_1", "store", {"values": values})]),
        [ProgramTool("store", store)],
    )
    await scene.waits(program)
    await scene.answer(True)
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))


async def a_result_that_is_no_text(scene: Scene) -> None:
    """A tool returns an object: the model reads the same text as without midturn, even after a
    restart.
    """

    async def deploy(env: str) -> dict[str, Any]:
        """Deploy the service."""
        await scene.ask(confirm(env))
        return {"env": env, "replicas": 3, "ok": True}

    program = scene.program("eu", "us", tool=ProgramTool("deploy", deploy))
    await scene.waits(program)
    await scene.answer(True, "eu")
    await scene.waits(program)
    await scene.answer(True, "us")
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))


async def an_image(scene: Scene) -> None:
    """A tool returns an image: the model receives the same image as without midturn."""

    async def draw(env: str) -> object:
        """Draw the load."""
        await scene.ask(confirm(env))
        return scene.harness.image(_PNG)

    program = scene.program(tool=ProgramTool("draw", draw))
    await scene.waits(program)
    await scene.answer(True)
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))
    expect_same("an image arrived", f"[image of {len(_PNG)} bytes]" in str(outcome.text), True)


async def a_context(scene: Scene) -> None:
    """The framework's run context is available in a tool, before and after the question."""

    async def whoami(context: str) -> str:
        yes = await scene.ask(
            Question.boolean("confirm", f"Tell the model that this is {context}?")
        )
        return context if yes else "nobody"

    program = Program(replies([PlannedCall("call_1", "whoami")]), [], "user 42", whoami)
    expect_same(
        "the question",
        [each.question.text for each in await scene.waits(program)],
        ["Tell the model that this is user 42?"],
    )
    await scene.answer(True)
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, "read: user 42")


async def a_guardrail(scene: Scene) -> None:
    """A guardrail or validator refuses a call: no question is asked, the tool does not run, and the
    model reads the reason.
    """

    def refuse(arguments: Mapping[str, Any]) -> str | None:
        return "No deployments to eu." if arguments.get("env") == "eu" else None

    program = scene.program(tool=ProgramTool("deploy", scene.deploy, refuse=refuse))
    outcome = await scene.enter(program)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))
    expect_same("the model reads why", "No deployments to eu." in str(outcome.text), True)
    expect_same("recorded questions", await scene.asked(), [])
    expect_same("effects", scene.effects, [])


async def a_stream(scene: Scene) -> None:
    """The framework's stream contains the questions and has the same result."""
    program = scene.program()
    prompter = ScriptedPrompter({"deploy.confirm": True})
    outcome = await scene.enter(program, prompter=prompter, is_stream=True)
    names = [type(event).__name__ for event in outcome.events]
    ours = [
        name
        for name in names
        if name in ("ToolStarted", "Asked", "QuestionAnswered", "ToolFinished")
    ]
    expect_same(
        "events of midturn", ours, ["ToolStarted", "Asked", "QuestionAnswered", "ToolFinished"]
    )
    expect_same("there are events of the framework", len(names) > len(ours), True)
    expect_same("what the model reads", outcome.text, await scene.plain(program, {"confirm": True}))


async def a_stream_that_waits(scene: Scene) -> None:
    """A stream ends at an open question, and the next stream continues the turn."""
    program = scene.program()
    first = await scene.enter(program, is_stream=True)
    expect_same("the run waits", first.text, None)
    expect_same(
        "the question is in the stream",
        [type(event).__name__ for event in first.events].count("Asked"),
        1,
    )
    await scene.answer(True)
    outcome = await scene.enter(program, is_stream=True)
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("effects", scene.effects, ["eu"])


async def without_asyncio(scene: Scene) -> None:
    """A program without an event loop, with synchronous tools."""
    program = scene.program(tool=ProgramTool("deploy", scene.deploy_sync))
    expect_same("the run waits", (await scene.enter_sync(program)).text, None)
    await scene.answer(True)
    outcome = await scene.enter_sync(program)
    expect_same("what the model reads", outcome.text, "read: eu is live.")
    expect_same("effects", scene.effects, ["eu"])


STORIES: Final = (
    two_calls,
    one_of_two_calls,
    equal_calls,
    equal_ids,
    one_call_after_another,
    the_same_question_of_two_tools,
    an_agent_inside_a_tool,
    two_agents_inside_tools,
    large_and_unusual_values,
    a_result_that_is_no_text,
    an_image,
    a_context,
    a_guardrail,
    a_stream,
    a_stream_that_waits,
    without_asyncio,
)
