"""Errors name a wrong value and say what to pass instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import midturn as mt
from support.agents import CONFIRM, calling, careful, tool_results
from support.stored import all_conversation_ids

MODEL = mt.ScriptedModel([{"text": "Done."}])


def add(left: int, right: int) -> int:
    """Add."""
    return left + right


class Wrong:
    """A class that no parameter accepts."""


class MisspelledTool:
    """A tool class with a misspelled attribute."""

    definition = mt.ToolDefinition("accept_keys_at_once", "Do it.", {"type": "object"})
    run = "aks"

    async def execute(self, run: mt.ToolRun) -> mt.Outcome:
        return mt.Success(run.call.name)


def routed(key: str, to: Any) -> mt.Agent:
    return mt.Agent(MODEL, tools=[careful], routes={key: to})


def with_tools(*tools: Any) -> mt.Agent:
    return mt.Agent(MODEL, tools=tools)


def with_any(**wrong: Any) -> mt.Agent:
    """Return an agent with arguments that a type checker would refuse."""
    given: dict[str, Any] = {"model": MODEL, **wrong}
    return mt.Agent(**given)


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (
            lambda: with_any(model=Wrong()),
            TypeError,
            "`model` takes an id such .*, a model, or a pydantic-ai model, not a `Wrong`",
        ),
        (lambda: with_any(model=mt.ScriptedModel), TypeError, "`model` takes an id"),
        (lambda: with_any(tools=careful), TypeError, r"`tools` takes a list: `tools=\[deploy\]`"),
        (
            lambda: with_tools(Wrong()),
            TypeError,
            "a `Wrong` is not a tool.*'definition', 'execute'",
        ),
        (lambda: with_tools("deploy"), TypeError, "a `str` is not a tool"),
        (
            lambda: with_tools(mt.AskUser),
            TypeError,
            "is a class; a tool is an object.*`midturn.ask_user`",
        ),
        (
            lambda: with_tools(mt.AskUser()),
            TypeError,
            "`AskUser` is not a tool.*`midturn.ask_user`",
        ),
        (
            lambda: with_tools(lambda: 1),
            mt.ConfigError,
            r"`<lambda>` is not a valid tool name.*@tool\(name=",
        ),
        (lambda: with_tools(careful, careful), mt.ConfigError, "Two tools have the name `careful`"),
        (
            lambda: with_tools(mt.tool(name="ask_user")(add)),
            mt.ConfigError,
            "`ask_user` is the name of a built-in tool",
        ),
        (
            lambda: routed("carefull.confirm", "user"),
            mt.ConfigError,
            "no tool `carefull`. Did you mean `careful`",
        ),
        (
            lambda: routed("careful", "user"),
            mt.ConfigError,
            r"named `<tool>.<question>`, or `<tool>.\*`",
        ),
        (
            lambda: routed("careful.a", "assistent"),
            mt.ConfigError,
            "'assistent' is not a target. Did you mean `assistant`",
        ),
        (
            lambda: routed("careful.a", {"modle": {}}),
            mt.ConfigError,
            r"routes\['careful.a'\]: `modle` is unknown. Did you mean `model`",
        ),
        (lambda: routed("careful.a", True), mt.ConfigError, "not a `bool`"),
        (
            lambda: with_any(detached="wait"),
            mt.ConfigError,
            "detached='wait': must be one of 'defer', 'auto', 'defaults', 'deny'",
        ),
        (
            lambda: with_any(limits={"cycels": 3}),
            mt.ConfigError,
            r"limits\['cycels'\] is unknown. Did you mean `cycles`",
        ),
        (
            lambda: with_any(limits={"cycles": "many"}),
            mt.ConfigError,
            "limits: Expected `int`, got `str`",
        ),
        (
            lambda: with_any(limits={"repeats": 0}),
            mt.ConfigError,
            r"limits\['repeats'\] is 0: it must be at least 1\.",
        ),
        (
            lambda: with_any(limits={"seconds": -0.5}),
            mt.ConfigError,
            r"limits\['seconds'\] is -0.5: it must be at least 0\.",
        ),
        (
            lambda: with_any(limits=mt.Limits(shown=-1)),
            mt.ConfigError,
            r"limits\['shown'\] is -1: it must be at least 1\.",
        ),
        (
            lambda: with_any(limits=mt.Limits(cycles=cast("Any", "3"))),
            mt.ConfigError,
            "limits: Expected `int`, got `str`",
        ),
        (
            lambda: with_any(prompter=mt.TerminalPrompter),
            TypeError,
            r"not the class `TerminalPrompter`: write `prompter=T",
        ),
        (
            lambda: with_any(prompter=Wrong()),
            TypeError,
            r"`async def prompt\(self, prompt\)`, not a `Wrong`",
        ),
        (
            lambda: with_any().run_sync("x", prompter=cast("Any", Wrong())),
            TypeError,
            "not a `Wrong`",
        ),
        (
            lambda: mt.tool(run=cast("Any", "Ask"))(add),
            mt.ConfigError,
            r"Tool `add`: run='Ask' is not one of 'ask', .* Did you mean `ask`",
        ),
        (
            lambda: with_tools(MisspelledTool()),
            mt.ConfigError,
            r"Tool `accept_keys_at_once`: run='aks' is not one of .* Did you mean `ask`",
        ),
        (lambda: mt.tool(name=cast("Any", 7))(add), TypeError, "`name` must be a string, not 7"),
        (
            lambda: with_any(store="var/chats"),
            TypeError,
            r"not its address: write `store=open_store\('var/chats'\)`",
        ),
        (lambda: with_any(store=mt.MemoryStore), TypeError, "`store` takes a store"),
        (
            lambda: with_any(may_answer=True),
            TypeError,
            "`may_answer` takes a function .* not a `bool`",
        ),
        (
            lambda: mt.Inquirer(cast("Any", "var/chats"), "1"),
            TypeError,
            "`store` takes a store, not its address",
        ),
        (
            lambda: mt.Inquirer(mt.MemoryStore(), cast("Any", 7)),
            TypeError,
            "`conversation` must be a string, not 7",
        ),
        (
            lambda: mt.route(CONFIRM, target=cast("Any", "usr")),
            mt.ConfigError,
            "Invalid target='usr': expected one of 'user', 'assistant'",
        ),
        (
            lambda: mt.route(CONFIRM, detached=cast("Any", "wait")),
            mt.ConfigError,
            "Invalid detached='wait': expected one of",
        ),
        (
            lambda: mt.Answered(True, reason=cast("Any", 7)),
            TypeError,
            r"`reason` must be a string, not 7. Convert a number with",
        ),
        (
            lambda: mt.ToolCallPart(cast("Any", None), "deploy", {}),
            TypeError,
            "`id` must be a string, not None",
        ),
        (lambda: mt.TextPart(cast("Any", 7)), TypeError, "`text` must be a string, not 7"),
        (
            lambda: mt.Replied(cast("Any", ["no"])),
            TypeError,
            r"`text` must be a string, not \['no'\]\.$",
        ),
        (
            lambda: with_any().run_sync("x", conversation="7"),
            mt.StoreError,
            "There is no conversation '7'",
        ),
    ],
)
def test_wrong_argument_is_named_in_the_error(
    build: Callable[[], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        build()


@pytest.mark.parametrize(
    "wrong",
    [{"user": 42}, {"via": None}, {"reason": 5}, {"remember": 1}, {"cancel": 1}, {"approve": "y"}],
)
def test_unserialisable_answer_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    store = mt.open_store(tmp_path)
    agent = mt.Agent(calling("careful"), tools=[careful], store=store)
    (open_one,) = agent.run_sync("x").pending

    with pytest.raises(TypeError, match=f"`{next(iter(wrong))}` (must be|takes)"):
        store.answer_sync(open_one.id, True, **wrong)

    assert [one.id for one in store.pending_sync()] == [open_one.id]
    store.answer_sync(open_one.id, True, user="42")
    assert agent.resume_sync(open_one.conversation).text == "Done."


@pytest.mark.parametrize(
    ("text", "more"), [(42, {}), (None, {}), (b"x", {}), ("x", {"author": 42})]
)
def test_unserialisable_request_begins_no_turn(text: Any, more: dict[str, Any]) -> None:
    agent = with_any()

    with pytest.raises(TypeError, match=f"`{'author' if more else 'text'}` must be a string"):
        agent.run_sync(text, **more)
    with pytest.raises(TypeError, match="must be a string"), agent.stream_sync(text, **more):
        pass

    assert all_conversation_ids(agent.store) == []


def test_prompter_with_a_non_text_user_fails() -> None:
    class Numbered(mt.Prompter):
        """A prompter whose `user` is a number."""

        user: Any = 42

        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            return mt.Answered(value=prompt.can_reply)

    agent = mt.Agent(calling("careful"), tools=[careful])
    result = agent.run_sync("x", prompter=Numbered())

    assert "`user` must be a string, not 42" in tool_results(agent.store, result.conversation)[0]


@pytest.mark.parametrize(
    "outcome", [mt.Success(cast("Any", {"ok": True})), mt.ToolError(cast("Any", 7))]
)
def test_outcome_without_text_is_an_error_for_the_model(outcome: mt.Outcome) -> None:
    @mt.tool
    async def shaped() -> mt.Outcome:
        """Return an outcome whose text is not a string."""
        return outcome

    agent = mt.Agent(calling("shaped"), tools=[shaped])
    result = agent.run_sync("x")

    assert result.status == "completed"
    assert "the model can only read text" in tool_results(agent.store, result.conversation)[0]


def test_call_id_must_be_text() -> None:
    async def one_call() -> None:
        store = mt.MemoryStore()
        inquirer = mt.Inquirer(store, await store.new())
        async with inquirer.turn("x"):
            await inquirer.run("deploy", cast("Any", 7), {}, lambda _: pytest.fail("it ran"))

    with pytest.raises(
        TypeError, match=r"`call_id` must be a string, not 7. Convert a number with"
    ):
        asyncio.run(one_call())


def test_invalid_question_error_names_the_constructors() -> None:
    @mt.tool
    async def wrong(ctx: mt.ToolContext) -> str:
        """Ask wrongly."""
        return await ctx.ask("Deploy?")  # type: ignore[arg-type]  # that is the point

    agent = mt.Agent(calling("wrong"), tools=[wrong])
    said = tool_results(agent.store, agent.run_sync("x").conversation)[0]
    assert "/questions/0: a `str` is not a question. Build one with `Question.boolean`" in said


def test_invalid_form_is_an_error_and_the_turn_continues() -> None:
    @mt.tool
    async def wrong(ctx: mt.ToolContext) -> str:
        """Ask wrongly."""
        await ctx.ask_form([CONFIRM])  # type: ignore[arg-type]  # that is the point
        return "never"

    agent = mt.Agent(calling("wrong"), tools=[wrong])
    result = agent.run_sync("x")
    assert result.status == "completed"
    assert (
        "`ask_form` needs a form, not a `list`" in tool_results(agent.store, result.conversation)[0]
    )


def test_an_answer_of_another_form_is_an_error() -> None:
    @mt.tool
    async def wrong(ctx: mt.ToolContext) -> str:
        """Look for an answer that is not there."""
        answers = await ctx.ask_form(mt.Form([CONFIRM]))
        try:
            answers["confirm"]  # type: ignore[index]  # that is the point
        except TypeError as error:
            return f"{error} {answers[mt.Question.text('other', 'Other?')]}"
        return "never"

    agent = mt.Agent(calling("wrong"), tools=[wrong])
    result = agent.run_sync("x", prompter=mt.ScriptedPrompter({"wrong.confirm": True}))
    assert (
        "`other` is not a question of this form; it has 'confirm'."
        in tool_results(agent.store, result.conversation)[0]
    )


def test_tool_without_an_outcome_is_an_error_for_the_model() -> None:
    class UnsafeHarness:
        """A tool that returns something other than an outcome, or asks something other than a
        form.
        """

        definition = mt.ToolDefinition("careless", "Return something.", {"type": "object"})

        def __init__(self, returned: object) -> None:
            self.returned = returned

        def inquiry_source(self) -> mt.Source:
            return mt.Source.tool("careless")

        async def execute(self, run: mt.ToolRun) -> mt.Outcome:
            assert run.call.name == "careless"
            return self.returned  # type: ignore[return-value]  # that is the point

    for returned, says in [
        (
            "text",
            "careless returned a `str`; `execute` returns `Success`, `ToolError` or `NeedsInput`.",
        ),
        (
            mt.NeedsInput([CONFIRM]),  # type: ignore[arg-type]  # as above
            "careless returned `NeedsInput` with a `list`; it takes a `Form`.",
        ),
    ]:
        agent = mt.Agent(calling("careless"), tools=[UnsafeHarness(returned)])
        assert tool_results(agent.store, agent.run_sync("x").conversation) == [says]


def test_run_sync_inside_a_loop_says_what_to_await() -> None:
    async def scene() -> None:
        with pytest.raises(RuntimeError, match=r"Use `await agent\.run\(…\)`"):
            mt.Agent(MODEL).run_sync("x")

    asyncio.run(scene())


def test_error_about_an_open_turn_says_how_to_resume() -> None:
    agent = mt.Agent(calling("careful"), tools=[careful])
    result = agent.run_sync("x")
    with pytest.raises(
        mt.StoreError, match=rf"still open.*await agent\.resume\('{result.conversation}'\)"
    ):
        agent.run_sync("y", conversation=result.conversation)


def test_a_turn_that_has_ended_cannot_be_resumed() -> None:
    async def scene() -> None:
        agent = mt.Agent(MODEL)
        result = await agent.run("x")
        with pytest.raises(mt.NotOpen, match="no open turn"):
            await agent.resume(result.conversation)

    asyncio.run(scene())
