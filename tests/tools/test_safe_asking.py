"""Common mistakes of tool authors, and asking from any call depth."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest

import midturn as mt
from midturn.runtime.side_request import question_text
from support.agents import CONFIRM, calling, tool_results

pytestmark = pytest.mark.filterwarnings("error")


def result_of(tool: Any, replies: Any = None, arguments: Any = None) -> str:
    """Run one tool in a turn, and return the result that the model reads."""
    name = tool.definition.name
    agent = mt.Agent(
        calling(name, arguments=arguments or {}),
        tools=[tool],
        prompter=mt.ScriptedPrompter(replies or {f"{name}.confirm": True}),
    )
    result = agent.run_sync("Go.")
    assert result.status == "completed"
    return tool_results(agent.store, result.conversation)[0]


def test_a_missing_await_is_not_a_yes() -> None:
    @mt.tool
    async def deploy(ctx: mt.ToolContext) -> str:
        return "deployed" if ctx.ask(CONFIRM) else "left it"  # pyright: ignore[reportUnnecessaryComparison]  # the mistake

    assert result_of(deploy).startswith("TypeError: `confirm` has no answer yet")


def test_an_ask_that_is_never_awaited_is_an_error() -> None:
    @mt.tool
    async def deploy(ctx: mt.ToolContext) -> str:
        ctx.ask(CONFIRM)  # pyright: ignore[reportUnusedCoroutine]  # the mistake
        return "deployed"

    assert "`confirm` was never asked: its `ask` was not awaited" in result_of(deploy)


def test_a_closed_ask_or_a_task_does_not_count_as_forgotten() -> None:
    @mt.tool
    async def deploy(ctx: mt.ToolContext) -> str:
        ctx.ask(mt.Question.boolean("other", "Other?")).close()
        first, second = await asyncio.gather(
            asyncio.create_task(ctx.ask(CONFIRM)), ctx.ask(mt.Question.text("name", "Name?"))
        )
        return f"{first} {second}"

    assert result_of(deploy, {"deploy.confirm": True, "deploy.name": "x"}) == "True x"


def test_the_wrong_ask_function_raises_at_once_and_names_the_right_one() -> None:
    @mt.tool
    def deploy(ctx: mt.ToolContext) -> str:
        return "deployed" if ctx.ask(CONFIRM) else "left it"  # pyright: ignore[reportUnnecessaryComparison]  # the mistake

    @mt.tool
    async def ship(ctx: mt.ToolContext) -> str:
        return str(ctx.ask_sync(CONFIRM))

    assert "use `ctx.ask_sync(…)`" in result_of(deploy)
    assert "await ctx.ask(…)" in result_of(ship)


def deep_sync() -> bool:
    """Ask far away from the tool."""
    return mt.ask_sync(CONFIRM)


async def deep() -> bool:
    """Ask far away from the tool."""
    return await mt.ask(CONFIRM)


def test_asking_works_at_any_call_depth_without_the_context() -> None:
    @mt.tool
    async def awaits() -> str:
        return str(await deep())

    @mt.tool
    async def in_a_task() -> str:
        return str(await asyncio.create_task(deep()))

    @mt.tool
    async def in_a_thread() -> str:
        return str(await asyncio.to_thread(deep_sync))

    @mt.tool
    def blocks() -> str:
        return str(deep_sync())

    @mt.tool
    async def form() -> str:
        answers = await mt.ask_form(mt.Form([CONFIRM]))
        tried = await mt.try_ask(CONFIRM)
        return f"{answers[CONFIRM]} {isinstance(tried, mt.Answer) and tried.value}"

    @mt.tool
    def form_in_a_thread() -> str:
        tried = mt.try_ask_sync(CONFIRM)
        return (
            f"{mt.ask_form_sync(mt.Form([CONFIRM]))[CONFIRM]}"
            f" {isinstance(tried, mt.Answer) and tried.value}"
        )

    for tool in (awaits, in_a_task, in_a_thread, blocks):
        assert result_of(tool) == "True"
    for tool in (form, form_in_a_thread):
        assert result_of(tool, {f"{tool.name}.confirm": [True, False]}) in (
            "True False",
            "False True",
        )


def test_an_agent_inside_a_tool_asks_in_its_own_call() -> None:
    @mt.tool
    async def inner() -> str:
        return str(await mt.ask(mt.Question.text("name", "Name?")))

    @mt.tool
    async def outer() -> str:
        person = mt.ScriptedPrompter({"inner.name": "x"})
        agent = mt.Agent(calling("inner"), tools=[inner], prompter=person, store=mt.MemoryStore())
        result = await agent.run("Inside.")
        return (
            f"{first_result(await agent.store.read(result.conversation))} {await mt.ask(CONFIRM)}"
        )

    assert result_of(outer) == "x True"


def first_result(conversation: mt.Conversation) -> str:
    """Return the first result of a conversation."""
    return next(
        event.content
        for event in conversation.events
        if isinstance(event, mt.events.ToolCallResponse)
    )


def test_asking_outside_of_a_call_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"No tool is running\. Ask inside a tool"):
        mt.ask_sync(CONFIRM)

    async def scene() -> None:
        with pytest.raises(RuntimeError, match=r"No tool is running\. Ask inside a tool"):
            await mt.ask(CONFIRM)

    asyncio.run(scene())


def test_a_check_keeps_the_prompt_open_and_only_the_last_answer_is_recorded() -> None:
    name = mt.Question.text("name", "Name?")

    def check(value: str) -> str | None:
        return None if value.islower() else f"{value} is not in lower case."

    @mt.tool
    async def create(ctx: mt.ToolContext) -> str:
        return await ctx.ask(name, check=check)

    person = mt.ScriptedPrompter({"create.name": ["A", "B", "C", "D", "e"]})
    agent = mt.Agent(calling("create"), tools=[create], prompter=person)
    result = agent.run_sync("Go.")

    assert tool_results(agent.store, result.conversation) == ["e"]
    assert [prompt.error for prompt in person.prompts] == [
        None,
        *(f"{letter} is not in lower case." for letter in "ABCD"),
    ]
    assert len(agent.store.read_sync(result.conversation).pairs()) == 1


def test_an_outside_answer_refused_by_the_check_is_asked_again() -> None:
    name = mt.Question.text("name", "Name?")

    @mt.tool
    async def create(ctx: mt.ToolContext) -> str:
        async def check(value: str) -> str | None:
            return None if value == "right" else "Not that."

        return await ctx.ask(name, check=check)

    async def scene() -> None:
        agent = mt.Agent(calling("create"), tools=[create])
        result = await agent.run("Go.")
        await agent.store.answer(result.pending[0].id, "wrong")
        assert "problem" not in result.pending[0].to_json()
        result = await agent.resume(result.conversation)
        assert result.status == "suspended"
        assert [question.to_json()["problem"] for question in await agent.store.pending()] == [
            "Not that."
        ]
        result = await agent.resume(result.conversation)
        assert [(question.question_id, question.problem) for question in result.pending] == [
            ("name", "Not that.")
        ]
        await agent.store.answer(result.pending[0].id, "right")
        result = await agent.resume(result.conversation)
        assert first_result(await agent.store.read(result.conversation)) == "right"
        assert [
            pair.request.id.rpartition(".")[2]
            for pair in (await agent.store.read(result.conversation)).pairs()
        ] == ["1", "2"]

    asyncio.run(scene())


def test_a_repeated_question_shows_the_message_of_the_check() -> None:
    """The answer is checked in another process, which has neither the rule nor its message."""
    name = mt.Question.text("name", "Name?")

    @mt.tool
    async def create(ctx: mt.ToolContext) -> str:
        return await ctx.ask(
            name, check=lambda value: None if value == "right" else f"{value} is not that."
        )

    store = mt.MemoryStore()
    result = mt.Agent(calling("create"), tools=[create], store=store).run_sync("Go.")
    store.answer_sync(result.pending[0].id, "wrong")
    mt.Agent(calling("create"), tools=[create], store=store).resume_sync(result.conversation)
    person = mt.ScriptedPrompter({"create.name": "right"})
    result = mt.Agent(calling("create"), tools=[create], store=store, prompter=person).resume_sync(
        result.conversation
    )

    assert [prompt.error for prompt in person.prompts] == ["wrong is not that."]
    assert tool_results(store, result.conversation) == ["right"]
    (_, (again, _)) = store.read_sync(result.conversation).pairs()
    assert "An earlier answer was not accepted: wrong is not that." in question_text(
        again, "create", []
    )


def test_a_secret_in_the_message_of_a_check_is_not_recorded(tmp_path: Path) -> None:
    token = mt.Question.secret("token", "Token?")

    @mt.tool
    async def log_in(ctx: mt.ToolContext) -> str:
        given = await ctx.ask(token)
        await ctx.ask(
            CONFIRM, check=lambda value: None if value else f"With {given.reveal()} it is a yes."
        )
        return "in"

    class Person(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            if prompt.question.id == "token":
                return mt.Answered("hush-hush-77")
            problems.append(prompt.error)
            await agent.store.answer(prompt.id, value=prompt.error is not None)
            return await asyncio.Future()

    path = tmp_path / "store"
    problems: list[str | None] = []
    agent = mt.Agent(
        calling("log_in"), tools=[log_in], prompter=Person(), store=mt.open_store(path)
    )
    result = agent.run_sync("Go.")

    assert tool_results(agent.store, result.conversation) == ["in"]
    assert problems == [None, "With [redacted] it is a yes."]
    assert not any(
        b"hush-hush-77" in file.read_bytes() for file in path.rglob("*") if file.is_file()
    )


def test_a_check_that_returns_no_text_is_a_tool_error() -> None:
    @mt.tool
    async def create(ctx: mt.ToolContext) -> str:
        return str(await ctx.ask(CONFIRM, check=lambda value: value))  # type: ignore[arg-type, return-value]

    assert (
        "`check` returned a `bool`; it must return None, or an error message for the person"
        in result_of(create, {"create.confirm": True})
    )


class Shop:
    """Has a tool as a method."""

    def __init__(self, name: str) -> None:
        self.name = name

    @mt.tool(description="Buy a thing.")
    async def buy(self, thing: str, ctx: mt.ToolContext) -> str:
        """Buy.

        Args:
            thing: What to buy.
            ctx: The call.
        """
        return f"{thing} at {self.name}: {await ctx.ask(CONFIRM)}"


def test_a_method_can_be_a_tool() -> None:
    buy = Shop("Ann's").buy

    assert result_of(buy, arguments={"thing": "tea"}) == "tea at Ann's: True"
    assert buy.definition.description == "Buy a thing."
    assert buy.definition.parameters["properties"] == {
        "thing": {"type": "string", "description": "What to buy."}
    }
    with pytest.raises(TypeError, match=r"instance\.buy"):
        mt.Agent(calling("buy"), tools=[Shop.buy])


def test_a_partial_is_described_by_its_function_without_bound_parameters() -> None:
    def greet(
        greeting: str,
        name: Annotated[str, pydantic.Field(description="Whom.")],
        *,
        loud: bool = False,
    ) -> str:
        """Greet somebody."""
        return f"{greeting}, {name}{'!' if loud else ''}"

    hi = mt.tool(partial(greet, "Hi", loud=True))

    assert (hi.name, hi.definition.description) == ("greet", "Greet somebody.")
    assert hi.definition.parameters["properties"] == {
        "name": {"type": "string", "description": "Whom."}
    }
    assert result_of(hi, arguments={"name": "Ann"}) == "Hi, Ann!"
    agent = mt.Agent(calling("greet", arguments={"name": "Ann"}), tools=[partial(greet, "Hi")])
    assert tool_results(agent.store, agent.run_sync("Go.").conversation) == ["Hi, Ann"]


def test_a_thread_started_by_a_tool_asks_in_its_call() -> None:
    @mt.tool
    def blocks(ctx: mt.ToolContext) -> str:
        said: list[bool] = []
        thread = threading.Thread(target=lambda: said.append(ctx.ask_sync(CONFIRM)))
        thread.start()
        thread.join()
        return str(said)

    assert result_of(blocks) == "[True]"
