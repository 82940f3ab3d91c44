"""`Agent.run`: parameters, results and recorded events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import ChatRequest
from midturn.stores.store import ConversationStore
from support.agents import CONFIRM, calling, careful, deploy, tool_results
from support.people import Chat


class Customers:
    """An example of `deps`."""

    def __init__(self, *names: str) -> None:
        self.names = names


def test_result_of_a_turn_with_a_question(store: ConversationStore) -> None:
    agent = mt.Agent(calling("careful"), tools=[careful], store=store)

    result = agent.run_sync("Do it", prompter=mt.ScriptedPrompter({"careful.confirm": True}))

    assert (result.status, result.text, result.pending, result.refused) == (
        "completed",
        "Done.",
        (),
        (),
    )
    assert tool_results(store, result.conversation) == ["went ahead"]


def test_the_last_message_of_a_turn_is_a_field_of_its_result(store: ConversationStore) -> None:
    model = mt.ScriptedModel(
        [{"text": "I look.", "calls": [{"name": "careful"}]}, {"text": "It is done."}]
    )
    agent = mt.Agent(model, tools=[careful], store=store)

    waiting = agent.run_sync("Do it")
    assert (waiting.text, waiting.last_message) == ("I look.", "I look.")
    agent.store.answer_sync(waiting.pending[0], True)
    result = agent.resume_sync(waiting.conversation)

    assert (result.text, result.last_message) == ("I look.\n\nIt is done.", "It is done.")
    assert result.to_json()["last_message"] == "It is done."


def test_turn_without_a_prompter_is_suspended_and_resumed_by_another_agent(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        result = await mt.Agent(calling("careful"), tools=[careful], store=store).run("Do it")
        assert result.status == "suspended"
        assert [question.question.text for question in result.pending] == ["Sure?"]

        later = mt.Agent(calling("careful"), tools=[careful], store=store)
        receipt = await later.store.answer(result.pending[0].id, True, user="u42")
        assert (receipt.conversation, receipt.id) == (result.conversation, result.pending[0].id)
        assert (await later.resume(result.conversation)).status == "completed"
        assert tool_results(store, result.conversation) == ["went ahead"]

    asyncio.run(scene())


def test_default_store_is_in_memory_and_per_agent() -> None:
    first, second = mt.Agent(calling("x")), mt.Agent(calling("x"))
    assert isinstance(first.store, mt.MemoryStore)
    assert first.store is not second.store


def test_each_run_continues_the_conversation(store: ConversationStore) -> None:
    agent = mt.Agent(
        mt.ScriptedModel([{"text": "One."}, {"text": "Two.", "expect": "Second"}]), store=store
    )

    first = agent.run_sync("First", author="ada")
    second = agent.run_sync("Second", conversation=first.conversation)

    assert (second.conversation, second.text) == (first.conversation, "Two.")
    assert [
        (e.content, e.author)
        for e in store.read_sync(first.conversation).events
        if isinstance(e, ChatRequest)
    ] == [
        ("First", "ada"),
        ("Second", None),
    ]


def test_structured_answer() -> None:
    model = mt.FunctionModel(lambda request: {"answer": 42} if request.schema else "no schema")
    result = mt.Agent(model).run_sync(
        "What is it?", schema={"type": "object", "properties": {"answer": {"type": "integer"}}}
    )
    assert result.structured == {"answer": 42}


def test_text_answer_where_a_schema_was_given_fails() -> None:
    """Otherwise the caller would take the None in `structured` for an answer."""
    agent = mt.Agent(mt.FunctionModel(lambda _: "I would rather not."))
    for result in (
        agent.run_sync("What is it?", schema={"type": "object"}),
        agent.run_sync("What is it?", schema=dict[str, int]),
    ):
        assert (result.status, result.structured, result.text) == (
            "failed",
            None,
            "I would rather not.",
        )
        with pytest.raises(
            mt.MidturnError,
            match=r"does not have the structure of `schema`: 'I would rather not\.'",
        ):
            result.raise_if_failed()


def test_answer_that_violates_its_json_schema_fails() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
    }
    result = mt.Agent(mt.FunctionModel(lambda _: {"answer": "x"})).run_sync(
        "What is it?", schema=schema
    )
    assert (result.status, result.structured) == ("failed", None)
    assert (
        result.error
        == "The model's answer does not match the schema: /answer: must be a whole number, not"
        ' "x".'
    )
    assert mt.Agent(mt.FunctionModel(lambda _: {"answer": 7})).run_sync(
        "And?", schema=schema
    ).structured == {"answer": 7}


def test_json_schema_outside_the_subset_is_sent_unchecked() -> None:
    schema: dict[str, Any] = {"type": "object", "patternProperties": {"^a": {"type": "integer"}}}
    result = mt.Agent(mt.FunctionModel(lambda _: {"answer": "x"})).run_sync(
        "What is it?", schema=schema
    )
    assert (result.status, result.structured) == ("completed", {"answer": "x"})


def test_resumed_turn_keeps_its_schema() -> None:
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "deploy", "arguments": {}}]}, {"text": "Well."}]),
        tools=[deploy],
    )
    suspended = agent.run_sync("Go.", schema={"type": "object"})
    assert (suspended.status, suspended.error) == ("suspended", None)
    agent.store.answer_sync(suspended.pending[0].id, value=True)
    resumed = agent.resume_sync(suspended.conversation)
    assert (resumed.status, resumed.error) == (
        "failed",
        "The model's answer does not have the structure of `schema`: 'Well.'",
    )


def test_deps_reach_tools_in_new_and_resumed_runs(store: ConversationStore) -> None:
    @mt.tool
    async def count(ctx: mt.ToolContext[Customers]) -> str:
        """Count the customers."""
        before = len(ctx.deps.names)
        await ctx.ask(CONFIRM)
        return f"{before}"

    async def scene() -> None:
        agent = mt.Agent(calling("count"), tools=[count], store=store)
        result = await agent.run("Count", deps=Customers("a", "b"))
        await agent.store.answer(result.pending[0].id, True)
        await agent.resume(result.conversation, deps=Customers("a", "b", "c"))
        assert tool_results(store, result.conversation) == ["3"]

    asyncio.run(scene())


def test_prompter_of_a_run_replaces_the_agents_prompter() -> None:
    agent = mt.Agent(
        calling("careful"),
        tools=[careful],
        prompter=mt.ScriptedPrompter({"careful.confirm": False}),
    )
    asked = mt.ScriptedPrompter({"careful.confirm": True})

    result = agent.run_sync("Do it", prompter=asked)
    assert tool_results(agent.store, result.conversation) == ["went ahead"]
    asked.assert_exhausted()
    result = mt.Agent(
        calling("careful"),
        tools=[careful],
        prompter=mt.ScriptedPrompter({"careful.confirm": False}),
    ).run_sync("Do it")
    assert result.status == "completed"


def test_plain_function_is_a_tool() -> None:
    def add(left: int, right: int) -> int:
        """Add two numbers."""
        return left + right

    agent = mt.Agent(calling("add", arguments={"left": 2, "right": 3}), tools=[add])
    assert tool_results(agent.store, agent.run_sync("Add").conversation) == ["5"]


def test_object_with_the_methods_of_a_tool_is_a_tool() -> None:
    class Echo:
        """A tool class that implements the protocol itself."""

        definition = mt.ToolDefinition("echo", "Say it again.", {"type": "object"})

        def inquiry_source(self) -> mt.Source:
            return mt.Source.tool("echo")

        def run(self) -> None:
            """An attribute that is not a permission policy despite its name."""

        async def execute(self, run: mt.ToolRun) -> mt.Outcome:
            if "loud" in run.answers:
                return mt.Success(f"{run.call.arguments} {run.answers['loud']}")
            return mt.NeedsInput(mt.Form([mt.Question.boolean("loud", "Loudly?")]))

    agent = mt.Agent(calling("echo", arguments={"word": "x"}), tools=[Echo()])
    result = agent.run_sync("Echo", prompter=mt.ScriptedPrompter({"echo.loud": True}))
    assert tool_results(agent.store, result.conversation) == ["{'word': 'x'} True"]


def test_model_may_ask_with_the_ask_user_tool() -> None:
    asks = {"name": "ask_user", "arguments": {"question": "Which one?", "answer_type": "text"}}
    model = mt.ScriptedModel([{"calls": [asks]}, {"text": "Done."}])

    person = mt.ScriptedPrompter({"ask_user.answer": "that one"})
    agent = mt.Agent(model, tools=[mt.ask_user])
    result = agent.run_sync("Ask me", prompter=person)
    assert tool_results(agent.store, result.conversation) == [
        '{"answer_type": "text", "answer": "that one"}'
    ]
    assert person.prompts[0].asked_by == "Assistant"

    without = mt.Agent(model)
    assert tool_results(without.store, without.run_sync("Ask me").conversation) == [
        "There is no tool named 'ask_user'. The tools are: none."
    ]


def test_limits_as_object_or_by_name() -> None:
    endless = {"calls": [{"name": "careful"}]}
    for limits in (mt.Limits(cycles=2), {"cycles": 2}):
        agent = mt.Agent(mt.ScriptedModel([endless] * 3), tools=[careful], limits=limits)
        result = agent.run_sync(
            "Do it", prompter=mt.ScriptedPrompter({"careful.confirm": lambda _: True})
        )
        assert (result.status, result.error) == (
            "failed",
            "stopped after 2 model calls; raise limits.cycles to allow more",
        )
        assert len(tool_results(agent.store, result.conversation)) == 2


def test_a_model_may_be_named() -> None:
    with pytest.raises(mt.ConfigError, match="nowhere"):
        mt.Agent("nowhere/at-all")
    with pytest.raises(mt.ConfigError, match=r"no-such-file\.toml"):
        mt.Agent("scripted:no-such-file.toml")


def test_model_request_is_retried_after_a_temporary_failure() -> None:
    down = {"error": {"status": 529, "message": "overloaded", "retry_after": 0.001}}
    result = mt.Agent(mt.ScriptedModel([down, {"text": "Done."}])).run_sync("Hello")
    assert (result.status, result.text) == ("completed", "Done.")


def test_the_idempotency_key_of_a_call_is_the_same_in_every_run_of_it(
    store: ConversationStore,
) -> None:
    keys: list[str] = []

    @mt.tool
    async def pay(ctx: mt.ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        await ctx.ask(CONFIRM)
        await ctx.ask(mt.Question.text("why", "Why?"))
        return "paid"

    async def scene() -> None:
        agent = mt.Agent(calling("pay"), tools=[pay], store=store)
        result = await agent.run("Pay")
        for value in (True, "because"):
            await agent.store.answer(result.pending[0].id, value)
            result = await agent.resume(result.conversation)
        assert result.status == "completed"
        assert len(keys) == 3
        assert len(set(keys)) == 1
        assert keys[0].startswith(f"{result.conversation}.")

    asyncio.run(scene())


def test_one_agent_runs_many_conversations_at_once(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = mt.Agent(
            mt.FunctionModel(lambda request: f"about {request.conversation}"), store=store
        )
        results = await asyncio.gather(*(agent.run(f"Number {number}") for number in range(20)))
        assert len({result.conversation for result in results}) == 20
        assert all(result.text == f"about {result.conversation}" for result in results)

    asyncio.run(scene())


def test_several_questions_of_one_call_wait_together(store: ConversationStore) -> None:
    """All of them are open at once and can be answered in any order."""

    @mt.tool
    async def both(ctx: mt.ToolContext) -> str:
        """Ask twice at once."""
        first, second = await asyncio.gather(
            ctx.ask(mt.Question.text("a", "A?")), ctx.ask(mt.Question.text("b", "B?"))
        )
        return first + second

    attended = mt.Agent(calling("both"), tools=[both], store=store)
    result = attended.run_sync("Ask", prompter=mt.ScriptedPrompter({"both.a": "x", "both.b": "y"}))
    assert tool_results(store, result.conversation) == ["xy"]

    async def scene() -> None:
        agent = mt.Agent(calling("both"), tools=[both], store=store)
        result = await agent.run("Ask")
        assert [question.question.text for question in result.pending] == ["A?", "B?"]
        await agent.store.answer(result.pending[1].id, "y")
        result = await agent.resume(result.conversation)
        assert [question.question.text for question in result.pending] == ["A?"]
        await agent.store.answer(result.pending[0].id, "x")
        result = await agent.resume(result.conversation)
        assert tool_results(store, result.conversation) == ["xy"]

    asyncio.run(scene())


def test_whole_form_is_answered_with_typed_values() -> None:
    env = mt.Question.select("env", "Where?", ["staging", "production"])
    why = mt.Question.text("why", "Why?", when=mt.When("env", "production"))

    @mt.tool
    async def deploy(ctx: mt.ToolContext) -> str:
        """Deploy."""
        answers = await ctx.ask_form(mt.Form([env, why]))
        return f"{answers[env]} {answers[why]} {why in answers}"

    agent = mt.Agent(calling("deploy"), tools=[deploy])
    result = agent.run_sync("Deploy", prompter=mt.ScriptedPrompter({"deploy.env": "staging"}))
    assert tool_results(agent.store, result.conversation) == ["staging None False"]


@pytest.mark.parametrize(
    ("detached", "question", "expected"),
    [
        ("deny", CONFIRM, "Unanswered(reason='detached_denied', reply=None)"),
        ("defaults", CONFIRM, "Unanswered(reason='no_default', reply=None)"),
        (
            "defaults",
            mt.Question.boolean("confirm", "Sure?", default=True),
            "Answer(value=True, reason=None, by='default')",
        ),
        (
            "defaults",
            mt.Question.boolean("confirm", "Sure?", default=True, exclusive=True),
            "Unanswered(reason='no_prompt_backend', reply=None)",
        ),
        ("auto", CONFIRM, "Answer(value=True, reason='It is.', by='assistant')"),
    ],
)
def test_try_ask_continues_without_a_person(
    detached: mt.DetachedPolicy, question: mt.Question[bool], expected: str
) -> None:
    @mt.tool
    async def tries(ctx: mt.ToolContext) -> str:
        """Try to ask."""
        return repr(await ctx.try_ask(question))

    inquiries = [{"tool": "*", "question": "*", "answers": [{"reason": "It is.", "answer": True}]}]
    model = mt.ScriptedModel([{"calls": [{"name": "tries"}]}, {"text": "Done."}], inquiries)
    agent = mt.Agent(model, tools=[tries], detached=detached)
    result = agent.run_sync("Try")
    assert result.status == "completed"
    assert tool_results(agent.store, result.conversation) == [expected]


def test_ask_fails_the_call_if_no_one_can_answer() -> None:
    agent = mt.Agent(calling("careful"), tools=[careful], detached="deny")
    result = agent.run_sync("Do it")
    assert result.refused == ("careful",)
    assert tool_results(agent.store, result.conversation)[0].startswith(
        "careful cannot run because no interactive terminal is available."
    )


def test_unawaited_question_is_cancelled_with_its_call() -> None:
    seen: list[str] = []
    left: list[asyncio.Task[None]] = []

    @mt.tool
    async def careless(ctx: mt.ToolContext) -> str:
        """Ask in a task of its own, and do not wait for it."""

        async def asks() -> None:
            try:
                await ctx.ask(CONFIRM)
            except asyncio.CancelledError:
                seen.append("cancelled")

        left.append(asyncio.create_task(asks()))
        await asyncio.sleep(0)
        return "done"

    async def scene() -> None:
        agent = mt.Agent(calling("careless"), tools=[careless], prompter=Chat())
        result = await agent.run("Go")
        assert (result.status, tool_results(agent.store, result.conversation)) == (
            "completed",
            ["done"],
        )
        async with asyncio.timeout(120):
            await left[0]
        assert seen == ["cancelled"]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("decision", "content"),
    [
        ({"approve": True}, "deleted a.txt"),
        (
            {"arguments": {"path": "b.txt"}},
            (
                'The user edited the arguments of this call. It ran with: {"path":'
                ' "b.txt"}\ndeleted b.txt'
            ),
        ),
        (
            {"approve": False, "reason": "Not that one."},
            'delete was skipped by the user. Reason: "Not that one."',
        ),
    ],
)
def test_a_call_may_wait_for_permission(
    store: ConversationStore, decision: dict[str, Any], content: str
) -> None:
    @mt.tool(run="ask")
    async def delete(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}"

    async def scene() -> None:
        agent = mt.Agent(
            calling("delete", arguments={"path": "a.txt"}), tools=[delete], store=store
        )
        result = await agent.run("Delete it")
        (question,) = result.pending
        assert (question.kind, question.tool, question.arguments) == (
            "run",
            "delete",
            {"path": "a.txt"},
        )
        await agent.store.answer(question.id, user="u42", **decision)
        assert (await agent.resume(result.conversation)).status == "completed"
        assert tool_results(store, result.conversation) == [content]

    asyncio.run(scene())
