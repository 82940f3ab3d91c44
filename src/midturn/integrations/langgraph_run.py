"""One run of a graph: the inquirer that asks in it, the interrupts that are answered, and the calls of its tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from threading import Lock
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct

from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import InquirerCall
from midturn.agent.message_replies import OnOpen, check_on_open
from midturn.errors import CallEnded, ConfigError, MidturnError, Suspended
from midturn.integrations import needs_extra
from midturn.integrations.approval import GONE_ON
from midturn.integrations.langchain_review import LangchainReview, decided, review_of
from midturn.integrations.langgraph_checkpoints import Nested, Saver, check_saved, nested_graph
from midturn.integrations.langgraph_values import as_json, fields, json_object, question_of, read_object, words
from midturn.ports import NoChecks
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject
from midturn.question.question import Question
from midturn.runtime.external_loop import CallContent
from midturn.tools.asking import CALL, CallContext
from midturn.tools.call_scope import CallLife, in_thread
from midturn.turn.step import Given, OnFailure

with needs_extra("langgraph", "langgraph"):
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
    from langchain_core.runnables import RunnableConfig
    from langgraph.config import get_config
    from langgraph.types import Command, Interrupt, StateSnapshot

T = TypeVar("T")
QUESTION = "midturn.question"
"""The field of an interrupt that holds a question of `ask`."""
WAITS = "midturn.waits"
"""The field of an interrupt that says that a call inside of a node waits."""
_TURN = "midturn_turn"
"""The entry of the metadata of a checkpoint that says in which turn it was made (`Inquirer.event_before`)."""
INTERRUPT = "interrupt"
"""The tool under whose name the graph's interrupts ask."""
_NOT_A_CALL = (
    "midturn does not see the call that runs here. Give the ToolNode `awrap_tool_call=adapter.tool_call` (in `invoke_sync`, "
    "`wrap_tool_call=adapter.tool_call_sync`), or run the function with `adapter.call(…)`. In a node, ask with `adapter.ask(question)`."
)


class ToolCall(Struct, frozen=True):
    """The call of a LangChain tool that runs now."""

    name: str
    id: str
    arguments: JsonObject


RUN: ContextVar[GraphRun] = ContextVar("midturn_langgraph_run")
"""The run of the graph around."""
TOOL_CALL: ContextVar[ToolCall | None] = ContextVar("midturn_langgraph_tool_call", default=None)
"""The call of a LangChain tool around."""


def current_run() -> GraphRun:
    """Return the run of the graph around.

    Raises:
        RuntimeError: There is none.
    """
    run = RUN.get(None)
    if run is None:
        raise RuntimeError("No inquirer asks here. Run the graph with `await invoke(graph, inquirer, …)`.")
    return run


def configurable() -> Mapping[str, Any]:
    """Return the configuration of the node around."""
    return cast("Mapping[str, Any]", get_config().get("configurable", {}))


# ----------------------------------------------------------------------------------------------------------------------
# The graph, in each way to run it


class Outcome(Struct, frozen=True):
    """The state after a run of a graph, and the interrupts that it waits for."""

    state: Any
    waiting: Sequence[Interrupt[Any]]


class Steps(Protocol):
    """One way to run a graph."""

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return where the graph is."""
        ...

    async def run(self, given: object, config: RunnableConfig) -> Outcome:
        """Run it until it ends or is interrupted."""
        ...

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Say whether a saver has a checkpoint."""
        ...


class Graph(Protocol):
    """A compiled graph."""

    @property
    def ainvoke(self) -> Callable[..., Awaitable[Any]]:
        """Run it."""
        ...

    def aget_state(self, config: RunnableConfig) -> Awaitable[StateSnapshot]:
        """Return where it is."""
        ...


class SyncGraph(Protocol):
    """A compiled graph whose nodes and checkpointer are not async."""

    @property
    def invoke(self) -> Callable[..., Any]:
        """Run it."""
        ...

    def get_state(self, config: RunnableConfig) -> StateSnapshot:
        """Return where it is."""
        ...


class StreamGraph(Protocol):
    """A compiled graph that streams."""

    @property
    def astream(self) -> Callable[..., AsyncIterator[Any]]:
        """Run it, chunk by chunk."""
        ...

    def aget_state(self, config: RunnableConfig) -> Awaitable[StateSnapshot]:
        """Return where it is."""
        ...


class Invoked:
    """`graph.ainvoke`."""

    def __init__(self, graph: Graph, options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = options

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return where the graph is."""
        return await self._graph.aget_state(config)

    async def run(self, given: object, config: RunnableConfig) -> Outcome:
        """Run it until it ends or is interrupted."""
        return _outcome(await self._graph.ainvoke(given, config, **self._options))

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Say whether a saver has a checkpoint."""
        return await saver.aget_tuple(config) is not None


class InvokedInThread:
    """`graph.invoke`, in a thread beside the loop of the inquirer."""

    def __init__(self, graph: SyncGraph, options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = options

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return where the graph is."""
        return await in_thread(lambda: self._graph.get_state(config))

    async def run(self, given: object, config: RunnableConfig) -> Outcome:
        """Run it until it ends or is interrupted."""
        return _outcome(await in_thread(lambda: self._graph.invoke(given, config, **self._options)))

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Say whether a saver has a checkpoint."""
        return await in_thread(lambda: saver.get_tuple(config)) is not None


class Streamed:
    """`graph.astream`."""

    def __init__(self, graph: StreamGraph, emit: Callable[[Any], None], options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._emit = emit
        self._options = options

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return where the graph is."""
        return await self._graph.aget_state(config)

    async def run(self, given: object, config: RunnableConfig) -> Outcome:
        """Run it until it ends or is interrupted."""
        async for chunk in self._graph.astream(given, config, **self._options):
            self._emit(chunk)
        snapshot = await self._graph.aget_state(config)
        return Outcome(snapshot.values, snapshot.interrupts)

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Say whether a saver has a checkpoint."""
        return await saver.aget_tuple(config) is not None


def _outcome(state: Any) -> Outcome:
    return Outcome(state, cast("Sequence[Interrupt[Any]]", fields(state).get("__interrupt__", ())))


# ----------------------------------------------------------------------------------------------------------------------
# The run


class Message(Struct, frozen=True):
    """The message of the user with which a turn begins (see `invoke`)."""

    text: str = ""
    author: str | None = None
    key: str | None = None
    on_open: OnOpen = "error"


class GraphRun:
    """One run: its inquirer, and how often each question and call was made in each execution of a node.

    It belongs to the event loop in which it is made. Nodes and tools that are not async reach it from other threads.
    """

    def __init__(self, graph: object, inquirer: Inquirer) -> None:
        self.inquirer = inquirer
        self.failure: MidturnError | None = None
        """What has to end the run, also if a node takes it for the error of a tool."""
        self._graph = graph
        self._loop = asyncio.get_running_loop()
        self._made: dict[tuple[int, str], tuple[object, list[object]]] = {}
        self._lock = Lock()
        self._nested: dict[str, Nested] = {}

    def note_waiting(self) -> None:
        """Note that the node that runs now is about to wait."""
        nested = nested_graph(get_config())
        if nested:
            self._nested[nested.place] = nested

    def occurrence(self, identity: str, thing: object = None) -> int:
        """Count an ask or a call among the equal ones of the same execution of a node, from 1; the same `thing` is counted once."""
        execution: object = configurable().get("__pregel_scratchpad")
        with self._lock:
            _, made = self._made.setdefault((id(execution), identity), (execution, []))  # kept, so that no other one gets its number
            place = next((place for place, other in enumerate(made) if other is thing and thing is not None), len(made))
            if place == len(made):
                made.append(thing)
        return place + 1

    def wait_for(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """Run work on the loop of the inquirer, and wait for it in this thread.

        Raises:
            RuntimeError: This is a thread with an event loop, which would be blocked.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        work.close()
        raise RuntimeError(f"This would block the event loop that is running in this thread. Use {instead}.")

    def result_of(self, tool: str, call_id: str, arguments: JsonObject) -> CallContent | None:
        """Return the recorded result of a call, from any thread; None if it has none."""
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            return self.inquirer.result_of(tool, call_id, arguments)

        async def look_up() -> CallContent | None:
            return self.inquirer.result_of(tool, call_id, arguments)

        return asyncio.run_coroutine_threadsafe(look_up(), self._loop).result()

    async def to_its_end(self, steps: Steps, given: object, config: RunnableConfig, message: Message) -> Any:
        """Run the graph to its end, with its interrupts answered; return its state (see `invoke`)."""
        check_on_open(message.on_open, message.key)
        _refuse_resume(given)
        token = RUN.set(self)  # the nodes' tasks take a copy of this context along
        outside = None if CALL.get(None) is not None else CALL.set(_NoCall())
        try:
            before = await steps.state(config)
            is_under_way = bool(before.interrupts or before.next)
            async with self.inquirer.turn(
                message.text or words(given),
                author=message.author,
                key=message.key,
                calls_wait=is_under_way,
                on_open=message.on_open if is_under_way else "error",
            ):
                self.inquirer.raise_end()  # before any node runs: the program may have changed the state of the graph meanwhile
                going: object = given
                noting = self._noting(config)
                if not is_under_way and self.inquirer.resumes and self._was_finished(before):
                    await self.inquirer.give_up_unmade(GONE_ON)
                    return before.values
                if before.interrupts and not (self.inquirer.follows_ended_turn and given is not None):  # else it begins anew with its input
                    await self._answers(before.interrupts)  # raises what is not answered yet, before any node runs
                    going = None  # the graph may have got the answers already: its nodes say which ones they wait for
                elif before.next and (self.inquirer.resumes or given is None):
                    going = None  # it was cut off between two nodes
                while True:
                    outcome = await steps.run(going, noting)
                    if self.failure is not None:
                        raise self.failure
                    if not outcome.waiting:
                        await self.inquirer.give_up_unmade(GONE_ON)
                        return outcome.state
                    await check_saved(self._nested, steps.has_saved)
                    going = await self._answers(outcome.waiting)
                    if any(WAITS in fields(asked.value) for asked in outcome.waiting):
                        raise Suspended("Calls inside of nodes wait to be answered.")
        finally:
            RUN.reset(token)
            if outside is not None:
                CALL.reset(outside)

    def _noting(self, config: RunnableConfig) -> RunnableConfig:
        """Return a configuration whose checkpoints name the held turn, and whose tools say which call they are."""
        metadata = {**config.get("metadata", {}), _TURN: self.inquirer.event_before}
        return cast("RunnableConfig", {**config, "callbacks": _with_handler(config.get("callbacks")), "metadata": metadata})

    def _was_finished(self, before: StateSnapshot) -> bool:
        """Say whether the graph ended in the held turn, and the program died before it recorded the end of the turn."""
        return fields(before.metadata).get(_TURN) == self.inquirer.event_before

    async def _answers(self, waiting: Sequence[Interrupt[Any]]) -> Command[Any]:
        """Return the answers to interrupts, all of them.

        Raises:
            Suspended: Not all of them are there yet.
            CallEnded: A person has ended the turn.
        """
        given = await asyncio.gather(*(self._answer(asked) for asked in waiting), return_exceptions=True)
        for answer in given:
            if isinstance(answer, BaseException):
                raise answer
        return Command(resume={asked.id: answer for asked, answer in zip(waiting, given, strict=True)})

    async def _answer(self, asked: Interrupt[Any]) -> object:
        """Return what the graph gets for one interrupt.

        Raises:
            Suspended: It is not answered yet.
            CallEnded: A person has ended the turn.
        """
        value = cast("object", asked.value)
        own = fields(value)
        if WAITS in own:
            return own  # the call is made again, and finds its answers
        schema: object = getattr(asked, "response_schema", None)  # older versions of LangGraph have none
        review = review_of(value, schema)
        if review is not None:
            return await self._reviewed(review, asked.id)
        made: dict[str, Any] = {"tool": INTERRUPT, "id": asked.id, "arguments": {"value": as_json(value)}}
        if QUESTION in own:
            made = dict(own["call"])
            question = Question[Any].from_json(own[QUESTION])
        else:
            question = question_of(value, schema)

        async def answered(call: InquirerCall) -> dict[str, Json]:
            return {"answer": cast("Json", await call.ask(question))}

        content = await self.inquirer.run(made["tool"], made["id"], made["arguments"], answered, occurrence=1)
        if content.turn_ended:
            raise CallEnded(content, is_error=content.is_error, turn_ended=True)
        if QUESTION in own:
            return {WAITS: made["tool"]}  # `ask` finds its answer in the record
        read = {} if content.is_error else read_object(str(content))
        return read.get("answer", read.get("reply") or str(content))

    async def _reviewed(self, review: LangchainReview, id: str) -> object:
        """Return what LangChain's middleware gets: the decisions about its calls, all of them.

        Raises:
            Suspended: Not all of them are there yet.
            CallEnded: A person has ended the turn, or said no where that is not taken.
        """
        deciding = (
            decided(self.inquirer, action, f"{id}:{place}", tool_schema(self._graph, action.name) or action.schema)
            for place, action in enumerate(review.actions)
        )
        decisions = await asyncio.gather(*deciding, return_exceptions=True)
        for decision in decisions:
            if isinstance(decision, BaseException):
                raise decision
        return decisions[0] if review.is_single else {"decisions": decisions}


def _refuse_resume(given: object) -> None:
    """Refuse a value for interrupts: the recorded answers are their values.

    Raises:
        ConfigError: The input is a `Command` with `resume`.
    """
    if isinstance(given, Command) and cast("object", given.resume) is not None:
        raise ConfigError(
            "The input of the graph is a `Command` with `resume`. Nothing ran. The values of interrupts are the recorded answers: answer "
            "with `await store.answer(id, …)`, and pass the input with which the turn began, or None."
        )


class _NoCall(CallContext):
    """Stands for the call where the graph runs and midturn sees none: an ask says what to do."""

    def __init__(self) -> None:
        super().__init__(CallLife(), NoChecks())

    async def _given(self, form: Form, on_failure: OnFailure, problem: str | None = None) -> Given:
        _ = form, on_failure, problem
        raise RuntimeError(_NOT_A_CALL)


class _Tools(BaseCallbackHandler):
    """Notes which call of a tool runs, so that the tool can look it up. LangChain gives this to callbacks only."""

    run_inline = True  # in the context of the tool

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **told: Any) -> None:
        """Note that a tool begins."""
        _ = input_str
        id, arguments = told.get("tool_call_id"), told.get("inputs")  # noqa: A001  the wire's word
        known = isinstance(id, str) and isinstance(arguments, dict)
        call = ToolCall(str(serialized.get("name")), str(id), json_object(cast("object", arguments))) if known else None
        TOOL_CALL.set(call)

    def on_tool_end(self, output: Any, **told: Any) -> None:
        """Note that it is over."""
        _ = output, told
        TOOL_CALL.set(None)

    def on_tool_error(self, error: BaseException, **told: Any) -> None:
        """Note that it is over."""
        _ = error, told
        TOOL_CALL.set(None)


def _with_handler(callbacks: object) -> Any:
    """Return the callbacks of a configuration, and ours."""
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        manager.add_handler(_Tools())
        return manager
    return [*cast("Sequence[BaseCallbackHandler]", callbacks or ()), _Tools()]


def tool_schema(graph: object, name: str) -> JsonObject | None:
    """Return the JSON Schema of the arguments of a tool, as the model sees it; None if no node of the graph has the tool."""
    for node in cast("Mapping[str, object]", getattr(graph, "nodes", {})).values():
        bound: object = getattr(node, "bound", None)
        tool = cast("Mapping[str, object]", getattr(bound, "tools_by_name", {})).get(name)
        found = tool_schema(bound, name) if tool is None else schema_of_tool(tool)
        if found is not None:
            return found
    return None


def schema_of_tool(tool: object) -> JsonObject | None:
    """Return the JSON Schema of the arguments of a tool, as the model sees it; None if it has none."""
    schema: object = getattr(tool, "tool_call_schema", None)
    as_json_schema = getattr(schema, "model_json_schema", None)  # a Pydantic model, or else a JSON Schema
    if callable(as_json_schema):
        return cast("JsonObject", as_json_schema())
    return cast("JsonObject", schema) if isinstance(schema, Mapping) else None
