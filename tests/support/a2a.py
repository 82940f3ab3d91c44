"""A client that speaks A2A as JSON-RPC over HTTP, without the SDK's client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx
import pytest

import midturn as mt
from midturn.stores.store import ConversationStore

Json = dict[str, Any]
EXTENSION = "urn:midturn:a2a:questions:1"
CARD = {"name": "Deployer", "description": "Deploys.", "url": "http://agent"}


def require_sdk() -> None:
    """Skip the tests of a module if the SDK is missing."""
    pytest.importorskip("a2a.server.routes", reason="needs the extra `a2a`")


class RpcError(Exception):
    """An error response."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]


class Peer:
    """Sends requests as one principal."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        user: str = "ada",
        *,
        has_extension: bool = False,
        path: str = "/rpc",
        prefix: str = "m",
    ) -> None:
        self.client = client
        self._path = path
        self._ids = count(1)
        self._prefix = prefix
        self._headers = {"x-user": user, "A2A-Version": "1.0"}
        if has_extension:
            self._headers["A2A-Extensions"] = EXTENSION

    async def call(self, method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = await self.client.post(self._path, json=body, headers=self._headers)
        assert response.status_code == 200, response.text
        answer = response.json()
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    async def stream(self, method: str, **params: Any) -> list[Json]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = await self.client.post(self._path, json=body, headers=self._headers)
        assert response.status_code == 200, response.text
        if response.headers["content-type"].startswith("application/json"):
            raise RpcError(response.json()["error"])
        lines = [
            json.loads(line.removeprefix("data: "))
            for line in response.text.splitlines()
            if line.startswith("data: ")
        ]
        return [line["result"] for line in lines]

    def message(self, *parts: Json | str, **more: Any) -> Json:
        given = [{"text": part} if isinstance(part, str) else part for part in parts]
        id = f"{self._prefix}{next(self._ids)}"
        return {"messageId": id, "role": "ROLE_USER", "parts": given, **more}

    async def send(
        self, *parts: Json | str, configuration: Json | None = None, **more: Any
    ) -> Json:
        return await self.send_message(self.message(*parts, **more), configuration)

    async def send_message(self, message: Json, configuration: Json | None = None) -> Json:
        more = {} if configuration is None else {"configuration": configuration}
        result = await self.call("SendMessage", message=message, **more)
        return result["task"]

    async def answer(self, task: Json, *parts: Json | str, **more: Any) -> Json:
        return await self.send(*parts, taskId=task["id"], **more)

    async def get(self, task: Json, **more: Any) -> Json:
        return await self.call("GetTask", id=task["id"], **more)

    async def completed(self, task: Json) -> Json:
        """Get a task until it is completed."""
        async with asyncio.timeout(30):
            while state(found := await self.get(task)) != "completed":  # noqa: ASYNC110  as a client polls
                await asyncio.sleep(0.05)
        return found


def answers(**by_id: Json) -> Json:
    """Return a part with structured answers."""
    return {"data": {"midturn": "answers", "answers": by_id}}


def state(task: Json) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_").lower()


def texts(task: Json) -> list[str]:
    """The texts of the status message."""
    return [part["text"] for part in task["status"]["message"]["parts"] if "text" in part]


def questions(task: Json) -> list[Json]:
    """The structured questions of the status message."""
    return [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]


def answer_text(task: Json) -> list[str]:
    """The texts of the answer."""
    return [part["text"] for each in task.get("artifacts", ()) for part in each["parts"]]


def user_of(request: Any) -> str | None:
    """Return the principal in a header of the test."""
    return request.headers.get("x-user")


def served(agent: mt.Agent, **options: Any) -> Any:
    from midturn.integrations import a2a

    given: Any = {"user": user_of, "card": CARD, "work": False, **options}
    return a2a.app(agent, **given)


@asynccontextmanager
async def serving(agent: mt.Agent, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve an agent in this process."""
    transport = httpx.ASGITransport(app=served(agent, **options))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://agent", timeout=30
    ) as client:
        yield client


def scripted(
    *script: Mapping[str, Any],
    tools: Sequence[Any] = (),
    store: ConversationStore | None = None,
    **more: Any,
) -> mt.Agent:
    """Return an agent with a scripted model."""
    model = mt.ScriptedModel([dict(step) for step in script])
    return mt.Agent(model, tools=list(tools), store=store, **more)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a step of a script that calls a tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}
