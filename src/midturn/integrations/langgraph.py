"""midturn in LangGraph: nodes ask, calls inside of them run once, and the graph's own interrupts are answered where all questions are.

```python
state = await invoke(graph, mt.Inquirer(store, conversation), {"service": "shop"}, {"configurable": {"thread_id": "7"}})
```

The graph needs a checkpointer. Where questions are open, `Suspended` is raised, and nothing is lost: call `invoke` again, with the same
arguments, when they are answered. `stream` is `graph.astream`, and `invoke_sync` is `graph.invoke`, in the same way.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import Any, TypeAlias, TypeVar, cast

from midturn.agent.framework_stream import FrameworkStream, framework_stream
from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import CallUnfinished, InquirerCall
from midturn.agent.message_replies import OnOpen
from midturn.errors import CallEnded, MidturnError, StoreError, Suspended
from midturn.integrations import needs_extra
from midturn.integrations.approval import edited_arguments
from midturn.integrations.langgraph_run import (
    INTERRUPT,
    QUESTION,
    TOOL_CALL,
    WAITS,
    Graph,
    GraphRun,
    Invoked,
    InvokedInThread,
    Message,
    Steps,
    Streamed,
    StreamGraph,
    SyncGraph,
    configurable,
    current_run,
    schema_of_tool,
)
from midturn.integrations.langgraph_values import as_json, content_blocks, json_object, read_object, recorded_text
from midturn.question.json_value import JsonObject, canonical
from midturn.question.question import Question
from midturn.question.text import sha256
from midturn.routing.messages import RAN_EDITED
from midturn.runtime.external_loop import CallContent
from midturn.stores.sync_forms import in_a_loop, refuse_inside_a_loop
from midturn.tools.asking import CALL
from midturn.tools.names import name_problem
from midturn.tools.returned import Rejected

with needs_extra("langgraph", "langgraph"):
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command, interrupt

T = TypeVar("T")
Returned: TypeAlias = ToolMessage | Command[Any]
Execute: TypeAlias = Callable[[ToolCallRequest], Returned]
AsyncExecute: TypeAlias = Callable[[ToolCallRequest], Awaitable[Returned]]
_COMMAND = "(a command to the graph) "
"""Begins the recorded text of a tool's result that is a `Command`: the command itself follows, as LangGraph serializes it, in base64."""
_SERIALIZER = JsonPlusSerializer()


# ----------------------------------------------------------------------------------------------------------------------
# Run a graph


async def invoke(  # noqa: PLR0913  (a public signature)
    graph: Graph,
    inquirer: Inquirer,
    given: object,
    config: RunnableConfig,
    *,
    text: str = "",
    key: str | None = None,
    author: str | None = None,
    on_open: OnOpen = "error",
    **options: Any,
) -> dict[str, Any]:
    """Run a graph to its end, and have its interrupts answered; where it was interrupted before, go on there.

    An interrupt is asked as what it holds: a question from `ask`, the type of its `response_schema`, or else a text. The graph goes on when
    all that it waits for is answered; then its nodes begin anew, as LangGraph has it, and get the answers.

    Args:
        graph: The compiled graph, with a checkpointer.
        inquirer: Who asks, on the conversation that keeps the questions: one for each thread.
        given: What the graph begins with. To go on with an open turn, pass the same again, or None.
        config: Its configuration; `thread_id` names the thread.
        text: What the user said, for the record. Without it, the last message of the user in `given["messages"]` is recorded.
        key: Your own name for the turn, as of `Inquirer.turn`.
        author: The user whose message it is; recorded.
        on_open: What becomes of a new message while the graph waits: `error` refuses it with `TurnOpen`; `reply` records it as the reply to
            the open questions that `author` may answer, and the graph goes on without it as an input. Approvals, secrets and questions of
            others stay open; if there are no other questions, `TurnOpen` lists them.
        options: Whatever else `graph.ainvoke` takes, such as `context`.

    Returns:
        The state of the graph.

    Raises:
        Suspended: Questions are open; `pending` lists them.
        CallEnded: A person has ended the turn in place of an answer; or has replied to a question of `ask`, which does not catch that.
        TurnOpen: The open turn of the conversation began with another message, which would be lost here; `pending` lists what is open.
        ConfigError: `given` is a `Command` with `resume`; a graph inside of this one asks and keeps no checkpoints; or `on_open`
            is another word, or comes with a key.
    """
    return await _run(Invoked(graph, options), graph, inquirer, given, config, Message(text, author, key, on_open))


def invoke_sync(  # noqa: PLR0913  (a public signature)
    graph: SyncGraph,
    inquirer: Inquirer,
    given: object,
    config: RunnableConfig,
    *,
    text: str = "",
    key: str | None = None,
    author: str | None = None,
    on_open: OnOpen = "error",
    **options: Any,
) -> dict[str, Any]:
    """Run a graph whose nodes and checkpointer are not async, with `graph.invoke`, in a program without an event loop (see `invoke`).

    The graph runs in threads beside the inquirer. Its nodes use `ask` and `call_sync`, its `ToolNode` has `tool_call_sync`.

    Args:
        graph: The compiled graph, with a checkpointer.
        inquirer: Who asks, as of `invoke`.
        given: What the graph begins with, as of `invoke`.
        config: Its configuration; `thread_id` names the thread.
        text: What the user said, as of `invoke`.
        key: Your own name for the turn, as of `Inquirer.turn`.
        author: The user whose message it is; recorded.
        on_open: What becomes of a new message while the graph waits, as of `invoke`.
        options: Whatever else `graph.invoke` takes, such as `context`.

    Raises:
        RuntimeError: An event loop is running in this thread; use `await invoke(…)` there.
    """
    refuse_inside_a_loop("invoke_sync", "await invoke(…)")
    return in_a_loop(_run(InvokedInThread(graph, options), graph, inquirer, given, config, Message(text, author, key, on_open)))


def stream(  # noqa: PLR0913  (a public signature)
    graph: StreamGraph,
    inquirer: Inquirer,
    given: object,
    config: RunnableConfig,
    *,
    text: str = "",
    key: str | None = None,
    author: str | None = None,
    on_open: OnOpen = "error",
    **options: Any,
) -> AbstractAsyncContextManager[FrameworkStream[Any, dict[str, Any]]]:
    """Run a graph as `invoke` does, and watch it.

    Write `async with stream(…) as events: async for event in events: …`. The events are the chunks of `graph.astream`, with `Asked`,
    `QuestionAnswered`, `ToolStarted` and `ToolFinished` of midturn between them. If the graph was interrupted and everything is answered,
    it goes on in the same stream. At the end, `events.result` is its state. Leaving the block early stops the run and leaves the turn open.
    Errors are those of `invoke`, raised while iterating.

    Args:
        graph: The compiled graph, with a checkpointer.
        inquirer: Who asks, as of `invoke`.
        given: What the graph begins with, as of `invoke`.
        config: Its configuration; `thread_id` names the thread.
        text: What the user said, as of `invoke`.
        key: Your own name for the turn, as of `Inquirer.turn`.
        author: The user whose message it is; recorded.
        on_open: What becomes of a new message while the graph waits, as of `invoke`.
        options: Whatever else `graph.astream` takes, such as `stream_mode` and `subgraphs`.
    """
    message = Message(text, author, key, on_open)
    return framework_stream(inquirer, lambda emit: _run(Streamed(graph, emit, options), graph, inquirer, given, config, message))


async def _run(steps: Steps, graph: object, inquirer: Inquirer, given: object, config: RunnableConfig, message: Message) -> dict[str, Any]:
    return cast("dict[str, Any]", await GraphRun(graph, inquirer).to_its_end(steps, given, config, message))


# ----------------------------------------------------------------------------------------------------------------------
# Ask, and make calls, in nodes


def ask(question: Question[T]) -> T:
    """Ask in a node or in a tool, sync or async: interrupt the graph with the question, and return the answer when it begins anew.

    The answer is that of the record to this very question, in this node and this call of a tool: never one that was given to another.

    Args:
        question: The question.

    Raises:
        CallEnded: There is no answer: a person has replied instead. `content` is what the model is to read.
        RuntimeError: The graph does not run in `invoke`.
    """
    run, shown = current_run(), question.to_json()
    place, tool = str(configurable().get("checkpoint_ns", "")), TOOL_CALL.get()
    identity = sha256(canonical([place, None if tool is None else [tool.name, tool.id], as_json(shown)]))[:16]
    number = run.occurrence(identity)
    name, arguments = (INTERRUPT, {"value": as_json(shown)}) if tool is None or name_problem(tool.name) else (tool.name, tool.arguments)
    made = {"tool": name, "id": f"{place}:{identity}:{number}", "arguments": arguments}
    while (content := run.result_of(name, str(made["id"]), cast("JsonObject", arguments))) is None:
        run.note_waiting()
        interrupt({QUESTION: shown, "call": made})  # returns for what this node has waited for before
    read = {} if content.is_error else read_object(str(content))
    if "answer" not in read:
        raise CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
    return question.typed(read["answer"])


async def call(tool: str, arguments: JsonObject, function: Callable[[InquirerCall], object], *, id: str = "1") -> CallContent:
    """Make a call of a tool in a node, once, however often the node begins anew; the function asks with `midturn.ask(…)`.

    Args:
        tool: The name of the tool.
        arguments: Its arguments.
        function: What the tool does, sync or async.
        id: Tells calls of one node apart that are equal otherwise: without it, the second of two equal calls returns the result of the
            first.

    Returns:
        What the model is to read, as it is recorded.

    Raises:
        RuntimeError: The graph does not run in `invoke`.
    """
    try:
        return await current_run().inquirer.run(tool, f"{_place()}:{id}", arguments, function, occurrence=1)
    except Suspended:
        return _interrupted(tool)


def call_sync(tool: str, arguments: JsonObject, function: Callable[[InquirerCall], object], *, id: str = "1") -> CallContent:
    """Make a call of a tool in a node that is not async, see `call`.

    Args:
        tool: The name of the tool.
        arguments: Its arguments.
        function: What the tool does, sync or async.
        id: Tells calls of one node apart that are equal otherwise, as of `call`.

    Raises:
        RuntimeError: An event loop is running in this thread, use `await call(…)` there; or the graph does not run in `invoke_sync`.
    """
    run = current_run()
    try:
        return run.wait_for(
            run.inquirer.run(tool, f"{_place()}:{id}", arguments, function, occurrence=1), "`await call(…)` of this adapter"
        )
    except Suspended:
        return _interrupted(tool)


# ----------------------------------------------------------------------------------------------------------------------
# The calls of a ToolNode


async def tool_call(request: ToolCallRequest, execute: AsyncExecute) -> Returned:
    """Make the calls of a `ToolNode` calls of the inquirer: `ToolNode(tools, awrap_tool_call=adapter.tool_call)`.

    Its tools ask with `midturn.ask(…)`, people see the tool and its arguments, `Rejected` is an error that the model reads, and a call that
    has its result is not run again. With LangChain's `create_agent`: `middleware=[wrap_tool_call(adapter.tool_call)]`.

    Args:
        request: The call.
        execute: What runs the tool.

    Raises:
        RuntimeError: The graph does not run in `invoke`.
        StoreError: The call has run, the graph has lost its result, and that was too large to be recorded; no tool runs.
    """
    return await _called(request, execute, permission=False)


def tool_call_sync(request: ToolCallRequest, execute: Execute) -> Returned:
    """Make the calls of a `ToolNode` that is not async calls of the inquirer: `ToolNode(tools, wrap_tool_call=adapter.tool_call_sync)`.

    It is for graphs that run in `invoke_sync`. Its tools ask with `midturn.ask_sync(…)`. See `tool_call`.

    Args:
        request: The call.
        execute: What runs the tool.

    Raises:
        RuntimeError: The graph does not run in `invoke_sync`.
        StoreError: The call has run, the graph has lost its result, and that was too large to be recorded; no tool runs.
    """
    return _called_sync(request, execute, permission=False)


def permission_for(*tools: str) -> Callable[[ToolCallRequest, AsyncExecute], Awaitable[Returned]]:
    """Return a `tool_call` that asks a person first whether calls of these tools may run.

    Write `ToolNode(tools, awrap_tool_call=adapter.permission_for("pay"))`. The person may edit the arguments, which have to fit the schema
    of the tool, and the model reads the arguments that ran before the result. Calls of other tools run without permission.

    Args:
        tools: The names of the tools.
    """

    async def wrapper(request: ToolCallRequest, execute: AsyncExecute) -> Returned:
        return await _called(request, execute, permission=request.tool_call["name"] in tools)

    return wrapper


def permission_for_sync(*tools: str) -> Callable[[ToolCallRequest, Execute], Returned]:
    """Return a `tool_call_sync` that asks a person first whether calls of these tools may run (see `permission_for`).

    Args:
        tools: The names of the tools.
    """

    def wrapper(request: ToolCallRequest, execute: Execute) -> Returned:
        return _called_sync(request, execute, permission=request.tool_call["name"] in tools)

    return wrapper


async def _called(request: ToolCallRequest, execute: AsyncExecute, *, permission: bool) -> Returned:
    made = _ToolNodeCall(request, permission=permission)

    async def run(call: InquirerCall) -> object:
        try:
            return made.recorded(await execute(made.request_of(call)))
        except (GraphBubbleUp, Exception) as error:  # noqa: BLE001  see `left_by`
            raise made.left_by(error) from None

    try:
        content = await made.asked(run)
    except Suspended:
        return _interrupted(made.name)
    return made.result(content)


def _called_sync(request: ToolCallRequest, execute: Execute, *, permission: bool) -> Returned:
    made = _ToolNodeCall(request, permission=permission)
    context = copy_context()  # the tool finds its node in it

    def inside(call: InquirerCall) -> Returned:
        CALL.set(call)
        return execute(made.request_of(call))

    def run(call: InquirerCall) -> object:
        try:
            return made.recorded(context.run(inside, call))
        except (GraphBubbleUp, Exception) as error:  # noqa: BLE001  see `left_by`
            raise made.left_by(error) from None

    try:
        content = made.run.wait_for(made.asked(run), "`awrap_tool_call=adapter.tool_call` or `permission_for`")
    except Suspended:
        return _interrupted(made.name)
    return made.result(content)


class _ToolNodeCall:
    """One call of a `ToolNode`, with what its tool has returned in this process."""

    def __init__(self, request: ToolCallRequest, *, permission: bool) -> None:
        self.run = current_run()
        self._place = _place()
        self._request = request
        self._permission = permission
        self.name, self._id = request.tool_call["name"], str(request.tool_call["id"])
        self._arguments = json_object(request.tool_call["args"])
        identity = sha256(canonical(["call", self._place, self.name, self._id, self._arguments]))
        self._occurrence = self.run.occurrence(identity, request.tool_call)  # a wrapper around may try the same call again
        self._returned: Returned | list[Returned] | None = None

    async def asked(self, run: Callable[[InquirerCall], object]) -> CallContent:
        """Make the call of the inquirer.

        Raises:
            Suspended: No one is there to answer now.
            CallEnded: A person has ended the turn.
        """
        content = await self.run.inquirer.run(
            self.name,
            f"{self._place}:{self._id}",
            self._arguments,
            run,
            occurrence=self._occurrence,
            permission=self._permission,
            schema=schema_of_tool(self._request.tool) if self._permission else None,
        )
        if content.turn_ended:
            self.run.failure = CallEnded(content, is_error=content.is_error, turn_ended=True)
            raise self.run.failure
        return content

    def request_of(self, call: InquirerCall) -> ToolCallRequest:
        """Return the call as it runs: with the arguments of the model, or with those of a person."""
        edited = edited_arguments(call, self._arguments)
        if edited is None:
            return self._request
        return self._request.override(tool_call={**self._request.tool_call, "args": dict(edited)})

    def left_by(self, error: BaseException) -> BaseException:
        """Return what an exception of the tool is to the inquirer: it leaves the graph as without midturn, and the call is made again."""
        return error if isinstance(error, MidturnError | Rejected) else CallUnfinished(error)

    def recorded(self, returned: Returned | list[Returned]) -> str:
        """Return the text that is recorded of a result.

        Raises:
            Rejected: The result is an error.
        """
        self._returned = returned
        if isinstance(returned, ToolMessage):
            if returned.status == "error":
                raise Rejected(recorded_text(returned))
            return recorded_text(returned)
        return _COMMAND + base64.b64encode(_SERIALIZER.dumps_typed(returned)[1]).decode()

    def result(self, content: CallContent) -> Any:
        """Return what the graph gets: what the tool has returned, or what is recorded.

        Raises:
            StoreError: A command is not recorded whole.
        """
        returned = self._returned
        if returned is not None and (not isinstance(returned, ToolMessage) or recorded_text(returned) == str(content)):
            return returned
        note, text = _note_and_text(str(content))
        if text.startswith(_COMMAND) and not content.is_error:
            return self._command(text)
        read = content_blocks(text)
        if note:
            read = [{"type": "text", "text": note}, *cast("list[Any]", read)] if isinstance(read, list) else str(content)
        status = "error" if content.is_error else "success"
        return ToolMessage(read, name=self.name, tool_call_id=self._id, status=status)

    def _command(self, text: str) -> Any:
        """Return a command that is recorded, or a list with commands.

        Raises:
            StoreError: It is not recorded whole.
        """
        try:
            returned: object = _SERIALIZER.loads_typed(("msgpack", base64.b64decode(text.removeprefix(_COMMAND), validate=True)))
        except Exception as error:  # noqa: BLE001  whatever the serializer raises of bytes that are cut
            returned = error
        if isinstance(returned, Command | list):
            return cast("object", returned)
        self.run.failure = StoreError(
            f"The call `{self.name}` ({self._id}) has run. Its result was a command to the graph, which was too large to be recorded. "
            "No tool was run. Apply what it does with `graph.aupdate_state(…)`, or begin another thread."
        )
        raise self.run.failure


def _note_and_text(content: str) -> tuple[str, str]:
    """Return the note about an edit at the beginning of a result, empty if there is none, and the rest."""
    if not content.startswith(RAN_EDITED):
        return "", content
    note, _, text = content.partition("\n")
    return note, text


def _place() -> str:
    """Return what tells the node that runs now from others."""
    return str(configurable().get("checkpoint_ns", ""))


def _interrupted(tool: str) -> Any:
    """Interrupt the graph because a call inside of a node waits."""
    current_run().note_waiting()
    while True:  # past all that this node has waited for before, the graph is interrupted
        interrupt({WAITS: tool})
