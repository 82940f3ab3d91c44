"""midturn in LangGraph: nodes ask, calls inside of them run once, and the graph's own interrupts are answered where all questions are.

```python
state = await invoke(graph, mt.Inquirer(store, conversation), {"service": "shop"}, {"configurable": {"thread_id": "7"}})
```

The graph needs a checkpointer. Where questions are open, `Suspended` is raised, and nothing is lost: call `invoke` again, with the same
arguments, when they are answered.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

import msgspec

from midturn.adapters import needs_extra
from midturn.adapters.approval import GONE_ON
from midturn.adapters.langchain_review import LangchainReview, decided, review_of
from midturn.adapters.langgraph_values import as_json, content_blocks, fields, json_object, question_of, read_object, recorded_text, words
from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import CallUnfinished, InquirerCall
from midturn.errors import CallEnded, MidturnError, StoreError, Suspended
from midturn.question.question import Question
from midturn.runtime.foreign_turn import CallContent
from midturn.tools.names import name_problem
from midturn.tools.returned import Rejected
from midturn.values.json_value import Json, JsonObject, canonical
from midturn.values.text import sha256

with needs_extra("langgraph", "langgraph"):
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command, Interrupt, StateSnapshot, interrupt

T = TypeVar("T")
_QUESTION = "midturn.question"
_WAITS = "midturn.waits"
_COMMAND = "(a command to the graph) "
"""Begins the recorded text of a tool's result that is a `Command`: the command itself follows, as LangGraph serializes it, in base64."""
_SERIALIZER = JsonPlusSerializer()
INTERRUPT = "interrupt"
"""The tool under whose name the graph's interrupts ask."""


class Graph(Protocol):
    """A compiled graph."""

    def ainvoke(self, input: Any, config: RunnableConfig | None = None) -> Awaitable[Any]:
        """Run it."""
        ...

    def aget_state(self, config: RunnableConfig) -> Awaitable[StateSnapshot]:
        """Return where it is."""
        ...


class _Entry:
    """One run of `invoke`: who asks in it, and how often each question was asked in each execution of a node."""

    def __init__(self, inquirer: Inquirer) -> None:
        self.inquirer = inquirer
        self.failure: MidturnError | None = None
        """What has to end the run, also if a node takes it for the error of a tool."""
        self._asked: dict[int, tuple[object, Counter[str]]] = {}

    def occurrence(self, execution: object, identity: str) -> int:
        """Count an ask among the equal ones of the same execution of a node, from 1."""
        _, counted = self._asked.setdefault(id(execution), (execution, Counter()))  # kept, so that no other one gets its number
        counted[identity] += 1
        return counted[identity]


class _ToolCall(msgspec.Struct, frozen=True):
    """The call of a LangChain tool that runs now."""

    name: str
    id: str
    arguments: JsonObject


_ENTRY: ContextVar[_Entry] = ContextVar("midturn_langgraph_entry")
_TOOL_CALL: ContextVar[_ToolCall | None] = ContextVar("midturn_langgraph_tool_call", default=None)


class _Tools(BaseCallbackHandler):
    """Notes which call of a tool runs, so that the tool can look it up. LangChain gives this to callbacks only."""

    run_inline = True  # in the context of the tool

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **told: Any) -> None:
        """Note that a tool begins."""
        _ = input_str
        id, arguments = told.get("tool_call_id"), told.get("inputs")  # noqa: A001  the wire's word
        known = isinstance(id, str) and isinstance(arguments, dict)
        call = _ToolCall(str(serialized.get("name")), str(id), json_object(cast("object", arguments))) if known else None
        _TOOL_CALL.set(call)

    def on_tool_end(self, output: Any, **told: Any) -> None:
        """Note that it is over."""
        _ = output, told
        _TOOL_CALL.set(None)

    def on_tool_error(self, error: BaseException, **told: Any) -> None:
        """Note that it is over."""
        _ = error, told
        _TOOL_CALL.set(None)


async def invoke(
    graph: Graph, inquirer: Inquirer, given: object, config: RunnableConfig, *, text: str = "", key: str | None = None
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

    Returns:
        The state of the graph.

    Raises:
        Suspended: Questions are open; `pending` lists them.
        CallEnded: A person has ended the turn in place of an answer.
        TurnOpen: The open turn of the conversation began with another message, which would be lost here; the message lists what is open.
    """
    noting = cast("RunnableConfig", {**config, "callbacks": _with_handler(config.get("callbacks"))})
    entry = _Entry(inquirer)
    token = _ENTRY.set(entry)  # the nodes' tasks take a copy of this context along
    try:
        before = await graph.aget_state(config)
        is_under_way = bool(before.interrupts or before.next)
        async with inquirer.turn(text or words(given), key=key, calls_wait=is_under_way):
            going: object = given
            if before.interrupts:
                await _resumed(inquirer, before.interrupts)  # raises what is not answered yet, before any node runs
                going = None  # the graph may have got the answers already: its nodes say which ones they wait for
            elif before.next and (inquirer.resumes or given is None):
                going = None  # it was cut off between two nodes
            while True:
                state = cast("dict[str, Any]", await graph.ainvoke(going, noting))
                if entry.failure is not None:
                    raise entry.failure
                waiting = cast("Sequence[Interrupt[Any]]", state.get("__interrupt__", ()))
                if not waiting:
                    await inquirer.give_up_unmade(GONE_ON)
                    return state
                going = await _resumed(inquirer, waiting)
                if any(_WAITS in fields(asked.value) for asked in waiting):
                    raise Suspended("Calls inside of nodes wait to be answered.")
    finally:
        _ENTRY.reset(token)


def ask(question: Question[T]) -> T:
    """Ask in a node or in a tool, sync or async: interrupt the graph with the question, and return the answer when it begins anew.

    The answer is that of the record to this very question, in this node and this call of a tool: never one that was given to another.

    Args:
        question: The question.

    Raises:
        CallEnded: There is no answer: a person has replied instead. `content` is what the model is to read.
        RuntimeError: The graph does not run in `invoke`.
    """
    entry, shown = _entry(), question.to_json()
    configurable = _configurable()
    place, tool = str(configurable.get("checkpoint_ns", "")), _TOOL_CALL.get()
    identity = sha256(canonical([place, None if tool is None else [tool.name, tool.id], as_json(shown)]))[:16]
    number = entry.occurrence(configurable.get("__pregel_scratchpad"), identity)
    name, arguments = (INTERRUPT, {"value": as_json(shown)}) if tool is None or name_problem(tool.name) else (tool.name, tool.arguments)
    made = {"tool": name, "id": f"{place}:{identity}:{number}", "arguments": arguments}
    while (content := entry.inquirer.result_of(name, str(made["id"]), cast("JsonObject", arguments))) is None:
        interrupt({_QUESTION: shown, "call": made})  # returns for what this node has waited for before
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
        id: Tells calls of one node apart that are equal otherwise.

    Returns:
        What the model is to read, as it is recorded.

    Raises:
        RuntimeError: The graph does not run in `invoke`.
    """
    inquirer, place = _entry().inquirer, _configurable().get("checkpoint_ns", "")
    try:
        return await inquirer.run(tool, f"{place}:{id}", arguments, function, occurrence=1)
    except Suspended:
        return _interrupted(tool)


async def tool_call(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
) -> ToolMessage | Command[Any]:
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
    entry, place = _entry(), _configurable().get("checkpoint_ns", "")
    name, id, arguments = request.tool_call["name"], str(request.tool_call["id"]), json_object(request.tool_call["args"])  # noqa: A001
    returned: list[ToolMessage | Command[Any]] = []

    async def run(_: InquirerCall) -> object:
        try:
            result = await execute(request)
        except MidturnError:
            raise
        except (GraphBubbleUp, Exception) as error:  # noqa: BLE001  it leaves the graph as without midturn, and the call is made again
            raise CallUnfinished(error) from None
        returned.append(result)
        if isinstance(result, Command):
            return _COMMAND + base64.b64encode(_SERIALIZER.dumps_typed(result)[1]).decode()
        if result.status == "error":
            raise Rejected(recorded_text(result))
        return recorded_text(result)

    try:
        content = await entry.inquirer.run(name, f"{place}:{id}", arguments, run, occurrence=1)
    except Suspended:
        return _interrupted(name)
    if content.turn_ended:
        entry.failure = CallEnded(content, is_error=content.is_error, turn_ended=True)
        raise entry.failure
    if returned and (isinstance(returned[0], Command) or recorded_text(returned[0]) == str(content)):
        return returned[0]
    if str(content).startswith(_COMMAND) and not content.is_error:
        return _command(str(content), name, id)
    return ToolMessage(content_blocks(str(content)), name=name, tool_call_id=id, status="error" if content.is_error else "success")


def _command(content: str, name: str, id: str) -> Command[Any]:
    """Return a command that is recorded.

    Raises:
        StoreError: It is not recorded whole.
    """
    try:
        command: object = _SERIALIZER.loads_typed(("msgpack", base64.b64decode(content.removeprefix(_COMMAND), validate=True)))
    except Exception as error:  # noqa: BLE001  whatever the serializer raises of bytes that are cut
        command = error
    if isinstance(command, Command):
        return cast("Command[Any]", command)
    entry = _entry()
    entry.failure = StoreError(
        f"The call `{name}` ({id}) has run. Its result was a command to the graph, which was too large to be recorded. No tool was run. "
        "Apply what it does with `graph.aupdate_state(…)`, or begin another thread."
    )
    raise entry.failure


def _interrupted(tool: str) -> Any:
    """Interrupt the graph because a call inside of a node waits."""
    while True:  # past all that this node has waited for before, the graph is interrupted
        interrupt({_WAITS: tool})


async def _resumed(inquirer: Inquirer, waiting: Sequence[Interrupt[Any]]) -> Command[Any]:
    """Return the answers to interrupts, all of them.

    Raises:
        Suspended: Not all of them are there yet.
        CallEnded: A person has ended the turn.
    """
    given = await asyncio.gather(*(_answer(inquirer, asked) for asked in waiting), return_exceptions=True)
    for answer in given:
        if isinstance(answer, BaseException):
            raise answer
    return Command(resume={asked.id: answer for asked, answer in zip(waiting, given, strict=True)})


async def _answer(inquirer: Inquirer, asked: Interrupt[Any]) -> object:
    """Return what the graph gets for one interrupt.

    Raises:
        Suspended: It is not answered yet.
        CallEnded: A person has ended the turn.
    """
    value = cast("object", asked.value)
    own = fields(value)
    if _WAITS in own:
        return own  # the call is made again, and finds its answers
    review = review_of(value, asked.response_schema)
    if review is not None:
        return await _reviewed(inquirer, review, asked.id)
    made: dict[str, Any] = {"tool": INTERRUPT, "id": asked.id, "arguments": {"value": as_json(value)}}
    if _QUESTION in own:
        made = dict(own["call"])
        question = Question[Any].from_json(own[_QUESTION])
    else:
        question = question_of(value, asked.response_schema)

    async def answered(call: InquirerCall) -> dict[str, Json]:
        return {"answer": cast("Json", await call.ask(question))}

    content = await inquirer.run(made["tool"], made["id"], made["arguments"], answered, occurrence=1)
    if content.turn_ended:
        raise CallEnded(content, is_error=content.is_error, turn_ended=True)
    if _QUESTION in own:
        return {_WAITS: made["tool"]}  # `ask` finds its answer in the record
    read = {} if content.is_error else read_object(str(content))
    return read.get("answer", read.get("reply") or str(content))


async def _reviewed(inquirer: Inquirer, review: LangchainReview, id: str) -> object:
    """Return what LangChain's middleware gets: the decisions about its calls, all of them.

    Raises:
        Suspended: Not all of them are there yet.
        CallEnded: A person has ended the turn, or said no where that is not taken.
    """
    deciding = (decided(inquirer, action, f"{id}:{place}") for place, action in enumerate(review.actions))
    decisions = await asyncio.gather(*deciding, return_exceptions=True)
    for decision in decisions:
        if isinstance(decision, BaseException):
            raise decision
    return decisions[0] if review.is_single else {"decisions": decisions}


def _entry() -> _Entry:
    """Return the run of `invoke` around.

    Raises:
        RuntimeError: There is none.
    """
    entry = _ENTRY.get(None)
    if entry is None:
        raise RuntimeError("No inquirer asks here. Run the graph with `await invoke(graph, inquirer, …)`.")
    return entry


def _configurable() -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", get_config().get("configurable", {}))


def _with_handler(callbacks: object) -> Any:
    """Return the callbacks of a configuration, and ours."""
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        manager.add_handler(_Tools())
        return manager
    return [*cast("Sequence[BaseCallbackHandler]", callbacks or ()), _Tools()]
