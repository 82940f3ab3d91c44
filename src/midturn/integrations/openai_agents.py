"""midturn in the OpenAI Agents SDK: tools ask with `midturn.ask(…)`, and approvals are asked like
other questions.

```python
asking = Asking(mt.Inquirer(store, conversation))
agent = Agent(name="Shop", tools=[asking.tool(deploy)])
result = await asking.run(agent, "Ship it.")
```

While questions are open, `result.interruptions` lists the waiting calls. Store
`result.to_state().to_json()`. After the questions are answered, pass the state to `run` instead of
the text.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
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
from midturn.events.outcome import Success, ToolError
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
from midturn.question.json_value import JsonObject, canonical
from midturn.routing.messages import arguments_edited
from midturn.runtime.external_loop import CallContent

with needs_extra("openai-agents", "agents"):
    from agents import (
        Agent,
        FunctionTool,
        ModelBehaviorError,
        RunContextWrapper,
        Runner,
        RunResult,
        RunResultStreaming,
        RunState,
        StreamEvent,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolOutputImage,
        ToolOutputText,
        TResponseInputItem,
        UserError,
        function_tool,
    )
    from agents.items import ModelResponse, ToolApprovalItem
    from agents.tool import ToolErrorFunction, default_tool_error_function, invoke_function_tool
    from agents.tool_context import ToolContext

Result = TypeVar("Result")
NeedsApproval: TypeAlias = (
    bool | Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]
)
_IMAGE_TEXT = "(an image)"
"""Recorded text if a result contains only images."""


class _RunMessage(Struct, frozen=True):
    """A user message, and how to handle it while questions are open. See `Asking.run`."""

    text: str
    author: str | None
    key: str | None
    on_open: OnOpen


class Asking:
    """Runs an agent's tools through an inquirer.

    A call starts when the SDK asks whether it needs approval, after the tool's input guardrails. If
    no question stays open, the call completes, and the SDK receives the result. Otherwise, midturn
    reports that the call needs approval, because the SDK suspends a run only for this reason.

    Args:
        inquirer: Asks the questions, and records them in its conversation.
    """

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer
        self._tools: dict[Callable[..., Any], _AdaptedTool] = {}
        self._agents: list[Agent[Any]] = []
        self._earlier: Counter[bytes] = Counter()

    def tool(
        self,
        function: Callable[..., Any],
        *,
        needs_approval: NeedsApproval = False,
        failure_error_function: ToolErrorFunction | None = default_tool_error_function,
        **options: Any,
    ) -> FunctionTool:
        """Create a tool from a function, sync or async, like `agents.function_tool`.

        Args:
            function: Implementation of the tool. It asks with `midturn.ask(…)`.
            needs_approval: Whether a person must approve each call: a bool, or a function. A
                recorded decision counts, even if the function later returns another value.
            failure_error_function: Returns the text for the model if the tool raises an exception.
                With None, the exception ends the run. Default: a fixed text from the SDK, without
                the type and the message of the exception.
            options: Other arguments of `function_tool`.
        """
        made = cast("FunctionTool", function_tool(failure_error_function=None, **options)(function))
        tool = _AdaptedTool(
            self,
            made,
            needs_approval,
            failure_error_function,
            getattr(function, "__qualname__", type(function).__qualname__),
        )
        self._tools[tool.invoke] = tool
        return tool.sdk_tool()

    async def run(
        self,
        agent: Agent[Any],
        given: str | list[TResponseInputItem] | RunState[Any],
        *,
        context: Any = None,
        key: str | None = None,
        author: str | None = None,
        text: str = "",
        on_open: OnOpen = "error",
        **options: Any,
    ) -> RunResult:
        """Run the agent, or resume a waiting run.

        Args:
            agent: The agent, with tools created by `tool`.
            given: User message, or a list of input items that ends with a user message. To resume a
                waiting run, pass its state after some or all of the questions were answered.
            context: Context of the run, which the tools receive. A state has its own context.
            key: Your own key for the turn. See `Inquirer.turn`.
            author: Name of the user who sent the message. It is recorded.
            text: With a state: a new user message while questions are open.
            on_open: How to handle that message. `error` raises `TurnOpen`. `reply` records the
                message as the reply to the open questions that `author` may answer, and returns it
                to the model as the result of the waiting calls. Approvals, secrets and questions
                for other people stay open; if there are no other questions, `TurnOpen` lists them.
            options: Other arguments of `Runner.run`.

        Raises:
            CallEnded: A person ended the turn (`turn_ended`).
            ConfigError: `text` is given without a waiting state; the state rejects a call to a tool
                that was created by `tool`; `on_open` is invalid, or is combined with a key.
            TurnOpen: The conversation has an open turn with another message. `pending` lists its
                open questions.
            StoreLocked: Another process is writing to the conversation.
        """
        message = _RunMessage(text, author, key, on_open)

        async def start() -> RunResult:
            return await Runner.run(agent, given, context=context, **options)

        return await self._run(agent, given, context, message, start)

    def run_sync(
        self,
        agent: Agent[Any],
        given: str | list[TResponseInputItem] | RunState[Any],
        *,
        context: Any = None,
        key: str | None = None,
        author: str | None = None,
        text: str = "",
        on_open: OnOpen = "error",
        **options: Any,
    ) -> RunResult:
        """Synchronous form of `run`, for programs without asyncio. Uses the thread's default event
        loop.

        Args:
            agent: The agent, with tools created by `tool`.
            given: User message, list of input items, or state of a waiting run. See `run`.
            context: Context of the run. See `run`.
            key: Your own key for the turn. See `Inquirer.turn`.
            author: Name of the user who sent the message. It is recorded.
            text: With a state: a new user message. See `run`.
            on_open: How to handle that message. See `run`.
            options: Other arguments of `Runner.run`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await asking.run(…)`
                instead.
        """
        work = self.run(
            agent,
            given,
            context=context,
            key=key,
            author=author,
            text=text,
            on_open=on_open,
            **options,
        )
        return run_in_default_loop(work, "asking.run_sync", "await asking.run(…)")

    def stream(
        self,
        agent: Agent[Any],
        given: str | list[TResponseInputItem] | RunState[Any],
        *,
        context: Any = None,
        key: str | None = None,
        author: str | None = None,
        text: str = "",
        on_open: OnOpen = "error",
        **options: Any,
    ) -> AbstractAsyncContextManager[FrameworkStream[StreamEvent, RunResultStreaming]]:
        """Run the agent like `run`, and stream its events.

        Write `async with asking.stream(…) as events: async for event in events: …`. The events are
        the events of `Runner.run_streamed` and midturn's `Asked`, `QuestionAnswered`, `ToolStarted`
        and `ToolFinished`. At the end, `events.result` is the `RunResultStreaming` with its
        `interruptions` and `to_state()`. Leaving the block early stops the run and leaves the turn
        open. The iteration raises the same exceptions as `run`.

        Args:
            agent: The agent, with tools created by `tool`.
            given: User message, list of input items, or state of a waiting run. See `run`.
            context: Context of the run. See `run`.
            key: Your own key for the turn. See `Inquirer.turn`.
            author: Name of the user who sent the message. It is recorded.
            text: With a state: a new user message. See `run`.
            on_open: How to handle that message. See `run`.
            options: Other arguments of `Runner.run_streamed`.
        """
        message = _RunMessage(text, author, key, on_open)

        def run(emit: Callable[[StreamEvent], None]) -> Awaitable[RunResultStreaming]:
            async def start() -> RunResultStreaming:
                result = Runner.run_streamed(agent, given, context=context, **options)
                async for event in result.stream_events():
                    emit(event)
                return result

            return self._run(agent, given, context, message, start)

        return framework_stream(self._inquirer, run)

    async def _run(
        self,
        agent: Agent[Any],
        given: str | list[TResponseInputItem] | RunState[Any],
        context: object,
        message: _RunMessage,
        start: Callable[[], Awaitable[Result]],
    ) -> Result:
        state = given if isinstance(given, RunState) else None
        check_on_open(message.on_open, message.key)
        if message.text and (state is None or not state.get_interruptions()):
            raise ConfigError(
                "`text` needs the state of a waiting run. Without a state, pass the message as the"
                " input of the run."
            )
        words = message.text if isinstance(given, RunState) else _last_user_text(given)
        on_open = message.on_open if state is not None and words else "error"
        result: Result | None = None
        self._agents = list(_reachable_agents(agent))
        self._earlier = Counter(_made_before(given))
        for tool in self._tools.values():
            tool.begin()
        try:
            async with self._inquirer.turn(
                words,
                author=message.author,
                key=message.key,
                calls_wait=state is not None,
                on_open=on_open,
            ):
                self._inquirer.raise_end()
                if state is not None:
                    waiting = [
                        (str(item.tool_name), str(item.call_id))
                        for item in state.get_interruptions()
                    ]
                    check_not_ended(
                        self._inquirer,
                        waiting,
                        "Start a new run with the items from before that turn and a new user"
                        " message.",
                    )
                    await self._approve(state, context)
                result = await start()
                # without the state of the earlier run, its waiting calls are never repeated
                if state is None:
                    await self._inquirer.give_up_unmade(SUPERSEDED)
                if cast(
                    "RunResult | RunResultStreaming", result
                ).interruptions:  # including calls to tools that do not use midturn
                    self._inquirer.keep_open()
        except UserError as error:  # the SDK wraps exceptions from tools
            if isinstance(error.__cause__, CallEnded):
                raise error.__cause__ from None
            raise
        except Suspended:
            if result is None:
                raise
        return result

    async def _approve(self, state: RunState[Any], context: object) -> None:
        """Repeat the waiting calls. Approve the calls that are finished now in the state, so that
        the SDK requests their results.

        Raises:
            ConfigError: The state rejects one of these calls.
        """
        own = state._context  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  there is no public access
        wrapper = own if context is None and own is not None else RunContextWrapper(context)
        waiting = [
            (item, tool) for item in state.get_interruptions() if (tool := self._tool_of(item))
        ]
        for item, _ in waiting:
            if (
                own is not None
                and own.is_tool_approved(str(item.tool_name), str(item.call_id)) is False
            ):
                raise ConfigError(
                    f"The state rejects the call `{item.tool_name}` ({item.call_id}). No tool ran."
                    " Only the recorded decision counts: answer the call's question with"
                    " `await store.answer(id, approve=False, reason=…)`, and do not call"
                    " `state.reject`."
                )
        done = await asyncio.gather(*(tool.make_again(item, wrapper) for item, tool in waiting))
        for (item, _), is_done in zip(waiting, done, strict=True):
            if is_done:
                state.approve(item)

    def _tool_of(self, item: ToolApprovalItem) -> _AdaptedTool | None:
        """Return the tool of a waiting call. Only the tools of the call's agent are searched,
        because other agents may have tools with the same name.
        """
        named = (
            tool
            for tool in item.agent.tools
            if isinstance(tool, FunctionTool) and tool.name == item.tool_name
        )
        return next(
            (
                self._tools[tool.on_invoke_tool]
                for tool in named
                if tool.on_invoke_tool in self._tools
            ),
            None,
        )

    def owner(self, tool: _AdaptedTool) -> Agent[Any]:
        """Return the agent that has a tool. If no known agent has the tool, return the first
        agent of the run.

        Args:
            tool: The tool.
        """
        return next((agent for agent in self._agents if tool.belongs_to(agent)), self._agents[0])

    def agent_of(self, tool: _AdaptedTool) -> str:
        """Return the name of a tool's agent, to distinguish tools with the same name. Empty if no
        other tool has this name. If no agent of the run has the tool, another name of the tool is
        returned.

        Args:
            tool: The tool.
        """
        if sum(other.name == tool.name for other in self._tools.values()) == 1:
            return ""
        return next((agent.name for agent in self._agents if tool.belongs_to(agent)), tool.written)

    def made_before(self, key: bytes) -> int:
        """Return the number of equal calls in this run's input, including the waiting calls.

        Args:
            key: Digest of the call.
        """
        return self._earlier[key]

    @property
    def inquirer(self) -> Inquirer:
        """The inquirer that asks the questions."""
        return self._inquirer


class _FinishedCall:
    """A finished call: its recorded content, and the value that its tool returned in this
    process.
    """

    def __init__(self, content: CallContent, returned: Any) -> None:
        self.content = content
        self._returned = returned

    def output(self) -> Any:
        """Return the output for the SDK: the recorded text, and the images as returned or as
        recorded.
        """
        text = str(self.content)
        if self._returned is not None:
            return self._returned
        if self.content.images:
            images = [
                ToolOutputImage(image_url=f"data:{image.media_type};base64,{image.data}")
                for image in self.content.images
            ]
            return [*([] if text == _IMAGE_TEXT else [ToolOutputText(text=text)]), *images]
        return text


class _AdaptedTool:
    """A tool whose calls run only once. The SDK receives the recorded results."""

    def __init__(
        self,
        asking: Asking,
        made: FunctionTool,
        approval: NeedsApproval,
        failure: ToolErrorFunction | None,
        written: str,
    ) -> None:
        self._asking = asking
        self._made = made
        self._approval = approval
        self._failure = failure
        self._guardrails = tuple(
            cast("Sequence[ToolInputGuardrail[Any]]", made.tool_input_guardrails or ())
        )
        self._done: dict[bytes, _FinishedCall] = {}
        self._verdicts: dict[tuple[int, bytes], ToolGuardrailFunctionOutput] = {}
        self._waiting: set[bytes] = set()
        self._new: Counter[bytes] = Counter()
        self.name = made.name
        self.written = written

    def begin(self) -> None:
        """Clear the state of the previous run."""
        self._done, self._verdicts, self._waiting, self._new = {}, {}, set(), Counter()

    def belongs_to(self, agent: Agent[Any]) -> bool:
        """Return whether an agent has this tool."""
        return any(
            isinstance(tool, FunctionTool) and tool.on_invoke_tool == self.invoke
            for tool in agent.tools
        )

    def sdk_tool(self) -> FunctionTool:
        """Return the tool for the SDK. The timeout applies only while the function runs, not while
        the call waits for a person.
        """
        guardrails = [
            replace(
                guardrail, guardrail_function=self._judge_once(guardrail), name=guardrail.get_name()
            )
            for guardrail in self._guardrails
        ]
        return replace(
            self._made,
            on_invoke_tool=self.invoke,
            needs_approval=self.waits,
            timeout_seconds=None,
            tool_input_guardrails=guardrails,
        )

    def _judge_once(
        self, guardrail: ToolInputGuardrail[Any]
    ) -> Callable[[ToolInputGuardrailData], Awaitable[ToolGuardrailFunctionOutput]]:
        """Return a guardrail that checks each call only once, so that a finished call is not
        refused later.
        """

        async def judge(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
            arguments = _arguments(data.context.tool_arguments)
            key = _key(self.name, data.context.tool_call_id, arguments or {})
            if (id(guardrail), key) in self._verdicts:
                return self._verdicts[id(guardrail), key]
            return (
                ToolGuardrailFunctionOutput.allow()
                if key in self._done
                else await guardrail.run(data)
            )

        return judge

    async def waits(
        self, ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        """Run a call, and return whether it has to wait for an answer. The SDK calls this to check
        whether the call needs approval (`FunctionTool.needs_approval`).
        """
        key = _key(self.name, call_id, arguments)
        if key not in self._waiting:
            self._new[key] += 1
        try:
            await self._make(call_id, arguments, ctx, self._asking.owner(self))
        except Suspended:
            return True
        return False

    async def invoke(self, ctx: ToolContext[Any], text: str) -> Any:
        """Return the result of a call. See `FunctionTool.on_invoke_tool`."""
        arguments = _arguments(text)
        if arguments is None:
            return f"The arguments of `{self.name}` are not a JSON object; nothing was run."
        key = _key(self.name, ctx.tool_call_id, arguments)
        if key not in self._done:
            self._new[key] += key not in self._waiting
            await self._make(ctx.tool_call_id, arguments, ctx, self._asking.owner(self))
        return self._done.pop(key).output()

    async def make_again(self, item: ToolApprovalItem, ctx: RunContextWrapper[Any]) -> bool:
        """Repeat a waiting call from a state. Return whether the call is finished."""
        arguments = _arguments(item.arguments)
        if arguments is None:
            return True  # the result of this call is the error about its arguments
        self._waiting.add(_key(self.name, item.call_id or "", arguments))
        try:
            await self._make(item.call_id or "", arguments, ctx, item.agent)
        except Suspended:
            return False
        return True

    async def _make(
        self, call_id: str, arguments: JsonObject, ctx: RunContextWrapper[Any], agent: Agent[Any]
    ) -> None:
        """Run a call through the inquirer, or return the recorded result of the call.

        Raises:
            Suspended: Nobody is available to answer now.
            CallEnded: A person ended the turn.
        """
        key, owner = _key(self.name, call_id, arguments), self._asking.agent_of(self)
        inquirer, returned = self._asking.inquirer, list[Any]()

        def make_context(given: JsonObject) -> ToolContext[Any]:
            text = json.dumps(given, ensure_ascii=False)
            return ToolContext[Any](
                ctx.context,
                ctx.usage,
                tool_name=self.name,
                tool_call_id=call_id,
                tool_arguments=text,
                agent=agent,
            )

        tool_context = make_context(arguments)
        occurrence = max(
            self._asking.made_before(key) + (0 if key in self._waiting else self._new[key]), 1
        )
        is_done = (
            inquirer.result_of(self.name, call_id, arguments, occurrence=occurrence, agent=owner)
            is not None
        )
        refused = (
            None
            if is_done
            else await self._refused(key, ToolInputGuardrailData(context=tool_context, agent=agent))
        )
        was_asked_as_question = inquirer.has_asked(
            self.name, call_id, arguments, APPROVE, agent=owner
        )
        needs = not is_done and refused is None and not was_asked_as_question
        permission = needs and (
            inquirer.has_asked(self.name, call_id, arguments, RUN, agent=owner)
            or await self._needs_approval(ctx, arguments, call_id)
        )

        async def run(call: InquirerCall) -> object:
            if refused is not None:
                return refused
            if was_asked_as_question:
                await check_approved(call, self.name, arguments)
            edited = edited_arguments(call, arguments)
            output = await self._invoke(
                call,
                tool_context if edited is None else make_context(edited),
                is_edited=edited is not None,
            )
            if isinstance(output, Success | ToolError):
                return output
            images = _images(output)
            if images is None:
                return str(output)  # the SDK would convert it in the same way
            returned.append(
                output if edited is None else _with_note(output, arguments_edited(edited))
            )
            return images

        content = await inquirer.run(
            self.name,
            call_id,
            arguments,
            run,
            occurrence=occurrence,
            agent=owner,
            permission=permission,
            schema=self._made.params_json_schema if permission else None,
        )
        if content.turn_ended:
            raise CallEnded(content, is_error=content.is_error, turn_ended=True)
        self._done[key] = _FinishedCall(content, returned[0] if returned else None)

    async def _refused(self, key: bytes, data: ToolInputGuardrailData) -> ToolError | None:
        """Check a call with its tool's guardrails before a person is asked. If a guardrail refuses
        the call, return the result for the model. Otherwise, return None.

        If a guardrail decides to end the run, the SDK ends it later, because it receives the same
        decision from `_judge_once`.
        """
        for guardrail in self._guardrails:
            verdict = await guardrail.run(data)
            self._verdicts[id(guardrail), key] = verdict
            match verdict.behavior:
                case {"type": "reject_content", "message": message}:
                    return ToolError(str(message))
                case {"type": "raise_exception"}:
                    return ToolError(
                        f"The guardrail {guardrail.get_name()!r} ended the run. The tool did not"
                        " run."
                    )
                case _:
                    pass
        return None

    async def _needs_approval(
        self, ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str
    ) -> bool:
        return (
            self._approval
            if isinstance(self._approval, bool)
            else await self._approval(ctx, dict(arguments), call_id)
        )

    async def _invoke(
        self, call: InquirerCall, tool_context: ToolContext[Any], *, is_edited: bool
    ) -> Any:
        try:
            return await invoke_function_tool(
                function_tool=self._made,
                context=tool_context,
                arguments=tool_context.tool_arguments,
            )
        except MidturnError:
            raise
        except Exception as error:
            if is_edited and isinstance(error, ModelBehaviorError):
                raise invalid_edit(self.name, error) from error
            if self._failure is None:
                raise CallUnfinished(error) from None
            call.log_failure(error)
            said = self._failure(tool_context, error)
            return ToolError(await said if isinstance(said, Awaitable) else said)


def _key(name: str, call_id: str, arguments: JsonObject) -> bytes:
    return canonical([name, call_id, arguments])


def _arguments(text: str | None) -> JsonObject | None:
    """Parse the arguments of a call. Return None if they are not a JSON object."""
    try:
        read: object = json.loads(text or "{}")
    except ValueError:
        return None
    return cast("JsonObject", read) if isinstance(read, dict) else None


def _images(output: object) -> Success | None:
    """Return the content to record for a result with images, or None if it has no images."""
    parts = cast("Sequence[object]", output) if isinstance(output, list) else [output]
    images = [part for part in parts if isinstance(part, ToolOutputImage)]
    if not images or not all(isinstance(part, ToolOutputImage | ToolOutputText) for part in parts):
        return None
    texts = [part.text for part in parts if isinstance(part, ToolOutputText)]
    texts += [
        f"(an image: {image.image_url or image.file_id})"
        for image in images
        if _inline_image(image) is None
    ]
    return Success(
        "\n".join(texts) or _IMAGE_TEXT,
        tuple(found for image in images if (found := _inline_image(image))),
    )


def _with_note(output: object, note: str) -> Sequence[object]:
    """Return the parts of a result with images, with the note about edited arguments as the first
    part.
    """
    return [
        ToolOutputText(text=note),
        *(cast("Sequence[object]", output) if isinstance(output, list) else [output]),
    ]


def _inline_image(image: ToolOutputImage) -> Image | None:
    """Return an image whose bytes are in its data URL, or None."""
    head, comma, data = (image.image_url or "").partition(",")
    is_data = bool(comma) and head.startswith("data:") and head.endswith(";base64")
    return Image(head.removeprefix("data:").removesuffix(";base64"), data) if is_data else None


def _last_user_text(given: str | Sequence[TResponseInputItem] | RunState[Any]) -> str:
    """Return the text to record for an input: the last user message."""
    if isinstance(given, str):
        return given
    items = cast("Sequence[Mapping[str, Any]]", given)
    content: Any = next(
        (item.get("content", "") for item in reversed(items) if item.get("role") == "user"), ""
    )
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part.get("text", f"[{part.get('type')}]"))
        for part in cast("Sequence[Mapping[str, Any]]", content)
    )


def _made_before(given: str | Sequence[TResponseInputItem] | RunState[Any]) -> Iterator[bytes]:
    """Yield the keys of the input's calls that belong to this turn. A key can occur several times,
    because some models use the same ids in each response.
    """
    if isinstance(given, str):
        return
    if isinstance(given, RunState):
        outputs = [item for response in _responses(given) for item in response.output]
        calls: Sequence[object] = [
            item.model_dump() for item in outputs if item.type == "function_call"
        ]
    else:
        last = max(
            (
                place
                for place, item in enumerate(given)
                if cast("Mapping[str, Any]", item).get("role") == "user"
            ),
            default=-1,
        )
        calls = given[last + 1 :]
    for call in cast("Sequence[Mapping[str, Any]]", calls):
        if call.get("type") == "function_call":
            yield _key(
                str(call.get("name")),
                str(call.get("call_id")),
                _arguments(cast("str", call.get("arguments"))) or {},
            )


def _responses(state: RunState[Any]) -> Sequence[ModelResponse]:
    """Return the model's responses in a run. The state has no public access to them."""
    return state._model_responses  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _reachable_agents(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    """Yield an agent and all agents that it can hand off to."""
    found, remaining = list[Agent[Any]](), [agent]
    while remaining:
        current = remaining.pop(0)
        if not any(current is other for other in found):
            found.append(current)
            yield current
            remaining += [other for other in current.handoffs if isinstance(other, Agent)]
