"""midturn in the OpenAI Agents SDK: its tools ask with `midturn.ask(…)`, and `needs_approval` is asked where all questions are.

```python
asking = Asking(mt.Inquirer(store, conversation))
agent = Agent(name="Shop", tools=[asking.tool(deploy)])
result = await asking.run(agent, "Ship it.")
```

While questions are open, `result.interruptions` lists the calls that wait. Keep `result.to_state().to_json()`, and give `run` the state in
place of the text when they are answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias, cast

from agents import Agent, FunctionTool, RunContextWrapper, Runner, RunResult, RunState, Usage, UserError, function_tool
from agents.items import ToolApprovalItem
from agents.tool_context import ToolContext

from midturn.adapters.approval import check_approved
from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import InquirerCall
from midturn.errors import CallEnded, Suspended
from midturn.runtime.foreign_turn import CallContent
from midturn.values.json_value import JsonObject

NeedsApproval: TypeAlias = bool | Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]


class Asking:
    """The tools of an agent, as calls of an inquirer.

    A call is made when the SDK wants to know whether it needs approval. Where there is an answer, it is done then, and the SDK gets its
    result; where no one is there, it counts as one that needs approval, which is how the SDK keeps a run that waits.

    Args:
        inquirer: Who asks, on the conversation that keeps the questions.
    """

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer
        self._tools: dict[str, tuple[FunctionTool, NeedsApproval]] = {}
        self._contents: dict[tuple[str, str, str], CallContent] = {}

    def tool(self, function: Callable[..., Any], *, needs_approval: NeedsApproval = False, **options: Any) -> FunctionTool:
        """Make a tool of a function, sync or async, as `agents.function_tool` does.

        Args:
            function: What the tool does; it asks with `midturn.ask(…)`.
            needs_approval: Whether a person is asked before it runs: always, never, or as the function says.
            options: Whatever else `function_tool` takes.
        """
        made = cast("FunctionTool", function_tool(failure_error_function=None, **options)(function))
        self._tools[made.name] = (made, needs_approval)

        async def waits(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            try:
                self._contents[_key(made.name, call_id, arguments)] = await self._make(made.name, call_id, arguments, ctx)
            except Suspended:
                return True
            return False

        async def invoke(ctx: ToolContext[Any], text: str) -> str:
            arguments = cast("dict[str, Any]", json.loads(text or "{}"))
            content = self._contents.pop(_key(made.name, ctx.tool_call_id, arguments), None)
            return str(await self._make(made.name, ctx.tool_call_id, arguments, ctx) if content is None else content)

        return replace(made, on_invoke_tool=invoke, needs_approval=waits)

    async def run(self, agent: Agent[Any], given: str | RunState[Any], *, context: Any = None, **options: Any) -> RunResult:
        """Run the agent, or go on with a run that waits.

        Args:
            agent: The agent, with tools that `tool` made.
            given: What the user says; or the state of a run whose questions are answered, some of them or all.
            context: What the tools find as the context of the run.
            options: Whatever else `Runner.run` takes.

        Raises:
            CallEnded: A person has ended the turn (`turn_ended`).
            TurnOpen: The open turn of the conversation began with another text.
            StoreLocked: The conversation is being written elsewhere.
        """
        result: RunResult | None = None
        try:
            async with self._inquirer.turn(given if isinstance(given, str) else ""):
                if not isinstance(given, str):
                    await self._approve(given, context)
                result = await Runner.run(agent, given, context=context, **options)
        except UserError as error:  # what the SDK makes of whatever leaves a tool
            if isinstance(error.__cause__, CallEnded):
                raise error.__cause__ from None
            raise
        except Suspended:
            if result is None:
                raise
        return result

    async def _approve(self, state: RunState[Any], context: object) -> None:
        """Make the calls that wait; approve those that are done, so that the SDK takes their results."""
        waiting = [item for item in state.get_interruptions() if item.tool_name in self._tools]
        done = await asyncio.gather(*(self._done(item, RunContextWrapper(context)) for item in waiting))
        for item in (item for item, is_done in zip(waiting, done, strict=True) if is_done):
            state.approve(item)

    async def _done(self, item: ToolApprovalItem, ctx: RunContextWrapper[Any]) -> bool:
        name, call_id = item.tool_name or "", item.call_id or ""
        arguments = cast("dict[str, Any]", json.loads(item.arguments or "{}"))
        try:
            self._contents[_key(name, call_id, arguments)] = await self._make(name, call_id, arguments, ctx)
        except Suspended:
            return False
        return True

    async def _make(self, name: str, call_id: str, arguments: JsonObject, ctx: RunContextWrapper[Any]) -> CallContent:
        """Make a call of the inquirer, or find its result.

        Raises:
            Suspended: No one is there to answer now.
            CallEnded: A person has ended the turn.
        """
        tool, approval = self._tools[name]
        text = json.dumps(arguments, ensure_ascii=False)

        async def run(call: InquirerCall) -> object:
            needed = approval if isinstance(approval, bool) else await approval(ctx, dict(arguments), call_id)
            if needed:
                await check_approved(call, name, arguments)
            inside = ToolContext[Any](ctx.context, Usage(), tool_name=name, tool_call_id=call_id, tool_arguments=text)
            return await tool.on_invoke_tool(inside, text)

        content = await self._inquirer.run(name, call_id, arguments, run)
        if content.turn_ended:
            raise CallEnded(content, is_error=content.is_error, turn_ended=True)
        return content


def _key(name: str, call_id: str, arguments: JsonObject) -> tuple[str, str, str]:
    return name, call_id, json.dumps(arguments, sort_keys=True)
