"""Tools that implement only the public interface: their questions, sources and failures."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest
from msgspec.structs import replace

import midturn as mt
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json
from midturn.turn.inputs import FormWanted
from support.agents import CONFIRM, calling, tool_results


class Ping(mt.Tool):
    """A tool with only the required methods."""

    def __init__(self, ask: Any = CONFIRM) -> None:
        self._ask = ask

    @property
    def definition(self) -> mt.ToolDefinition:
        """Return its name."""
        return mt.ToolDefinition("ping", "", {"type": "object"})

    async def execute(self, run: mt.ToolRun) -> mt.Outcome:
        """Ask, and return the answer."""
        if "confirm" not in run.answers:
            return mt.NeedsInput(mt.Form([self._ask]))
        return mt.Success(f"pong {run.answers['confirm']}")


class Claims(Ping):
    """A tool that claims a source."""

    def __init__(self, claim: Any) -> None:
        super().__init__()
        self.claim = claim

    def inquiry_source(self) -> Any:
        """Return the claimed source."""
        return self.claim


def sources(agent: mt.Agent, conversation: str) -> list[mt.Source]:
    """Return the recorded sources of the questions."""
    return [
        event.source
        for event in agent.store.read_sync(conversation).events
        if isinstance(event, mt.events.InquiryRequest)
    ]


def test_a_tool_asks_under_its_name_by_default() -> None:
    person = mt.ScriptedPrompter({"ping.confirm": True})
    agent = mt.Agent(calling("ping"), tools=[Ping()], prompter=person)

    result = agent.run_sync("Go.")

    assert result.status == "completed"
    assert sources(agent, result.conversation) == [mt.Source.tool("ping")]
    assert person.prompts[0].asked_by == "ping"


def test_a_tool_can_name_another_source_which_is_recorded() -> None:
    person = mt.ScriptedPrompter({"ping.confirm": True})
    agent = mt.Agent(calling("ping"), tools=[Claims(mt.Source("other", "crm"))], prompter=person)

    result = agent.run_sync("Go.")

    assert sources(agent, result.conversation) == [mt.Source("other", "crm")]
    assert person.prompts[0].asked_by == "crm"


@pytest.mark.parametrize(
    "claim",
    [
        None,
        "ping",
        mt.Source("assistant"),
        mt.Source("user"),
        mt.Source.tool("deploy"),
        mt.Source("other"),
        mt.Source("other", "Assistant"),
        mt.Source("other", "ask_user"),
    ],
)
def test_a_tool_with_a_reserved_source_is_refused_when_it_is_passed(claim: Any) -> None:
    with pytest.raises(mt.ConfigError, match=r"`ping`: its `inquiry_source\(\)` returned"):
        mt.Agent(calling("ping"), tools=[Claims(claim)])


def test_a_source_named_later_is_checked_too() -> None:
    tool = Claims(mt.Source.tool("ping"))
    agent = mt.Agent(calling("ping"), tools=[tool], prompter=mt.ScriptedPrompter())
    tool.claim = mt.Source("assistant")

    with pytest.raises(mt.ConfigError, match="inquiry_source"):
        agent.run_sync("Go.")


def invalidated_question() -> mt.Question[Any]:
    """Return a question whose schema became invalid after the question was made."""
    schema: dict[str, Any] = {"type": "object", "properties": {"port": {"type": "integer"}}}
    question = mt.Question.schema("where", "Where?", schema)
    cast("Any", question.answer_type).schema["type"] = "nothing"
    return question


UNSOUND: dict[str, Any] = {
    "/questions/0/answer_type/schema": invalidated_question(),
    "/questions/0/exclusive": replace(CONFIRM, exclusive="no"),
    '/questions/0/id: "a.b"': replace(CONFIRM, id="a.b"),
    '/questions/0/id: "__run__"': replace(CONFIRM, id="__run__"),
    "/questions/0/text: the text has 2 lines": replace(CONFIRM, text="Sure?\nReally?"),
    "/questions/0/default": replace(CONFIRM, default="yes"),
    "/questions/0/context": replace(CONFIRM, context="x" * 20_000),
    "/questions/0/answer_type": replace(CONFIRM, answer_type=7),
    "/questions/0/answer_type/options": replace(CONFIRM, answer_type=mt.SelectType(())),
    "/questions/0/persistence": replace(CONFIRM, persistence="ever"),
    "/questions/0/when: 7": replace(CONFIRM, when=7),
    "/questions/0/when: {'question_id'": replace(
        CONFIRM, when={"question_id": "other", "equals": True}
    ),
    "/questions/0/when: When": replace(CONFIRM, when=mt.When([], True)),  # type: ignore[arg-type]
    "/questions/0/id: a `list`": replace(CONFIRM, id=[]),
}


@pytest.mark.parametrize("place", UNSOUND)
@pytest.mark.parametrize(
    "way", ["awaited", "returned", "by a tool of one's own", "in a foreign loop"]
)
def test_an_invalid_question_is_an_error_that_names_the_field(place: str, way: str) -> None:
    question = UNSOUND[place]

    @mt.tool
    async def awaited(ctx: mt.ToolContext) -> str:
        return str(await ctx.ask(question))

    @mt.tool
    def returned() -> Any:
        return question

    class Asks(Ping):
        async def execute(self, run: mt.ToolRun) -> mt.Outcome:
            return mt.Success(
                str(await run.ask(FormWanted(mt.Form([question]), mt.Source("assistant"))))
            )

    async def foreign() -> tuple[mt.Conversation, str]:
        store = mt.MemoryStore()
        conversation = await store.new("Go.")
        with pytest.raises(mt.QuestionError) as raised:
            async with mt.Inquirer(store, conversation, mt.ScriptedPrompter()).call(
                "ping", "call_1"
            ) as call:
                await call.ask(question)
        return await store.read(conversation), str(raised.value)

    if way == "in a foreign loop":
        conversation, said = asyncio.run(foreign())
    else:
        tool: Any = {"awaited": awaited, "returned": returned, "by a tool of one's own": Asks()}[
            way
        ]
        agent = mt.Agent(
            calling(tool.definition.name), tools=[tool], prompter=mt.ScriptedPrompter()
        )
        result = agent.run_sync("Go.")
        assert result.status == "completed"
        conversation, said = (
            agent.store.read_sync(result.conversation),
            tool_results(agent.store, result.conversation)[0],
        )
    assert place in said
    assert conversation.pairs() == []


def test_an_answer_type_can_be_given_as_json() -> None:
    question: Any = replace(CONFIRM, answer_type={"type": "boolean"})
    agent = mt.Agent(
        calling("ping"),
        tools=[Ping(question)],
        prompter=mt.ScriptedPrompter({"ping.confirm": True}),
    )

    result = agent.run_sync("Go.")

    ((request, _),) = agent.store.read_sync(result.conversation).pairs()
    assert tool_results(agent.store, result.conversation) == ["pong True"]
    assert request.question.answer_type == BooleanType()


def test_remember_counts_only_if_offered() -> None:
    region = mt.Question.select("region", "Where?", ["eu", "us"])

    @mt.tool
    async def deploy(ctx: mt.ToolContext) -> str:
        return await ctx.ask(region)

    calls: list[Json] = [{"name": "deploy", "arguments": {}}]
    model = mt.ScriptedModel([{"calls": calls}, {"calls": calls}, {"text": "Done."}])
    person = mt.ScriptedPrompter({"deploy.region": [mt.Answered("eu", remember=True), "us"]})
    agent = mt.Agent(model, tools=[deploy], prompter=person)

    result = agent.run_sync("Go.")

    assert tool_results(agent.store, result.conversation) == ["eu", "us"]
    assert not any(prompt.may_remember for prompt in person.prompts)


@pytest.mark.parametrize("name", ["ask_user", "fs_read_file"])
def test_external_calls_cannot_use_a_built_in_tool_name(name: str) -> None:
    async def scene() -> None:
        store = mt.MemoryStore()
        conversation = await store.new("Go.")
        with pytest.raises(mt.ConfigError, match="built-in"):
            async with mt.Inquirer(store, conversation).call(name, "call_1"):
                pass
        assert (await store.read(conversation)).events == ()

    asyncio.run(scene())


def test_a_bug_in_a_tool_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    @mt.tool
    async def broken() -> str:
        return {"a": "b"}["nope"]

    async def scene() -> list[mt.ToolFinished]:
        async with mt.Agent(calling("broken"), tools=[broken]).stream("Go.") as events:
            return [event async for event in events if isinstance(event, mt.ToolFinished)]

    (finished,) = asyncio.run(scene())

    assert isinstance(finished.exception, KeyError)
    assert finished.content == "KeyError: 'nope'"
    (record,) = (record for record in caplog.records if record.name == "midturn.tools")
    assert record.levelno == logging.ERROR
    assert record.exc_info
    assert record.exc_info[1] is finished.exception


def test_a_no_is_not_logged_as_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    class Refuses(Ping):
        async def execute(self, run: mt.ToolRun) -> mt.Outcome:
            raise mt.Rejected(f"Not {run.call.name}.")

    agent = mt.Agent(calling("ping"), tools=[Refuses()])
    result = agent.run_sync("Go.")

    assert tool_results(agent.store, result.conversation) == ["Not ping."]
    assert [record for record in caplog.records if record.name == "midturn.tools"] == []
