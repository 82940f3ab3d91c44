"""A support bot for several shops. Decisions that it may not make go to that shop's staff only.

$ uvicorn --app-dir examples/programs support:app      POST /acme/messages {"text": "My kettle broke."}, GET /acme/messages/ID, /acme/inbox/
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Body, FastAPI, Header, HTTPException, Response

import midturn as mt
from midturn.web import inbox

STAFF = {"acme": ["ana", "bo"], "globex": ["cy"]}
MODEL = mt.ScriptedModel(
    [
        {"calls": [{"name": "refund", "arguments": {"order": "K-17", "euros": 40}}]},
        {"text": "40 € are on their way."},
    ]
)
Customer = Annotated[str, Header(alias="x-user")]  # set by an authenticating proxy


@asynccontextmanager
async def working(_: FastAPI) -> AsyncGenerator[None]:
    """Resume answered turns, including those answered before the start."""
    work = asyncio.gather(*(agent.work() for agent in AGENTS))
    yield
    work.cancel()


def support(shop: str, staff: list[str]) -> mt.Agent:
    """Create the routes of a shop, whose conversations only its staff can answer."""
    store = mt.open_store(f"var/conversations/{shop}", may_answer=lambda _, user: user in staff)
    people = mt.People(ask=[shop], only=True, members={shop: staff})

    @mt.tool
    async def refund(order: str, euros: int) -> str:
        """Pay an order back."""
        is_right = await mt.ask(
            mt.Question.boolean("pay", f"Pay {euros} € back for order {order}?", people=people)
        )
        return "Paid." if is_right else "The shop does not pay this back."

    @app.post(f"/{shop}/messages")
    async def write(text: Annotated[str, Body(embed=True)], customer: Customer) -> dict[str, str]:
        result = await agent.run(text, author=customer)
        return {"conversation": result.conversation, "status": result.status, "text": result.text}

    @app.get(f"/{shop}/messages/{{conversation}}")
    async def read(conversation: str, customer: Customer) -> dict[str, str]:
        kept = await store.read(conversation)
        if not any(
            isinstance(event, mt.events.ChatRequest) and event.author == customer
            for event in kept.events
        ):
            raise HTTPException(404)
        said = [
            event.message
            for event in kept.events
            if isinstance(event, mt.events.ChatResponse) and event.message
        ]
        return {
            "status": "suspended" if kept.turns[-1].open else "completed",
            "text": "".join(said[-1:]),
        }

    agent = mt.Agent(
        MODEL, tools=[refund], instructions=f"You help customers of {shop}.", store=store
    )
    app.mount(
        f"/{shop}/inbox",
        inbox(
            agent,
            user=lambda request: user if (user := request.headers.get("x-user")) in staff else None,
        ),
    )
    return agent


app = FastAPI(lifespan=working)
app.add_exception_handler(mt.NoConversation, lambda _request, _error: Response(status_code=404))
AGENTS = [support(shop, staff) for shop, staff in STAFF.items()]
