# pyright: basic
"""A support bot for several shops on the OpenAI Agents SDK: an approval per decision of the
shop's staff, states and answers in SQLite.

$ uvicorn --app-dir benchmarks/programs support_openai_agents:app
"""

import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from agents import Agent, RunConfig, Runner, RunState, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from fastapi import Body, FastAPI, Header, HTTPException

STAFF = {"acme": ["ana", "bo"], "globex": ["cy"]}
TABLES = """
create table if not exists conversations (id text primary key, customer text, state text, text text);
create table if not exists questions (id text primary key, conversation text, call text, question text, user text, value integer);
"""
QUIET = RunConfig(tracing_disabled=True)
User = Annotated[str, Header(alias="x-user")]


@function_tool(needs_approval=True)
def refund(order: str, euros: int) -> str:
    """Refund an order."""
    del order, euros
    return "Paid."


def agent(steps: list[Any]) -> Agent[None]:
    """Return the bot at a position of its script."""
    return Agent(name="Support", model=ScriptedModel(steps), tools=[refund])


def script() -> list[Any]:
    """Call the tool, then report its result, as a model would."""
    return [
        [function_call("refund", {"order": "K-17", "euros": 40}, call_id=uuid4().hex)],
        *ending(),
    ]


def ending() -> list[Any]:
    """Report the result."""
    return [[assistant_message("40 € are on their way.")]]


class Shop:
    """The conversations and open questions of a shop."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.database = sqlite3.connect(path / "shop.sqlite", check_same_thread=False)
        self.database.executescript(TABLES)

    async def begin(self, text: str, customer: str) -> str:
        """Run a conversation until it is suspended or complete."""
        conversation = uuid4().hex
        self.keep(conversation, customer, await Runner.run(agent(script()), text, run_config=QUIET))
        return conversation

    def keep(self, conversation: str, customer: str, result: Any) -> None:
        """Store a conversation with its open questions."""
        state = json.dumps(result.to_state().to_json()) if result.interruptions else None
        text = None if result.interruptions else str(result.final_output)
        with self.database:
            self.database.execute(
                "insert or replace into conversations values (?, ?, ?, ?)",
                (conversation, customer, state, text),
            )
            for item in result.interruptions:
                question = "Pay {euros} € back for order {order}?".format(
                    **json.loads(item.arguments)
                )
                row = (uuid4().hex, conversation, item.call_id, question)
                self.database.execute("insert into questions values (?, ?, ?, ?, null, null)", row)

    async def answer(self, id: str, value: bool, user: str) -> None:
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
        await self.go_on(found[0])

    async def go_on(self, conversation: str) -> None:
        """Resume a conversation whose questions are all answered."""
        rows = self.database.execute(
            "select call, value, user from questions where conversation = ?", (conversation,)
        ).fetchall()
        if not rows or any(user is None for _, _, user in rows):
            return
        customer, kept = self.database.execute(
            "select customer, state from conversations where id = ?", (conversation,)
        ).fetchone()
        state: RunState[Any, Any] = await RunState.from_json(agent(ending()), json.loads(kept))
        said = {call: value for call, value, _ in rows}
        for item in state.get_interruptions():
            if said[item.call_id]:
                state.approve(item)
            else:
                state.reject(item, rejection_message="The shop does not pay this back.")
        self.keep(
            conversation, customer, await Runner.run(agent(ending()), state, run_config=QUIET)
        )

    async def recover(self) -> None:
        """Resume conversations that were answered before the process died."""
        for (conversation,) in self.database.execute(
            "select id from conversations where text is null"
        ).fetchall():
            await self.go_on(conversation)

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
    SHOPS.append(shop)

    @app.post("/messages")
    async def write(text: Annotated[str, Body(embed=True)], customer: User) -> dict[str, str]:
        conversation = await shop.begin(text, customer)
        return {"conversation": conversation, **shop.reply(conversation, customer)}

    @app.get("/messages/{conversation}")
    async def read(conversation: str, customer: User) -> dict[str, str]:
        return shop.reply(conversation, customer)

    @app.get("/inbox/api/questions")
    async def questions(user: User) -> list[dict[str, str]]:
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
    async def answer(
        id: str, value: Annotated[bool, Body(embed=True, strict=True)], user: User
    ) -> dict[str, str]:
        if user not in staff:
            raise HTTPException(401)
        await shop.answer(id, value, user)
        return {"id": id}

    return app


SHOPS: list[Shop] = []


async def recovered(_: FastAPI) -> AsyncGenerator[None]:
    """Recover at start-up."""
    for shop in SHOPS:
        await shop.recover()
    yield


app = FastAPI(lifespan=asynccontextmanager(recovered))
for name, members in STAFF.items():
    app.mount(f"/{name}", support(name, members))
