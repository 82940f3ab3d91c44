"""Tools of a `ToolNode` and of LangChain's `create_agent`: questions, permissions, replies,
streams, synchronous graphs.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import langchain.agents
import pytest
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, wrap_tool_call
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import Field

import midturn as mt
from midturn.events.types import ToolCallRequest, ToolCallResponse
from midturn.integrations import langgraph as adapter
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.langgraph_versions import with_one_interrupt_per_call
from support.waiting import until

THREAD: RunnableConfig = {"configurable": {"thread_id": "7"}}
SURE = mt.Question.boolean("sure", "Sure?")
WHAT = mt.Question.text("what", "What first?")


class OneCall(BaseChatModel):
    """A chat model that makes calls once and then ends."""

    calls: list[dict[str, Any]]

    @property
    def _llm_type(self) -> str:
        return "one call"

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        done = any(isinstance(message, ToolMessage) for message in messages)
        return ChatResult(
            generations=[
                ChatGeneration(
                    message=AIMessage("Done.") if done else AIMessage("", tool_calls=self.calls)
                )
            ]
        )


def call(name: str, id: str = "c1", **arguments: Any) -> dict[str, Any]:
    """Return a call of the model."""
    return {"name": name, "args": arguments, "id": id}


def given(text: str = "Go.") -> dict[str, Any]:
    """Return the input with a message of the user."""
    return {"messages": [HumanMessage(text)]}


def agent(
    tools: Sequence[Any], *calls: dict[str, Any], middleware: Sequence[Any] = (), saver: Any = None
) -> Any:
    """Return a LangChain agent whose tools are calls of midturn."""
    create_agent: Any = getattr(langchain.agents, "create_agent")  # noqa: B009  its type is partially unknown
    with_ours: list[Any] = [*middleware, wrap_tool_call(cast("Any", adapter.tool_call))]
    return create_agent(
        OneCall(calls=[*calls]),
        [*tools],
        middleware=with_ours,
        checkpointer=saver or InMemorySaver(),
    )


def graph_of(
    tools: Sequence[Any], *calls: dict[str, Any], saver: Any = None, **options: Any
) -> Any:
    """Return a graph of a model that makes calls once, and a `ToolNode` that runs them."""

    def model(state: MessagesState) -> dict[str, Any]:
        done = isinstance(state["messages"][-1], ToolMessage)
        return {"messages": [AIMessage("Done.") if done else AIMessage("", tool_calls=[*calls])]}

    def after(state: MessagesState) -> str:
        return "tools" if cast("AIMessage", state["messages"][-1]).tool_calls else END

    graph = (
        StateGraph(MessagesState)
        .add_node("model", model)
        .add_node("tools", ToolNode(tools, **options))
    )
    graph.add_edge(START, "model").add_edge("tools", "model").add_conditional_edges("model", after)
    return graph.compile(checkpointer=saver or InMemorySaver())


def ours(tools: Sequence[Any], *calls: dict[str, Any]) -> Any:
    """Return such a graph with midturn's tool wrapper."""
    return graph_of(tools, *calls, awrap_tool_call=adapter.tool_call)


def said(state: dict[str, Any]) -> list[str]:
    """Return the texts of the messages."""
    return [str(message.content) for message in cast("list[AnyMessage]", state["messages"])]


async def enter(
    graph: Any, store: ConversationStore, conversation: str, text: str = "Go.", **options: Any
) -> list[str]:
    """Run a graph as far as possible."""
    return said(
        await adapter.invoke(
            graph, mt.Inquirer(store, conversation), given(text), THREAD, **options
        )
    )


async def opened(
    graph: Any, store: ConversationStore, conversation: str
) -> tuple[mt.OpenQuestion, ...]:
    """Run a graph until it waits; return the open questions."""
    with pytest.raises(mt.Suspended) as raised:
        await enter(graph, store, conversation)
    return raised.value.pending


@tool
async def deploy(env: str) -> str:
    """Deploy."""
    if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    return f"{env} is live"


@pytest.mark.parametrize("made", [agent, ours])
@pytest.mark.parametrize("answer", [True, False])
def test_tools_ask_without_individual_wrappers(
    store: ConversationStore, made: Callable[..., Any], *, answer: bool
) -> None:
    async def scene() -> None:
        graph, conversation = made([deploy], call("deploy", env="eu")), await store.new()
        (question,) = await opened(graph, store, conversation)
        assert (question.tool, question.arguments, question.question.text) == (
            "deploy",
            {"env": "eu"},
            "Deploy to eu?",
        )
        await store.answer(question.id, answer)
        *_, result, done = await enter(graph, store, conversation)
        assert result == "eu is live" if answer else result.endswith("Not deployed.")
        assert done == "Done."

    asyncio.run(scene())


def test_ask_in_an_unwrapped_tool_node_explains_the_fix(store: ConversationStore) -> None:
    @tool
    def plain() -> str:
        """Ask in a thread."""
        return str(mt.ask_sync(SURE))

    async def scene() -> None:
        for asking in (deploy, plain):
            graph = graph_of(
                [asking], call(asking.name, **({"env": "eu"} if asking is deploy else {}))
            )
            with pytest.raises(
                RuntimeError, match=r"Give the ToolNode `awrap_tool_call=adapter\.tool_call`"
            ):
                await enter(graph, store, await store.new())

    asyncio.run(scene())


@pytest.mark.parametrize("ids", [("c1", "c2"), ("c1", "c1")])
def test_two_equal_calls_of_a_tool_node_are_two_questions_and_two_runs(
    store: ConversationStore, ids: tuple[str, str]
) -> None:
    async def scene() -> None:
        ran, conversation = list[bool](), await store.new()

        @tool
        async def pay(n: int) -> str:
            """Pay."""
            ran.append(sure := await mt.ask(mt.Question.boolean("sure", f"Pay {n}?")))
            return f"paid {n}: {sure}"

        graph = ours([pay], *(call("pay", id, n=5) for id in ids))
        first, second = await opened(graph, store, conversation)
        await store.answer(first.id, True)
        await store.answer(second.id, False)
        assert (await enter(graph, store, conversation))[-3:-1] == ["paid 5: True", "paid 5: False"]
        assert sorted(ran) == [False, True]
        events = (await store.read(conversation)).events
        assert len([event for event in events if isinstance(event, ToolCallRequest)]) == 2

    asyncio.run(scene())


def test_retrying_wrapper_repeats_the_same_call(store: ConversationStore) -> None:
    class Retrying(AgentMiddleware):
        """Try a call twice."""

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            """Run it, and run it again if it fails."""
            try:
                return await handler(request)
            except ConnectionError:
                return await handler(request)

    async def scene() -> None:
        failing, conversation = [ConnectionError("503")], await store.new()

        @tool
        async def pay() -> str:
            """Pay."""
            assert await mt.ask(SURE)
            if failing:
                raise failing.pop()
            return "paid"

        graph = agent([pay], call("pay"), middleware=[Retrying()])
        (question,) = await opened(graph, store, conversation)
        await store.answer(question.id, True)
        assert (await enter(graph, store, conversation))[-2:] == ["paid", "Done."]
        assert len((await store.read(conversation)).pairs()) == 1

    asyncio.run(scene())


def test_a_list_of_results_reaches_the_graph_also_after_an_error(store: ConversationStore) -> None:
    async def scene() -> None:
        ran, failing, conversation = list[int](), [ConnectionError("503")], await store.new()

        @tool
        async def both() -> list[Any]:
            """Return a message and a command."""
            ran.append(1)
            return [
                ToolMessage("moved", tool_call_id="c1"),
                Command(update={"messages": [HumanMessage("by the way")]}),
            ]

        def model(state: MessagesState) -> dict[str, Any]:
            if not isinstance(state["messages"][-1], HumanMessage) or len(state["messages"]) > 1:
                if failing:
                    raise failing.pop()
                return {"messages": [AIMessage("Done.")]}
            return {"messages": [AIMessage("", tool_calls=[call("both")])]}

        def after(state: MessagesState) -> str:
            return "tools" if cast("AIMessage", state["messages"][-1]).tool_calls else END

        building = (
            StateGraph(MessagesState)
            .add_node("model", model)
            .add_node("tools", ToolNode([both], awrap_tool_call=adapter.tool_call))
        )
        building.add_edge(START, "model").add_edge("tools", "model").add_conditional_edges(
            "model", after
        )
        graph = building.compile(checkpointer=InMemorySaver())
        with pytest.raises(ConnectionError):
            await enter(graph, store, conversation)
        assert (await enter(graph, store, conversation))[-3:] == ["moved", "by the way", "Done."]
        assert ran == [1]

    asyncio.run(scene())


@with_one_interrupt_per_call
@pytest.mark.parametrize("mode", ["batch", "per_call"])
def test_edits_of_the_middleware_fit_the_schema_of_the_tool_and_the_model_is_told(
    store: ConversationStore, mode: str
) -> None:
    async def scene() -> None:
        ran, conversation = list[int](), await store.new()

        @tool
        async def pay(n: Annotated[int, Field(le=10)]) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        options: dict[str, Any] = {} if mode == "batch" else {"interrupt_mode": "per_call"}
        gate = HumanInTheLoopMiddleware(interrupt_on={"pay": True}, **options)
        graph = agent([pay], call("pay", n=5), middleware=[gate])
        (question,) = await opened(graph, store, conversation)
        assert (question.kind, question.tool, question.arguments) == ("run", "pay", {"n": 5})
        for edit in ({"n": "a lot"}, {"n": 50}, {}):
            with pytest.raises(mt.AnswerError):
                await store.answer(question, arguments=edit, digest=question.digest)
        await store.answer(question, arguments={"n": 7}, digest=question.digest)
        result = (await enter(graph, store, conversation))[-2]
        assert ran == [7]
        assert result.endswith("paid 7")
        assert '"n": 7' in result  # this text is LangChain's

    asyncio.run(scene())


def test_a_new_message_is_the_reply_to_the_open_question_of_its_author(
    store: ConversationStore,
) -> None:
    @tool
    async def work() -> str:
        """Work."""
        return str(await mt.ask(WHAT))

    async def scene() -> None:
        graph, conversation = ours([work], call("work")), await store.new()
        with pytest.raises(mt.Suspended):
            await enter(graph, store, conversation, author="ana", on_open="reply")
        with pytest.raises(mt.TurnOpen) as refused:
            await enter(graph, store, conversation, "Wait until Monday.", author="ana")
        assert [question.question.text for question in refused.value.pending] == ["What first?"]
        first = await enter(
            graph, store, conversation, "Wait until Monday.", author="ana", on_open="reply"
        )
        assert (first[0], first[-1], "Wait until Monday." in first[-2]) == ("Go.", "Done.", True)
        assert not await store.pending(conversation)
        with pytest.raises(mt.ConfigError, match="cannot be combined with"):
            await enter(graph, store, conversation, "Next.", on_open="reply", key="k")

    asyncio.run(scene())


def test_a_new_message_is_the_answer_to_a_plain_interrupt_and_no_approval(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        def node(_: MessagesState) -> dict[str, Any]:
            return {"messages": [AIMessage(f"heard: {interrupt('What now?')}")]}

        graph = (
            StateGraph(MessagesState)
            .add_node("node", cast("Any", node))
            .add_edge(START, "node")
            .compile(checkpointer=InMemorySaver())
        )
        conversation = await store.new()
        await opened(graph, store, conversation)
        assert (await enter(graph, store, conversation, "Stop.", on_open="reply"))[
            -1
        ] == "heard: Stop."

        gate = HumanInTheLoopMiddleware(interrupt_on={"deploy": True})
        gated, conversation = (
            agent([deploy], call("deploy", env="eu"), middleware=[gate]),
            await store.new(),
        )
        await opened(gated, store, conversation)
        with pytest.raises(mt.TurnOpen):
            await enter(gated, store, conversation, "Yes.", on_open="reply")

    asyncio.run(scene())


# --------------------------------------------------------------------------------------------------
# Streams


def test_a_stream_has_the_chunks_of_the_graph_and_the_questions(store: ConversationStore) -> None:
    async def scene() -> None:
        graph, conversation = agent([deploy], call("deploy", env="eu")), await store.new()
        prompter = mt.ScriptedPrompter({"deploy.confirm": True})
        inquirer, kinds = mt.Inquirer(store, conversation, prompter), list[str]()
        async with adapter.stream(
            graph, inquirer, given(), THREAD, stream_mode="updates"
        ) as events:
            with pytest.raises(RuntimeError, match="not finished"):
                _ = events.result
            async for event in events:
                kinds.append(
                    next(iter(cast("dict[str, Any]", event)))
                    if isinstance(event, dict)
                    else type(event).__name__
                )
        assert kinds == [
            "model",
            "ToolStarted",
            "Asked",
            "QuestionAnswered",
            "ToolFinished",
            "tools",
            "model",
        ]
        assert said(events.result)[-2:] == ["eu is live", "Done."]

    asyncio.run(scene())


def test_waiting_stream_raises_and_continues_later(store: ConversationStore) -> None:
    async def scene() -> None:
        graph, conversation = ours([deploy], call("deploy", env="eu")), await store.new()
        asked = list[mt.OpenQuestion]()

        async def watched() -> None:
            async with adapter.stream(
                graph, mt.Inquirer(store, conversation), given(), THREAD
            ) as events:
                async for event in events:
                    asked.extend([event.question] if isinstance(event, mt.Asked) else [])

        with pytest.raises(mt.Suspended):
            await watched()
        await store.answer(asked[0], True)
        async with adapter.stream(
            graph, mt.Inquirer(store, conversation), None, THREAD, stream_mode="values"
        ) as events:
            seen = [event async for event in events]
        assert said(cast("Any", seen[-1]))[-1] == said(events.result)[-1] == "Done."

    asyncio.run(scene())


def test_leaving_a_stream_early_leaves_the_turn_open(store: ConversationStore) -> None:
    async def scene() -> None:
        graph, conversation = ours([deploy], call("deploy", env="eu")), await store.new()
        inquirer = mt.Inquirer(store, conversation, mt.ScriptedPrompter({"deploy.confirm": True}))
        async with adapter.stream(graph, inquirer, given(), THREAD) as events:
            async for _ in events:
                break
        assert await store.open_turns(conversation) == {conversation}
        assert (await enter_with(graph, inquirer))[-1] == "Done."

    asyncio.run(scene())


async def enter_with(graph: Any, inquirer: mt.Inquirer) -> list[str]:
    """Run a graph with an inquirer."""
    return said(await adapter.invoke(graph, inquirer, given(), THREAD))


# --------------------------------------------------------------------------------------------------
# Synchronous graphs


class SyncProgram:
    """A program like one in Flask: no event loop, a synchronous checkpointer, a thread per
    request.
    """

    def __init__(self, store: ConversationStore, path: Path, build: Callable[[Any], Any]) -> None:
        self.store = store
        self.graph = build(
            SqliteSaver(sqlite3.connect(path / "graph.sqlite", check_same_thread=False))
        )
        self.conversation = store.new_sync()

    def request(self, text: str = "Go.", **options: Any) -> list[str]:
        """Run the graph in its own thread."""
        found: list[Any] = []

        def work() -> None:
            try:
                inquirer = mt.Inquirer(self.store, self.conversation)
                found.append(
                    said(adapter.invoke_sync(self.graph, inquirer, given(text), THREAD, **options))
                )
            except Exception as error:  # noqa: BLE001  it is raised again
                found.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]


def test_sync_graph_asks_in_its_tools(store: ConversationStore, tmp_path: Path) -> None:
    ran = list[str]()

    @tool
    def ship(env: str) -> str:
        """Ship."""
        if not mt.ask_sync(mt.Question.boolean("confirm", f"Ship to {env}?")):
            raise mt.Rejected("Not shipped.")
        ran.append(env)
        return f"{env} is live"

    calls = [call("ship", "c1", env="eu"), call("ship", "c2", env="us")]
    program = SyncProgram(
        store,
        tmp_path,
        lambda saver: graph_of([ship], *calls, saver=saver, wrap_tool_call=adapter.tool_call_sync),
    )
    with pytest.raises(mt.Suspended):
        program.request()
    for question in store.pending_sync(program.conversation):
        store.answer_sync(question.id, question.arguments["env"] == "us")
    *_, first, second, done = program.request()
    assert (first.endswith("Not shipped."), second, done, ran) == (
        True,
        "us is live",
        "Done.",
        ["us"],
    )
    events = store.read_sync(program.conversation).events
    assert len([event for event in events if isinstance(event, ToolCallResponse)]) == 2


def test_sync_nodes_ask_and_make_calls(store: ConversationStore, tmp_path: Path) -> None:
    ran = list[int]()

    def work(call: mt.InquirerCall) -> str:
        ran.append(1)
        return f"worked: {call.ask_sync(WHAT)}"

    def node(_: MessagesState) -> dict[str, Any]:
        worked = adapter.call_sync("work", {"n": 1}, work)
        return {"messages": [AIMessage(f"{worked}, sure: {adapter.ask(SURE)}")]}

    def build(saver: Any) -> Any:
        return (
            StateGraph(MessagesState)
            .add_node("node", cast("Any", node))
            .add_edge(START, "node")
            .compile(checkpointer=saver)
        )

    program = SyncProgram(store, tmp_path, build)
    for answer in ("the roof", True):
        with pytest.raises(mt.Suspended) as raised:
            program.request()
        store.answer_sync(raised.value.pending[0].id, answer)
    assert program.request()[-1] == "worked: the roof, sure: True"
    assert len(ran) == 2  # once until the question, once with the answer


def test_sync_graph_is_refused_in_a_running_loop(store: ConversationStore) -> None:
    async def scene() -> None:
        inquirer = mt.Inquirer(store, await store.new())
        graph = graph_of([deploy], call("deploy", env="eu"), wrap_tool_call=adapter.tool_call_sync)
        with pytest.raises(RuntimeError, match=r"Use `await invoke\(…\)`"):
            adapter.invoke_sync(graph, inquirer, given(), THREAD)
        with pytest.raises(RuntimeError, match=r"Use `awrap_tool_call=adapter\.tool_call`"):
            await enter_with(graph, inquirer)

    asyncio.run(scene())


# --------------------------------------------------------------------------------------------------
# Permissions


@pytest.mark.parametrize("edit", [{"n": 7}, {"n": 5}, None])
def test_a_permission_for_a_tool_shows_its_arguments_and_takes_an_edit(
    store: ConversationStore, edit: dict[str, int] | None
) -> None:
    async def scene() -> None:
        ran, conversation = list[int](), await store.new()

        @tool
        async def pay(n: Annotated[int, Field(le=10)]) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        @tool
        async def look() -> str:
            """Look."""
            return "seen"

        calls = [call("pay", n=5), call("look", "c2")]
        graph = graph_of([pay, look], *calls, awrap_tool_call=adapter.permission_for("pay"))
        (question,) = await opened(graph, store, conversation)
        assert (question.kind, question.tool, question.arguments) == ("run", "pay", {"n": 5})
        with pytest.raises(mt.AnswerError):
            await store.answer(question, arguments={"n": 50}, digest=question.digest)
        (
            await store.answer(question, approve=False)
            if edit is None
            else await store.answer(question, arguments=edit, digest=question.digest)
        )
        result, seen, done = (await enter(graph, store, conversation))[-3:]
        assert (seen, done) == ("seen", "Done.")
        if edit is None:
            assert (result, ran) == ("pay was skipped by the user.", [])
        elif edit == {"n": 7}:
            assert (result, ran) == (
                'The user edited the arguments of this call. It ran with: {"n": 7}\npaid 7',
                [7],
            )
        else:
            assert (result, ran) == ("paid 5", [5])

    asyncio.run(scene())


@pytest.mark.parametrize("fails", [False, True])
def test_blocks_of_an_edited_call_come_after_what_ran_also_after_an_error(
    store: ConversationStore, *, fails: bool
) -> None:
    async def scene() -> None:
        down, conversation = [ConnectionError("503")] if fails else [], await store.new()

        @tool
        async def draw(n: int) -> list[dict[str, Any]]:
            """Draw."""
            return [{"type": "text", "text": f"{n} lines"}]

        @tool
        async def fetch() -> str:
            """Fetch, after the result of the other tool is recorded."""
            await until(
                lambda: any(
                    isinstance(event, ToolCallResponse)
                    for event in drive(store.read(conversation)).events
                )
            )
            if down:
                raise down.pop()
            return "fetched"

        prompter = mt.ScriptedPrompter({"draw.__run__": mt.Edited({"n": 4})})
        graph = graph_of(
            [draw, fetch],
            call("draw", n=8),
            call("fetch", "c2"),
            awrap_tool_call=adapter.permission_for("draw"),
        )
        inquirer = mt.Inquirer(store, conversation, prompter)
        if fails:
            with pytest.raises(ConnectionError):
                await enter_with(graph, inquirer)
        state = await adapter.invoke(graph, inquirer, given(), THREAD)
        (message,) = [
            message
            for message in state["messages"]
            if isinstance(message, ToolMessage) and message.name == "draw"
        ]
        assert message.content == [
            {
                "type": "text",
                "text": 'The user edited the arguments of this call. It ran with: {"n": 4}',
            },
            {"type": "text", "text": "4 lines"},
        ]

    asyncio.run(scene())


def test_an_agent_of_langchain_takes_the_permission_as_middleware(store: ConversationStore) -> None:
    async def scene() -> None:
        create_agent: Any = getattr(langchain.agents, "create_agent")  # noqa: B009  its type is partially unknown
        gate = cast("Any", wrap_tool_call)(adapter.permission_for("deploy"))
        graph = create_agent(
            OneCall(calls=[call("deploy", env="eu")]),
            [deploy],
            middleware=[gate],
            checkpointer=InMemorySaver(),
        )
        conversation = await store.new()
        for kind in ("run", "tool"):
            (question,) = await opened(graph, store, conversation)
            assert question.kind == kind
            await store.answer(question, True)
        assert (await enter(graph, store, conversation))[-2:] == ["eu is live", "Done."]

    asyncio.run(scene())


def test_permission_in_a_sync_graph(store: ConversationStore, tmp_path: Path) -> None:
    @tool
    def pay(n: int) -> str:
        """Pay."""
        return f"paid {n}"

    def build(saver: Any) -> Any:
        return graph_of(
            [pay], call("pay", n=5), saver=saver, wrap_tool_call=adapter.permission_for_sync("pay")
        )

    program = SyncProgram(store, tmp_path, build)
    with pytest.raises(mt.Suspended) as waiting:
        program.request()
    (question,) = waiting.value.pending
    store.answer_sync(question, arguments={"n": 7}, digest=question.digest)
    assert program.request()[-2].endswith("paid 7")
