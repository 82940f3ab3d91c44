"""One run of a graph: handles its interrupts, their answers, and the graph's tool calls."""

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
from midturn.integrations.approval import SUPERSEDED
from midturn.integrations.langchain_review import LangchainReview, decide, review_of
from midturn.integrations.langgraph_checkpoints import NestedGraph, Saver, check_saved, nested_graph
from midturn.integrations.langgraph_values import (
    as_json,
    fields,
    json_object,
    last_user_text,
    question_for,
    read_object,
)
from midturn.ports import NoChecks
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject
from midturn.question.question import Question
from midturn.runtime.external_loop import CallContent
from midturn.tools.asking import CALL, CallContext
from midturn.tools.call_scope import CallScope, in_thread
from midturn.turn.inputs import Given, OnFailure

with needs_extra("langgraph", "langgraph"):
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
    from langchain_core.runnables import RunnableConfig
    from langgraph.config import get_config
    from langgraph.types import Command, Interrupt, StateSnapshot

T = TypeVar("T")
QUESTION = "midturn.question"
"""Field of an interrupt. It contains the question from `ask`."""
WAITS = "midturn.waits"
"""Field of an interrupt. It means that a call in a node waits for an answer."""
_TURN_KEY = "midturn_turn"
"""Key in the metadata of a checkpoint. The value identifies the turn in which the checkpoint was
saved (`Inquirer.event_before`).
"""
INTERRUPT = "interrupt"
"""Tool name in questions that come from interrupts in the graph's own code."""
_NOT_A_CALL = (
    "The running tool call was not started by midturn. Give the ToolNode"
    " `awrap_tool_call=adapter.tool_call` (in `invoke_sync`,"
    " `wrap_tool_call=adapter.tool_call_sync`), or run the function with `adapter.call(…)`. In a"
    " node, ask with `adapter.ask(question)`."
)


class LangchainToolCall(Struct, frozen=True):
    """The running call of a LangChain tool."""

    name: str
    id: str
    arguments: JsonObject


RUN: ContextVar[GraphRun] = ContextVar("midturn_langgraph_run")
"""The current run of a graph."""
TOOL_CALL: ContextVar[LangchainToolCall | None] = ContextVar(
    "midturn_langgraph_tool_call", default=None
)
"""The current call of a LangChain tool."""


def current_run() -> GraphRun:
    """Return the current run of a graph.

    Raises:
        RuntimeError: The graph was not started by this adapter.
    """
    run = RUN.get(None)
    if run is None:
        raise RuntimeError(
            "No inquirer is available. Run the graph with `await invoke(graph, inquirer, …)`."
        )
    return run


def configurable() -> Mapping[str, Any]:
    """Return the `configurable` part of the running node's configuration."""
    return cast("Mapping[str, Any]", get_config().get("configurable", {}))


# --------------------------------------------------------------------------------------------------
# Ways to run a graph


class GraphOutcome(Struct, frozen=True):
    """State after a run of a graph, and the interrupts that are waiting."""

    state: Any
    waiting: Sequence[Interrupt[Any]]


class Steps(Protocol):
    """Runs a graph. There is an implementation for each of `ainvoke`, `invoke` and `astream`."""

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return the state of the graph."""
        ...

    async def run(self, given: object, config: RunnableConfig) -> GraphOutcome:
        """Run the graph until it ends or is interrupted."""
        ...

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Return whether a saver has a checkpoint for this configuration."""
        ...


class Graph(Protocol):
    """A compiled graph."""

    @property
    def ainvoke(self) -> Callable[..., Awaitable[Any]]:
        """Run the graph."""
        ...

    def aget_state(self, config: RunnableConfig) -> Awaitable[StateSnapshot]:
        """Return the state of the graph."""
        ...


class SyncGraph(Protocol):
    """A compiled graph with synchronous nodes and checkpointer."""

    @property
    def invoke(self) -> Callable[..., Any]:
        """Run the graph."""
        ...

    def get_state(self, config: RunnableConfig) -> StateSnapshot:
        """Return the state of the graph."""
        ...


class StreamGraph(Protocol):
    """A compiled graph that supports streaming."""

    @property
    def astream(self) -> Callable[..., AsyncIterator[Any]]:
        """Run the graph and yield its chunks."""
        ...

    def aget_state(self, config: RunnableConfig) -> Awaitable[StateSnapshot]:
        """Return the state of the graph."""
        ...


class InvokedGraph:
    """Runs a graph with `graph.ainvoke`."""

    def __init__(self, graph: Graph, options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = options

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return the state of the graph."""
        return await self._graph.aget_state(config)

    async def run(self, given: object, config: RunnableConfig) -> GraphOutcome:
        """Run the graph until it ends or is interrupted."""
        return _outcome(await self._graph.ainvoke(given, config, **self._options))

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Return whether a saver has a checkpoint for this configuration."""
        return await saver.aget_tuple(config) is not None


class InvokedGraphInThread:
    """Runs a graph with `graph.invoke`, in a thread next to the inquirer's event loop."""

    def __init__(self, graph: SyncGraph, options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = options

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return the state of the graph."""
        return await in_thread(lambda: self._graph.get_state(config))

    async def run(self, given: object, config: RunnableConfig) -> GraphOutcome:
        """Run the graph until it ends or is interrupted."""
        return _outcome(await in_thread(lambda: self._graph.invoke(given, config, **self._options)))

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Return whether a saver has a checkpoint for this configuration."""
        return await in_thread(lambda: saver.get_tuple(config)) is not None


class StreamedGraph:
    """Runs a graph with `graph.astream`."""

    def __init__(
        self, graph: StreamGraph, emit: Callable[[Any], None], options: Mapping[str, Any]
    ) -> None:
        self._graph = graph
        self._emit = emit
        self._options = options

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        """Return the state of the graph."""
        return await self._graph.aget_state(config)

    async def run(self, given: object, config: RunnableConfig) -> GraphOutcome:
        """Run the graph until it ends or is interrupted."""
        async for chunk in self._graph.astream(given, config, **self._options):
            self._emit(chunk)
        snapshot = await self._graph.aget_state(config)
        return GraphOutcome(snapshot.values, snapshot.interrupts)

    async def has_saved(self, saver: Saver, config: RunnableConfig) -> bool:
        """Return whether a saver has a checkpoint for this configuration."""
        return await saver.aget_tuple(config) is not None


def _outcome(state: Any) -> GraphOutcome:
    return GraphOutcome(
        state, cast("Sequence[Interrupt[Any]]", fields(state).get("__interrupt__", ()))
    )


# --------------------------------------------------------------------------------------------------
# The run


class GraphMessage(Struct, frozen=True):
    """The user's message that starts a turn. See `invoke`."""

    text: str = ""
    author: str | None = None
    key: str | None = None
    on_open: OnOpen = "error"


class GraphRun:
    """One run of a graph.

    The run belongs to the event loop that creates it. Synchronous nodes and tools access it from
    other threads.
    """

    def __init__(self, graph: object, inquirer: Inquirer) -> None:
        self.inquirer = inquirer
        self.failure: MidturnError | None = None
        """Error that ends the run, even if a node handles it as a tool error."""
        self._graph = graph
        self._loop = asyncio.get_running_loop()
        self._seen: dict[tuple[int, str], tuple[object, list[object]]] = {}
        self._lock = Lock()
        self._nested: dict[str, NestedGraph] = {}

    def note_waiting(self) -> None:
        """Record that the running node is about to wait for an answer."""
        nested = nested_graph(get_config())
        if nested:
            self._nested[nested.place] = nested

    def occurrence(self, identity: str, thing: object = None) -> int:
        """Return the position (from 1) of this question or call among equal questions or calls in
        the same execution of a node. The same `thing` always has the same position.
        """
        execution: object = configurable().get("__pregel_scratchpad")
        with self._lock:
            _, made = self._seen.setdefault(
                (id(execution), identity), (execution, [])
            )  # a reference to the execution is stored, so that its id is not reused
            place = next(
                (place for place, other in enumerate(made) if other is thing and thing is not None),
                len(made),
            )
            if place == len(made):
                made.append(thing)
        return place + 1

    def wait_for(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """Run a coroutine in the inquirer's event loop and wait for it in this thread.

        Raises:
            RuntimeError: An event loop is running in this thread, and waiting would block the
                loop.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        work.close()
        raise RuntimeError(
            f"This call would block the event loop that is running in this thread. Use {instead}."
        )

    def result_of(self, tool: str, call_id: str, arguments: JsonObject) -> CallContent | None:
        """Return the recorded result of a call, or None. Can be called from any thread."""
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            return self.inquirer.result_of(tool, call_id, arguments)

        async def look_up() -> CallContent | None:
            return self.inquirer.result_of(tool, call_id, arguments)

        return asyncio.run_coroutine_threadsafe(look_up(), self._loop).result()

    async def complete(
        self, steps: Steps, given: object, config: RunnableConfig, message: GraphMessage
    ) -> Any:
        """Run the graph until it ends, answer its interrupts, and return its state. See
        `invoke`.
        """
        check_on_open(message.on_open, message.key)
        _refuse_resume(given)
        token = RUN.set(self)  # the tasks of the nodes inherit this context
        token_of_call = None if CALL.get(None) is not None else CALL.set(_NoCall())
        try:
            before = await steps.state(config)
            is_under_way = bool(before.interrupts or before.next)
            async with self.inquirer.turn(
                message.text or last_user_text(given),
                author=message.author,
                key=message.key,
                calls_wait=is_under_way,
                on_open=message.on_open if is_under_way else "error",
            ):
                # checked before any node runs, because the program may have changed the state of
                # the graph
                self.inquirer.raise_end()
                current_input: object = given
                run_config = self._with_turn_metadata(config)
                if not is_under_way and self.inquirer.resumes and self._was_finished(before):
                    await self.inquirer.give_up_unmade(SUPERSEDED)
                    return before.values
                if before.interrupts and not (
                    self.inquirer.follows_ended_turn and given is not None
                ):  # otherwise, the message starts a new run
                    await self._answers(
                        before.interrupts
                    )  # if an answer is missing, this raises before any node runs
                    # run without the answers, because the graph may already have received them; a
                    # node that still needs an answer interrupts again
                    current_input = None
                elif before.next and (self.inquirer.resumes or given is None):
                    current_input = None  # an earlier run was interrupted between two nodes
                while True:
                    outcome = await steps.run(current_input, run_config)
                    if self.failure is not None:
                        raise self.failure
                    if not outcome.waiting:
                        await self.inquirer.give_up_unmade(SUPERSEDED)
                        return outcome.state
                    await check_saved(self._nested, steps.has_saved)
                    current_input = await self._answers(outcome.waiting)
                    if any(WAITS in fields(asked.value) for asked in outcome.waiting):
                        raise Suspended("Calls in nodes are waiting for answers.")
        finally:
            RUN.reset(token)
            if token_of_call is not None:
                CALL.reset(token_of_call)

    def _with_turn_metadata(self, config: RunnableConfig) -> RunnableConfig:
        """Return a configuration that stores the current turn in checkpoints, and that provides
        `TOOL_CALL` to tools.
        """
        metadata = {**config.get("metadata", {}), _TURN_KEY: self.inquirer.event_before}
        return cast(
            "RunnableConfig",
            {**config, "callbacks": _with_handler(config.get("callbacks")), "metadata": metadata},
        )

    def _was_finished(self, before: StateSnapshot) -> bool:
        """Return whether the graph ended in the current turn, but the process stopped before it
        recorded the end of the turn.
        """
        return fields(before.metadata).get(_TURN_KEY) == self.inquirer.event_before

    async def _answers(self, waiting: Sequence[Interrupt[Any]]) -> Command[Any]:
        """Return the answers to all interrupts.

        Raises:
            Suspended: Some answers are missing.
            CallEnded: A person ended the turn.
        """
        given = await asyncio.gather(
            *(self._answer(asked) for asked in waiting), return_exceptions=True
        )
        for answer in given:
            if isinstance(answer, BaseException):
                raise answer
        return Command(
            resume={asked.id: answer for asked, answer in zip(waiting, given, strict=True)}
        )

    async def _answer(self, asked: Interrupt[Any]) -> object:
        """Return the value that the graph receives for one interrupt.

        Raises:
            Suspended: The answer is missing.
            CallEnded: A person ended the turn.
        """
        value = cast("object", asked.value)
        own = fields(value)
        if WAITS in own:
            return own  # the repeated call reads its answers from the log
        schema: object = getattr(
            asked, "response_schema", None
        )  # the field is missing in older versions of LangGraph
        review = review_of(value, schema)
        if review is not None:
            return await self._review_decisions(review, asked.id)
        made: dict[str, Any] = {
            "tool": INTERRUPT,
            "id": asked.id,
            "arguments": {"value": as_json(value)},
        }
        if QUESTION in own:
            made = dict(own["call"])
            question = Question[Any].from_json(own[QUESTION])
        else:
            question = question_for(value, schema)

        async def answered(call: InquirerCall) -> dict[str, Json]:
            return {"answer": cast("Json", await call.ask(question))}

        content = await self.inquirer.run(
            made["tool"], made["id"], made["arguments"], answered, occurrence=1
        )
        if content.turn_ended:
            raise CallEnded(content, is_error=content.is_error, turn_ended=True)
        if QUESTION in own:
            return {WAITS: made["tool"]}  # `ask` reads its answer from the log
        read = {} if content.is_error else read_object(str(content))
        return read.get("answer", read.get("reply") or str(content))

    async def _review_decisions(self, review: LangchainReview, id: str) -> object:
        """Return the decisions about all calls, for LangChain's middleware.

        Raises:
            Suspended: Some decisions are missing.
            CallEnded: A person ended the turn, or refused a call although the middleware does not
                accept a rejection.
        """
        reviews = (
            decide(
                self.inquirer,
                action,
                f"{id}:{place}",
                tool_schema(self._graph, action.name) or action.schema,
            )
            for place, action in enumerate(review.actions)
        )
        decisions = await asyncio.gather(*reviews, return_exceptions=True)
        for decision in decisions:
            if isinstance(decision, BaseException):
                raise decision
        return decisions[0] if review.is_single else {"decisions": decisions}


def _refuse_resume(given: object) -> None:
    """Raise an error if the input contains values for interrupts, because only recorded answers
    count.

    Raises:
        ConfigError: The input is a `Command` with `resume`.
    """
    if isinstance(given, Command) and cast("object", given.resume) is not None:
        raise ConfigError(
            "The input of the graph is a `Command` with `resume`. The graph did not run. Interrupts"
            " receive the recorded answers: answer with `await store.answer(id, …)`, and pass the"
            " input of the turn again, or None."
        )


class _NoCall(CallContext):
    """Call context for code that does not run inside a midturn call. Asking raises an error with
    advice.
    """

    def __init__(self) -> None:
        super().__init__(CallScope(), NoChecks())

    async def _given(
        self,
        form: Form,
        on_failure: OnFailure,
        problem: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Given:
        _ = form, on_failure, problem, on_behalf_of
        raise RuntimeError(_NOT_A_CALL)


class _ToolCallRecorder(BaseCallbackHandler):
    """Stores the running tool call in a context variable. LangChain passes this information only
    to callbacks.
    """

    run_inline = True  # run the callbacks in the tool's context

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **told: Any) -> None:
        """Set `TOOL_CALL`."""
        _ = input_str
        id, arguments = told.get("tool_call_id"), told.get("inputs")  # noqa: A001  the wire's word
        known = isinstance(id, str) and isinstance(arguments, dict)
        call = (
            LangchainToolCall(
                str(serialized.get("name")), str(id), json_object(cast("object", arguments))
            )
            if known
            else None
        )
        TOOL_CALL.set(call)

    def on_tool_end(self, output: Any, **told: Any) -> None:
        """Clear `TOOL_CALL`."""
        _ = output, told
        TOOL_CALL.set(None)

    def on_tool_error(self, error: BaseException, **told: Any) -> None:
        """Clear `TOOL_CALL`."""
        _ = error, told
        TOOL_CALL.set(None)


def _with_handler(callbacks: object) -> Any:
    """Return the callbacks of a configuration with a `_ToolCallRecorder` added."""
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        manager.add_handler(_ToolCallRecorder())
        return manager
    return [*cast("Sequence[BaseCallbackHandler]", callbacks or ()), _ToolCallRecorder()]


def tool_schema(graph: object, name: str) -> JsonObject | None:
    """Return the JSON Schema of a tool's arguments as shown to the model, or None if no node has
    the tool.
    """
    for node in cast("Mapping[str, object]", getattr(graph, "nodes", {})).values():
        bound: object = getattr(node, "bound", None)
        tool = cast("Mapping[str, object]", getattr(bound, "tools_by_name", {})).get(name)
        found = tool_schema(bound, name) if tool is None else schema_of_tool(tool)
        if found is not None:
            return found
    return None


def schema_of_tool(tool: object) -> JsonObject | None:
    """Return the JSON Schema of a tool's arguments as shown to the model, or None if the tool has
    no schema.
    """
    schema: object = getattr(tool, "tool_call_schema", None)
    as_json_schema = getattr(
        schema, "model_json_schema", None
    )  # the schema is a Pydantic model or a JSON Schema
    if callable(as_json_schema):
        return cast("JsonObject", as_json_schema())
    return cast("JsonObject", schema) if isinstance(schema, Mapping) else None
