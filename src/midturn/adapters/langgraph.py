"""midturn in LangGraph: nodes ask, calls inside of them run once, and the graph's own interrupts are answered where all questions are.

```python
state = await invoke(graph, mt.Inquirer(store, conversation), {"service": "shop"}, {"configurable": {"thread_id": "7"}})
```

The graph needs a checkpointer. Where questions are open, `Suspended` is raised, and nothing is lost: call `invoke` again, with the same
arguments, when they are answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.types import Command, Interrupt, StateSnapshot, interrupt

from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import InquirerCall
from midturn.errors import CallEnded, QuestionError, Suspended
from midturn.question.question import Question
from midturn.runtime.foreign_turn import CallContent
from midturn.values.json_value import Json, JsonObject

T = TypeVar("T")
_INQUIRER: ContextVar[Inquirer] = ContextVar("midturn_langgraph_inquirer")
_QUESTION = "midturn.question"
_WAITS = "midturn.waits"
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


async def invoke(graph: Graph, inquirer: Inquirer, given: object, config: RunnableConfig, *, text: str = "") -> dict[str, Any]:
    """Run a graph to its end, and have its interrupts answered; where it was interrupted before, go on there.

    An interrupt is asked as what it holds: a question from `ask`, the type of its `response_schema`, or else a text. The graph goes on when
    all that it waits for is answered; then its nodes begin anew, as LangGraph has it, and get the answers.

    Args:
        graph: The compiled graph, with a checkpointer.
        inquirer: Who asks, on the conversation that keeps the questions: one for each thread.
        given: What the graph begins with.
        config: Its configuration; `thread_id` names the thread.
        text: What the user said, for the record.

    Returns:
        The state of the graph.

    Raises:
        Suspended: Questions are open; `pending` lists them.
        CallEnded: A person has ended the turn in place of an answer.
    """
    _INQUIRER.set(inquirer)  # the nodes' tasks take a copy of this context along
    async with inquirer.turn(text):
        before = await graph.aget_state(config)
        going: object = given
        if before.interrupts:
            going = await _resumed(inquirer, before.interrupts)
        elif before.next:
            going = None  # it was cut off between two nodes
        while True:
            state = cast("dict[str, Any]", await graph.ainvoke(going, config))
            waiting = cast("Sequence[Interrupt[Any]]", state.get("__interrupt__", ()))
            if not waiting:
                return state
            going = await _resumed(inquirer, waiting)
            if any(_WAITS in _fields(asked.value) for asked in waiting):
                raise Suspended("Calls inside of nodes wait to be answered.")


def ask(question: Question[T]) -> T:
    """Ask in a node, sync or async: interrupt the graph with the question, and return the answer when the node begins anew with it.

    Args:
        question: The question.

    Raises:
        CallEnded: There is no answer: a person has replied instead. `content` is what the model is to read.
    """
    given = _fields(interrupt({_QUESTION: question.to_json()}))
    while _WAITS in given:  # a call that came before in this node has waited, and waits no more
        given = _fields(interrupt({_QUESTION: question.to_json()}))
    if "answer" not in given:
        raise CallEnded(str(given.get("content", "")))
    return question.typed(given["answer"])


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
    inquirer = _INQUIRER.get(None)
    if inquirer is None:
        raise RuntimeError("No inquirer asks here. Run the graph with `await invoke(graph, inquirer, …)`.")
    place = cast("Mapping[str, Any]", get_config().get("configurable", {})).get("checkpoint_ns", "")
    try:
        return await inquirer.run(tool, f"{place}:{id}", arguments, function, occurrence=1)
    except Suspended:
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
    own = _fields(value)
    if _WAITS in own:
        return own  # the call is made again, and finds its answers
    question = Question.from_json(own[_QUESTION]) if _QUESTION in own else _question(value, asked.response_schema)

    async def answered(call: InquirerCall) -> dict[str, Json]:
        return {"answer": cast("Json", await call.ask(question))}

    content = await inquirer.run(INTERRUPT, asked.id, {"value": _json(value)}, answered, occurrence=1)
    if content.turn_ended:
        raise CallEnded(content, is_error=content.is_error, turn_ended=True)
    read = {} if content.is_error else _read(str(content))
    if _QUESTION in own:
        return read if "answer" in read else {"content": str(content)}
    return read.get("answer", read.get("reply") or str(content))


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _read(content: str) -> dict[str, Any]:
    try:
        return dict(_fields(msgspec.json.decode(content)))
    except msgspec.DecodeError:
        return {}


def _question(value: object, schema: object) -> Question[Any]:
    """Return what an interrupt asks that says nothing of us: its text, and the type that it wants."""
    text = value if isinstance(value, str) else "The graph waits for a value."
    context = None if isinstance(value, str) else json.dumps(_json(value), ensure_ascii=False, indent=2)
    if isinstance(schema, Mapping):
        try:
            return Question.schema("value", text, cast("JsonObject", schema), context=context)
        except QuestionError:  # a schema that cannot be asked: its answer is a text
            context = f"{context or ''}\n{json.dumps(schema, ensure_ascii=False, indent=2)}".strip()
    return Question.text("value", text, context=context)


def _json(value: object) -> Json:
    return cast("Json", msgspec.to_builtins(value, enc_hook=str))
