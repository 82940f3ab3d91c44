"""The interrupts of LangChain's `HumanInTheLoopMiddleware`: a person decides with midturn's
permissions and edits.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import Discriminator
from typing_extensions import TypedDict

import midturn as mt
from midturn.integrations import langgraph as adapter
from midturn.stores.store import ConversationStore
from support.langgraph_versions import with_schemas

CALLS = [
    {"name": "pay", "args": {"n": 5}, "description": "Pay somebody."},
    {"name": "mail", "args": {"to": "bo"}},
]


class Approve(TypedDict):
    """A decision."""

    type: Literal["approve"]


class Reject(TypedDict):
    """A decision."""

    type: Literal["reject"]
    message: str


class Program:
    """A graph whose only node interrupts like the middleware. `decisions` are the values it
    received.
    """

    def __init__(self, store: ConversationStore, *allowed: str, per_call: bool = False) -> None:
        self.store = store
        self.saver = InMemorySaver()
        self.decisions: Any = None
        self._allowed = allowed
        self._per_call = per_call

    def _node(self, state: MessagesState) -> dict[str, Any]:
        assert state["messages"] == []
        if self._per_call:
            value = {
                "type": "tool_approval",
                "tool_call_id": "c1",
                "name": "pay",
                "args": {"n": 5},
                "description": "Pay somebody.",
            }
            schema: Any = Annotated[Approve | Reject, Discriminator("type")]
            self.decisions = interrupt(value, response_schema=schema)
        else:
            configs = [
                {"action_name": call["name"], "allowed_decisions": [*self._allowed]}
                for call in CALLS
            ]
            self.decisions = interrupt({"action_requests": CALLS, "review_configs": configs})[
                "decisions"
            ]
        return {"messages": [AIMessage("Done.")]}

    async def enter(self, conversation: str, prompter: mt.Prompter | None = None) -> None:
        """Run the graph as far as possible."""
        graph = (
            StateGraph(MessagesState)
            .add_node("node", self._node)
            .add_edge(START, "node")
            .compile(checkpointer=self.saver)
        )
        await adapter.invoke(
            graph,
            mt.Inquirer(self.store, conversation, prompter),
            {"messages": []},
            {"configurable": {"thread_id": "7"}},
        )

    async def open(self, conversation: str) -> dict[str, mt.OpenQuestion]:
        """Run the graph as far as possible; return the open questions by tool."""
        with pytest.raises(mt.Suspended) as raised:
            await self.enter(conversation)
        return {question.tool: question for question in raised.value.pending}


def test_approvals_edits_and_rejections_are_decisions_of_permissions(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "approve", "edit", "reject"), await store.new()
        asked = await program.open(conversation)
        assert {tool: (question.kind, question.arguments) for tool, question in asked.items()} == {
            "pay": ("run", {"n": 5}),
            "mail": ("run", {"to": "bo"}),
        }
        await store.answer(asked["pay"].id, arguments={"n": 2}, user="ana")
        assert [*await program.open(conversation)] == ["mail"]
        await store.answer(asked["mail"].id, approve=False, reason="Not to Bo.", user="ana")
        await program.enter(conversation)
        edit, reject = program.decisions
        assert edit == {"type": "edit", "edited_action": {"name": "pay", "args": {"n": 2}}}
        assert (reject["type"], "Not to Bo." in reject["message"]) == ("reject", True)

    asyncio.run(scene())


def test_attached_person_decides_immediately(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "approve", "reject"), await store.new()
        await program.enter(
            conversation, mt.ScriptedPrompter({"pay.__run__": True, "mail.__run__": False})
        )
        assert [decision["type"] for decision in program.decisions] == ["approve", "reject"]

    asyncio.run(scene())


def test_edit_not_supported_by_the_middleware_is_a_rejection(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "approve", "reject"), await store.new()
        asked = await program.open(conversation)
        await store.answer(asked["pay"].id, arguments={"n": 2}, user="ana")
        await store.answer(asked["mail"].id, approve=True, user="ana")
        await program.enter(conversation)
        refused, approved = program.decisions
        assert refused["type"] == "reject"
        assert "edited, which is not among its allowed decisions" in refused["message"]
        assert approved == {"type": "approve"}

    asyncio.run(scene())


def test_no_not_supported_by_the_middleware_runs_nothing(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "approve"), await store.new()
        asked = await program.open(conversation)
        await store.answer(asked["pay"].id, approve=False, user="ana")
        await store.answer(asked["mail"].id, approve=True, user="ana")
        for _ in range(2):
            with pytest.raises(mt.CallEnded, match=r"Add `reject` to its `allowed_decisions`"):
                await program.enter(conversation)
        assert program.decisions is None

    asyncio.run(scene())


def test_tool_answered_by_people_is_a_question(store: ConversationStore) -> None:
    async def scene() -> None:
        program, conversation = Program(store, "respond"), await store.new()
        asked = await program.open(conversation)
        assert asked["pay"].question.text == "What is the result of `pay`?"
        assert asked["pay"].question.context == "Pay somebody."
        for tool, question in asked.items():
            await store.answer(question.id, f"{tool} is done")
        await program.enter(conversation)
        assert program.decisions == [
            {"type": "respond", "message": f"{tool} is done"} for tool in ("pay", "mail")
        ]

    asyncio.run(scene())


@with_schemas
@pytest.mark.parametrize("answer", [True, False])
def test_one_interrupt_for_each_call_takes_one_decision(
    store: ConversationStore, *, answer: bool
) -> None:
    async def scene() -> None:
        program, conversation = Program(store, per_call=True), await store.new()
        asked = await program.open(conversation)
        await store.answer(asked["pay"].id, approve=answer, user="ana")
        await program.enter(conversation)
        assert program.decisions["type"] == ("approve" if answer else "reject")

    asyncio.run(scene())
