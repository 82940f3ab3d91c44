# pyright: basic
"""A support bot for several shops on Pydantic AI: a deferred call per decision of the shop's
staff, conversations and answers in SQLite.

$ uvicorn --app-dir benchmarks/programs support_pydantic_ai:app
"""

import sqlite3
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from fastapi import Body, FastAPI, Header, HTTPException
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

STAFF = {"acme": ["ana", "bo"], "globex": ["cy"]}
TABLES = """
create table if not exists conversations (id text primary key, customer text, messages blob, text text);
create table if not exists questions (id text primary key, conversation text, call text, question text, user text, value integer);
"""
User = Annotated[str, Header(alias="x-user")]


def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call the tool, then report its result, as a model would."""
    if not isinstance(messages[-1].parts[-1], UserPromptPart):
        return ModelResponse([TextPart("40 € are on their way.")])
    return ModelResponse([ToolCallPart("refund", {"order": "K-17", "euros": 40}, uuid4().hex)])


agent: Agent[None, str | DeferredToolRequests] = Agent(
    FunctionModel(model), output_type=[str, DeferredToolRequests]
)


@agent.tool_plain(requires_approval=True)
def refund(order: str, euros: int) -> str:
    """Refund an order."""
    del order, euros
    return "Paid."


class Shop:
    """The conversations and open questions of a shop."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.database = sqlite3.connect(path / "shop.sqlite", check_same_thread=False)
        self.database.executescript(TABLES)
        for (conversation,) in self.database.execute(
            "select id from conversations where text is null"
        ).fetchall():
            self.go_on(conversation)  # answered, but the process died before it resumed

    def begin(self, text: str, customer: str) -> str:
        """Run a conversation until it is suspended or complete."""
        conversation = uuid4().hex
        result = agent.run_sync(text)
        self.keep(conversation, customer, result.output, result.all_messages_json())
        return conversation

    def keep(
        self, conversation: str, customer: str, output: str | DeferredToolRequests, messages: bytes
    ) -> None:
        """Store a conversation with its open questions."""
        text = None if isinstance(output, DeferredToolRequests) else output
        with self.database:
            self.database.execute(
                "insert or replace into conversations values (?, ?, ?, ?)",
                (conversation, customer, messages, text),
            )
            for call in output.approvals if isinstance(output, DeferredToolRequests) else []:
                question = "Pay {euros} € back for order {order}?".format(**call.args_as_dict())
                row = (uuid4().hex, conversation, call.tool_call_id, question)
                self.database.execute("insert into questions values (?, ?, ?, ?, null, null)", row)

    def answer(self, id: str, value: bool, user: str) -> None:
        """Record the first answer and resume."""
        found = self.database.execute(
            "select conversation, user from questions where id = ?", (id,)
        ).fetchone()
        if not found:
            raise HTTPException(404)
        with self.database:
            changed = self.database.execute(
                "update questions set user = ?, value = ? where id = ? and user is null",
                (user, value, id),
            )
        if not changed.rowcount:
            raise HTTPException(409, f"already answered by {found[1]}")
        self.go_on(found[0])

    def go_on(self, conversation: str) -> None:
        """Resume a conversation whose questions are all answered."""
        rows = self.database.execute(
            "select call, value, user from questions where conversation = ?", (conversation,)
        ).fetchall()
        if not rows or any(user is None for _, _, user in rows):
            return
        results = DeferredToolResults()
        for call, value, _ in rows:
            results.approvals[call] = (
                True if value else ToolDenied("The shop does not pay this back.")
            )
        customer, messages = self.database.execute(
            "select customer, messages from conversations where id = ?", (conversation,)
        ).fetchone()
        before = ModelMessagesTypeAdapter.validate_json(messages)
        result = agent.run_sync(message_history=before, deferred_tool_results=results)
        self.keep(conversation, customer, result.output, result.all_messages_json())

    def reply(self, conversation: str, customer: str) -> dict[str, str]:
        """Return the status of a customer's conversation."""
        row = self.database.execute(
            "select text from conversations where id = ? and customer = ?", (conversation, customer)
        ).fetchone()
        if not row:
            raise HTTPException(404)
        return {"status": "suspended" if row[0] is None else "completed", "text": row[0] or ""}


def support(name: str, staff: list[str]) -> FastAPI:
    """Return the web application of a shop's customers and staff."""
    shop = Shop(Path("var/conversations", name))
    app = FastAPI()

    @app.post("/messages")
    def write(text: Annotated[str, Body(embed=True)], customer: User) -> dict[str, str]:
        conversation = shop.begin(text, customer)
        return {"conversation": conversation, **shop.reply(conversation, customer)}

    @app.get("/messages/{conversation}")
    def read(conversation: str, customer: User) -> dict[str, str]:
        return shop.reply(conversation, customer)

    @app.get("/inbox/api/questions")
    def questions(user: User) -> list[dict[str, str]]:
        if user not in staff:
            raise HTTPException(401)
        rows = shop.database.execute(
            "select id, conversation, question from questions where user is null"
        ).fetchall()
        return [
            {"id": id, "conversation": conversation, "question": question}
            for id, conversation, question in rows
        ]

    @app.post("/inbox/api/questions/{id}/answer")
    def answer(
        id: str, value: Annotated[bool, Body(embed=True, strict=True)], user: User
    ) -> dict[str, str]:
        if user not in staff:
            raise HTTPException(401)
        shop.answer(id, value, user)
        return {"id": id}

    return app


app = FastAPI()
for name, members in STAFF.items():
    app.mount(f"/{name}", support(name, members))
