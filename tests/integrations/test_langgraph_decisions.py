"""Recorded decisions in LangGraph: each question gets its own answer, in nodes and tools,
after errors and redeploys.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

import midturn as mt
from midturn.errors import StoreError
from midturn.events.types import ToolCallRequest, ToolCallResponse, TurnEnd
from midturn.integrations import langgraph as adapter
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.waiting import until

THREAD: RunnableConfig = {"configurable": {"thread_id": "7"}}
LOOK = mt.Question.boolean("look", "May I look at the table?")
DROP = mt.Question.boolean("drop", "Drop the table?", exclusive=True)


class Program:
    """One graph on a checkpointer. Each entry creates it again."""

    def __init__(self, store: ConversationStore, build: Callable[[], Any], *messages: str) -> None:
        self.store = store
        self.build = build
        self.saver = InMemorySaver()
        self.asked: list[str] = []
        self.messages = messages or ("Go.",)

    async def enter(
        self, conversation: str, prompter: mt.Prompter | None = None, text: str | None = None
    ) -> list[str]:
        """Run the graph as far as possible; return the texts of its messages."""
        graph = self.build().compile(checkpointer=self.saver)
        given = {"messages": [HumanMessage(text or self.messages[0])]}
        state = await adapter.invoke(
            graph, mt.Inquirer(self.store, conversation, prompter), given, THREAD
        )
        return [str(message.content) for message in cast("list[AnyMessage]", state["messages"])]

    async def until_done(self, conversation: str, answers: dict[str, Any]) -> list[str]:
        """Run; answer each question by its text."""
        for _ in range(10):
            try:
                return await self.enter(conversation)
            except mt.Suspended as suspended:
                for question in suspended.pending:
                    self.asked.append(question.question.text)
                    await self.store.answer(
                        question.id, answers[question.question.text], user="ana"
                    )
        raise AssertionError("it never ends")


def one_node(node: Callable[[MessagesState], Any]) -> Callable[[], Any]:
    """Return a function that builds a graph of one node."""
    return lambda: (
        StateGraph(MessagesState)
        .add_node("node", cast("Any", node))
        .add_edge(START, "node")
        .add_edge("node", END)
    )


def with_tools(
    tools: Sequence[Any], *calls: tuple[str, dict[str, Any]], wrapped: bool = True, **options: Any
) -> Callable[[], Any]:
    """Return a function that builds a graph of a model that makes calls once, and a `ToolNode`
    that runs them.
    """

    def model(state: MessagesState) -> dict[str, Any]:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage("Done.")]}
        made = [
            {"name": name, "args": arguments, "id": f"c{place}"}
            for place, (name, arguments) in enumerate(calls)
        ]
        return {"messages": [AIMessage("", tool_calls=made)]}

    def after_model(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    def build() -> Any:
        options_of_ours = {"awrap_tool_call": adapter.tool_call} if wrapped else {}
        graph = (
            StateGraph(MessagesState)
            .add_node("model", model)
            .add_node("tools", ToolNode(tools, **options_of_ours, **options))
        )
        graph.add_edge(START, "model").add_edge("tools", "model")
        graph.add_conditional_edges("model", after_model)
        return graph

    return build


async def until_recorded(store: ConversationStore, conversation: str) -> None:
    """Wait until a result is recorded."""
    await until(
        lambda: any(
            isinstance(event, ToolCallResponse) for event in drive(store.read(conversation)).events
        )
    )


def test_a_network_error_between_two_questions_leaves_each_with_its_own_answer(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        down = [ConnectionError("503")]

        async def node(_: MessagesState) -> dict[str, Any]:
            look = adapter.ask(LOOK)
            if down:
                raise down.pop()
            return {"messages": [AIMessage(f"look={look} drop={adapter.ask(DROP)}")]}

        program, conversation = Program(store, one_node(node)), await store.new()
        with pytest.raises(mt.Suspended) as raised:
            await program.enter(conversation)
        await store.answer(raised.value.pending[0].id, value=True)
        with pytest.raises(ConnectionError):
            await program.enter(conversation)
        assert (await program.until_done(conversation, {"Drop the table?": False}))[
            -1
        ] == "look=True drop=False"
        assert program.asked == ["Drop the table?"]
        assert [
            event.status
            for event in (await store.read(conversation)).events
            if isinstance(event, TurnEnd)
        ] == ["completed"]

    asyncio.run(scene())


def test_question_inserted_by_a_redeploy_is_asked(store: ConversationStore) -> None:
    async def scene() -> None:
        questions = [LOOK]

        def node(_: MessagesState) -> dict[str, Any]:
            return {
                "messages": [
                    AIMessage(" ".join(str(adapter.ask(question)) for question in questions))
                ]
            }

        program, conversation = Program(store, one_node(node)), await store.new()
        with pytest.raises(mt.Suspended) as raised:
            await program.enter(conversation)
        await store.answer(raised.value.pending[0].id, value=True)
        questions.insert(0, DROP)
        assert (await program.until_done(conversation, {"Drop the table?": False}))[
            -1
        ] == "False True"
        assert program.asked == ["Drop the table?"]

    asyncio.run(scene())


def test_a_question_whose_content_changed_is_asked_again(store: ConversationStore) -> None:
    async def scene() -> None:
        options = ["a", "b"]

        def node(_: MessagesState) -> dict[str, Any]:
            return {
                "messages": [
                    AIMessage(
                        adapter.ask(mt.Question.select("which", f"Which of {options}?", options))
                    )
                ]
            }

        program, conversation = Program(store, one_node(node)), await store.new()
        with pytest.raises(mt.Suspended) as raised:
            await program.enter(conversation)
        await store.answer(raised.value.pending[0].id, "a")
        options[:] = ["c", "d"]
        assert (await program.until_done(conversation, {"Which of ['c', 'd']?": "d"}))[-1] == "d"

    asyncio.run(scene())


def test_equal_questions_of_one_node_are_asked_one_after_the_other(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        def node(_: MessagesState) -> dict[str, Any]:
            tries = 0
            while not adapter.ask(mt.Question.boolean("again", "Enough?")):
                tries += 1
            return {"messages": [AIMessage(f"{tries} tries")]}

        program, conversation = Program(store, one_node(node)), await store.new()
        for answer in (False, False, True):
            with pytest.raises(mt.Suspended) as raised:
                await program.enter(conversation)
            await store.answer(raised.value.pending[0].id, answer)
        assert (await program.enter(conversation))[-1] == "2 tries"

    asyncio.run(scene())


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("texts", ["own", "equal"])
def test_tools_of_one_tool_node_get_their_own_answers(
    store: ConversationStore, *, wrapped: bool, texts: str
) -> None:
    """A look-up of varying duration changes their order each time. Their questions may have
    equal texts.
    """

    async def scene() -> None:
        deleted, looked = list[str](), {"a": 0, "b": 0}

        @tool
        async def delete(name: str) -> str:
            """Delete."""
            looked[name] += 1
            for _ in range(5 if (name == "a") == (looked[name] == 1) else 0):
                await asyncio.sleep(0)
            if not adapter.ask(
                mt.Question.boolean(
                    "sure", f"Delete {name}?" if texts == "own" else "Delete it?", exclusive=True
                )
            ):
                return f"{name} kept"
            deleted.append(name)
            return f"{name} deleted"

        program = Program(
            store,
            with_tools(
                [delete], ("delete", {"name": "a"}), ("delete", {"name": "b"}), wrapped=wrapped
            ),
        )
        conversation = await store.new()
        for _ in range(10):
            try:
                said = await program.enter(conversation)
                break
            except mt.Suspended as suspended:
                for question in suspended.pending:
                    assert (
                        question.tool == "delete"
                    )  # the question shows the tool and its arguments
                    await store.answer(question.id, question.arguments["name"] == "b", user="ana")
        else:
            raise AssertionError("it never ends")
        assert (
            deleted == ["b"] if wrapped else set(deleted) == {"b"}
        )  # plain LangGraph repeats finished calls together with their node
        assert said[-3:-1] == ["a kept", "b deleted"]

    asyncio.run(scene())


def test_the_questions_of_midturn_work_in_tools_of_a_tool_node(store: ConversationStore) -> None:
    async def scene() -> None:
        ran = list[str]()

        @tool
        async def deploy(env: str) -> str:
            """Deploy."""
            if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
                raise mt.Rejected(f"Not deployed to {env}.")
            ran.append(env)
            return f"{env} is live"

        program, conversation = (
            Program(
                store, with_tools([deploy], ("deploy", {"env": "eu"}), ("deploy", {"env": "us"}))
            ),
            await store.new(),
        )
        said = await program.until_done(
            conversation, {"Deploy to eu?": False, "Deploy to us?": True}
        )
        assert ran == ["us"]
        assert said[-3].endswith("Not deployed to eu.")
        assert said[-2:] == ["us is live", "Done."]
        events = (await store.read(conversation)).events
        assert [
            (event.name, event.arguments) for event in events if isinstance(event, ToolCallRequest)
        ] == [
            ("deploy", {"env": "eu"}),
            ("deploy", {"env": "us"}),
        ]
        assert {event.content for event in events if isinstance(event, ToolCallResponse)} == set(
            said[-3:-1]
        )

    asyncio.run(scene())


def test_a_tool_of_a_tool_node_does_not_run_again_after_an_error(store: ConversationStore) -> None:
    async def scene() -> None:
        charged, failing = list[int](), [ConnectionError("503")]

        @tool
        async def charge() -> str:
            """Charge."""
            charged.append(1)
            return "charged"

        @tool
        async def fetch() -> str:
            """Fetch, after the result of the other tool is recorded."""
            await until_recorded(store, conversation)
            if failing:
                raise failing.pop()
            return "fetched"

        program, conversation = (
            Program(store, with_tools([charge, fetch], ("charge", {}), ("fetch", {}))),
            await store.new(),
        )
        with pytest.raises(ConnectionError):
            await program.enter(conversation)
        assert (await program.enter(conversation))[-3:] == ["charged", "fetched", "Done."]
        assert charged == [1]

    asyncio.run(scene())


@pytest.mark.parametrize("handles", [False, True])
def test_ending_the_turn_in_a_tool_ends_the_run(store: ConversationStore, *, handles: bool) -> None:
    async def scene() -> None:
        @tool
        async def deploy() -> str:
            """Deploy."""
            return str(await mt.ask(LOOK))

        program = Program(store, with_tools([deploy], ("deploy", {}), handle_tool_errors=handles))
        with pytest.raises(mt.CallEnded) as raised:
            await program.enter(
                await store.new(), mt.ScriptedPrompter({"deploy.look": mt.EndedTurn()})
            )
        assert raised.value.turn_ended

    asyncio.run(scene())


@pytest.mark.parametrize("size", [10, 300_000])
def test_lost_command_is_returned_again_or_explained(store: ConversationStore, size: int) -> None:
    async def scene() -> None:
        moved, failing = list[int](), [ConnectionError("503")]

        @tool
        async def move() -> Command[Any]:
            """Move."""
            moved.append(1)
            return Command(
                update={"messages": [ToolMessage("moved".ljust(size), tool_call_id="c0")]}
            )

        @tool
        async def fetch() -> str:
            """Fetch, after the result of the other tool is recorded."""
            await until_recorded(store, conversation)
            if failing:
                raise failing.pop()
            return "fetched"

        program, conversation = (
            Program(store, with_tools([move, fetch], ("move", {}), ("fetch", {}))),
            await store.new(),
        )
        with pytest.raises(ConnectionError):
            await program.enter(conversation)
        if size == 10:
            assert [said.strip() for said in await program.enter(conversation)][-3:] == [
                "moved",
                "fetched",
                "Done.",
            ]
        else:
            with pytest.raises(
                StoreError,
                match=r"The call `move` \(c0\) already ran.*No tool ran again\. Apply the effect of",
            ):
                await program.enter(conversation)
        assert moved == [1]

    asyncio.run(scene())


def test_new_message_is_refused_while_the_graph_waits(store: ConversationStore) -> None:
    async def scene() -> None:
        down = [ConnectionError("503")]

        async def node(state: MessagesState) -> dict[str, Any]:
            if down:
                raise down.pop()
            return {
                "messages": [AIMessage(f"{adapter.ask(LOOK)}: {state['messages'][-1].content}")]
            }

        program, conversation = Program(store, one_node(node)), await store.new()
        with pytest.raises(ConnectionError):
            await program.enter(conversation)
        with pytest.raises(mt.TurnOpen, match=r"began with 'Go\.'"):
            await program.enter(conversation, text="Something else.")
        with pytest.raises(mt.Suspended):
            await program.enter(conversation)
        with pytest.raises(mt.TurnOpen, match="May I look at the table"):
            await program.enter(conversation, text="Something else.")
        assert (await program.until_done(conversation, {"May I look at the table?": True}))[
            -1
        ] == "True: Go."
        with pytest.raises(mt.Suspended) as raised:
            await program.enter(conversation, text="Something else.")
        await store.answer(raised.value.pending[0].id, value=False)
        said = await program.enter(conversation, text="Something else.")
        assert said[-2:] == ["Something else.", "False: Something else."]

    asyncio.run(scene())


def test_values_are_the_same_in_each_process(tmp_path: Any) -> None:
    """A set has another order in each process, and an object another address."""
    program = tmp_path / "shown.py"
    program.write_text(
        "from midturn.integrations.langgraph_values import as_json\nclass Thing:"
        " ...\nprint(as_json({'names': {'anna', 'berta', 'carla', 'dora'}, 'thing': Thing(),"
        " 'both': {(1, 'a'), (2, 'b')}}))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, program],
            env={"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in range(3)
    }
    assert printed == {
        (
            "{'names': ['anna', 'berta', 'carla', 'dora'], 'thing': '__main__.Thing', 'both': [[1,"
            " 'a'], [2, 'b']]}\n"
        )
    }
