"""Requests that are no runs, users, and other sites."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

import midturn as mt
from midturn.extras import install_command
from support.agui import FrontEnd, scripted, serving

RUN: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": []}
JSON = {"content-type": "application/json", "x-user": "ada"}


def post(content: bytes, headers: dict[str, str] | None = None, **options: Any) -> httpx.Response:
    """Send a body to an agent that has nothing to say."""

    async def scene() -> httpx.Response:
        async with serving(scripted(), **options) as client:
            return await client.post("/", content=content, headers=headers or JSON)

    return asyncio.run(scene())


BROKEN: dict[str, tuple[bytes, int, str]] = {
    "no JSON": (b"{", 400, "not JSON"),
    "no UTF-8": (b'"\xff"', 400, "not JSON"),
    "too deep": (b"[" * 100_000, 400, "not JSON"),
    "no object": (b"[]", 422, "object"),
    "no thread": (json.dumps({**RUN, "threadId": None}).encode(), 422, "/threadId"),
    "empty run": (json.dumps({**RUN, "runId": ""}).encode(), 422, "/runId"),
    "number as id": (json.dumps({**RUN, "runId": 7}).encode(), 422, "/runId"),
    "long id": (json.dumps({**RUN, "threadId": "t" * 257}).encode(), 422, "/threadId"),
    "control character": (json.dumps({**RUN, "threadId": "t\n"}).encode(), 422, "/threadId"),
    "lone surrogate": (json.dumps({**RUN, "threadId": "\ud800"}).encode(), 400, "surrogate"),
    "no messages": (b'{"threadId": "t", "runId": "r"}', 422, "/messages"),
    "message without role": (json.dumps({**RUN, "messages": [{}]}).encode(), 422, "/messages/0"),
    "content that is a number": (
        json.dumps({**RUN, "messages": [{"id": "m", "role": "user", "content": 1}]}).encode(),
        422,
        "/messages/0/content",
    ),
    "resume no array": (json.dumps({**RUN, "resume": {}}).encode(), 422, "/resume"),
    "entry without id": (
        json.dumps({**RUN, "resume": [{"status": "cancelled"}]}).encode(),
        422,
        "/resume/0/interruptId",
    ),
    "entry without status": (
        json.dumps({**RUN, "resume": [{"interruptId": "i"}]}).encode(),
        422,
        "/resume/0/status",
    ),
    "version 2": (json.dumps({**RUN, "protocolVersion": "2.0"}).encode(), 422, "/protocolVersion"),
    "too many messages": (
        json.dumps(
            {**RUN, "messages": [{"id": f"{n}", "role": "user", "content": "x"} for n in range(21)]}
        ).encode(),
        422,
        "/messages",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_input_is_an_error_before_the_stream(name: str) -> None:
    content, status, told = BROKEN[name]
    response = post(content)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert told in response.json()["message"]


def test_body_is_limited() -> None:
    response = post(b'{"a": "' + b"x" * (16 * 1024 * 1024) + b'"}')
    assert (response.status_code, response.json()["error"]) == (413, "too_large")


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded"])
def test_forms_of_other_sites_cannot_run(media_type: str) -> None:
    """A browser sends these types without asking the server first."""
    response = post(json.dumps(RUN).encode(), {"content-type": media_type, "x-user": "ada"})
    assert response.status_code == 415


def test_stranger_gets_401() -> None:
    response = post(json.dumps(RUN).encode(), {"content-type": "application/json"})
    assert response.status_code == 401


@pytest.mark.parametrize("name", ["", " ", "a\nb"])
def test_invalid_name_is_a_stranger(name: str) -> None:
    def a_user(_: object) -> str:
        return name

    response = post(json.dumps(RUN).encode(), user=a_user)
    assert response.status_code == 401


def test_user_may_be_a_coroutine() -> None:
    async def user(_: object) -> str:
        await asyncio.sleep(0)
        return "ada"

    assert post(json.dumps(RUN).encode(), user=user).status_code == 200


ORIGIN = "https://chat.example.org"


@pytest.mark.parametrize(
    ("origin", "status"), [(ORIGIN, 200), ("http://agent", 200), ("https://evil.example", 403)]
)
def test_origin_of_a_page(origin: str, status: int) -> None:
    response = post(json.dumps(RUN).encode(), {**JSON, "origin": origin}, origins=[ORIGIN])
    assert response.status_code == status
    allowed = response.headers.get("access-control-allow-origin")
    assert allowed == (ORIGIN if origin == ORIGIN else None)


def test_other_sites_are_refused_by_default() -> None:
    response = post(json.dumps(RUN).encode(), {**JSON, "origin": ORIGIN})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_snake_case_and_unknown_members_are_read() -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "Hi."})) as client:
            body: dict[str, Any] = {
                "thread_id": "t",
                "run_id": "r",
                "protocol_version": "1.1",
                "messages": [{"role": "user", "content": "Hi."}],
                "forwarded_props": {},
                "new_member": [1],
            }
            run = await FrontEnd(client).post(body)
            assert run.status_code == 200
            assert '"threadId":"t"' in run.text
            assert '"id":"r-0"' in run.text

    asyncio.run(scene())


def test_capabilities() -> None:
    async def scene() -> None:
        async with serving(scripted()) as client:
            assert (await client.get("/capabilities")).status_code == 401
            found = await client.get("/capabilities", headers={"x-user": "ada"})
            assert found.json()["humanInTheLoop"]["interrupts"] is True
            assert (await client.get("/", headers={"x-user": "ada"})).status_code == 405

    asyncio.run(scene())


@pytest.mark.parametrize("thread", ["%7F", "t" * 257])
def test_events_of_an_invalid_thread_id(thread: str) -> None:
    async def scene() -> None:
        async with serving(scripted()) as client:
            path = f"/threads/{thread}/events"
            assert (await client.get(path)).status_code == 401
            assert (await client.get(path, headers={"x-user": "ada"})).status_code == 404

    asyncio.run(scene())


def test_events_of_a_thread_whose_key_would_be_too_long() -> None:
    async def scene() -> None:
        async with serving(scripted()) as client:
            headers = {"x-user": "a" * 1000}
            assert (await client.get("/threads/t/events", headers=headers)).status_code == 404

    asyncio.run(scene())


def test_store_without_keys_is_an_error_of_the_run() -> None:
    class OldPort:
        def __init__(self, port: object) -> None:
            self._port = port

        def __getattr__(self, name: str) -> object:
            if name in ("find_key", "assign_key"):
                raise AttributeError(name)
            return getattr(self._port, name)

    async def scene() -> None:
        store = mt.MemoryStore()
        store.port = OldPort(store.port)  # type: ignore[assignment]
        async with serving(scripted(store=store)) as client:
            response = await client.post("/", json=RUN, headers={"x-user": "ada"})
            assert '"code":"store"' in response.text

    asyncio.run(scene())


def test_missing_package_names_the_extra() -> None:
    program = "import sys; sys.modules['starlette'] = None; import midturn.integrations.agui"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1].endswith(f"the extra `agui`: {install_command('agui')}")
