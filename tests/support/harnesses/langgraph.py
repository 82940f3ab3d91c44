"""Scripted agents in LangGraph with a ToolNode. The checkpoints of each step are kept between
two runs.
"""

from __future__ import annotations

import base64
import inspect
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import get_runtime

import midturn as mt
from midturn.integrations import langgraph as adapter
from midturn.testing.adapters.program import Capability, Entry, Outcome, Program, ProgramTool, Saved

_THREAD: RunnableConfig = {"configurable": {"thread_id": "7"}}


@dataclass
class Context:
    user: str


class Harness:
    """See `AdapterHarness`."""

    name = "LangGraph"
    missing: Mapping[Capability, str] = {
        "guardrails": "a `ToolNode` has no guardrails",
        "lost state": (
            "a call is identified by the checkpoint in which its node runs; without the"
            " checkpoints, the question is asked again"
        ),
    }

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the graph through `invoke`, `stream`, or without midturn, with checkpoints in
        memory.
        """
        return await _run(program, _Kept(saved), entry)

    def run_sync(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the graph through `invoke_sync`."""
        return _run_sync(program, _Kept(saved), entry)

    def image(self, data: bytes) -> object:
        return [
            {"type": "image", "base64": base64.b64encode(data).decode(), "mime_type": "image/png"}
        ]


class SqliteHarness(Harness):
    """The same with checkpoints in SQLite."""

    name = "LangGraph, SQLite"

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the graph with `AsyncSqliteSaver`."""
        with NamedTemporaryFile(suffix=".sqlite") as file:
            path = Path(file.name)
            path.write_bytes(saved.content or b"")  # noqa: ASYNC240  a few kilobytes
            async with AsyncSqliteSaver.from_conn_string(file.name) as checkpointer:
                try:
                    return await _run(program, checkpointer, entry)
                finally:
                    await checkpointer.conn.execute("pragma wal_checkpoint(truncate)")
                    saved.content = path.read_bytes()  # noqa: ASYNC240  a few kilobytes

    def run_sync(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the graph with `SqliteSaver`."""
        with NamedTemporaryFile(suffix=".sqlite") as file:
            path = Path(file.name)
            path.write_bytes(saved.content or b"")
            with SqliteSaver.from_conn_string(file.name) as checkpointer:
                try:
                    return _run_sync(program, checkpointer, entry)
                finally:
                    checkpointer.conn.execute("pragma wal_checkpoint(truncate)")
                    saved.content = path.read_bytes()


class PostgresHarness(Harness):
    """The same with checkpoints in PostgreSQL. Only the thread name is kept here."""

    name = "LangGraph, PostgreSQL"

    def __init__(self, url: str) -> None:
        self._url = url

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the graph with `AsyncPostgresSaver`."""
        async with AsyncPostgresSaver.from_conn_string(self._url) as checkpointer:
            await checkpointer.setup()
            return await _run(program, checkpointer, entry, _thread(saved))

    def run_sync(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the graph with `PostgresSaver`."""
        with PostgresSaver.from_conn_string(self._url) as checkpointer:
            checkpointer.setup()
            return _run_sync(program, checkpointer, entry, _thread(saved))


def _thread(saved: Saved) -> RunnableConfig:
    saved.content = saved.content or uuid4().hex.encode()
    return {"configurable": {"thread_id": saved.content.decode()}}


async def _run(
    program: Program,
    checkpointer: BaseCheckpointSaver[Any],
    entry: Entry,
    thread: RunnableConfig = _THREAD,
) -> Outcome:
    graph = _graph(program, checkpointer, entry)
    given = {"messages": [HumanMessage(entry.text)]}
    if entry.inquirer is None:
        return _outcome(await graph.ainvoke(given, thread, context=Context(program.context)))
    options: dict[str, Any] = {
        "key": entry.key,
        "author": entry.author,
        "on_open": entry.on_open,
        "context": Context(program.context),
    }
    seen: list[object] = []
    try:
        if not entry.is_stream:
            return _outcome(await adapter.invoke(graph, entry.inquirer, given, thread, **options))
        async with adapter.stream(graph, entry.inquirer, given, thread, **options) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401  what came before a suspension counts
    except mt.Suspended:
        return Outcome(None, seen)
    return _outcome(events.result, seen)


def _run_sync(
    program: Program,
    checkpointer: BaseCheckpointSaver[Any],
    entry: Entry,
    thread: RunnableConfig = _THREAD,
) -> Outcome:
    assert entry.inquirer is not None
    graph = _graph(program, checkpointer, entry, is_sync=True)
    try:
        return _outcome(
            adapter.invoke_sync(
                graph, entry.inquirer, {"messages": [HumanMessage(entry.text)]}, thread
            )
        )
    except mt.Suspended:
        return Outcome(None)


def _outcome(state: Mapping[str, Any], events: Sequence[object] = ()) -> Outcome:
    return Outcome(state["messages"][-1].text, events)


def _graph(
    program: Program, checkpointer: BaseCheckpointSaver[Any], entry: Entry, *, is_sync: bool = False
) -> Any:
    def model(state: MessagesState) -> dict[str, list[AIMessage]]:
        messages = state["messages"]
        last = max(
            place for place, message in enumerate(messages) if isinstance(message, HumanMessage)
        )
        turn = messages[last + 1 :]
        read = [_text(message) for message in turn if isinstance(message, ToolMessage)]
        said = program.reply(sum(isinstance(message, AIMessage) for message in turn), read)
        calls = [
            {"name": call.tool, "args": dict(call.arguments), "id": call.id} for call in said.calls
        ]
        return {"messages": [AIMessage(said.text, tool_calls=calls)]}

    tools = [_tool(tool) for tool in program.tools]
    if program.context_tool is not None:
        tools.append(_context_tool(program))
    gated = [tool.name for tool in program.tools if tool.needs_approval]
    if entry.inquirer is None:
        node = ToolNode(tools)
    elif is_sync:
        node = ToolNode(tools, wrap_tool_call=adapter.permission_for_sync(*gated))
    else:
        node = ToolNode(tools, awrap_tool_call=adapter.permission_for(*gated))
    building = StateGraph(MessagesState, context_schema=Context)
    building.add_node("model", model)
    building.add_node("tools", node)
    building.add_edge(START, "model")
    building.add_conditional_edges("model", tools_condition)
    building.add_edge("tools", "model")
    return building.compile(checkpointer=checkpointer)


def _text(message: AnyMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(_part(part) for part in message.content if isinstance(part, dict))


def _part(part: Mapping[str, Any]) -> str:
    if part.get("type") == "image":
        return f" [image of {len(base64.b64decode(part['base64']))} bytes]"
    return str(part.get("text"))


def _tool(tool: ProgramTool) -> StructuredTool:
    is_async = inspect.iscoroutinefunction(tool.function)
    options: dict[str, Any] = {"name": tool.name}
    return (
        StructuredTool.from_function(coroutine=tool.function, **options)
        if is_async
        else StructuredTool.from_function(tool.function, **options)
    )


def _context_tool(program: Program) -> StructuredTool:
    async def whoami() -> str:
        """Say who runs this."""
        assert program.context_tool is not None
        return await program.context_tool(get_runtime(Context).context.user)

    return StructuredTool.from_function(coroutine=whoami, name="whoami")


class _Kept(InMemorySaver):
    """A checkpointer that writes to `saved` at once, like one in a database."""

    def __init__(self, saved: Saved) -> None:
        super().__init__()
        self._saved = saved
        if saved.content:
            storage, writes, blobs = pickle.loads(saved.content)
            for thread, spaces in storage.items():
                self.storage[thread].update(spaces)
            self.writes.update(writes)
            self.blobs.update(blobs)

    def put(self, *args: Any, **options: Any) -> Any:
        return self._kept(super().put(*args, **options))

    def put_writes(self, *args: Any, **options: Any) -> None:
        self._kept(super().put_writes(*args, **options))

    def _kept(self, done: Any) -> Any:
        storage = {thread: dict(spaces) for thread, spaces in self.storage.items()}
        self._saved.content = pickle.dumps((storage, dict(self.writes), dict(self.blobs)))
        return done
