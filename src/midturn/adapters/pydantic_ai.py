"""midturn in pydantic-ai: its tools ask with `midturn.ask(…)`, and whether one may run is asked where all questions are.

```python
result = await run(agent, mt.Inquirer(store, conversation), "Ship it.")
```

The agent needs `output_type=[str, DeferredToolRequests]`: that is its output while questions are open. Keep `result.all_messages()`, as you
do anyway, and call `run` with them as `message_history` when the questions are answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic_ai import AgentRunResult, DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolReturn
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, ToolFailedError, ToolRetryError
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.tools import ToolDefinition

from midturn.adapters.approval import check_approved
from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import InquirerCall
from midturn.errors import CallEnded, Suspended
from midturn.tools.returned import Rejected

Deps = TypeVar("Deps")
Output = TypeVar("Output")
_WAITS = {"midturn": "waits"}
_ASKS = {"midturn": "asks"}


async def run(
    agent: AbstractAgent[Deps, Output],
    inquirer: Inquirer,
    text: str | None = None,
    *,
    message_history: Sequence[ModelMessage] | None = None,
    deferred_tool_results: DeferredToolResults | None = None,
    **options: Any,
) -> AgentRunResult[Output]:
    """Run an agent of pydantic-ai, with its questions asked by an inquirer; call it again with the messages when they are answered.

    Where questions are open, `result.output` is a `DeferredToolRequests`, and `store.pending(conversation)` lists them. What has its
    result is not run again, and what was answered is not asked again. Give one conversation of the store to each of pydantic-ai's.

    Args:
        agent: The agent; `DeferredToolRequests` is among its output types.
        inquirer: Who asks, on the conversation that keeps the questions.
        text: What the user says; it may be left out where calls of the history wait for their answers.
        message_history: The messages so far, as `result.all_messages()` returned them.
        deferred_tool_results: Results of calls that you deferred yourself.
        options: Whatever else `agent.run` takes.

    Raises:
        CallEnded: A person has ended the turn (`turn_ended`): begin the next one from the messages before it.
        TurnOpen: The open turn of the conversation began with another text.
        StoreLocked: The conversation is being written elsewhere.
    """
    waiting = _unanswered(message_history or ())
    results = DeferredToolResults(approvals={call.tool_call_id: ToolApproved() for call in waiting})
    if deferred_tool_results:
        results.approvals = {name: approved for name, approved in results.approvals.items() if name not in deferred_tool_results.calls}
        results.update(deferred_tool_results)
    result = None
    try:
        async with inquirer.turn("" if waiting else text or ""):
            result = await agent.run(
                None if waiting else text,
                message_history=message_history,
                deferred_tool_results=results if waiting else deferred_tool_results,
                capabilities=[Asking(inquirer), *options.pop("capabilities", ())],
                **options,
            )
    except Suspended:
        if result is None:
            raise
    return result


class Asking(AbstractCapability[Any]):
    """Makes the tools of a run calls of an inquirer, for programs that run the agent themselves: `agent.iter(…, capabilities=[…])`.

    Hold `inquirer.turn(…)` around it. Where no one is there to answer, the call is deferred as one that needs approval; approve it in the
    next run, with `ToolApproved()`: that asks no one, it makes the call again.

    Args:
        inquirer: Who asks.
    """

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        """Make a call of the inquirer of a call of the agent."""
        approving = tool_def.kind == "unapproved" or ctx.tool_call_metadata == _ASKS
        made = _Call(call, args, handler, approving=approving)
        try:
            content = await self._inquirer.run(
                call.tool_name, call.tool_call_id, call.args_as_dict(), made.run, occurrence=_occurrence(ctx.messages, call)
            )
        except Suspended as suspended:
            if made.left is not None:
                raise made.left from None
            raise ApprovalRequired(metadata=_WAITS) from suspended
        if content.turn_ended:
            raise CallEnded(content, is_error=content.is_error, turn_ended=True)
        if made.left is not None:
            raise made.left
        if content.is_error:
            raise ToolFailed(str(content))
        return str(content) if made.rich is None else replace(made.rich, return_value=str(content))

    async def handle_deferred_tool_calls(self, ctx: RunContext[Any], *, requests: DeferredToolRequests) -> DeferredToolResults | None:
        """Let calls go on that need approval: they are made again, and ask for it as a question of theirs."""
        _ = ctx
        ours = [call.tool_call_id for call in requests.approvals if requests.metadata.get(call.tool_call_id) != _WAITS]
        if not ours:
            return None
        return requests.build_results(
            approvals=dict.fromkeys(ours, ToolApproved()), metadata={name: dict[str, Any](_ASKS) for name in ours}
        )


class _Call:
    """One call, from inside: what its tool returned beside its content, and what it raised to steer pydantic-ai."""

    def __init__(self, call: ToolCallPart, args: dict[str, Any], handler: Any, *, approving: bool) -> None:
        self._call = call
        self._args = args
        self._handler = handler
        self._approving = approving
        self.rich: ToolReturn[Any] | None = None
        self.left: Exception | None = None

    async def run(self, call: InquirerCall) -> object:
        """Run the tool, after a person has approved it, where it needs that."""
        if self._approving:
            await check_approved(call, self._call.tool_name, self._call.args_as_dict())
        try:
            returned = await self._handler(self._args)
        except ApprovalRequired as error:  # it is made again, and asks then
            self.left = error
            raise Suspended("The tool asks for approval.") from error
        except CallDeferred as error:
            self.left = error
            return "Its result comes from elsewhere."
        except (ModelRetry, ToolFailed, ToolRetryError, ToolFailedError) as error:
            self.left = error
            raise Rejected(str(error)) from error
        if isinstance(returned, ToolReturn):
            self.rich = cast("ToolReturn[Any]", returned)
            return self._text(self.rich.return_value)
        return self._text(returned)

    def _text(self, value: Any) -> str:
        return (
            value if isinstance(value, str) else ToolReturnPart(self._call.tool_name, value, self._call.tool_call_id).model_response_str()
        )


def _unanswered(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Return the calls of the last response that have no result yet."""
    responses = [place for place, message in enumerate(messages) if isinstance(message, ModelResponse)]
    if not responses:
        return []
    returned = {part.tool_call_id for message in messages[responses[-1] :] for part in message.parts if isinstance(part, ToolReturnPart)}
    calls = [part for part in messages[responses[-1]].parts if isinstance(part, ToolCallPart)]
    return [call for call in calls if call.tool_call_id not in returned]


def _occurrence(messages: Sequence[ModelMessage], call: ToolCallPart) -> int:
    """Count the calls of this turn that are equal to one, up to itself: some models give each response's calls the same ids."""
    equal = 0
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                equal = 0
            elif isinstance(part, ToolCallPart):
                equal += (part.tool_name, part.tool_call_id, part.args_as_dict()) == (
                    call.tool_name,
                    call.tool_call_id,
                    call.args_as_dict(),
                )
    return max(equal, 1)
