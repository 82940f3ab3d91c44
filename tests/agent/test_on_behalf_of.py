"""A tool that runs another agent asks questions on behalf of that agent (`on_behalf_of`). Every
interface shows that agent as the source, and its answers are separate from those of other agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.cli.question_rows import question_rows
from midturn.cli.turn_flags import check_answers
from midturn.config.settings import Settings, ToolSettings
from midturn.events.window import turns
from midturn.inbox.notifications import sent_as
from midturn.routing.policy import ToolPolicy
from midturn.stores.export import export_markdown
from midturn.testing import run_tool
from midturn.turn.visit import Visit

SURE = mt.Question.boolean("sure", "File it?")
AGAIN = mt.Question.boolean("again", "Again?")
WHERE = mt.Question.text("where", "Where to?")
FORM = mt.Form([SURE, WHERE], review=True)
FILER = mt.Source("other", "Filer")

Store = Callable[[], mt.ConversationStore]


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A function that opens the same store again, as another process does."""
    if request.param == "memory":
        memory = mt.MemoryStore()
        return lambda: memory
    return lambda: mt.open_store(tmp_path / "conversations")


def calling(name: str) -> mt.ScriptedModel:
    return mt.ScriptedModel([{"calls": [{"name": name}]}, {"text": "Done."}])


def sources(conversation: mt.Conversation) -> list[mt.Source]:
    return [
        event.source for event in conversation.events if isinstance(event, mt.events.InquiryRequest)
    ]


class Recorder(mt.Prompter):
    """A user who answers yes or `Oslo`, and records the prompts."""

    def __init__(self, *, remember: bool = False) -> None:
        self.prompts: list[mt.Prompt] = []
        self._remember = remember

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        self.prompts.append(prompt)
        if prompt.kind == "review":
            return mt.Submitted()
        value = "Oslo" if prompt.question.id == "where" else True
        return mt.Answered(value, remember=self._remember)


# The source of the questions
# --------------------------------------------------------------------------------------------------


@mt.tool
async def in_a_coroutine(ctx: mt.ToolContext) -> str:
    """File."""
    await ctx.ask(SURE, on_behalf_of="Filer")
    await ctx.try_ask(AGAIN, on_behalf_of="Filer")
    await ctx.ask_form(FORM, on_behalf_of="Filer")
    await ctx.try_ask_form(FORM, on_behalf_of="Filer")
    return "filed"


@mt.tool
def in_a_thread(ctx: mt.ToolContext) -> str:
    """File."""
    ctx.ask_sync(SURE, on_behalf_of="Filer")
    ctx.try_ask_sync(AGAIN, on_behalf_of="Filer")
    ctx.ask_form_sync(FORM, on_behalf_of="Filer")
    ctx.try_ask_form_sync(FORM, on_behalf_of="Filer")
    return "filed"


@mt.tool
async def without_context() -> str:
    """File."""
    await mt.ask(SURE, on_behalf_of="Filer")
    await mt.try_ask(AGAIN, on_behalf_of="Filer")
    await mt.ask_form(FORM, on_behalf_of="Filer")
    await mt.try_ask_form(FORM, on_behalf_of="Filer")
    return "filed"


@mt.tool
def in_a_thread_without_context() -> str:
    """File."""
    mt.ask_sync(SURE, on_behalf_of="Filer")
    mt.try_ask_sync(AGAIN, on_behalf_of="Filer")
    mt.ask_form_sync(FORM, on_behalf_of="Filer")
    mt.try_ask_form_sync(FORM, on_behalf_of="Filer")
    return "filed"


@pytest.mark.parametrize(
    "tool", [in_a_coroutine, in_a_thread, without_context, in_a_thread_without_context]
)
def test_the_agent_is_the_source_of_the_questions(tool: mt.Tool) -> None:
    person = Recorder()
    agent = mt.Agent(calling(tool.definition.name), tools=[tool], prompter=person)
    result = agent.run_sync("File it.").raise_if_failed()

    assert set(sources(agent.store.read_sync(result.conversation))) == {FILER}
    assert len(person.prompts) == 8
    assert {(prompt.asked_by, prompt.tool) for prompt in person.prompts} == {
        ("Filer", tool.definition.name)
    }


def test_questions_of_the_tool_itself_have_the_tool_as_their_source() -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        await ctx.ask(SURE, on_behalf_of="Filer")
        return str(await ctx.ask(WHERE))

    agent = mt.Agent(calling("files"), tools=[files], prompter=Recorder())
    result = agent.run_sync("File it.").raise_if_failed()

    assert sources(agent.store.read_sync(result.conversation)) == [FILER, mt.Source.tool("files")]


def test_an_inquirer_asks_on_behalf_of_an_agent() -> None:
    async def scene() -> None:
        store = mt.MemoryStore()
        conversation = await store.new()
        inquirer = mt.Inquirer(store, conversation, Recorder())

        async def work(call: mt.InquirerCall) -> str:
            return str(await call.ask(SURE, on_behalf_of="Filer"))

        async with inquirer.turn("File it."):
            await inquirer.run("files", "call_1", {}, work)
        assert sources(await store.read(conversation)) == [FILER]

    asyncio.run(scene())


def test_interfaces_show_the_agent(store: Store) -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        return str((await ctx.ask_form(FORM, on_behalf_of="Filer"))[WHERE])

    agent = mt.Agent(calling("files"), tools=[files], store=store())
    conversation = agent.run_sync("File it.").conversation

    (question,) = store().pending_sync()
    assert (question.source, question.source.header, question.tool) == (FILER, "Filer", "files")
    assert question.to_json()["source"] == {"source": "other", "name": "Filer"}
    assert sent_as(question, "")[0] == "Filer asks"
    assert any("Filer asks: File it?" in str(row) for _, row in question_rows(question))
    events = store().read_sync(conversation).turns[-1].events
    prompt = Visit(events, question.request.event_id, iter("abc"), conversation).prompt()
    assert prompt is not None
    assert prompt.asked_by == "Filer"
    exported = export_markdown(turns(store().read_sync(conversation).events))
    assert any("Question from Filer" in line for line in exported)

    store().answer_sync(question.id, True)
    agent.resume_sync(conversation)
    (question,) = store().pending_sync()
    assert (question.question_id, question.source) == ("where", FILER)
    store().answer_sync(question.id, "Oslo")
    agent.resume_sync(conversation)
    (review,) = store().pending_sync()
    assert (review.kind, review.source) == ("review", FILER)
    store().answer_sync(review.id, approve=True)
    assert agent.resume_sync(conversation).status == "completed"


def test_a_secret_of_an_agent_is_refused_on_the_command_line() -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        secret = mt.Question.secret("token", "The token?")
        return repr(await ctx.ask(secret, on_behalf_of="Filer"))

    agent = mt.Agent(calling("files"), tools=[files], store=mt.MemoryStore())
    events = agent.store.read_sync(agent.run_sync("Go.").conversation).events
    policy = ToolPolicy(source=mt.Source.tool("files"))
    settings = Settings(tools={"files": ToolSettings(name="files", policy=policy, source="local")})

    with pytest.raises(mt.ConfigError, match="asks for a secret"):
        check_answers(["files.token=s3cret"], settings, events)


# Answers of one agent and of another
# --------------------------------------------------------------------------------------------------


def test_equal_questions_of_two_agents_get_their_own_answers_after_a_restart(store: Store) -> None:
    order = ["Filer", "Archiver"]
    results: list[dict[str, str]] = []

    @mt.tool
    async def both(ctx: mt.ToolContext) -> str:
        """Ask on behalf of two agents at once."""
        asks = {name: ctx.ask(WHERE, on_behalf_of=name) for name in order}
        found = dict(zip(asks, await asyncio.gather(*asks.values()), strict=True))
        results.append(found)
        return "done"

    def agent() -> mt.Agent:
        return mt.Agent(calling("both"), tools=[both], store=store())

    conversation = agent().run_sync("Go.").conversation
    for question in store().pending_sync():
        store().answer_sync(question.id, f"to {question.source.name}")
    order.reverse()

    assert agent().resume_sync(conversation).status == "completed"
    assert results == [{"Filer": "to Filer", "Archiver": "to Archiver"}]


def test_an_answer_to_an_agent_does_not_answer_the_question_of_the_tool(store: Store) -> None:
    names: list[str | None] = ["Filer"]

    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        return await ctx.ask(WHERE, on_behalf_of=names[0])

    def agent() -> mt.Agent:
        return mt.Agent(calling("files"), tools=[files], store=store())

    conversation = agent().run_sync("Go.").conversation
    (question,) = store().pending_sync()
    store().answer_sync(question.id, "Oslo")
    names[0] = None

    assert agent().resume_sync(conversation).status == "suspended"
    (question,) = store().pending_sync()
    assert question.source == mt.Source.tool("files")


def test_answers_to_an_agent_are_not_remembered() -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        first = await ctx.ask(SURE, on_behalf_of="Filer")
        second = await ctx.ask(mt.Question.boolean("sure", "Delete it?"), on_behalf_of="Archiver")
        return f"{first} {second}"

    person = Recorder(remember=True)
    agent = mt.Agent(calling("files"), tools=[files], prompter=person)
    agent.run_sync("Go.").raise_if_failed()

    assert [(prompt.asked_by, prompt.may_remember) for prompt in person.prompts] == [
        ("Filer", False),
        ("Archiver", False),
    ]


def test_a_remembered_answer_of_the_tool_does_not_answer_an_agent() -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        await ctx.ask(SURE)
        return str(await ctx.ask(mt.Question.boolean("sure", "Delete?"), on_behalf_of="Filer"))

    person = Recorder(remember=True)
    agent = mt.Agent(calling("files"), tools=[files], prompter=person)
    agent.run_sync("Go.").raise_if_failed()

    assert [prompt.asked_by for prompt in person.prompts] == ["files", "Filer"]


# Names
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "assistant", "x" * 129, "a\u2028b"])
def test_invalid_name_of_an_agent_is_refused(name: str) -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        return str(await ctx.ask(SURE, on_behalf_of=name))

    done = asyncio.run(run_tool(files, {}, {}))

    assert done.is_error
    assert "`on_behalf_of` must be" in done.content


def test_name_of_an_agent_must_be_text() -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        return str(await ctx.ask(SURE, on_behalf_of=7))  # type: ignore[arg-type]

    done = asyncio.run(run_tool(files, {}, {}))

    assert "`on_behalf_of` must be a string, not 7" in done.content


def test_a_secret_in_the_name_of_an_agent_is_refused() -> None:
    @mt.tool
    async def files(ctx: mt.ToolContext) -> str:
        """File."""
        token = await ctx.ask(mt.Question.secret("token", "The token?"))
        return str(await ctx.ask(SURE, on_behalf_of=f"Filer {token.reveal()}"))

    answers: dict[str, Any] = {"token": mt.SecretValue("s3cret-token")}
    done = asyncio.run(run_tool(files, {}, answers))

    assert done.is_error
    assert "s3cret-token" not in done.content
