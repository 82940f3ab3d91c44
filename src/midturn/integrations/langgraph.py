"""midturn in LangGraph: nodes can ask questions, tool calls in nodes run once, and interrupts of
the graph are answered like other questions.

```python
inquirer = mt.Inquirer(store, conversation)
state = await invoke(graph, inquirer, {"service": "shop"}, {"configurable": {"thread_id": "7"}})
```

The graph needs a checkpointer. If questions are open, `Suspended` is raised. After they are
answered, call `invoke` again with the same arguments. `stream` corresponds to `graph.astream`,
and `invoke_sync` to `graph.invoke`.
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
    GraphMessage,
    GraphRun,
    InvokedGraph,
    InvokedGraphInThread,
    Steps,
    StreamedGraph,
    StreamGraph,
    SyncGraph,
    configurable,
    current_run,
    schema_of_tool,
)
from midturn.integrations.langgraph_values import (
    as_json,
    content_blocks,
    json_object,
    read_object,
    recorded_text,
)
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
_COMMAND_PREFIX = "(a command to the graph) "
"""Prefix of the recorded text if a tool's result is a `Command`. The rest of the text is the
command, serialized by LangGraph and encoded in base64.
"""
_SERIALIZER = JsonPlusSerializer()


# --------------------------------------------------------------------------------------------------
# Running a graph


async def invoke(
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
    """Run a graph until it ends, and answer its interrupts. An interrupted graph is resumed.

    Each interrupt is asked as a question. An interrupt from `ask` contains the question. Any
    other interrupt asks for a value of its `response_schema`, or for plain text if it has no
    schema. When all interrupts are answered, LangGraph restarts the interrupted nodes, which
    receive the answers.

    Args:
        graph: The compiled graph, with a checkpointer.
        inquirer: Asks the questions. Use one conversation for each thread of the graph.
        given: Input of the graph. To resume an open turn, pass the same input again, or None.
        config: Configuration of the graph. `thread_id` is the id of the thread.
        text: User message to record. Default: the last user message in `given["messages"]`.
        key: Your own key for the turn. See `Inquirer.turn`.
        author: Name of the user who sent the message. It is recorded.
        on_open: How to handle a new message while the graph waits. `error` raises `TurnOpen`.
            `reply` records the message as the reply to the open questions that `author` may answer,
            and the graph continues without the message as an input. Approvals, secrets and
            questions for other people stay open; if there are no other questions, `TurnOpen` lists
            them.
        options: Other arguments of `graph.ainvoke`, such as `context`.

    Returns:
        The state of the graph.

    Raises:
        Suspended: Questions are open. `pending` lists them.
        CallEnded: A person ended the turn, or replied with a message to a question from `ask` and
            the node did not catch the exception.
        TurnOpen: The conversation has an open turn with another message. `pending` lists its open
            questions.
        ConfigError: `given` is a `Command` with `resume`; a nested graph asks a question but does
            not save checkpoints; `on_open` is invalid, or is combined with a key.
    """
    return await _run(
        InvokedGraph(graph, options),
        graph,
        inquirer,
        given,
        config,
        GraphMessage(text, author, key, on_open),
    )


def invoke_sync(
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
    """Synchronous form of `invoke`, for programs without an event loop. The nodes and the
    checkpointer of the graph must be synchronous.

    The graph runs in threads, next to the inquirer's event loop. Its nodes use `ask` and
    `call_sync`, and its `ToolNode` needs `tool_call_sync`.

    Args:
        graph: The compiled graph, with a checkpointer.
        inquirer: Asks the questions. See `invoke`.
        given: Input of the graph. See `invoke`.
        config: Configuration of the graph. `thread_id` is the id of the thread.
        text: User message to record. See `invoke`.
        key: Your own key for the turn. See `Inquirer.turn`.
        author: Name of the user who sent the message. It is recorded.
        on_open: How to handle a new message while the graph waits. See `invoke`.
        options: Other arguments of `graph.invoke`, such as `context`.

    Raises:
        RuntimeError: An event loop is running in this thread; use `await invoke(…)` instead.
    """
    refuse_inside_a_loop("invoke_sync", "await invoke(…)")
    return in_a_loop(
        _run(
            InvokedGraphInThread(graph, options),
            graph,
            inquirer,
            given,
            config,
            GraphMessage(text, author, key, on_open),
        )
    )


def stream(
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
    """Run a graph like `invoke`, and stream its events.

    Write `async with stream(…) as events: async for event in events: …`. The events are the
    chunks of `graph.astream` and midturn's `Asked`, `QuestionAnswered`, `ToolStarted` and
    `ToolFinished`. If the graph is interrupted and all its questions are answered, the graph
    continues in the same stream. At the end, `events.result` is the state of the graph. Leaving
    the block early stops the run and leaves the turn open. The iteration raises the same exceptions
    as `invoke`.

    Args:
        graph: The compiled graph, with a checkpointer.
        inquirer: Asks the questions. See `invoke`.
        given: Input of the graph. See `invoke`.
        config: Configuration of the graph. `thread_id` is the id of the thread.
        text: User message to record. See `invoke`.
        key: Your own key for the turn. See `Inquirer.turn`.
        author: Name of the user who sent the message. It is recorded.
        on_open: How to handle a new message while the graph waits. See `invoke`.
        options: Other arguments of `graph.astream`, such as `stream_mode` and `subgraphs`.
    """
    message = GraphMessage(text, author, key, on_open)
    return framework_stream(
        inquirer,
        lambda emit: _run(
            StreamedGraph(graph, emit, options), graph, inquirer, given, config, message
        ),
    )


async def _run(
    steps: Steps,
    graph: object,
    inquirer: Inquirer,
    given: object,
    config: RunnableConfig,
    message: GraphMessage,
) -> dict[str, Any]:
    return cast(
        "dict[str, Any]", await GraphRun(graph, inquirer).complete(steps, given, config, message)
    )


# --------------------------------------------------------------------------------------------------
# Questions and calls in nodes


def ask(question: Question[T]) -> T:
    """Ask a question in a node or a tool, sync or async. The graph is interrupted. When the
    question is answered, the node restarts and receives the answer.

    An answer is used only for the same question, node and tool call.

    Args:
        question: The question.

    Raises:
        CallEnded: A person replied with a message instead of an answer. `content` is the text for
            the model.
        RuntimeError: The graph was not started by `invoke`.
    """
    run, shown = current_run(), question.to_json()
    place, tool = str(configurable().get("checkpoint_ns", "")), TOOL_CALL.get()
    identity = sha256(
        canonical([place, None if tool is None else [tool.name, tool.id], as_json(shown)])
    )[:16]
    number = run.occurrence(identity)
    name, arguments = (
        (INTERRUPT, {"value": as_json(shown)})
        if tool is None or name_problem(tool.name)
        else (tool.name, tool.arguments)
    )
    made = {"tool": name, "id": f"{place}:{identity}:{number}", "arguments": arguments}
    while (content := run.result_of(name, str(made["id"]), cast("JsonObject", arguments))) is None:
        run.note_waiting()
        interrupt(
            {QUESTION: shown, "call": made}
        )  # returns immediately if this interrupt was already resumed
    read = {} if content.is_error else read_object(str(content))
    if "answer" not in read:
        raise CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
    return question.typed(read["answer"])


async def call(
    tool: str, arguments: JsonObject, function: Callable[[InquirerCall], object], *, id: str = "1"
) -> CallContent:
    """Call a tool in a node. The tool runs once, even if the node restarts. Its function can ask
    with `midturn.ask(…)`.

    Args:
        tool: Name of the tool.
        arguments: Arguments of the call.
        function: Implementation of the tool, sync or async.
        id: Distinguishes equal calls in one node. Without it, the second of two equal calls
            returns the result of the first.

    Returns:
        The recorded text for the model.

    Raises:
        RuntimeError: The graph was not started by `invoke`.
    """
    try:
        return await current_run().inquirer.run(
            tool, f"{_node_namespace()}:{id}", arguments, function, occurrence=1
        )
    except Suspended:
        return _interrupted(tool)


def call_sync(
    tool: str, arguments: JsonObject, function: Callable[[InquirerCall], object], *, id: str = "1"
) -> CallContent:
    """Call a tool in a synchronous node. See `call`.

    Args:
        tool: Name of the tool.
        arguments: Arguments of the call.
        function: Implementation of the tool, sync or async.
        id: Distinguishes equal calls in one node. See `call`.

    Raises:
        RuntimeError: An event loop is running in this thread (use `await call(…)` instead), or the
            graph was not started by `invoke_sync`.
    """
    run = current_run()
    try:
        return run.wait_for(
            run.inquirer.run(tool, f"{_node_namespace()}:{id}", arguments, function, occurrence=1),
            "`await call(…)` of this adapter",
        )
    except Suspended:
        return _interrupted(tool)


# --------------------------------------------------------------------------------------------------
# Tool calls in a ToolNode


async def tool_call(request: ToolCallRequest, execute: AsyncExecute) -> Returned:
    """Run the calls of a `ToolNode` through the inquirer: `ToolNode(tools,
    awrap_tool_call=adapter.tool_call)`.

    The tools can ask with `midturn.ask(…)`. A question shows the tool and the arguments of the
    call. If a tool raises `Rejected`, the model reads the error. A call with a recorded result
    does not run again. With LangChain's `create_agent`, use
    `middleware=[wrap_tool_call(adapter.tool_call)]`.

    Args:
        request: The call.
        execute: Runs the tool.

    Raises:
        RuntimeError: The graph was not started by `invoke`.
        StoreError: The call already ran and does not run again. Its result was too large to record,
            and the graph did not save it.
    """
    return await _run_tool_call(request, execute, permission=False)


def tool_call_sync(request: ToolCallRequest, execute: Execute) -> Returned:
    """Run the calls of a synchronous `ToolNode` through the inquirer: `ToolNode(tools,
    wrap_tool_call=adapter.tool_call_sync)`.

    For graphs started by `invoke_sync`. The tools ask with `midturn.ask_sync(…)`. See
    `tool_call`.

    Args:
        request: The call.
        execute: Runs the tool.

    Raises:
        RuntimeError: The graph was not started by `invoke_sync`.
        StoreError: The call already ran and does not run again. Its result was too large to record,
            and the graph did not save it.
    """
    return _run_tool_call_sync(request, execute, permission=False)


def permission_for(*tools: str) -> Callable[[ToolCallRequest, AsyncExecute], Awaitable[Returned]]:
    """Return a `tool_call` that asks a person for permission before it runs one of these tools.

    Write `ToolNode(tools, awrap_tool_call=adapter.permission_for("pay"))`. The person may edit
    the arguments. Edited arguments must match the tool's schema. They are shown to the model before
    the result. Other tools run without permission.

    Args:
        tools: Names of the tools.
    """

    async def wrapper(request: ToolCallRequest, execute: AsyncExecute) -> Returned:
        return await _run_tool_call(request, execute, permission=request.tool_call["name"] in tools)

    return wrapper


def permission_for_sync(*tools: str) -> Callable[[ToolCallRequest, Execute], Returned]:
    """Return a `tool_call_sync` that asks a person for permission before it runs one of these
    tools. See `permission_for`.

    Args:
        tools: Names of the tools.
    """

    def wrapper(request: ToolCallRequest, execute: Execute) -> Returned:
        return _run_tool_call_sync(request, execute, permission=request.tool_call["name"] in tools)

    return wrapper


async def _run_tool_call(
    request: ToolCallRequest, execute: AsyncExecute, *, permission: bool
) -> Returned:
    made = _ToolNodeCall(request, permission=permission)

    async def run(call: InquirerCall) -> object:
        try:
            return made.recorded(await execute(made.request_of(call)))
        except (GraphBubbleUp, Exception) as error:  # noqa: BLE001  see `exception_for`
            raise made.exception_for(error) from None

    try:
        content = await made.asked(run)
    except Suspended:
        return _interrupted(made.name)
    return made.result(content)


def _run_tool_call_sync(
    request: ToolCallRequest, execute: Execute, *, permission: bool
) -> Returned:
    made = _ToolNodeCall(request, permission=permission)
    context = copy_context()  # the context contains the running node, which the tool needs

    def inside(call: InquirerCall) -> Returned:
        CALL.set(call)
        return execute(made.request_of(call))

    def run(call: InquirerCall) -> object:
        try:
            return made.recorded(context.run(inside, call))
        except (GraphBubbleUp, Exception) as error:  # noqa: BLE001  see `exception_for`
            raise made.exception_for(error) from None

    try:
        content = made.run.wait_for(
            made.asked(run), "`awrap_tool_call=adapter.tool_call` or `permission_for`"
        )
    except Suspended:
        return _interrupted(made.name)
    return made.result(content)


class _ToolNodeCall:
    """One call in a `ToolNode`, with the value that its tool returned in this process."""

    def __init__(self, request: ToolCallRequest, *, permission: bool) -> None:
        self.run = current_run()
        self._node_namespace = _node_namespace()
        self._request = request
        self._permission = permission
        self.name, self._id = request.tool_call["name"], str(request.tool_call["id"])
        self._arguments = json_object(request.tool_call["args"])
        identity = sha256(
            canonical(["call", self._node_namespace, self.name, self._id, self._arguments])
        )
        self._occurrence = self.run.occurrence(
            identity, request.tool_call
        )  # a wrapper that retries a call passes the same request object
        self._returned: Returned | list[Returned] | None = None

    async def asked(self, run: Callable[[InquirerCall], object]) -> CallContent:
        """Run the call through the inquirer.

        Raises:
            Suspended: Nobody is available to answer now.
            CallEnded: A person ended the turn.
        """
        content = await self.run.inquirer.run(
            self.name,
            f"{self._node_namespace}:{self._id}",
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
        """Return the request with the arguments for the tool: the model's arguments, or the edited
        arguments.
        """
        edited = edited_arguments(call, self._arguments)
        if edited is None:
            return self._request
        return self._request.override(tool_call={**self._request.tool_call, "args": dict(edited)})

    def exception_for(self, error: BaseException) -> BaseException:
        """Return the exception for the inquirer. `CallUnfinished` means that the graph receives the
        original exception and that the call can be repeated.
        """
        return error if isinstance(error, MidturnError | Rejected) else CallUnfinished(error)

    def recorded(self, returned: Returned | list[Returned]) -> str:
        """Return the text to record for a result.

        Raises:
            Rejected: The result is an error.
        """
        self._returned = returned
        if isinstance(returned, ToolMessage):
            if returned.status == "error":
                raise Rejected(recorded_text(returned))
            return recorded_text(returned)
        return _COMMAND_PREFIX + base64.b64encode(_SERIALIZER.dumps_typed(returned)[1]).decode()

    def result(self, content: CallContent) -> Any:
        """Return the result for the graph: the returned value, or a value rebuilt from the recorded
        text.

        Raises:
            StoreError: A recorded command is incomplete.
        """
        returned = self._returned
        if returned is not None and (
            not isinstance(returned, ToolMessage) or recorded_text(returned) == str(content)
        ):
            return returned
        note, text = _note_and_text(str(content))
        if text.startswith(_COMMAND_PREFIX) and not content.is_error:
            return self._command(text)
        read = content_blocks(text)
        if note:
            read = (
                [{"type": "text", "text": note}, *cast("list[Any]", read)]
                if isinstance(read, list)
                else str(content)
            )
        status = "error" if content.is_error else "success"
        return ToolMessage(read, name=self.name, tool_call_id=self._id, status=status)

    def _command(self, text: str) -> Any:
        """Rebuild a command, or a list with commands, from the recorded text.

        Raises:
            StoreError: The recorded text is incomplete.
        """
        try:
            returned: object = _SERIALIZER.loads_typed(
                ("msgpack", base64.b64decode(text.removeprefix(_COMMAND_PREFIX), validate=True))
            )
        except Exception as error:  # noqa: BLE001  the serializer may raise anything for truncated bytes
            returned = error
        if isinstance(returned, Command | list):
            return cast("object", returned)
        self.run.failure = StoreError(
            f"The call `{self.name}` ({self._id}) already ran. Its result, a command to the graph,"
            " was too large to record. No tool ran again. Apply the effect of the command with"
            " `graph.aupdate_state(…)`, or start another thread."
        )
        raise self.run.failure


def _note_and_text(content: str) -> tuple[str, str]:
    """Split a result into the note about edited arguments (empty if there is none) and the rest."""
    if not content.startswith(RAN_EDITED):
        return "", content
    note, _, text = content.partition("\n")
    return note, text


def _node_namespace() -> str:
    """Return the namespace that identifies the running node."""
    return str(configurable().get("checkpoint_ns", ""))


def _interrupted(tool: str) -> Any:
    """Interrupt the graph because a call in a node waits for an answer."""
    current_run().note_waiting()
    while True:  # `interrupt` returns immediately for interrupts that were already resumed
        interrupt({WAITS: tool})
