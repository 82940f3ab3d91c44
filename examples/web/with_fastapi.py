"""The inbox in a FastAPI application: `uvicorn with_fastapi:app`, then http://127.0.0.1:8000/login?name=ada and /inbox/.

Whoever may see the page is the application's business: here, whoever has its session.
"""

from __future__ import annotations

import secrets
from typing import Annotated

from deploying import build_agent
from fastapi import Cookie, FastAPI, HTTPException
from fastapi.responses import RedirectResponse
from starlette.requests import Request

from midturn.web import inbox

agent = build_agent()
app = FastAPI()
sessions: dict[str, str] = {}  # a real application has them elsewhere, and asks for a password


def who(request: Request) -> str | None:
    """Say who somebody is; None is nobody."""
    return sessions.get(request.cookies.get("session", ""))


@app.get("/login")
def login(name: str) -> RedirectResponse:
    """Begin a session."""
    key = secrets.token_urlsafe()
    sessions[key] = name
    response = RedirectResponse("/inbox/", 303)
    response.set_cookie("session", key, httponly=True, samesite="strict")
    return response


@app.post("/tasks")
async def begin(text: str, session: Annotated[str, Cookie()] = "") -> dict[str, str]:
    """Give the agent something to do. Where it asks, it waits on the page, and goes on there."""
    if session not in sessions:
        raise HTTPException(401)
    result = await agent.run(text, author=sessions[session])
    return {"conversation": result.conversation, "status": result.status}


app.mount("/inbox", inbox(agent, user=who))
