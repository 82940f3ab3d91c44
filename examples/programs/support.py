"""A support bot for several shops: what it may not decide itself goes to the people of that shop, and no one else sees it.

$ uvicorn --app-dir examples/programs support:app

POST /acme/messages {"text": "My kettle broke."}    what the bot says; "suspended" while someone of the shop has to decide
GET /acme/messages/<conversation>                   the same, as it is now, for the customer who wrote
/acme/inbox/                                        what acme's people are asked: a page, and below api/ the same for programs
"""

import os
from typing import Annotated

from fastapi import Body, FastAPI, Header, HTTPException

import midturn as mt
from midturn.web import inbox

STAFF = {"acme": ["ana", "bo"], "globex": ["cy"]}
MODEL = mt.ScriptedModel([{"calls": [{"name": "refund", "arguments": {"order": "K-17", "euros": 40}}]}, {"text": "40 € are on their way."}])
Customer = Annotated[str, Header(alias="x-user")]  # a proxy in front sets it, where people sign in


def support(shop: str, staff: list[str]) -> FastAPI:
    """Return what a shop's customers and people see. Its conversations lie apart from those of other shops, and only its people answer."""
    store = mt.open_store(f"{os.environ.get('CONVERSATIONS', 'var/conversations')}/{shop}", may_answer=lambda _, user: user in staff)
    people = mt.People(ask=[shop], only=True, members={shop: staff})

    @mt.tool
    async def refund(order: str, euros: int) -> str:
        """Pay an order back."""
        if not await mt.ask(mt.Question.boolean("pay", f"Pay {euros} € back for order {order}?", people=people)):
            raise mt.Rejected("The shop does not pay this back.")
        return "Paid."

    agent, app = mt.Agent(MODEL, tools=[refund], instructions=f"You help customers of {shop}.", store=store), FastAPI()

    @app.post("/messages")
    async def write(text: Annotated[str, Body(embed=True)], customer: Customer) -> dict[str, str]:
        result = await agent.run(text, author=customer)
        return {"conversation": result.conversation, "status": result.status, "text": result.text}

    @app.get("/messages/{conversation}")
    async def read(conversation: str, customer: Customer) -> dict[str, str]:
        try:
            kept = await store.read(conversation)
        except mt.NoConversation:
            raise HTTPException(404) from None
        if not any(isinstance(event, mt.events.ChatRequest) and event.author == customer for event in kept.events):
            raise HTTPException(404)
        said = [event.message for event in kept.events if isinstance(event, mt.events.ChatResponse) and event.message]
        return {"status": "suspended" if kept.turns[-1].open else "completed", "text": "".join(said[-1:])}

    app.mount("/inbox", inbox(agent, user=lambda request: user if (user := request.headers.get("x-user")) in staff else None))
    return app


app = FastAPI()
for name, members in STAFF.items():
    app.mount(f"/{name}", support(name, members))
