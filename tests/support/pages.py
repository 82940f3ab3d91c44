"""Agents that wait for an answer, and a client that uses their inbox page like a browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp

import midturn as mt
from midturn.question.question import Question
from midturn.stores.store import ConversationStore

HOST = "qwertyuiopasdfgh.localhost:7478"  # the page's own host name
OWN = {
    "Sec-Fetch-Site": "same-origin",
    "Origin": "null",
}  # headers a browser sends with a form on a page without referrers


def ada(request: object) -> str:
    """Authenticate everybody as Ada."""
    del request
    return "ada"


def asking(question: Question[Any], name: str = "deploy") -> mt.FunctionTool[..., Any]:
    """Return a tool that asks one question and returns the answer as text."""

    async def ask(ctx: mt.ToolContext) -> str:
        answer = await ctx.ask(question)
        return answer.reveal() if isinstance(answer, mt.SecretValue) else repr(answer)

    ask.__name__ = name
    ask.__doc__ = "Ask."
    return mt.tool(ask)


def asking_form(form: mt.Form, name: str = "release") -> mt.FunctionTool[..., Any]:
    """Return a tool that asks a form and returns the answers as text."""

    async def ask(ctx: mt.ToolContext) -> str:
        return repr(await ctx.ask_form(form))

    ask.__name__ = name
    ask.__doc__ = "Ask."
    return mt.tool(ask)


def agent_with(
    store: ConversationStore,
    *tools: mt.FunctionTool[..., Any],
    arguments: dict[str, Any] | None = None,
) -> mt.Agent:
    """Return an agent whose model calls every tool once, and then ends the turn."""
    calls = [{"name": tool.definition.name, "arguments": arguments or {}} for tool in tools]
    return mt.Agent(
        mt.ScriptedModel([{"text": "One moment.", "calls": calls}, {"text": "Done."}]),
        tools=tools,
        store=store,
    )


def wait_for(agent: mt.Agent, text: str = "Ship it.") -> mt.OpenQuestion:
    """Run a turn until it is suspended; return its first open question."""
    result = asyncio.run(agent.run(text))
    assert result.status == "suspended", result
    return result.pending[0]


@contextmanager
def browsing(app: ASGIApp) -> Generator[TestClient]:
    """Send requests to an application like a browser on this machine."""
    with TestClient(
        app, base_url=f"http://{HOST}", client=("127.0.0.1", 50000), follow_redirects=False
    ) as client:
        client.headers["Accept"] = "text/html"
        yield client


def send(client: TestClient, question: mt.OpenQuestion, **fields: Any) -> Any:
    """Submit a form of a question's page."""
    return client.post(f"/q/{question.id}", data=fields, headers=OWN)


def carried(html: str) -> str:
    """Return the hidden field with the answers so far of a form's page."""
    found = re.search(r'name="walk" value="([^"]*)"', html)
    return (
        found[1]
        .replace("&#34;", '"')
        .replace("&amp;", "&")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        if found
        else ""
    )
