"""Programs in three frameworks that tests kill while they run. Arguments: framework, directory,
conversation.

Each program makes two calls at once. A tool asks, has its effect (a line in a file), prints a
line, and may then wait until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import midturn as mt
from midturn.agent.inquirer_call import InquirerCall
from midturn.events.types import Event
from midturn.stores.locked import LockedConversation
from midturn.stores.opening import FileStore
from midturn.tools.asking import CALL

FRAMEWORK, HERE, CONVERSATION = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
STAY = HERE / "stay"
"""While this file exists, the tool call for `eu` never returns and has no effect."""
STAY_AFTER = HERE / "stay-after"
"""While this file exists, the tool call for `eu` never returns after its effect, so that the
process is killed before the result is recorded.
"""
DIE_AT = HERE / "die-at"
"""While this file exists, it contains the number of writes (from 1) after which the process kills
itself.
"""
STATE = HERE / "state.json"


async def deploy(env: str) -> str:
    """Deploy the service."""
    if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    if env == "eu" and STAY.exists():
        await other_is_recorded()
        say("in the tool")
        await asyncio.Event().wait()
    with (HERE / "effects").open("a", encoding="utf-8") as effects:
        effects.write(f"{env}\n")
    with (HERE / "keys").open("a", encoding="utf-8") as keys:
        keys.write(f"{env} {current_key()}\n")
    if env == "eu" and STAY_AFTER.exists():
        say("in the tool")
        await asyncio.Event().wait()
    return f"{env} is live."


async def other_is_recorded() -> None:
    """Wait for the result of the other call. If the process were killed between its effect and
    its record, it would run again.
    """
    store = mt.open_store(HERE / "conversations")
    while not any(  # noqa: ASYNC110  the store is polled
        event.type == "tool_call_response" for event in (await store.read(CONVERSATION)).events
    ):
        await asyncio.sleep(0.01)


def current_key() -> str:
    """Return the idempotency key of the current call."""
    call = CALL.get()
    assert isinstance(call, InquirerCall)
    return call.idempotency_key


def say(text: str) -> None:
    """Print a line for the test that waits for this process."""
    print(text, flush=True)  # noqa: T201  another process reads it


class CrashingStore(FileStore):
    """A file store that kills its process directly after one of its writes. A file counts the
    remaining writes.
    """

    async def open(self, id: str) -> LockedConversation:
        held = await super().open(id)
        append = held.append

        async def counted(batch: Sequence[Event]) -> None:
            await append(batch)
            left = int(DIE_AT.read_text(encoding="utf-8")) - 1
            if left == 0:
                DIE_AT.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            DIE_AT.write_text(str(left), encoding="utf-8")

        if DIE_AT.exists():
            held.append = counted
        return held


def inquirer() -> mt.Inquirer:
    """Return an inquirer for the conversation, in a store on disk."""
    return mt.Inquirer(CrashingStore(HERE / "conversations"), CONVERSATION)


async def pydantic_ai() -> str | None:
    """Run an agent of pydantic-ai; its messages are saved between processes."""
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
    )
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from midturn.integrations.pydantic_ai import run

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        read = [
            str(part.content)
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        calls = [ToolCallPart("deploy", {"env": env}, tool_call_id=env) for env in ("eu", "us")]
        return ModelResponse(parts=[TextPart(" ".join(read))] if read else [*calls])

    agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests], tools=[deploy])
    history = ModelMessagesTypeAdapter.validate_json(STATE.read_bytes()) if STATE.exists() else []
    result = await run(agent, inquirer(), "Ship it.", message_history=history, key="job-1")
    STATE.write_bytes(result.all_messages_json())
    return result.output if isinstance(result.output, str) else None


async def openai_agents() -> str | None:
    """Run an agent of the OpenAI Agents SDK; its state is saved between processes."""
    from agents import Agent, RunConfig, RunState
    from agents.testing import ScriptedModel, assistant_message, function_call

    from midturn.integrations.openai_agents import Asking

    asking = Asking(inquirer())
    calls = [function_call("deploy", {"env": env}, call_id=env) for env in ("eu", "us")]
    done = [assistant_message("Both are done.")]
    agent = Agent[Any](
        name="Shop",
        model=ScriptedModel([done] if STATE.exists() else [calls, done]),
        tools=[asking.tool(deploy)],
    )
    given = (
        await RunState.from_json(agent, json.loads(STATE.read_bytes()))
        if STATE.exists()
        else "Ship it."
    )
    result = await asking.run(
        agent, given, key="job-1", run_config=RunConfig(tracing_disabled=True)
    )
    if result.interruptions:
        STATE.write_text(json.dumps(result.to_state().to_json()), encoding="utf-8")
        return None
    return str(result.final_output)


def checkpointer() -> Any:
    """Return a LangGraph checkpointer that survives its process."""
    from langgraph.checkpoint.memory import InMemorySaver

    class Kept(InMemorySaver):
        """Replaces a checkpointer in a database."""

        def __init__(self) -> None:
            super().__init__()
            loaded: tuple[dict[str, Any], dict[Any, Any], dict[Any, Any]] = (
                pickle.loads(STATE.read_bytes()) if STATE.exists() else ({}, {}, {})
            )
            storage, writes, blobs = loaded
            for thread, spaces in storage.items():
                self.storage[thread].update(spaces)
            self.writes.update(writes)
            self.blobs.update(blobs)

        async def aput(self, *args: Any, **options: Any) -> Any:
            return self.kept(await super().aput(*args, **options))

        async def aput_writes(self, *args: Any, **options: Any) -> None:
            self.kept(await super().aput_writes(*args, **options))

        def kept(self, done: Any) -> Any:
            """Save the state to disk at once."""
            storage = {thread: dict(spaces) for thread, spaces in self.storage.items()}
            STATE.with_suffix(".new").write_bytes(
                pickle.dumps((storage, dict(self.writes), dict(self.blobs)))
            )
            STATE.with_suffix(".new").replace(STATE)
            return done

    return Kept()


async def langgraph() -> str | None:
    """Run a LangGraph graph; each checkpoint is saved at once for the next process."""
    from langgraph.graph import START, StateGraph
    from typing_extensions import TypedDict

    from midturn.integrations import langgraph as adapter

    def both(left: list[str], right: list[str]) -> list[str]:
        return [*left, *right]

    class State(TypedDict):
        said: Annotated[list[str], both]

    def node(env: str) -> Any:
        async def calls(_: State) -> State:
            return {"said": [await adapter.call("deploy", {"env": env}, lambda _: deploy(env))]}

        return calls

    State.__annotations__["said"] = Annotated[list[str], both]  # the name is local to this function
    graph: Any = StateGraph(State)
    for env in ("eu", "us"):
        graph.add_node(env, node(env))
        graph.add_edge(START, env)
    try:
        made = graph.compile(checkpointer=checkpointer())
        state = await adapter.invoke(
            made,
            inquirer(),
            {"said": []},
            {"configurable": {"thread_id": "7"}},
            text="Ship it.",
            key="job-1",
        )
    except mt.Suspended:
        return None
    return " ".join(sorted(state["said"]))


RUNS = {"pydantic_ai": pydantic_ai, "openai_agents": openai_agents, "langgraph": langgraph}

if __name__ == "__main__":
    said = asyncio.run(RUNS[FRAMEWORK]())
    say("waits" if said is None else f"done: {said}")
