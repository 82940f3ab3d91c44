"""midturn in pydantic-ai: its tools ask with `midturn.ask(…)`, and whether one may run is asked where all questions are.

```python
result = await run(agent, mt.Inquirer(store, conversation), "Ship it.")
```

The agent needs `output_type=[str, DeferredToolRequests]`: that is its output while questions are open. Keep `result.all_messages()`, as you
do anyway, and call `run` with them as `message_history` when the questions are answered.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct

from midturn.agent.framework_stream import FrameworkStream, framework_stream
from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import CallUnfinished, InquirerCall
from midturn.agent.message_replies import OnOpen, check_on_open
from midturn.errors import CallEnded, ConfigError, MidturnError, Suspended
from midturn.events.outcome import Success
from midturn.events.types import Image
from midturn.integrations import needs_extra
from midturn.integrations.approval import (
    APPROVE,
    GONE_ON,
    RUN,
    check_approved,
    check_not_ended,
    edit_does_not_fit,
    edited_arguments,
)
from midturn.integrations.default_loop import run_in_default_loop
from midturn.question.json_value import JsonObject, json_equal
from midturn.routing.messages import arguments_edited
from midturn.runtime.external_loop import CallContent
from midturn.tools.returned import Rejected

with needs_extra("pydantic-ai", "pydantic_ai"):
    from pydantic_ai import (
        AgentRunResult,
        AgentRunResultEvent,
        AgentStreamEvent,
        BinaryContent,
        DeferredToolRequests,
        DeferredToolResults,
        RunContext,
        ToolApproved,
        ToolDenied,
        ToolReturn,
    )
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, ToolFailedError, ToolRetryError
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart, UserContent, UserPromptPart
    from pydantic_ai.tools import ToolDefinition

Deps = TypeVar("Deps")
Output = TypeVar("Output")
Prompt: TypeAlias = "str | Sequence[UserContent] | None"
_WAITS = {"midturn": "waits"}
_ASKS = {"midturn": "asks"}
_DEFERRED = "Its result comes from elsewhere."
"""The recorded text of a call that its tool has deferred."""
_FILES = "(a file)"
"""The recorded text of a result that consists of files."""


async def run(  # noqa: PLR0913  (a public signature)
    agent: AbstractAgent[Deps, Output],
    inquirer: Inquirer,
    text: Prompt = None,
    *,
    message_history: Sequence[ModelMessage] | None = None,
    deferred_tool_results: DeferredToolResults | None = None,
    key: str | None = None,
    author: str | None = None,
    on_open: OnOpen = "error",
    **options: Any,
) -> AgentRunResult[Output]:
    """Run an agent of pydantic-ai, with its questions asked by an inquirer; call it again with the messages when they are answered.

    Where questions are open, `result.output` is a `DeferredToolRequests`, and `store.pending(conversation)` lists them. What has its
    result is not run again, and what was answered is not asked again. Give one conversation of the store to each of pydantic-ai's.

    Args:
        agent: The agent; `DeferredToolRequests` is among its output types.
        inquirer: Who asks, on the conversation that keeps the questions.
        text: The message of the user: a text, or a list of texts, images and files. If calls of the history wait, leave it out, or pass
            the message that began the turn.
        message_history: The messages so far, as `result.all_messages()` returned them.
        deferred_tool_results: Results of calls that you deferred yourself. Its approvals decide nothing: the recorded decisions count.
        key: Your own name for the turn, as of `Inquirer.turn`.
        author: The user whose message it is; recorded.
        on_open: What becomes of a new message while calls of the history wait: `error` refuses it with `TurnOpen`; `reply` records it as
            the reply to the open questions that `author` may answer, and the model reads it as the result of their calls.
        options: Whatever else `agent.run` takes.

    Raises:
        CallEnded: A person has ended the turn (`turn_ended`): begin the next one from the messages before it.
        TurnOpen: The open turn of the conversation began with another text. A new message while calls wait is refused so, and lists them.
        ConfigError: `deferred_tool_results` has a no or other arguments for a call that waits; or the calls of `message_history` belong to
            a turn that a person has ended; or `on_open` is another word, or comes with a key.
        StoreLocked: The conversation is being written elsewhere.
    """
    entry = _Entry(inquirer, text, message_history, deferred_tool_results, _Message(key, author, on_open), options)

    async def start(prompt: Prompt, arguments: Mapping[str, Any]) -> AgentRunResult[Output]:
        return await agent.run(prompt, **arguments)

    return await entry.run(start)


def run_sync(  # noqa: PLR0913  (a public signature)
    agent: AbstractAgent[Deps, Output],
    inquirer: Inquirer,
    text: Prompt = None,
    *,
    message_history: Sequence[ModelMessage] | None = None,
    deferred_tool_results: DeferredToolResults | None = None,
    key: str | None = None,
    author: str | None = None,
    on_open: OnOpen = "error",
    **options: Any,
) -> AgentRunResult[Output]:
    """Run an agent in a program without asyncio, in the default event loop of the thread, as `agent.run_sync` does (see `run`).

    Args:
        agent: The agent, as of `run`.
        inquirer: Who asks, as of `run`.
        text: The message of the user, as of `run`.
        message_history: The messages so far, as of `run`.
        deferred_tool_results: Results of calls that you deferred yourself.
        key: Your own name for the turn, as of `Inquirer.turn`.
        author: The user whose message it is; recorded.
        on_open: What becomes of a new message while calls of the history wait, as of `run`.
        options: Whatever else `agent.run` takes.

    Raises:
        RuntimeError: An event loop is running in this thread; use `await run(…)` there.
    """
    work = run(
        agent,
        inquirer,
        text,
        message_history=message_history,
        deferred_tool_results=deferred_tool_results,
        key=key,
        author=author,
        on_open=on_open,
        **options,
    )
    return run_in_default_loop(work, "run_sync", "await run(…)")


def stream(  # noqa: PLR0913  (a public signature)
    agent: AbstractAgent[Deps, Output],
    inquirer: Inquirer,
    text: Prompt = None,
    *,
    message_history: Sequence[ModelMessage] | None = None,
    deferred_tool_results: DeferredToolResults | None = None,
    key: str | None = None,
    author: str | None = None,
    on_open: OnOpen = "error",
    **options: Any,
) -> AbstractAsyncContextManager[FrameworkStream[AgentStreamEvent | AgentRunResultEvent[Any], AgentRunResult[Output]]]:
    """Run an agent as `run` does, and watch it.

    Write `async with stream(…) as events: async for event in events: …`. The events are those of `agent.run_stream_events`, with `Asked`,
    `QuestionAnswered`, `ToolStarted` and `ToolFinished` of midturn between them. At the end, `events.result` is the result of `run`.
    Leaving the block early stops the run and leaves the turn open. Errors are those of `run`, raised while iterating.

    Args:
        agent: The agent, as of `run`.
        inquirer: Who asks, as of `run`.
        text: The message of the user, as of `run`.
        message_history: The messages so far, as of `run`.
        deferred_tool_results: Results of calls that you deferred yourself.
        key: Your own name for the turn, as of `Inquirer.turn`.
        author: The user whose message it is; recorded.
        on_open: What becomes of a new message while calls of the history wait, as of `run`.
        options: Whatever else `agent.run_stream_events` takes.
    """
    entry = _Entry(inquirer, text, message_history, deferred_tool_results, _Message(key, author, on_open), options)

    async def watched(emit: Callable[[AgentStreamEvent | AgentRunResultEvent[Any]], None]) -> AgentRunResult[Output]:
        async def start(prompt: Prompt, arguments: Mapping[str, Any]) -> AgentRunResult[Output]:
            async with agent.run_stream_events(prompt, **arguments) as events:
                result: AgentRunResult[Output] | None = None
                async for event in events:
                    emit(event)
                    if isinstance(event, AgentRunResultEvent):
                        result = event.result
            return cast("AgentRunResult[Output]", result)  # the last event of a run that raises nothing

        return await entry.run(start)

    return framework_stream(inquirer, watched)


class _Message(Struct, frozen=True):
    """The message of the user with which a turn begins (see `run`)."""

    key: str | None
    author: str | None
    on_open: OnOpen


class _Entry:
    """One run of an agent, however it is started."""

    def __init__(
        self,
        inquirer: Inquirer,
        text: Prompt,
        history: Sequence[ModelMessage] | None,
        results: DeferredToolResults | None,
        message: _Message,
        options: Mapping[str, Any],
    ) -> None:
        self._inquirer = inquirer
        self._text = text
        self._history = history
        self._results = results
        self._message = message
        self._options = options

    async def run(self, start: Callable[[Prompt, Mapping[str, Any]], Awaitable[AgentRunResult[Output]]]) -> AgentRunResult[Output]:
        """Hold the turn, and start the agent in it."""
        inquirer, message, given = self._inquirer, self._message, self._results
        waiting = _unanswered(self._history or ())
        results = DeferredToolResults(approvals={call.tool_call_id: ToolApproved() for call in waiting})
        if given:
            results.approvals = {name: approved for name, approved in results.approvals.items() if name not in given.calls}
            results.update(given)
        arguments = {
            **self._options,
            "message_history": self._history,
            "deferred_tool_results": results if waiting else given,
            "capabilities": [Asking(inquirer), *self._options.get("capabilities", ())],
        }
        result, on_open = None, message.on_open if waiting else "error"
        check_on_open(message.on_open, message.key)
        _refuse_decisions(given, waiting)
        ended = [(call.tool_name, call.tool_call_id) for call in waiting if given is None or call.tool_call_id not in given.calls]
        try:
            async with inquirer.turn(_words(self._text), author=message.author, key=message.key, calls_wait=bool(waiting), on_open=on_open):
                inquirer.raise_end()
                check_not_ended(inquirer, ended, "Pass the messages from before that turn, and a message of the user.")
                result = await start(None if waiting else self._text, arguments)
                if not waiting:  # it began anew: calls of a run whose messages were lost are not made again
                    await inquirer.give_up_unmade(GONE_ON)
                if isinstance(result.output, DeferredToolRequests):  # also for results that come from elsewhere
                    inquirer.keep_open()
        except Suspended:
            if result is None:
                raise
        return result


def _refuse_decisions(given: DeferredToolResults | None, waiting: Sequence[ToolCallPart]) -> None:
    """Refuse decisions about calls that the record does not have: a no, or other arguments.

    Raises:
        ConfigError: The results have such a decision.
    """
    for call in waiting:
        decision = given.approvals.get(call.tool_call_id) if given else None
        if decision is False or isinstance(decision, ToolDenied) or (isinstance(decision, ToolApproved) and decision.override_args):
            raise ConfigError(
                f"`deferred_tool_results` decides about the call `{call.tool_name}` ({call.tool_call_id}). Nothing ran. The recorded "
                "decision counts: answer the question of the call with `await store.answer(id, approve=False, reason=…)` or "
                "`await store.answer(id, arguments={…})`, and leave the call out of `approvals`."
            )


class Asking(AbstractCapability[Any]):
    """Makes the tools of a run calls of an inquirer, for programs that run the agent themselves: `agent.iter(…, capabilities=[…])`.

    Hold `inquirer.turn(…)` around it. Where no one is there to answer, the call is deferred as one that needs approval; approve it in the
    next run, with `ToolApproved()`: that asks no one, it makes the call again, and the recorded decision is applied.

    Args:
        inquirer: Who asks.
    """

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer

    async def before_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: str | dict[str, Any]
    ) -> str | dict[str, Any]:
        """Tell tools and validators that a call is approved only if its approval was asked here, where the decision is recorded.

        Args:
            ctx: The context of the run, which tools and validators get.
            call: The call of the model.
            tool_def: The definition of its tool.
            args: The arguments of the call, which are returned as they are.

        Returns:
            The arguments.
        """
        if tool_def.kind != "unapproved":
            ctx.tool_call_approved = self._is_asked(ctx, call)
        return args

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        """Make a call of the inquirer of a call of the agent."""
        name, id, given = call.tool_name, call.tool_call_id, call.args_as_dict()  # noqa: A001  the wire's word
        was_question = self._inquirer.has_asked(name, id, given, APPROVE)
        made = _Call(ctx, call, args, handler)
        wants = not was_question and (tool_def.kind == "unapproved" or self._is_asked(ctx, call))
        permission = wants and (self._inquirer.has_asked(name, id, given, RUN) or json_equal(made.shown, given))
        made.approving = was_question or (wants and not permission)
        try:
            content = await self._inquirer.run(
                name,
                id,
                given,
                made.run,
                occurrence=_occurrence(ctx.messages, call),
                permission=permission,
                schema=cast("JsonObject", tool_def.parameters_json_schema) if permission else None,
            )
        except Suspended as suspended:
            raise ApprovalRequired(metadata=_WAITS) from suspended
        if content.turn_ended:
            raise CallEnded(content, is_error=content.is_error, turn_ended=True)
        if made.left is not None:
            raise made.left
        if content == _DEFERRED and not made.has_run:  # it ran before, and its result is not here yet
            raise CallDeferred
        if content.is_error:
            raise ToolFailed(str(content))
        return made.returned(content)

    async def handle_deferred_tool_calls(self, ctx: RunContext[Any], *, requests: DeferredToolRequests) -> DeferredToolResults | None:
        """Let calls go on that need approval: they are made again, and ask for it as a question of theirs."""
        _ = ctx
        ours = [call.tool_call_id for call in requests.approvals if requests.metadata.get(call.tool_call_id) != _WAITS]
        if not ours:
            return None
        return requests.build_results(
            approvals=dict.fromkeys(ours, ToolApproved()), metadata={name: dict[str, Any](_ASKS) for name in ours}
        )

    def _is_asked(self, ctx: RunContext[Any], call: ToolCallPart) -> bool:
        """Say whether the approval of a call is asked as a question of it: because it wants one now, or because the record has one."""
        recorded = (self._inquirer.has_asked(call.tool_name, call.tool_call_id, call.args_as_dict(), id) for id in (APPROVE, RUN))  # noqa: A001
        return ctx.tool_call_metadata == _ASKS or any(recorded)


class _Call:
    """One call, from inside: what its tool returned beside its content, and what it raised to steer pydantic-ai."""

    def __init__(self, ctx: RunContext[Any], call: ToolCallPart, args: dict[str, Any], handler: Any) -> None:
        self._ctx = ctx
        self._call = call
        self._args = args
        self._handler = handler
        self.approving = False
        """Whether a yes/no question stands for the permission: a permission shows the arguments of the model, and other ones run."""
        self._rich: ToolReturn[Any] | None = None
        self._files: Any = None
        self.left: Exception | None = None
        self.has_run = False

    async def run(self, call: InquirerCall) -> object:
        """Run the tool, after a person has approved it, where it needs that."""
        if self.approving:
            await check_approved(call, self._call.tool_name, self.shown)
        self.has_run = True
        edited = edited_arguments(call, self._call.args_as_dict())
        try:
            args = self._args if edited is None else await self._validated(edited)
            returned = await self._handler(args)
        except ApprovalRequired as error:  # it is made again, and asks then
            raise CallUnfinished(error) from None
        except CallDeferred as error:
            self.left = error
            return _DEFERRED
        except (ModelRetry, ToolFailed, ToolRetryError, ToolFailedError) as error:
            self.left = error
            raise Rejected(str(error)) from error
        except (MidturnError, Rejected):
            raise
        except Exception as error:  # noqa: BLE001  it ends the run, as in plain pydantic-ai, and the next run makes the call again
            raise CallUnfinished(error) from None
        value = returned
        if isinstance(returned, ToolReturn):
            self._rich = cast("ToolReturn[Any]", returned)
            value = self._rich.return_value
        part = ToolReturnPart(self._call.tool_name, value, self._call.tool_call_id)
        if not part.files:
            return value if isinstance(value, str) else part.model_response_str()
        parts = cast("list[Any]", value) if isinstance(value, list) else [value]
        self._files = value if edited is None else [arguments_edited(edited), *parts]
        return Success(part.model_response_str() or _FILES, tuple(_recorded_images(part.files)))

    async def _validated(self, edited: JsonObject) -> dict[str, Any]:
        """Return what the validators of the tool make of a person's arguments; the model is not blamed for what they refuse.

        Raises:
            Rejected: They refuse the arguments.
        """
        ctx, name = self._ctx, self._call.tool_name
        tools = ctx.tool_manager.tools if ctx.tool_manager else None
        tool = (tools or {}).get(name)
        if tool is None:
            raise edit_does_not_fit(name, "the tool is not offered any more")
        try:
            args = cast("dict[str, Any]", tool.args_validator.validate_python(dict(edited), context=ctx.validation_context))
            if tool.args_validator_func is not None:
                checked = tool.args_validator_func(ctx, **args)
                if isinstance(checked, Awaitable):
                    await checked
        except (ValueError, ModelRetry) as error:
            raise edit_does_not_fit(name, error) from error
        return args

    @property
    def shown(self) -> dict[str, Any]:
        """Return the arguments that run: those of the model, with what validators have made of them."""
        given = self._call.args_as_dict()
        try:
            ours = ToolCallPart(self._call.tool_name, {name: self._args[name] for name in given if name in self._args})
            run = cast("dict[str, Any]", json.loads(ours.args_as_json_str()))
        except ValueError:  # they hold what has no JSON form: the model's are all there is to show
            return given
        return {**given, **run}

    def returned(self, content: CallContent) -> Any:
        """Return what pydantic-ai gets: the recorded text, and the files as the tool returned them, or as they are recorded."""
        value: Any = str(content)
        if self._files is not None:
            value = self._files
        elif content.images:
            images = [BinaryContent(base64.b64decode(image.data), media_type=image.media_type) for image in content.images]
            value = [*([] if value == _FILES else [value]), *images]
        return value if self._rich is None else replace(self._rich, return_value=value)


def _recorded_images(files: Sequence[object]) -> Iterator[Image]:
    """Yield the images that are recorded: those whose bytes are here."""
    for file in files:
        if isinstance(file, BinaryContent) and file.is_image:
            yield Image(file.media_type, base64.b64encode(file.data).decode())


def _words(text: str | Sequence[UserContent] | None) -> str:
    """Return what is recorded of a message: its texts, and the kind of everything else."""
    if text is None or isinstance(text, str):
        return text or ""
    return "\n".join(part if isinstance(part, str) else f"[{getattr(part, 'kind', type(part).__name__)}]" for part in text)


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
