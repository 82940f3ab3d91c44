"""Askers: midturn's own tools and the loops of other frameworks. Each enters its turn as often
as necessary.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import midturn as mt
from midturn.stores.store import ConversationStore
from support.stories.assistants import managing, outcome_with_inner_agents
from support.stories.outcome import OPEN, Outcome
from support.stories.scene import CHANGED, INQUIRIES, Scene
from support.stories.separate_processes import AskerInProcess, SilentPrompter


class ForeignLoop(AskerInProcess):
    """An external loop. `enter` runs it as far as possible, from the start or from its saved
    state.
    """

    def __init__(self, scene: Scene, directory: Path) -> None:
        self.scene = scene
        self.directory = directory
        self._store = mt.open_store(directory / "store")
        self.prompter: mt.Prompter | None = None
        self.conversation = self.store.new_sync("Go")

    @property
    def inquirer(self) -> mt.Inquirer:
        """Return an inquirer for the conversation. A prompter is attached only in a separate
        process.
        """
        model = mt.ScriptedModel([], INQUIRIES)
        return mt.Inquirer(
            self.store, self.conversation, self.prompter, self.scene.detached, model=model
        )

    @property
    def store(self) -> ConversationStore:
        return self._store

    def hold(self) -> None:
        """Make the call with a prompter attached."""
        self.prompter = SilentPrompter()
        self.again()

    async def deploy(self) -> str:
        """Ask the scene's questions and return the answers."""
        asked = self.scene.changed if (self.directory / CHANGED).exists() else self.scene.ask
        questions = [mt.Question.from_json(question) for question in asked]
        if len(questions) == 1:
            return json.dumps({questions[0].id: await mt.ask(questions[0])})
        answers = await mt.ask_form(mt.Form(questions))
        return json.dumps({question.id: answers[question] for question in questions})

    async def enter(self) -> None:
        """Run as far as possible."""
        raise NotImplementedError

    def begin(self) -> None:
        self.again()

    def go_on(self) -> None:
        if self.outcome().end == OPEN:
            self.again()

    def again(self) -> None:

        async def work() -> None:
            with suppress(mt.Suspended, mt.CallEnded):
                await self.enter()

        asyncio.run(work())

    def change(self) -> None:
        (self.directory / CHANGED).touch()

    def outcome(self) -> Outcome:
        """Return the recorded outcome, including agents inside tools."""
        return outcome_with_inner_agents(self.store, self.conversation)


class InquirerLoop(ForeignLoop):
    """A custom loop over an `Inquirer`."""

    async def enter(self) -> None:
        inquirer = self.inquirer
        async with inquirer.turn("Go"):
            await inquirer.run("deploy", "call_1", {}, lambda _: self.deploy())


class PydanticLoop(ForeignLoop):
    """An agent of pydantic-ai, whose messages are saved."""

    saved = b"[]"

    async def enter(self) -> None:
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
            read = any(
                isinstance(part, ToolReturnPart) for message in messages for part in message.parts
            )
            return ModelResponse(
                parts=[
                    TextPart("Done.") if read else ToolCallPart("deploy", {}, tool_call_id="call_1")
                ]
            )

        agent = Agent(
            FunctionModel(model), output_type=[str, DeferredToolRequests], tools=[self.deploy]
        )
        result = await run(
            agent,
            self.inquirer,
            "Go",
            message_history=ModelMessagesTypeAdapter.validate_json(self.saved),
        )
        self.saved = result.all_messages_json()


class LanggraphLoop(ForeignLoop):
    """A LangGraph graph with its checkpointer."""

    saver: Any = None

    async def enter(self) -> None:
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
        await adapter.invoke(
            made, self.inquirer, {"said": ""}, {"configurable": {"thread_id": "7"}}, text="Go"
        )


class OpenaiLoop(ForeignLoop):
    """An agent of the OpenAI Agents SDK, whose state is saved."""

    state: Any = None

    async def enter(self) -> None:
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
        self.state = (
            json.loads(json.dumps(result.to_state().to_json()))
            if result.interruptions
            else self.state
        )


class FunctionLoop(ForeignLoop):
    """midturn's own agent with a function that asks in the middle."""

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
        """Continue the turn from now on."""
        self.entered = lambda: self.agent.resume(self.conversation)

    async def enter(self) -> None:
        """Run the turn or continue it."""
        if self.entered is None:
            self.entered = lambda: self.agent.resume(self.conversation)
            await self.agent.run(
                "Go",
                conversation=self.conversation,
                prompter=self.prompter,
                schema=self.scene.schema,
            )
        else:
            await self.entered()
