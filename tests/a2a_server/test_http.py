"""HTTP: the card, both bindings, both versions of the protocol, access, and malformed input."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import midturn as mt
from support.a2a import (
    CARD,
    EXTENSION,
    Peer,
    RpcError,
    call,
    require_sdk,
    scripted,
    served,
    serving,
)

require_sdk()

from midturn.integrations import a2a  # noqa: E402

_SECRET = "needle-in-the-error"


def _raises(_: object) -> str:
    raise RuntimeError(_SECRET)


def _hello() -> mt.Agent:
    return scripted(*[{"text": "Hello."}] * 10)


def _message(**more: Any) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hi."}], **more}


def test_card_is_public_and_says_only_what_the_application_says() -> None:
    @mt.tool
    async def delete_everything() -> str:
        """Delete."""
        return ""

    async def scene() -> None:
        agent = scripted({"text": "x"}, tools=[delete_everything], instructions="Be secretive.")
        async with serving(agent) as client:
            response = await client.get("/.well-known/agent-card.json")
            assert response.status_code == 200
            card = response.json()
            assert card["capabilities"]["streaming"] is True
            assert card["capabilities"].get("pushNotifications", False) is False
            assert [each["uri"] for each in card["capabilities"]["extensions"]] == [EXTENSION]
            assert {
                (each["protocolBinding"], each["protocolVersion"], each["url"])
                for each in card["supportedInterfaces"]
            } == {
                ("JSONRPC", "1.0", "http://agent/rpc"),
                ("HTTP+JSON", "1.0", "http://agent/v1"),
                ("JSONRPC", "0.3", "http://agent/rpc"),
            }
            assert "delete_everything" not in response.text
            assert "secretive" not in response.text
            assert response.headers["cache-control"].startswith("public")
            assert response.headers["last-modified"].endswith("GMT")
            etag = {"if-none-match": response.headers["etag"]}
            again = await client.get("/.well-known/agent-card.json", headers=etag)
            assert again.status_code == 304

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("card", "why"),
    [
        ({}, "name"),
        ({"name": "A", "description": "B"}, "url"),
        ({"name": "A", "description": "B", "url": "ftp://x"}, "HTTP address"),
        ({"name": "A", "description": "B", "url": "http://x", "skills": 1}, "not valid"),
    ],
)
def test_invalid_card_is_refused(card: Any, why: str) -> None:
    with pytest.raises(mt.ConfigError, match=why):
        served(_hello(), card=card)


def test_push_is_off_by_default() -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            peer = Peer(client)
            config = {"taskPushNotificationConfig": {"url": "https://example.org"}}
            with pytest.raises(RpcError) as refused:
                await peer.send("Hi.", configuration=config)
            assert refused.value.code == -32003
            with pytest.raises(RpcError) as refused:
                await peer.call(
                    "CreateTaskPushNotificationConfig", taskId="x", url="https://example.org"
                )
            assert refused.value.code == -32003

    asyncio.run(scene())


def test_unknown_out_of_band_state_is_refused() -> None:
    with pytest.raises(mt.ConfigError, match="out_of_band"):
        served(_hello(), out_of_band="later")


def test_stranger_gets_401() -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            for path in ("/", "/rpc", "/rpc/", "/v1/message:send"):
                response = await client.post(path, json={})
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
            assert (await client.get("/v1/tasks")).status_code == 401

    asyncio.run(scene())


def test_page_of_another_site_is_refused() -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            headers = {"x-user": "ada", "origin": "https://evil.example"}
            assert (await client.post("/rpc", json={}, headers=headers)).status_code == 403

    asyncio.run(scene())


@pytest.mark.parametrize("path", ["/", "/rpc", "/rpc/"])
def test_json_rpc_is_served_at_every_path(path: str) -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            task = await Peer(client, path=path).send("Hi.")
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(scene())


def test_http_binding() -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            headers = {"x-user": "ada", "A2A-Version": "1.0"}
            sent = await client.post(
                "/v1/message:send", json={"message": _message()}, headers=headers
            )
            task = sent.json()["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            got = await client.get(f"/v1/tasks/{task['id']}", headers=headers)
            assert got.json()["id"] == task["id"]
            listed = await client.get("/v1/tasks", headers=headers)
            assert [each["id"] for each in listed.json()["tasks"]] == [task["id"]]
            missing = await client.get("/v1/tasks/17-none", headers=headers)
            assert missing.status_code == 404
            stream = await client.post(
                "/v1/message:stream", json={"message": _message(messageId="m2")}, headers=headers
            )
            assert '"task"' in stream.text
            refused = await client.post(f"/v1/tasks/{task['id']}:cancel", headers=headers)
            assert refused.status_code in (400, 409)

    asyncio.run(scene())


def test_version_0_3_of_the_protocol() -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            message = {
                "kind": "message",
                "messageId": "m1",
                "role": "user",
                "parts": [{"kind": "text", "text": "Hi."}],
            }
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "message/send",
                "params": {"message": message},
            }
            response = await client.post("/rpc", json=body, headers={"x-user": "ada"})
            task = response.json()["result"]
            assert task["kind"] == "task"
            assert task["status"]["state"] == "completed"

    asyncio.run(scene())


@pytest.mark.parametrize(
    "parts",
    [
        [{"raw": "aGk=", "mediaType": "image/png"}],
        [{"text": "See this."}, {"url": "https://example.org/a.png"}],
    ],
)
def test_files_are_refused(parts: Any) -> None:
    async def scene() -> None:
        agent = _hello()
        async with serving(agent) as client:
            with pytest.raises(RpcError) as refused:
                await Peer(client).send(*parts)
            assert refused.value.code == -32005
            assert await agent.store.ids() == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    "message",
    [
        {},
        _message(parts=[]),
        _message(messageId=""),
        _message(parts=[{"text": "  "}]),
        _message(parts=[{}]),
        _message(role="ROLE_AGENT"),
        _message(contextId="a\nb"),
        _message(contextId="x" * 300),
        _message(parts=[{"text": "x" * (256 * 1024 + 1)}]),
        _message(parts="Hi."),
        "Hi.",
        None,
    ],
)
def test_malformed_message_is_refused(message: Any) -> None:
    async def scene() -> None:
        agent = _hello()
        async with serving(agent) as client:
            with pytest.raises(RpcError) as refused:
                await Peer(client).call("SendMessage", message=message)
            assert refused.value.code in (-32602, -32600)
            assert await agent.store.ids() == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"jsonrpc": "2.0"}',
        b"[" * 100_000,
        b'"\xff"',
        b'{"method": "Nothing"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": "\\ud800"}}',
    ],
)
def test_malformed_body_is_refused(body: bytes) -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            headers = {"x-user": "ada", "A2A-Version": "1.0", "content-type": "application/json"}
            response = await client.post("/rpc", content=body, headers=headers)
            assert response.status_code in (200, 400)
            assert response.status_code == 400 or "error" in response.json()

    asyncio.run(scene())


def test_large_body_is_refused() -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            headers = {"x-user": "ada", "A2A-Version": "1.0"}
            response = await client.post("/rpc", content=b"x" * 3_000_000, headers=headers)
            assert response.status_code == 413
            stranger = await client.post("/rpc", content=b"x" * 300_000)
            assert stranger.status_code == 401

    asyncio.run(scene())


@pytest.mark.parametrize("task", ["", "x", "17", "17-none", "../../etc/passwd", "17-\x00", "-"])
def test_unknown_task_is_not_found(task: str) -> None:
    async def scene() -> None:
        async with serving(_hello()) as client:
            with pytest.raises(RpcError) as refused:
                await Peer(client).call("GetTask", id=task)
            assert refused.value.code in (-32001, -32602)

    asyncio.run(scene())


def test_conversation_of_another_interface_is_no_task() -> None:
    async def scene() -> None:
        agent = _hello()
        result = await agent.run("Hi.", author="ada")
        events = (await agent.store.read(result.conversation)).events
        start = next(each for each in events if each.type == "turn_start")
        async with serving(agent) as client:
            peer = Peer(client)
            with pytest.raises(RpcError) as refused:
                await peer.call("GetTask", id=f"{result.conversation}-{start.event_id}")
            assert refused.value.code == -32001
            task = await peer.send("Hi.", contextId=result.conversation)
            assert not task["id"].startswith(f"{result.conversation}-")

    asyncio.run(scene())


def test_error_of_the_program_is_not_shown() -> None:
    @mt.tool
    async def ask(ctx: mt.ToolContext) -> str:
        """Ask."""
        return await ctx.ask(mt.Question.text("what", "What?"))

    async def scene() -> None:
        async with serving(_hello(), people=_raises) as client:
            with pytest.raises(RuntimeError, match=_SECRET):  # the HTTP server logs it
                await Peer(client).call("ListTasks")

        def broken(*_: object) -> bool:
            return bool(_raises(_))

        agent = scripted(call("ask"), {"text": "x"}, tools=[ask], may_answer=broken)
        async with serving(agent) as client:
            with pytest.raises(RpcError) as failed:
                await Peer(client).send("Ask.")
            assert (failed.value.code, _SECRET in failed.value.message) == (-32603, False)

    asyncio.run(scene())


def test_tool_errors_are_not_shown() -> None:
    @mt.tool
    async def fail() -> str:
        """Fail."""
        raise RuntimeError(_SECRET)

    async def scene() -> None:
        async with serving(scripted(call("fail"), {"text": "Sorry."}, tools=[fail])) as client:
            task = await Peer(client).send("Go.")
            assert _SECRET not in f"{task}"

    asyncio.run(scene())


def test_application_can_be_mounted() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    async def scene() -> None:
        app = Starlette(routes=[Mount("/agent", served(_hello()))])
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            assert (await client.get("/agent/.well-known/agent-card.json")).status_code == 200
            assert (await Peer(client, path="/agent/rpc").send("Hi."))["id"]

    asyncio.run(scene())


def test_public_names() -> None:
    assert "app" in a2a.__all__
    assert CARD["url"]
