# pyright: basic
"""A support bot for several shops on LangGraph: a thread per message, an interrupt per decision
of the shop's staff.

$ uvicorn --app-dir benchmarks/programs support_langgraph:app
"""

import sqlite3
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Body, FastAPI, Header, HTTPException
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Interrupt, interrupt

STAFF = {"acme": ["ana", "bo"], "globex": ["cy"]}
User = Annotated[str, Header(alias="x-user")]


class State(MessagesState):
    """The messages, and the customer."""

    customer: str


def model(state: State) -> dict[str, Any]:
    """Call the tool, then report its result, as a model would."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage("40 € are on their way.")]}
    return {
        "messages": [
            AIMessage(
                "",
                tool_calls=[
                    {"name": "refund", "args": {"order": "K-17", "euros": 40}, "id": "call_1"}
                ],
            )
        ]
    }


def refund(state: State) -> dict[str, Any]:
    """Refund an order."""
    call = newest_call(state["messages"])
    is_paid = interrupt("Pay {euros} € back for order {order}?".format(**call["args"]))
    said = "Paid." if is_paid else "The shop does not pay this back."
    return {"messages": [ToolMessage(said, tool_call_id=call["id"])]}


def newest_call(messages: list[AnyMessage]) -> Any:
    """Return the latest call of the model."""
    last = messages[-1]
    assert isinstance(last, AIMessage)
    return last.tool_calls[0]


def after(state: State) -> str:
    """Return the node after the model."""
    last = state["messages"][-1]
    return "refund" if isinstance(last, AIMessage) and last.tool_calls else END


def config(thread: str) -> Any:
    """Return the configuration of a conversation."""
    return {"configurable": {"thread_id": thread}}


def opened(path: Path) -> tuple[Any, sqlite3.Connection]:
    """Return a shop's graph, and its table of answers. The first answer to a question counts."""
    path.mkdir(parents=True, exist_ok=True)
    answers = sqlite3.connect(path / "answers.sqlite", check_same_thread=False)
    answers.execute(
        "create table if not exists answers (id text primary key, user text, value integer)"
    )
    made = StateGraph(State)
    made.add_node("model", model)
    made.add_node("refund", refund)
    made.add_edge(START, "model")
    made.add_conditional_edges("model", after, ["refund", END])
    made.add_edge("refund", "model")
    saver = SqliteSaver(sqlite3.connect(path / "checkpoints.sqlite", check_same_thread=False))
    return made.compile(checkpointer=saver), answers


def waiting(graph: Any) -> dict[str, tuple[str, Interrupt]]:
    """Return the open questions, each with its thread."""
    threads = {kept.config["configurable"]["thread_id"] for kept in graph.checkpointer.list(None)}
    return {
        one.id: (thread, one)
        for thread in threads
        for one in graph.get_state(config(thread)).interrupts
    }


def support(shop: str, staff: list[str]) -> FastAPI:
    """Return the web application of a shop's customers and staff."""
    graph, answers = opened(Path("var/conversations", shop))
    app = FastAPI()

    def reply(thread: str) -> dict[str, str]:
        state = graph.get_state(config(thread))
        if state.interrupts:
            return {"status": "suspended", "text": ""}
        return {"status": "completed", "text": str(state.values["messages"][-1].content)}

    @app.post("/messages")
    def write(text: Annotated[str, Body(embed=True)], customer: User) -> dict[str, str]:
        thread = uuid4().hex
        graph.invoke({"messages": [HumanMessage(text)], "customer": customer}, config(thread))
        return {"conversation": thread, **reply(thread)}

    @app.get("/messages/{thread}")
    def read(thread: str, customer: User) -> dict[str, str]:
        if graph.get_state(config(thread)).values.get("customer") != customer:
            raise HTTPException(404)
        return reply(thread)

    @app.get("/inbox/api/questions")
    def questions(user: User) -> list[dict[str, str]]:
        if user not in staff:
            raise HTTPException(401)
        return [
            {"id": id, "conversation": thread, "question": one.value}
            for id, (thread, one) in waiting(graph).items()
        ]

    @app.post("/inbox/api/questions/{id}/answer")
    def answer(
        id: str, value: Annotated[bool, Body(embed=True, strict=True)], user: User
    ) -> dict[str, str]:
        if user not in staff:
            raise HTTPException(401)
        found = waiting(graph).get(id)
        if before := answers.execute("select user from answers where id = ?", (id,)).fetchone():
            raise HTTPException(409, f"already answered by {before[0]}")
        if not found:
            raise HTTPException(404)
        try:
            with answers:
                answers.execute("insert into answers values (?, ?, ?)", (id, user, value))
        except sqlite3.IntegrityError:
            raise HTTPException(409, "already answered") from None
        graph.invoke(Command(resume={id: value}), config(found[0]))
        return {"id": id}

    # answered, but the process died before it resumed
    for id, (thread, _) in waiting(graph).items():
        if row := answers.execute("select value from answers where id = ?", (id,)).fetchone():
            graph.invoke(Command(resume={id: bool(row[0])}), config(thread))
    return app


app = FastAPI()
for name, members in STAFF.items():
    app.mount(f"/{name}", support(name, members))
