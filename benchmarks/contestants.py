# pyright: basic, reportMissingImports=false, reportMissingTypeStubs=false
"""The same turn in other frameworks: a tool call waits for a person, the state is on disk, and
new objects resume after the answer.

The frameworks differ too much for identical programs. Each does what its documentation shows for
waiting across a restart:

- LangGraph: a graph with a model node and a tool node, `interrupt` and `Command(resume=…)`, with
  its SQLite checkpointer;
- pydantic-ai: a deferred tool; the program writes all messages to a file, syncs it, and reads them
  back;
- OpenAI Agents SDK: a tool that needs approval; the run state as JSON in a synced file, read back;
- DBOS: a workflow that waits in `recv`, with SQLite. It stays in memory, so a restart is not part
  of its figure.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

FILLER = "x" * 280


class Contestant(Protocol):
    """Prepares a conversation with a number of messages in a directory and returns a function
    that runs the turn.
    """

    def __call__(self, root: Path, messages: int) -> Callable[[], Awaitable[None]]: ...


def _save(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fdatasync(file.fileno())


def midturn(root: Path, messages: int) -> Callable[[], Awaitable[None]]:
    """Midturn with a file store. Two messages are four events."""
    import midturn as mt
    from turns import deploy, history, turn

    conversation = mt.open_store(root).new_sync("ship it")
    (path,) = root.glob(f"{conversation}-*")
    (path / "events.jsonl").write_bytes(history(messages * 2))
    return lambda: turn(root, conversation, deploy, ["eu-1"])


def midturn_anew(root: Path, messages: int) -> Callable[[], Awaitable[None]]:
    """midturn, with each step as in a new process whose modules are already loaded."""
    import midturn as mt
    from turns import deploy, forget, history, turn

    conversation = mt.open_store(root).new_sync("ship it")
    (path,) = root.glob(f"{conversation}-*")
    (path / "events.jsonl").write_bytes(history(messages * 2))
    return lambda: turn(root, conversation, deploy, ["eu-1"], forget)


def floor(root: Path, messages: int) -> Callable[[], Awaitable[None]]:
    """A lower bound without a framework: as many bytes and syncs as midturn, then everything is
    read back and decoded once.
    """

    async def sync(fd: int) -> None:
        os.fdatasync(fd)
        await asyncio.sleep(0)

    return _floor(root, messages, sync)


def floor_in_threads(root: Path, messages: int) -> Callable[[], Awaitable[None]]:
    """The same lower bound for an asyncio program that does not block its loop: each sync runs in
    a thread.
    """
    return _floor(root, messages, lambda fd: asyncio.to_thread(os.fdatasync, fd))


def _floor(
    root: Path, messages: int, sync: Callable[[int], Awaitable[None]]
) -> Callable[[], Awaitable[None]]:
    from turns import history

    path = root / "events.jsonl"
    path.write_bytes(history(messages * 2))

    async def run() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        for _ in range(6):
            os.write(fd, b'{"filler":"%b"}\n' % (b"x" * 206))
            await sync(fd)
        os.close(fd)
        decoder = msgspec.json.Decoder()
        for line in path.read_bytes().splitlines():
            decoder.decode(line)

    return run


def langgraph(root: Path, messages: int) -> Callable[[], Awaitable[None]]:
    """LangGraph with SQLite."""
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

    said: list[AnyMessage] = []
    for _ in range(messages // 2):
        said += [HumanMessage(FILLER), AIMessage(FILLER)]
    with _graph(root) as graph:
        graph.update_state(THREAD, {"messages": said}, as_node="model")

    async def run() -> None:
        await langgraph_asked(root)
        await langgraph_resumed(root)

    return run


THREAD: Any = {"configurable": {"thread_id": "1"}}


async def langgraph_asked(root: Path) -> None:
    """Run until the tool waits."""
    from langchain_core.messages import HumanMessage

    with _graph(root) as graph:
        assert graph.invoke({"messages": [HumanMessage("Ship it")]}, THREAD)["__interrupt__"]


async def langgraph_resumed(root: Path) -> None:
    """Resume with the answer."""
    from langgraph.types import Command

    with _graph(root) as graph:
        assert graph.invoke(Command(resume="eu-1"), THREAD)["messages"][-1].content == "Done."


@contextmanager
def _graph(root: Path) -> Generator[Any]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(root / "checkpoints.sqlite")) as saver:
        yield langgraph_on(saver)


def langgraph_on(saver: Any) -> Any:
    """Return the LangGraph graph on a checkpointer."""
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import interrupt

    def model(state: Any) -> Any:
        if state["messages"] and isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage("Done.")]}
        return {
            "messages": [
                AIMessage(
                    "", tool_calls=[{"name": "deploy", "args": {"env": "staging"}, "id": "call_1"}]
                )
            ]
        }

    def tool(state: Any) -> Any:
        del state
        region = interrupt({"question": "Which region?", "options": ["eu-1", "us-2"]})
        return {"messages": [ToolMessage(f"deployed staging to {region}", tool_call_id="call_1")]}

    def after(state: Any) -> str:
        last = state["messages"][-1] if state["messages"] else None
        return "tool" if isinstance(last, AIMessage) and last.tool_calls else END

    made = StateGraph(MessagesState)
    made.add_node("model", model)
    made.add_node("tool", tool)
    made.add_edge(START, "model")
    made.add_conditional_edges("model", after, ["tool", END])
    made.add_edge("tool", "model")
    return made.compile(checkpointer=saver)


def pydantic_ai(root: Path, messages: int) -> Callable[[], Awaitable[None]]:
    """A deferred tool of pydantic-ai and a file."""
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
    from pydantic_ai.exceptions import CallDeferred
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    file = root / "messages.json"

    def say(seen: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if isinstance(seen[-1].parts[-1], ToolReturnPart):
            return ModelResponse([TextPart("Done.")])
        return ModelResponse([ToolCallPart("deploy", {"env": "staging"}, "call_1")])

    def agent() -> Agent[None, str | DeferredToolRequests]:
        made = Agent(FunctionModel(say), output_type=[str, DeferredToolRequests])

        @made.tool_plain
        def deploy(env: str) -> str:
            """Deploy the service."""
            raise CallDeferred(metadata={"env": env})

        return made

    said: list[ModelMessage] = []
    for _ in range(messages // 2):
        said += [ModelRequest([UserPromptPart(FILLER)]), ModelResponse([TextPart(FILLER)])]
    file.write_bytes(ModelMessagesTypeAdapter.dump_json(said))

    async def run() -> None:
        before = ModelMessagesTypeAdapter.validate_json(file.read_bytes())
        first = await agent().run("Ship it", message_history=before)
        assert isinstance(first.output, DeferredToolRequests)
        _save(file, first.all_messages_json())
        before = ModelMessagesTypeAdapter.validate_json(file.read_bytes())
        last = await agent().run(
            message_history=before,
            deferred_tool_results=DeferredToolResults(calls={"call_1": "deployed to eu-1"}),
        )
        assert last.output == "Done."
        _save(file, last.all_messages_json())

    return run


def openai_agents(root: Path, messages: int) -> Callable[[], Awaitable[None]]:
    """A tool of the OpenAI Agents SDK that needs approval, and a file."""
    from agents import Agent, RunConfig, Runner, RunState, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    file = root / "state.json"
    quiet = RunConfig(tracing_disabled=True)
    said: list[Any] = []
    for _ in range(messages // 2):
        said += [{"role": "user", "content": FILLER}, {"role": "assistant", "content": FILLER}]
    file.write_bytes(json.dumps(said).encode())

    @function_tool(needs_approval=True)
    def deploy(env: str) -> str:
        """Deploy the service."""
        return f"deployed {env}"

    async def run() -> None:
        model = ScriptedModel(
            [
                [function_call("deploy", {"env": "staging"}, call_id="call_1")],
                [assistant_message("Done.")],
            ]
        )
        agent: Agent[Any] = Agent(name="Shop", model=model, tools=[deploy])
        before = json.loads(file.read_bytes())
        first = await Runner.run(
            agent, [*before, {"role": "user", "content": "Ship it"}], run_config=quiet
        )
        assert first.interruptions
        _save(file, json.dumps(first.to_state().to_json()).encode())
        agent = Agent(name="Shop", model=model, tools=[deploy])
        state = await RunState.from_json(agent, json.loads(file.read_bytes()))
        state.approve(state.get_interruptions()[0])
        last = await Runner.run(agent, state, run_config=quiet)
        assert last.final_output == "Done."
        _save(file, json.dumps(last.to_input_list()).encode())

    return run


class Dbos:
    """A DBOS workflow.

    One database serves all runs, because DBOS can be launched once per process.
    """

    def __init__(self, root: Path) -> None:
        from dbos import DBOS

        logging.getLogger("dbos").setLevel(logging.ERROR)
        DBOS(
            config={
                "name": "bench",
                "system_database_url": f"sqlite:///{root / 'dbos.sqlite'}",
                "log_level": "ERROR",
                "notification_listener_polling_interval_sec": 0.001,
            }
        )
        self._dbos = DBOS
        self._turn = DBOS.workflow()(self._turns)
        DBOS.launch()

    @staticmethod
    async def _turns(messages: list[str]) -> str:
        from dbos import DBOS

        await DBOS.set_event_async("asked", "Which region?")
        region = await DBOS.recv_async("answer", 60)
        return f"deployed to {region} after {len(messages)}"

    def __call__(self, root: Path, messages: int) -> Callable[[], Awaitable[None]]:
        """Prepare nothing: earlier messages are passed to the workflow."""
        del root
        said = [FILLER] * messages

        async def run() -> None:
            handle = await self._dbos.start_workflow_async(self._turn, said)
            assert await self._dbos.get_event_async(handle.workflow_id, "asked", 60)
            await self._dbos.send_async(handle.workflow_id, "eu-1", "answer")
            assert "eu-1" in await handle.get_result()

        return run

    def close(self) -> None:
        self._dbos.destroy()
