"""midturn in the real LangGraph. Each entry has a new graph on a checkpointer on disk, as
after a restart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.integrations import langgraph as adapter
from midturn.stores.store import ConversationStore
from midturn.testing import Clock
from support.langgraph_versions import with_schemas
from support.shop import Shop, answer_after_deadline, answer_by_two_people

CONFIRM = mt.Question.boolean("confirm", "Deploy?")
REGION = mt.Question.select("region", "Which region?", ["eu-1", "us-2"])
THREAD: RunnableConfig = {"configurable": {"thread_id": "7"}}


def both(left: list[str], right: list[str]) -> list[str]:
    return [*left, *right]


class State(TypedDict):
    """The messages of the nodes."""

    said: Annotated[list[str], both]


class Program:
    """Nodes that run in parallel, with a checkpointer and a count of their effects."""

    def __init__(self, store: ConversationStore, **nodes: Callable[[State], Any]) -> None:
        self.store = store
        self.effects: Counter[str] = Counter()
        self.saver = InMemorySaver()
        self.nodes = nodes

    def graph(self) -> adapter.Graph:
        """Create the graph again."""
        graph = StateGraph(State)
        for name, node in self.nodes.items():
            graph.add_node(
                name, cast("Any", node)
            )  # the protocol of LangGraph requires this parameter name
            graph.add_edge(START, name)
            graph.add_edge(name, END)
        return graph.compile(checkpointer=self.saver)

    async def enter(self, conversation: str, prompter: mt.Prompter | None = None) -> list[str]:
        """Run the graph as far as possible."""
        state = await adapter.invoke(
            self.graph(),
            mt.Inquirer(self.store, conversation, prompter),
            {"said": []},
            THREAD,
            text="Ship it.",
        )
        return sorted(state["said"])

    async def until_done(self, *answers: str | bool) -> list[str]:
        """Run; answer the open questions one after the other."""
        conversation = await self.store.new()
        for answer in answers:
            with pytest.raises(mt.Suspended) as raised:
                await self.enter(conversation)
            question = raised.value.pending[0]
            await self.store.answer(question.id, answer)
        return await self.enter(conversation)


def deploying(store: ConversationStore, *names: str) -> Program:
    """Nodes that each call a tool once, which asks twice."""
    program = Program(store)

    def node(name: str) -> Callable[[State], Any]:
        async def deploy(call: mt.InquirerCall) -> str:
            if not await call.ask(CONFIRM):
                raise mt.Rejected(f"{name} not deployed.")
            region = await mt.ask(REGION)
            program.effects[name] += 1
            return f"{name} is live in {region}."

        async def run(state: State) -> State:
            assert state["said"] == []
            content = await adapter.call("deploy", {"env": name}, deploy)
            return {"said": [str(content)]}

        return run

    program.nodes = {name: node(name) for name in names}
    return program


def test_call_in_a_node_is_answered_by_an_attached_person(store: ConversationStore) -> None:
    program = deploying(store, "staging")
    person = mt.ScriptedPrompter({"deploy.confirm": True, "deploy.region": "us-2"})

    async def scene() -> None:
        assert await program.enter(await store.new(), person) == ["staging is live in us-2."]
        assert program.effects == {"staging": 1}

    asyncio.run(scene())


def test_a_call_in_a_node_is_answered_after_a_restart(store: ConversationStore) -> None:
    program = deploying(store, "staging")

    async def scene() -> None:
        assert await program.until_done(True, "us-2") == ["staging is live in us-2."]
        assert program.effects == {"staging": 1}

    asyncio.run(scene())


def test_two_nodes_at_once_are_answered_one_question_at_a_time(store: ConversationStore) -> None:
    program = deploying(store, "production", "staging")

    async def scene() -> None:
        assert await program.until_done(True, True, "us-2", "us-2") == [
            "production is live in us-2.",
            "staging is live in us-2.",
        ]
        assert program.effects == {"production": 1, "staging": 1}
        conversation = (await store.ids())[0]
        read = await store.read(conversation)
        assert len(read.pairs()) == 4
        assert sum(isinstance(event, ToolCallResponse) for event in read.events) == 2

    asyncio.run(scene())


def test_no_in_a_node_runs_nothing_and_is_asked_once(store: ConversationStore) -> None:
    program = deploying(store, "staging")

    async def scene() -> None:
        (said,) = await program.until_done(False)
        assert said.endswith("staging not deployed.")
        assert program.effects == {}

    asyncio.run(scene())


def test_a_node_asks_without_a_call_and_after_one(store: ConversationStore) -> None:
    """The earlier call in the same node has used one of LangGraph's interrupt positions."""
    program = Program(store)

    async def note(call: mt.InquirerCall) -> str:
        said = await call.ask(mt.Question.text("note", "A note?"))
        program.effects["note"] += 1
        return said

    async def node(state: State) -> State:
        assert state["said"] == []
        noted = await adapter.call("note", {}, note)
        if not adapter.ask(CONFIRM):
            return {"said": ["no"]}
        return {"said": [f"{noted}: {adapter.ask(REGION)}"]}

    program.nodes = {"node": node}

    async def scene() -> None:
        assert await program.until_done("calm", True, "eu-1") == ["calm: eu-1"]
        assert program.effects == {"note": 1}

    asyncio.run(scene())


@with_schemas
def test_graph_interrupts_are_answered_like_other_questions(store: ConversationStore) -> None:
    """A typed and an untyped interrupt in parallel, and one of a synchronous node."""

    class Choice(TypedDict):
        """What is wanted."""

        region: str

    def typed(state: State) -> State:
        assert state["said"] == []
        return {
            "said": [
                f"typed {interrupt({'plan': 'two machines'}, response_schema=Choice)['region']}"
            ]
        }

    async def plain(state: State) -> State:
        assert state["said"] == []
        return {"said": [f"plain {interrupt('How old are you?')}"]}

    program = Program(store, typed=typed, plain=plain)

    async def scene() -> None:
        conversation = await store.new()
        with pytest.raises(mt.Suspended) as raised:
            await program.enter(conversation)
        by_text = {question.question.text: question for question in raised.value.pending}
        assert set(by_text) == {"How old are you?", "The graph is waiting for a value."}
        await store.answer(by_text["How old are you?"].id, "42")
        with pytest.raises(mt.Suspended):
            await program.enter(conversation)
        await store.answer(by_text["The graph is waiting for a value."].id, {"region": "eu-1"})
        assert await program.enter(conversation) == ["plain 42", "typed eu-1"]
        assert len((await store.read(conversation)).pairs()) == 2

    asyncio.run(scene())


def test_reply_is_the_value_of_a_plain_interrupt_and_ends_an_ask(store: ConversationStore) -> None:
    def plain(state: State) -> State:
        assert state["said"] == []
        return {"said": [str(interrupt("How old are you?"))]}

    def asks(state: State) -> State:
        assert state["said"] == []
        try:
            return {"said": [str(adapter.ask(CONFIRM))]}
        except mt.CallEnded as ended:
            return {"said": [ended.content]}

    async def scene() -> None:
        for node, heard in (
            (plain, "Why?"),
            (asks, '{"cancelled": true, "answered": {}, "reply": "Why?"}'),
        ):
            program, conversation = Program(store, node=node), await store.new()
            with pytest.raises(mt.Suspended) as raised:
                await program.enter(conversation)
            await store.answer(raised.value.pending[0].id, reply="Why?")
            (said,) = await program.enter(conversation)
            assert said == heard

    asyncio.run(scene())


def test_ending_the_turn_leaves_the_graph_where_it_was(store: ConversationStore) -> None:
    program = Program(store, node=lambda state: {"said": [str(interrupt(str(state)))]})

    async def scene() -> None:
        with pytest.raises(mt.CallEnded) as raised:
            await program.enter(
                await store.new(), mt.ScriptedPrompter({"interrupt.value": mt.EndedTurn()})
            )
        assert raised.value.turn_ended

    asyncio.run(scene())


def test_call_outside_an_entry_explains_the_fix(store: ConversationStore) -> None:
    program = deploying(store, "staging")
    with pytest.raises(RuntimeError, match=r"await invoke\(graph, inquirer"):
        asyncio.run(program.graph().ainvoke({"said": []}, THREAD))  # type: ignore[arg-type]  # it is a coroutine


@pytest.mark.parametrize(
    ("is_late", "reads"), [(False, "the shop is sold."), (True, "the shop stays: deadline.")]
)
def test_two_person_question_waits_for_both_until_its_deadline(
    store: ConversationStore,
    clock: Clock,
    is_late: bool,  # noqa: FBT001  whether time passes
    reads: str,
) -> None:
    shop = Shop()

    async def sell(state: State) -> State:
        assert state["said"] == []
        content = await adapter.call("sell", {"env": "the shop"}, lambda _: shop.sell("the shop"))
        return {"said": [str(content)]}

    async def scene() -> None:
        program, conversation = Program(store, sell=sell), await store.new()
        with pytest.raises(mt.Suspended):
            await program.enter(conversation)
        await (
            answer_after_deadline(store, conversation, clock)
            if is_late
            else answer_by_two_people(store, conversation)
        )
        assert await program.enter(conversation) == [reads]

    asyncio.run(scene())
