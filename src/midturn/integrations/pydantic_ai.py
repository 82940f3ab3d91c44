"""midturn in pydantic-ai: tools ask with `midturn.ask(…)`, and approvals are asked like other
questions.

```python
result = await run(agent, mt.Inquirer(store, conversation), "Ship it.")
```

The agent needs `output_type=[str, DeferredToolRequests]`. While questions are open, the output of
a run is a `DeferredToolRequests`. Store `result.all_messages()`. After the questions are answered,
pass the messages to `run` as `message_history`.
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
    RUN,
    SUPERSEDED,
    check_approved,
    check_not_ended,
    edited_arguments,
    invalid_edit,
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
    from pydantic_ai.exceptions import (
        ApprovalRequired,
        CallDeferred,
        ModelRetry,
        ToolFailed,
        ToolFailedError,
        ToolRetryError,
    )
    from pydantic_ai.messages import (
        ModelMessage,
        ModelResponse,
        ToolCallPart,
        ToolReturnPart,
        UserContent,
        UserPromptPart,
    )
    from pydantic_ai.tools import ToolDefinition

Deps = TypeVar("Deps")
Output = TypeVar("Output")
Prompt: TypeAlias = "str | Sequence[UserContent] | None"
_WAITING_METADATA = {"midturn": "waits"}
_APPROVAL_METADATA = {"midturn": "asks"}
_DEFERRED_TEXT = "Its result comes from elsewhere."
"""Recorded text of a call that its tool deferred."""
_FILES_TEXT = "(a file)"
"""Recorded text if a result contains only files."""


async def run(
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
    """Run a pydantic-ai agent whose questions are asked by an inquirer. After the questions are
    answered, call `run` again with the messages.

    While questions are open, `result.output` is a `DeferredToolRequests`, and
    `store.pending(conversation)` lists the questions. Calls with a result do not run again, and
    answered questions are not asked again. Use a separate store conversation for each conversation
    in pydantic-ai.

    Args:
        agent: The agent. Its output types must include `DeferredToolRequests`.
        inquirer: Asks the questions, and records them in its conversation.
        text: User message: a string, or a list of strings, images and files. If the history
            contains waiting calls, omit `text`, or pass the message that started the turn.
        message_history: Messages so far, from `result.all_messages()`.
        deferred_tool_results: Results of calls that you deferred yourself. Approvals in this
            object are ignored, because only recorded decisions count.
        key: Your own key for the turn. See `Inquirer.turn`.
        author: Name of the user who sent the message. It is recorded.
        on_open: How to handle a new message while the history contains waiting calls. `error`
            raises `TurnOpen`. `reply` records the message as the reply to the open questions that
            `author` may answer, and returns it to the model as the result of the waiting calls.
        options: Other arguments of `agent.run`.

    Raises:
        CallEnded: A person ended the turn (`turn_ended`). Start the next turn with the messages
            from before the ended turn.
        TurnOpen: The conversation has an open turn with another message. `pending` lists its open
            questions.
        ConfigError: `deferred_tool_results` contains a denial or changed arguments for a waiting
            call; the calls in `message_history` belong to a turn that a person ended; `on_open` is
            invalid, or is combined with a key.
        StoreLocked: Another process is writing to the conversation.
    """
    entry = _AgentRun(
        inquirer,
        text,
        message_history,
        deferred_tool_results,
        _TurnOptions(key, author, on_open),
        options,
    )

    async def start(prompt: Prompt, arguments: Mapping[str, Any]) -> AgentRunResult[Output]:
        return await agent.run(prompt, **arguments)

    return await entry.run(start)


def run_sync(
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
    """Synchronous form of `run`, for programs without asyncio. Uses the thread's default event loop.

    Args:
        agent: The agent. See `run`.
        inquirer: Asks the questions. See `run`.
        text: User message. See `run`.
        message_history: Messages so far. See `run`.
        deferred_tool_results: Results of calls that you deferred yourself.
        key: Your own key for the turn. See `Inquirer.turn`.
        author: Name of the user who sent the message. It is recorded.
        on_open: How to handle a new message while the history contains waiting calls. See `run`.
        options: Other arguments of `agent.run`.

    Raises:
        RuntimeError: An event loop is running in this thread; use `await run(…)` instead.
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


def stream(
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
) -> AbstractAsyncContextManager[
    FrameworkStream[AgentStreamEvent | AgentRunResultEvent[Any], AgentRunResult[Output]]
]:
    """Run an agent like `run`, and stream its events.

    Write `async with stream(…) as events: async for event in events: …`. The events are the events
    of `agent.run_stream_events` and midturn's `Asked`, `QuestionAnswered`, `ToolStarted` and
    `ToolFinished`. At the end, `events.result` is the result of `run`. Leaving the block early
    stops the run and leaves the turn open. The iteration raises the same exceptions as `run`.

    Args:
        agent: The agent. See `run`.
        inquirer: Asks the questions. See `run`.
        text: User message. See `run`.
        message_history: Messages so far. See `run`.
        deferred_tool_results: Results of calls that you deferred yourself.
        key: Your own key for the turn. See `Inquirer.turn`.
        author: Name of the user who sent the message. It is recorded.
        on_open: How to handle a new message while the history contains waiting calls. See `run`.
        options: Other arguments of `agent.run_stream_events`.
    """
    entry = _AgentRun(
        inquirer,
        text,
        message_history,
        deferred_tool_results,
        _TurnOptions(key, author, on_open),
        options,
    )

    async def run_streaming(
        emit: Callable[[AgentStreamEvent | AgentRunResultEvent[Any]], None],
    ) -> AgentRunResult[Output]:
        async def start(prompt: Prompt, arguments: Mapping[str, Any]) -> AgentRunResult[Output]:
            async with agent.run_stream_events(prompt, **arguments) as events:
                result: AgentRunResult[Output] | None = None
                async for event in events:
                    emit(event)
                    if isinstance(event, AgentRunResultEvent):
                        result = event.result
            return cast(
                "AgentRunResult[Output]", result
            )  # always set, because it is the last event of a successful run

        return await entry.run(start)

    return framework_stream(inquirer, run_streaming)


class _TurnOptions(Struct, frozen=True):
    """Key, author and handling of open questions for a turn. See `run`."""

    key: str | None
    author: str | None
    on_open: OnOpen


class _AgentRun:
    """One run of an agent, started by `run` or `stream`."""

    def __init__(
        self,
        inquirer: Inquirer,
        text: Prompt,
        history: Sequence[ModelMessage] | None,
        results: DeferredToolResults | None,
        message: _TurnOptions,
        options: Mapping[str, Any],
    ) -> None:
        self._inquirer = inquirer
        self._text = text
        self._history = history
        self._results = results
        self._message = message
        self._options = options

    async def run(
        self, start: Callable[[Prompt, Mapping[str, Any]], Awaitable[AgentRunResult[Output]]]
    ) -> AgentRunResult[Output]:
        """Open the turn, and run the agent in it."""
        inquirer, message, given = self._inquirer, self._message, self._results
        waiting = _unanswered(self._history or ())
        results = DeferredToolResults(
            approvals={call.tool_call_id: ToolApproved() for call in waiting}
        )
        if given:
            results.approvals = {
                name: approved
                for name, approved in results.approvals.items()
                if name not in given.calls
            }
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
        ended = [
            (call.tool_name, call.tool_call_id)
            for call in waiting
            if given is None or call.tool_call_id not in given.calls
        ]
        try:
            async with inquirer.turn(
                _recorded_text(self._text),
                author=message.author,
                key=message.key,
                calls_wait=bool(waiting),
                on_open=on_open,
            ):
                inquirer.raise_end()
                check_not_ended(
                    inquirer,
                    ended,
                    "Pass the messages from before that turn, and a new user message.",
                )
                result = await start(None if waiting else self._text, arguments)
                # without the messages of the earlier run, its waiting calls are never repeated
                if not waiting:
                    await inquirer.give_up_unmade(SUPERSEDED)
                if isinstance(
                    result.output, DeferredToolRequests
                ):  # including calls that the program deferred
                    inquirer.keep_open()
        except Suspended:
            if result is None:
                raise
        return result


def _refuse_decisions(given: DeferredToolResults | None, waiting: Sequence[ToolCallPart]) -> None:
    """Raise an error if the results contain the program's own decision about a waiting call: a
    denial, or changed arguments.

    Raises:
        ConfigError: The results contain such a decision.
    """
    for call in waiting:
        decision = given.approvals.get(call.tool_call_id) if given else None
        if (
            decision is False
            or isinstance(decision, ToolDenied)
            or (isinstance(decision, ToolApproved) and decision.override_args)
        ):
            raise ConfigError(
                f"`deferred_tool_results` decides about the call `{call.tool_name}`"
                f" ({call.tool_call_id}). No tool ran. Only the recorded decision counts: answer"
                " the call's question with `await store.answer(id, approve=False, reason=…)`"
                " or `await store.answer(id, arguments={…})`, and remove the call from"
                " `approvals`."
            )


class Asking(AbstractCapability[Any]):
    """Runs an agent's tools through an inquirer, for programs that run the agent themselves:
    `agent.iter(…, capabilities=[…])`.

    Open `inquirer.turn(…)` around the run. If no person is available to answer, the call is
    deferred as a call that needs approval. In the next run, pass `ToolApproved()` for the call.
    midturn then repeats the call and applies the recorded decision.

    Args:
        inquirer: Asks the questions.
    """

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer

    async def before_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
    ) -> str | dict[str, Any]:
        """Mark a call as approved only if midturn asks for the approval, so that the store contains
        the decision.

        Args:
            ctx: Context of the run, which tools and validators receive.
            call: The model's call.
            tool_def: Definition of the called tool.
            args: Arguments of the call. They are returned unchanged.

        Returns:
            The arguments.
        """
        if tool_def.kind != "unapproved":
            ctx.tool_call_approved = self._asks_approval(ctx, call)
        return args

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Any,
    ) -> Any:
        """Run a tool call through the inquirer."""
        name, id, given = (  # noqa: A001  the wire's word
            call.tool_name,
            call.tool_call_id,
            call.args_as_dict(),
        )
        was_question = self._inquirer.has_asked(name, id, given, APPROVE)
        made = _ToolExecution(ctx, call, args, handler)
        wants_approval = not was_question and (
            tool_def.kind == "unapproved" or self._asks_approval(ctx, call)
        )
        permission = wants_approval and (
            self._inquirer.has_asked(name, id, given, RUN) or json_equal(made.shown, given)
        )
        made.approving = was_question or (wants_approval and not permission)
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
            raise ApprovalRequired(metadata=_WAITING_METADATA) from suspended
        if content.turn_ended:
            raise CallEnded(content, is_error=content.is_error, turn_ended=True)
        if made.left is not None:
            raise made.left
        if (
            content == _DEFERRED_TEXT and not made.has_run
        ):  # an earlier run deferred the call, and its result is still missing
            raise CallDeferred
        if content.is_error:
            raise ToolFailed(str(content))
        return made.returned(content)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Approve the calls that need approval, so that they are repeated. midturn asks for the
        approval when a call is repeated.
        """
        _ = ctx
        own_ids = [
            call.tool_call_id
            for call in requests.approvals
            if requests.metadata.get(call.tool_call_id) != _WAITING_METADATA
        ]
        if not own_ids:
            return None
        return requests.build_results(
            approvals=dict.fromkeys(own_ids, ToolApproved()),
            metadata={name: dict[str, Any](_APPROVAL_METADATA) for name in own_ids},
        )

    def _asks_approval(self, ctx: RunContext[Any], call: ToolCallPart) -> bool:
        """Return whether midturn asks for the approval of a call: the tool requested an approval, or
        midturn already asked for one.
        """
        recorded = (
            self._inquirer.has_asked(call.tool_name, call.tool_call_id, call.args_as_dict(), id)
            for id in (APPROVE, RUN)  # noqa: A001
        )
        return ctx.tool_call_metadata == _APPROVAL_METADATA or any(recorded)


class _ToolExecution:
    """Execution of one tool call. `left` is an exception that the tool raised to control
    pydantic-ai.
    """

    def __init__(
        self, ctx: RunContext[Any], call: ToolCallPart, args: dict[str, Any], handler: Any
    ) -> None:
        self._ctx = ctx
        self._call = call
        self._args = args
        self._handler = handler
        self.approving = False
        """Whether a yes/no question replaces the permission, because the tool's arguments differ
        from the model's arguments.
        """
        self._rich: ToolReturn[Any] | None = None
        self._files: Any = None
        self.left: Exception | None = None
        self.has_run = False

    async def run(self, call: InquirerCall) -> object:
        """Run the tool. Ask for approval first if the call needs it."""
        if self.approving:
            await check_approved(call, self._call.tool_name, self.shown)
        self.has_run = True
        edited = edited_arguments(call, self._call.args_as_dict())
        try:
            args = self._args if edited is None else await self._validate(edited)
            returned = await self._handler(args)
        except ApprovalRequired as error:  # the repeated call asks for approval
            raise CallUnfinished(error) from None
        except CallDeferred as error:
            self.left = error
            return _DEFERRED_TEXT
        except (ModelRetry, ToolFailed, ToolRetryError, ToolFailedError) as error:
            self.left = error
            raise Rejected(str(error)) from error
        except (MidturnError, Rejected):
            raise
        except Exception as error:  # noqa: BLE001  it ends the run, as in plain pydantic-ai, and the next run repeats the call
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
        return Success(
            part.model_response_str() or _FILES_TEXT, tuple(_recorded_images(part.files))
        )

    async def _validate(self, edited: JsonObject) -> dict[str, Any]:
        """Validate edited arguments. An error is not reported as the model's mistake.

        Raises:
            Rejected: The tool's validators reject the arguments.
        """
        ctx, name = self._ctx, self._call.tool_name
        tools = ctx.tool_manager.tools if ctx.tool_manager else None
        tool = (tools or {}).get(name)
        if tool is None:
            raise invalid_edit(name, "the tool is no longer available")
        try:
            args = cast(
                "dict[str, Any]",
                tool.args_validator.validate_python(dict(edited), context=ctx.validation_context),
            )
            if tool.args_validator_func is not None:
                checked = tool.args_validator_func(ctx, **args)
                if isinstance(checked, Awaitable):
                    await checked
        except (ValueError, ModelRetry) as error:
            raise invalid_edit(name, error) from error
        return args

    @property
    def shown(self) -> dict[str, Any]:
        """The arguments that the tool receives: the model's arguments, as converted by the
        validators.
        """
        given = self._call.args_as_dict()
        try:
            own_ids = ToolCallPart(
                self._call.tool_name,
                {name: self._args[name] for name in given if name in self._args},
            )
            run = cast("dict[str, Any]", json.loads(own_ids.args_as_json_str()))
        except ValueError:  # some values have no JSON form, so show the model's arguments
            return given
        return {**given, **run}

    def returned(self, content: CallContent) -> Any:
        """Return the value for pydantic-ai: the recorded text, and the files as returned or as
        recorded.
        """
        value: Any = str(content)
        if self._files is not None:
            value = self._files
        elif content.images:
            images = [
                BinaryContent(base64.b64decode(image.data), media_type=image.media_type)
                for image in content.images
            ]
            value = [*([] if value == _FILES_TEXT else [value]), *images]
        return value if self._rich is None else replace(self._rich, return_value=value)


def _recorded_images(files: Sequence[object]) -> Iterator[Image]:
    """Yield the images to record. Other files, and images without their bytes, are left out."""
    for file in files:
        if isinstance(file, BinaryContent) and file.is_image:
            yield Image(file.media_type, base64.b64encode(file.data).decode())


def _recorded_text(text: str | Sequence[UserContent] | None) -> str:
    """Return the text to record for a message. For images and files, it contains only the kind."""
    if text is None or isinstance(text, str):
        return text or ""
    return "\n".join(
        part if isinstance(part, str) else f"[{getattr(part, 'kind', type(part).__name__)}]"
        for part in text
    )


def _unanswered(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Return the calls in the last response that have no result."""
    responses = [
        place for place, message in enumerate(messages) if isinstance(message, ModelResponse)
    ]
    if not responses:
        return []
    returned = {
        part.tool_call_id
        for message in messages[responses[-1] :]
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    calls = [part for part in messages[responses[-1]].parts if isinstance(part, ToolCallPart)]
    return [call for call in calls if call.tool_call_id not in returned]


def _occurrence(messages: Sequence[ModelMessage], call: ToolCallPart) -> int:
    """Return the position (from 1) of a call among the equal calls of this turn. Call ids are not
    sufficient, because some models use the same ids in each response.
    """
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
