"""The inbox in a FastAPI application: `uvicorn with_fastapi:app`, then
http://127.0.0.1:8000/login?name=ada and /inbox/.

The application decides who may see the page: here, every signed-in user.
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
# a real application stores sessions elsewhere and asks for a password
sessions: dict[str, str] = {}


def who(request: Request) -> str | None:
    """Return the signed-in user, or None."""
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
    """Start a turn of the agent. Its questions are on the page, where the turn continues."""
    if session not in sessions:
        raise HTTPException(401)
    result = await agent.run(text, author=sessions[session])
    return {"conversation": result.conversation, "status": result.status}


app.mount("/inbox", inbox(agent, user=who))
