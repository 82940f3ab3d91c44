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
    GONE_ON,
    RUN,
    check_approved,
    check_not_ended,
    edit_does_not_fit,
    edited_arguments,
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
NeedsApproval: TypeAlias = bool | Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]
_IMAGE = "(an image)"
"""The recorded text of a result that consists of images."""


class _Message(Struct, frozen=True):
    """A message of the user, and what becomes of it while questions are open (see `Asking.run`)."""

    text: str
    author: str | None
    key: str | None
    on_open: OnOpen


class Asking:
    """The tools of an agent, as calls of an inquirer.

    A call is made when the SDK wants to know whether it needs approval, after the input guardrails of its tool. Where there is an answer,
    it is done then, and the SDK gets its result; where no one is there, it counts as one that needs approval, which is how the SDK keeps
    a run that waits.

    Args:
        inquirer: Who asks, on the conversation that keeps the questions.
    """

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer
        self._tools: dict[Callable[..., Any], _Tool] = {}
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
        """Make a tool of a function, sync or async, as `agents.function_tool` does.

        Args:
            function: What the tool does; it asks with `midturn.ask(…)`.
            needs_approval: Whether a person is asked before it runs: always, never, or as the function says. A decision that is recorded
                counts, whatever the function says later.
            failure_error_function: Returns what the model reads of an exception; None ends the run with it. Without it, the model reads
                the fixed text of the SDK, which names neither the exception nor its message.
            options: Whatever else `function_tool` takes.
        """
        made = cast("FunctionTool", function_tool(failure_error_function=None, **options)(function))
        tool = _Tool(self, made, needs_approval, failure_error_function, getattr(function, "__qualname__", type(function).__qualname__))
        self._tools[tool.invoke] = tool
        return tool.for_the_sdk()

    async def run(  # noqa: PLR0913  (a public signature)
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
        """Run the agent, or go on with a run that waits.

        Args:
            agent: The agent, with tools that `tool` made.
            given: The message of the user, or a list of input items that ends with it; or the state of a run whose questions are answered,
                some of them or all.
            context: The context of the run, which the tools get. A state has its own.
            key: Your own name for the turn, as of `Inquirer.turn`.
            author: The user whose message it is; recorded.
            text: With a state: a new message of the user while questions are open.
            on_open: What becomes of that message: `error` refuses it with `TurnOpen`; `reply` records it as the reply to the open questions
                that `author` may answer, and the model reads it as the result of their calls. Approvals, secrets and questions of others
                stay open; if there are no other questions, `TurnOpen` lists them.
            options: Whatever else `Runner.run` takes.

        Raises:
            CallEnded: A person has ended the turn (`turn_ended`).
            ConfigError: `text` comes without a state that waits; the program has rejected a call of `tool` in the state; or `on_open` is
                another word, or comes with a key.
            TurnOpen: The open turn of the conversation began with another text; `pending` lists what is open.
            StoreLocked: The conversation is being written elsewhere.
        """
        message = _Message(text, author, key, on_open)

        async def start() -> RunResult:
            return await Runner.run(agent, given, context=context, **options)

        return await self._run(agent, given, context, message, start)

    def run_sync(  # noqa: PLR0913  (a public signature)
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
        """Run the agent in a program without asyncio, in the default event loop of the thread, as `Runner.run_sync` does (see `run`).

        Args:
            agent: The agent, with tools that `tool` made.
            given: The message of the user, a list of input items, or the state of a run that waits, as of `run`.
            context: The context of the run, as of `run`.
            key: Your own name for the turn, as of `Inquirer.turn`.
            author: The user whose message it is; recorded.
            text: With a state: a new message of the user, as of `run`.
            on_open: What becomes of that message, as of `run`.
            options: Whatever else `Runner.run` takes.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await asking.run(…)` there.
        """
        work = self.run(agent, given, context=context, key=key, author=author, text=text, on_open=on_open, **options)
        return run_in_default_loop(work, "asking.run_sync", "await asking.run(…)")

    def stream(  # noqa: PLR0913  (a public signature)
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
        """Run the agent as `run` does, and watch it.

        Write `async with asking.stream(…) as events: async for event in events: …`. The events are those of `Runner.run_streamed`, with
        `Asked`, `QuestionAnswered`, `ToolStarted` and `ToolFinished` of midturn between them. At the end, `events.result` is the
        `RunResultStreaming`, with its `interruptions` and `to_state()`. Leaving the block early stops the run and leaves the turn open.
        Errors are those of `run`, raised while iterating.

        Args:
            agent: The agent, with tools that `tool` made.
            given: The message of the user, a list of input items, or the state of a run that waits, as of `run`.
            context: The context of the run, as of `run`.
            key: Your own name for the turn, as of `Inquirer.turn`.
            author: The user whose message it is; recorded.
            text: With a state: a new message of the user, as of `run`.
            on_open: What becomes of that message, as of `run`.
            options: Whatever else `Runner.run_streamed` takes.
        """
        message = _Message(text, author, key, on_open)

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
        message: _Message,
        start: Callable[[], Awaitable[Result]],
    ) -> Result:
        state = given if isinstance(given, RunState) else None
        check_on_open(message.on_open, message.key)
        if message.text and (state is None or not state.get_interruptions()):
            raise ConfigError(
                "`text` belongs to the state of a run that waits. Without one, pass the message itself as the input of the run."
            )
        words = message.text if isinstance(given, RunState) else _words(given)
        on_open = message.on_open if state is not None and words else "error"
        result: Result | None = None
        self._agents = list(_reachable(agent))
        self._earlier = Counter(_made_before(given))
        for tool in self._tools.values():
            tool.begin()
        try:
            async with self._inquirer.turn(words, author=message.author, key=message.key, calls_wait=state is not None, on_open=on_open):
                self._inquirer.raise_end()
                if state is not None:
                    waiting = [(str(item.tool_name), str(item.call_id)) for item in state.get_interruptions()]
                    check_not_ended(
                        self._inquirer, waiting, "Begin a new run with the items from before that turn, and a message of the user."
                    )
                    await self._approve(state, context)
                result = await start()
                if state is None:  # it began anew: calls of a run whose state was lost are not made again
                    await self._inquirer.give_up_unmade(GONE_ON)
                if cast("RunResult | RunResultStreaming", result).interruptions:  # also the approvals of the SDK's own tools
                    self._inquirer.keep_open()
        except UserError as error:  # what the SDK makes of whatever leaves a tool
            if isinstance(error.__cause__, CallEnded):
                raise error.__cause__ from None
            raise
        except Suspended:
            if result is None:
                raise
        return result

    async def _approve(self, state: RunState[Any], context: object) -> None:
        """Make the calls that wait; approve those that are done, so that the SDK takes their results.

        Raises:
            ConfigError: The program has rejected one of them in the state.
        """
        own = state._context  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  a state has no public way to its context
        wrapper = own if context is None and own is not None else RunContextWrapper(context)
        waiting = [(item, tool) for item in state.get_interruptions() if (tool := self._tool_of(item))]
        for item, _ in waiting:
            if own is not None and own.is_tool_approved(str(item.tool_name), str(item.call_id)) is False:
                raise ConfigError(
                    f"The state rejects the call `{item.tool_name}` ({item.call_id}). Nothing ran. The recorded decision counts: answer "
                    "the question of the call with `await store.answer(id, approve=False, reason=…)`, and do not call `state.reject`."
                )
        done = await asyncio.gather(*(tool.make_again(item, wrapper) for item, tool in waiting))
        for (item, _), is_done in zip(waiting, done, strict=True):
            if is_done:
                state.approve(item)

    def _tool_of(self, item: ToolApprovalItem) -> _Tool | None:
        """Return the tool of a call that waits: the one of its agent, whatever other agents call theirs."""
        named = (tool for tool in item.agent.tools if isinstance(tool, FunctionTool) and tool.name == item.tool_name)
        return next((self._tools[tool.on_invoke_tool] for tool in named if tool.on_invoke_tool in self._tools), None)

    def owner(self, tool: _Tool) -> Agent[Any]:
        """Return the agent that has a tool; the one that begins where that cannot be seen.

        Args:
            tool: The tool.
        """
        return next((agent for agent in self._agents if tool.is_of(agent)), self._agents[0])

    def agent_of(self, tool: _Tool) -> str:
        """Return what tells the calls of a tool from those of another one of the same name; empty where there is none.

        Args:
            tool: The tool.
        """
        if sum(other.name == tool.name for other in self._tools.values()) == 1:
            return ""
        return next((agent.name for agent in self._agents if tool.is_of(agent)), tool.written)

    def made_before(self, key: bytes) -> int:
        """Return how many equal calls the input of this run has: those that it waits for are among them.

        Args:
            key: Digest that equal calls share.
        """
        return self._earlier[key]

    @property
    def inquirer(self) -> Inquirer:
        """Who asks."""
        return self._inquirer


class _Done:
    """A call that has its result: what is recorded, and what its tool returned in this process."""

    def __init__(self, content: CallContent, returned: Any) -> None:
        self.content = content
        self._returned = returned

    def output(self) -> Any:
        """Return what the SDK gets: the recorded text, and images as the tool returned them, or as they are recorded."""
        text = str(self.content)
        if self._returned is not None:
            return self._returned
        if self.content.images:
            images = [ToolOutputImage(image_url=f"data:{image.media_type};base64,{image.data}") for image in self.content.images]
            return [*([] if text == _IMAGE else [ToolOutputText(text=text)]), *images]
        return text


class _Tool:
    """A tool: its calls are made once, and the SDK gets their results."""

    def __init__(
        self, asking: Asking, made: FunctionTool, approval: NeedsApproval, failure: ToolErrorFunction | None, written: str
    ) -> None:
        self._asking = asking
        self._made = made
        self._approval = approval
        self._failure = failure
        self._guardrails = tuple(cast("Sequence[ToolInputGuardrail[Any]]", made.tool_input_guardrails or ()))
        self._done: dict[bytes, _Done] = {}
        self._verdicts: dict[tuple[int, bytes], ToolGuardrailFunctionOutput] = {}
        self._waiting: set[bytes] = set()
        self._new: Counter[bytes] = Counter()
        self.name = made.name
        self.written = written

    def begin(self) -> None:
        """Forget what belongs to an earlier run."""
        self._done, self._verdicts, self._waiting, self._new = {}, {}, set(), Counter()

    def is_of(self, agent: Agent[Any]) -> bool:
        """Say whether an agent has this tool."""
        return any(isinstance(tool, FunctionTool) and tool.on_invoke_tool == self.invoke for tool in agent.tools)

    def for_the_sdk(self) -> FunctionTool:
        """Return the tool as an agent has it. Time limits hold in here, where the tool runs."""
        guardrails = [
            replace(guardrail, guardrail_function=self._judged(guardrail), name=guardrail.get_name()) for guardrail in self._guardrails
        ]
        return replace(
            self._made, on_invoke_tool=self.invoke, needs_approval=self.waits, timeout_seconds=None, tool_input_guardrails=guardrails
        )

    def _judged(self, guardrail: ToolInputGuardrail[Any]) -> Callable[[ToolInputGuardrailData], Awaitable[ToolGuardrailFunctionOutput]]:
        """Return a guardrail that judges each call once: a call that was made is not refused afterwards."""

        async def judge(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
            arguments = _arguments(data.context.tool_arguments)
            key = _key(self.name, data.context.tool_call_id, arguments or {})
            if (id(guardrail), key) in self._verdicts:
                return self._verdicts[id(guardrail), key]
            return ToolGuardrailFunctionOutput.allow() if key in self._done else await guardrail.run(data)

        return judge

    async def waits(self, ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        """Make a call when the SDK asks whether it needs approval; say whether it has to wait (see `FunctionTool.needs_approval`)."""
        key = _key(self.name, call_id, arguments)
        if key not in self._waiting:
            self._new[key] += 1
        try:
            await self._make(call_id, arguments, ctx, self._asking.owner(self))
        except Suspended:
            return True
        return False

    async def invoke(self, ctx: ToolContext[Any], text: str) -> Any:
        """Return the result of a call (see `FunctionTool.on_invoke_tool`)."""
        arguments = _arguments(text)
        if arguments is None:
            return f"The arguments of `{self.name}` are not a JSON object; nothing was run."
        key = _key(self.name, ctx.tool_call_id, arguments)
        if key not in self._done:
            self._new[key] += key not in self._waiting
            await self._make(ctx.tool_call_id, arguments, ctx, self._asking.owner(self))
        return self._done.pop(key).output()

    async def make_again(self, item: ToolApprovalItem, ctx: RunContextWrapper[Any]) -> bool:
        """Make a call of a state again; say whether it is done."""
        arguments = _arguments(item.arguments)
        if arguments is None:
            return True  # what is wrong with it is its result
        self._waiting.add(_key(self.name, item.call_id or "", arguments))
        try:
            await self._make(item.call_id or "", arguments, ctx, item.agent)
        except Suspended:
            return False
        return True

    async def _make(self, call_id: str, arguments: JsonObject, ctx: RunContextWrapper[Any], agent: Agent[Any]) -> None:
        """Make a call of the inquirer, or find its result.

        Raises:
            Suspended: No one is there to answer now.
            CallEnded: A person has ended the turn.
        """
        key, owner = _key(self.name, call_id, arguments), self._asking.agent_of(self)
        inquirer, returned = self._asking.inquirer, list[Any]()

        def context_of(given: JsonObject) -> ToolContext[Any]:
            text = json.dumps(given, ensure_ascii=False)
            return ToolContext[Any](ctx.context, ctx.usage, tool_name=self.name, tool_call_id=call_id, tool_arguments=text, agent=agent)

        inside = context_of(arguments)
        occurrence = max(self._asking.made_before(key) + (0 if key in self._waiting else self._new[key]), 1)
        is_done = inquirer.result_of(self.name, call_id, arguments, occurrence=occurrence, agent=owner) is not None
        refused = None if is_done else await self._refused(key, ToolInputGuardrailData(context=inside, agent=agent))
        was_question = inquirer.has_asked(self.name, call_id, arguments, APPROVE, agent=owner)
        needs = not is_done and refused is None and not was_question
        permission = needs and (
            inquirer.has_asked(self.name, call_id, arguments, RUN, agent=owner) or await self._needs_approval(ctx, arguments, call_id)
        )

        async def run(call: InquirerCall) -> object:
            if refused is not None:
                return refused
            if was_question:
                await check_approved(call, self.name, arguments)
            edited = edited_arguments(call, arguments)
            output = await self._invoked(call, inside if edited is None else context_of(edited), is_edited=edited is not None)
            if isinstance(output, Success | ToolError):
                return output
            images = _images(output)
            if images is None:
                return str(output)  # as the SDK does
            returned.append(output if edited is None else _after_note(output, arguments_edited(edited)))
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
        self._done[key] = _Done(content, returned[0] if returned else None)

    async def _refused(self, key: bytes, data: ToolInputGuardrailData) -> ToolError | None:
        """Judge a call by the guardrails of its tool, before anybody is asked and anything runs; return the result of one that is refused.

        A guardrail that ends the run does so in the SDK, which gets the same verdict.
        """
        for guardrail in self._guardrails:
            verdict = await guardrail.run(data)
            self._verdicts[id(guardrail), key] = verdict
            match verdict.behavior:
                case {"type": "reject_content", "message": message}:
                    return ToolError(str(message))
                case {"type": "raise_exception"}:
                    return ToolError(f"The guardrail {guardrail.get_name()!r} has ended the run; nothing was run.")
                case _:
                    pass
        return None

    async def _needs_approval(self, ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        return self._approval if isinstance(self._approval, bool) else await self._approval(ctx, dict(arguments), call_id)

    async def _invoked(self, call: InquirerCall, inside: ToolContext[Any], *, is_edited: bool) -> Any:
        try:
            return await invoke_function_tool(function_tool=self._made, context=inside, arguments=inside.tool_arguments)
        except MidturnError:
            raise
        except Exception as error:
            if is_edited and isinstance(error, ModelBehaviorError):
                raise edit_does_not_fit(self.name, error) from error
            if self._failure is None:
                raise CallUnfinished(error) from None
            call.log_failure(error)
            said = self._failure(inside, error)
            return ToolError(await said if isinstance(said, Awaitable) else said)


def _key(name: str, call_id: str, arguments: JsonObject) -> bytes:
    return canonical([name, call_id, arguments])


def _arguments(text: str | None) -> JsonObject | None:
    """Read the arguments of a call; None where they are no JSON object."""
    try:
        read: object = json.loads(text or "{}")
    except ValueError:
        return None
    return cast("JsonObject", read) if isinstance(read, dict) else None


def _images(output: object) -> Success | None:
    """Return what is recorded of a result with images; None of one without any."""
    parts = cast("Sequence[object]", output) if isinstance(output, list) else [output]
    images = [part for part in parts if isinstance(part, ToolOutputImage)]
    if not images or not all(isinstance(part, ToolOutputImage | ToolOutputText) for part in parts):
        return None
    texts = [part.text for part in parts if isinstance(part, ToolOutputText)]
    texts += [f"(an image: {image.image_url or image.file_id})" for image in images if _data(image) is None]
    return Success("\n".join(texts) or _IMAGE, tuple(found for image in images if (found := _data(image))))


def _after_note(output: object, note: str) -> Sequence[object]:
    """Return the parts of a result with images, after what the model is told about an edit."""
    return [ToolOutputText(text=note), *(cast("Sequence[object]", output) if isinstance(output, list) else [output])]


def _data(image: ToolOutputImage) -> Image | None:
    """Return an image whose bytes are in its address."""
    head, comma, data = (image.image_url or "").partition(",")
    is_data = bool(comma) and head.startswith("data:") and head.endswith(";base64")
    return Image(head.removeprefix("data:").removesuffix(";base64"), data) if is_data else None


def _words(given: str | Sequence[TResponseInputItem] | RunState[Any]) -> str:
    """Return what is recorded of an input: the last message of the user."""
    if isinstance(given, str):
        return given
    items = cast("Sequence[Mapping[str, Any]]", given)
    content: Any = next((item.get("content", "") for item in reversed(items) if item.get("role") == "user"), "")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in cast("Sequence[Mapping[str, Any]]", content))


def _made_before(given: str | Sequence[TResponseInputItem] | RunState[Any]) -> Iterator[bytes]:
    """Yield the calls of this turn that an input has: some models give equal calls of two responses the same ids."""
    if isinstance(given, str):
        return
    if isinstance(given, RunState):
        outputs = [item for response in _responses(given) for item in response.output]
        calls: Sequence[object] = [item.model_dump() for item in outputs if item.type == "function_call"]
    else:
        last = max((place for place, item in enumerate(given) if cast("Mapping[str, Any]", item).get("role") == "user"), default=-1)
        calls = given[last + 1 :]
    for call in cast("Sequence[Mapping[str, Any]]", calls):
        if call.get("type") == "function_call":
            yield _key(str(call.get("name")), str(call.get("call_id")), _arguments(cast("str", call.get("arguments"))) or {})


def _responses(state: RunState[Any]) -> Sequence[ModelResponse]:
    """Return what the model has answered in a run: a state has no public way to it."""
    return state._model_responses  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _reachable(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    """Yield an agent, and all that it may hand over to."""
    found, left = list[Agent[Any]](), [agent]
    while left:
        one = left.pop(0)
        if not any(one is other for other in found):
            found.append(one)
            yield one
            left += [other for other in one.handoffs if isinstance(other, Agent)]
