"""Who asks: our assistant's own tools, and the loops of others. Each enters its turn, which waits in the store, as often as it has to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import midturn as mt
from midturn.stores.store import ConversationStore
from support.stories.assistants import managing, outcome_with_those_inside
from support.stories.elsewhere import InAProcess, Silent
from support.stories.outcome import OPEN, Outcome
from support.stories.scene import CHANGED, INQUIRIES, Scene


class ForeignLoop(InAProcess):
    """A loop that is not ours: `enter` runs it as far as it goes, from its beginning or from what it kept."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        self.scene = scene
        self.directory = directory
        self._store = mt.open_store(directory / "store")
        self.prompter: mt.Prompter | None = None
        self.conversation = self.store.new_sync("Go")

    @property
    def inquirer(self) -> mt.Inquirer:
        """Stand on the conversation, with nobody there but in a process of its own."""
        model = mt.ScriptedModel([], INQUIRIES)
        return mt.Inquirer(self.store, self.conversation, self.prompter, self.scene.detached, model=model)

    @property
    def store(self) -> ConversationStore:
        """Where it is on record."""
        return self._store

    def hold(self) -> None:
        """Make the call at a prompt."""
        self.prompter = Silent()
        self.again()

    async def deploy(self) -> str:
        """Ask what the scene asks, and say the answers."""
        asked = self.scene.changed if (self.directory / CHANGED).exists() else self.scene.ask
        questions = [mt.Question.from_json(question) for question in asked]
        if len(questions) == 1:
            return json.dumps({questions[0].id: await mt.ask(questions[0])})
        answers = await mt.ask_form(mt.Form(questions))
        return json.dumps({question.id: answers[question] for question in questions})

    async def enter(self) -> None:
        """Run as far as it goes."""
        raise NotImplementedError

    def begin(self) -> None:
        """Make the call."""
        self.again()

    def go_on(self) -> None:
        """Go on with what is open."""
        if self.outcome().end == OPEN:
            self.again()

    def again(self) -> None:
        """Make the call again."""

        async def work() -> None:
            with suppress(mt.Suspended, mt.CallEnded):
                await self.enter()

        asyncio.run(work())

    def change(self) -> None:
        """Ask something else from now on."""
        (self.directory / CHANGED).touch()

    def outcome(self) -> Outcome:
        """Say what is on record, also of agents inside tools."""
        return outcome_with_those_inside(self.store, self.conversation)


class InquirerLoop(ForeignLoop):
    """A loop of one's own over an `Inquirer`."""

    async def enter(self) -> None:
        """Make the call."""
        inquirer = self.inquirer
        async with inquirer.turn("Go"):
            await inquirer.run("deploy", "call_1", {}, lambda _: self.deploy())


class PydanticLoop(ForeignLoop):
    """An agent of pydantic-ai, whose messages are kept."""

    saved = b"[]"

    async def enter(self) -> None:
        """Run the agent."""
        from pydantic_ai import Agent, DeferredToolRequests
        from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        from midturn.integrations.pydantic_ai import run

        def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            read = any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
            return ModelResponse(parts=[TextPart("Done.") if read else ToolCallPart("deploy", {}, tool_call_id="call_1")])

        agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests], tools=[self.deploy])
        result = await run(agent, self.inquirer, "Go", message_history=ModelMessagesTypeAdapter.validate_json(self.saved))
        self.saved = result.all_messages_json()


class LanggraphLoop(ForeignLoop):
    """A graph of LangGraph on its checkpointer."""

    saver: Any = None

    async def enter(self) -> None:
        """Run the graph."""
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import START, StateGraph

        from midturn.integrations import langgraph as adapter

        async def node(_: dict[str, Any]) -> dict[str, Any]:
            return {"said": await adapter.call("deploy", {}, lambda _: self.deploy())}

        self.saver = self.saver or InMemorySaver()
        graph: Any = cast("Any", StateGraph)(dict)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        made = graph.compile(checkpointer=self.saver)
        await adapter.invoke(made, self.inquirer, {"said": ""}, {"configurable": {"thread_id": "7"}}, text="Go")


class OpenaiLoop(ForeignLoop):
    """An agent of the OpenAI Agents SDK, whose state is kept."""

    state: Any = None

    async def enter(self) -> None:
        """Run the agent."""
        from agents import Agent, RunConfig, RunState
        from agents.testing import ScriptedModel, assistant_message, function_call

        from midturn.integrations.openai_agents import Asking

        async def deploy() -> str:
            """Deploy."""
            return await self.deploy()

        asking = Asking(self.inquirer)
        done = [assistant_message("Done.")]
        replies = [done] if self.state else [[function_call("deploy", {}, call_id="call_1")], done]
        agent = Agent[Any](name="Shop", model=ScriptedModel(replies), tools=[asking.tool(deploy)])
        given = await RunState.from_json(agent, self.state) if self.state else "Go"
        result = await asking.run(agent, given, run_config=RunConfig(tracing_disabled=True))
        self.state = json.loads(json.dumps(result.to_state().to_json())) if result.interruptions else self.state


class FunctionLoop(ForeignLoop):
    """Our assistant with a function that asks in the middle."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory)

        @mt.tool(name="deploy", run=scene.run)
        async def deploy() -> str:
            """Deploy."""
            return scene.say or await self.deploy()

        called: dict[str, Any] = {"name": "manage" if scene.inner else "deploy", "arguments": {}}
        model = mt.ScriptedModel([{"calls": [called]}, {"text": scene.last}], INQUIRIES)
        tool = managing("deploy", {}, [deploy]) if scene.inner else deploy
        self.agent = mt.Agent(model, tools=[tool], store=self.store, detached=scene.detached)
        self.entered: Callable[[], Awaitable[Any]] | None = None

    def held(self) -> None:
        """Go on with it from now on."""
        self.entered = lambda: self.agent.resume(self.conversation)

    async def enter(self) -> None:
        """Run the turn, or go on with it."""
        if self.entered is None:
            self.entered = lambda: self.agent.resume(self.conversation)
            await self.agent.run("Go", conversation=self.conversation, prompter=self.prompter, schema=self.scene.schema)
        else:
            await self.entered()
