"""Agents that wait for an answer, and the inbox over them, asked as a browser asks."""

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

HOST = "qwertyuiopasdfgh.localhost:7478"  # a name of the page's own
OWN = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}  # what a browser says of a form on a page without referrers


def ada(request: object) -> str:
    """Say that everybody is Ada."""
    del request
    return "ada"


def asking(question: Question[Any], name: str = "deploy") -> mt.FunctionTool[..., Any]:
    """Return a tool that asks one question and returns the answer as JSON."""

    async def ask(ctx: mt.ToolContext) -> str:
        answer = await ctx.ask(question)
        return answer.reveal() if isinstance(answer, mt.SecretValue) else repr(answer)

    ask.__name__ = name
    ask.__doc__ = "Ask."
    return mt.tool(ask)


def asking_form(form: mt.Form, name: str = "release") -> mt.FunctionTool[..., Any]:
    """Return a tool that asks a form."""

    async def ask(ctx: mt.ToolContext) -> str:
        return repr(await ctx.ask_form(form))

    ask.__name__ = name
    ask.__doc__ = "Ask."
    return mt.tool(ask)


def agent_with(store: ConversationStore, *tools: mt.FunctionTool[..., Any], arguments: dict[str, Any] | None = None) -> mt.Agent:
    """Return an agent whose model calls every tool once, and then is done."""
    calls = [{"name": tool.definition.name, "arguments": arguments or {}} for tool in tools]
    return mt.Agent(mt.ScriptedModel([{"text": "One moment.", "calls": calls}, {"text": "Done."}]), tools=tools, store=store)


def wait_for(agent: mt.Agent, text: str = "Ship it.") -> mt.OpenQuestion:
    """Run a turn until it waits; return what it waits for."""
    result = asyncio.run(agent.run(text))
    assert result.status == "suspended", result
    return result.pending[0]


@contextmanager
def browsing(app: ASGIApp) -> Generator[TestClient]:
    """Ask an application as a browser on this machine does."""
    with TestClient(app, base_url=f"http://{HOST}", client=("127.0.0.1", 50000), follow_redirects=False) as client:
        client.headers["Accept"] = "text/html"
        yield client


def send(client: TestClient, question: mt.OpenQuestion, **fields: Any) -> Any:
    """Send a form of a question's page."""
    return client.post(f"/q/{question.id}", data=fields, headers=OWN)


def carried(html: str) -> str:
    """Return what the page of a form carries along."""
    found = re.search(r'name="walk" value="([^"]*)"', html)
    return found[1].replace("&#34;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">") if found else ""
