"""Failures in `permission_prompt` of `midturn mcp`.

In every case, a call runs only after an approval.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from mcp.server.lowlevel import Server

from midturn.clock import SYSTEM
from midturn.errors import StoreError
from midturn.events.open_question import OpenQuestion
from midturn.integrations.mcp_server.asking import ServerWait
from midturn.integrations.mcp_server.server import make_server
from midturn.stores.opening import FileStore
from support.mcp_tasks import waiting

pytestmark = pytest.mark.timeout(600)
CALL = {"tool_name": "Bash", "input": {"command": "rm -r build"}, "tool_use_id": "call_1"}


def server_on(folder: Path, *, shared: bool = False) -> Server[Any]:
    return make_server(FileStore(folder), {}, SYSTEM, ServerWait(shared=shared))


async def permitted(client: Client, call: Any = CALL) -> dict[str, Any]:
    """Send the request of an agent, and return its decision."""
    content = (await client.call_tool("permission_prompt", call)).content[0]
    assert isinstance(content, types.TextContent)
    return json.loads(content.text)


async def open_on(folder: Path, count: int = 1) -> list[OpenQuestion]:
    """Wait until `count` permission requests are open."""
    while len(found := await FileStore(folder).pending()) < count:  # noqa: ASYNC110  nothing tells
        await asyncio.sleep(0.02)
    return found


def test_over_http_a_yes_counts_only_for_the_client_that_asked(tmp_path: Path) -> None:
    async def work() -> None:
        server = server_on(tmp_path, shared=True)
        async with Client(server) as one, Client(server) as other:
            asking = asyncio.create_task(permitted(one))
            (question,) = await open_on(tmp_path)
            await FileStore(tmp_path).answer(question.id, True, via="inbox")
            assert (await asking)["behavior"] == "allow"
            again = asyncio.create_task(permitted(other))
            (question,) = await open_on(tmp_path)
            assert not again.done()
            await FileStore(tmp_path).answer(question.id, False, reason="Not you.", via="inbox")
            assert await again == {"behavior": "deny", "message": "The user said no: Not you."}

    asyncio.run(work())


@pytest.mark.parametrize(
    "error", [StoreError("No space left on the device."), RuntimeError("a mistake of ours")]
)
@pytest.mark.parametrize("where", ["permission", "wait", "close"])
def test_a_failing_permission_request_gets_a_decision_and_records_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, where: str
) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise error

    async def work() -> None:
        async with Client(server_on(tmp_path)) as client:
            monkeypatch.setattr(
                f"midturn.integrations.hooks.external_calls.ExternalCallService.{where}", fails
            )
            asking = asyncio.create_task(permitted(client))
            if where == "close":
                (question,) = await open_on(tmp_path)
                await FileStore(tmp_path).answer(question.id, True, via="inbox")
                assert (await asking)["behavior"] == "allow", "somebody has allowed it"
            else:
                decision = await asking
                assert decision["behavior"] == "deny"
                assert "This is not a no." in decision["message"]

    asyncio.run(work())


@pytest.mark.parametrize(
    "call",
    [
        {"tool_name": "", "input": {}},
        {"tool_name": "x" * 100_000, "input": {}},
        {"tool_name": 7, "input": []},
    ],
)
def test_a_permission_for_any_input_is_asked_or_denied(tmp_path: Path, call: Any) -> None:
    async def work() -> None:
        async with Client(server_on(tmp_path)) as client:
            asking = asyncio.create_task(permitted(client, call))
            (question,) = await open_on(tmp_path)
            await FileStore(tmp_path).answer(question.id, False, via="inbox")
            assert (await asking)["behavior"] == "deny"
        assert await waiting(tmp_path) == []

    asyncio.run(work())
