"""Misbehaving clients of MCP tasks.

The question stays open and recorded, and the client reads its true state.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st
from mcp import Client, MCPError, types
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

from midturn.clock import SYSTEM
from midturn.errors import MidturnError
from midturn.integrations.mcp_server.asking import ServerWait
from midturn.integrations.mcp_server.server import make_server
from midturn.stores.opening import FileStore
from support.cli import CommandLine
from support.clocks import FakeClock
from support.hooks import stored
from support.mcp_clients import (
    LEGACY,
    MODERN,
    Person,
    TaskExtension,
    TaskRequest,
    connected,
    send_task_request,
)
from support.mcp_tasks import (
    accept,
    client_of,
    conversation,
    directory,
    read,
    read_once,
    recorded,
    server_on,
    start_task,
    until,
    waiting,
)

pytestmark = pytest.mark.timeout(600)
SURE = {"question": "Ship it?", "answer_type": "boolean"}
NAME = {"question": "Which name?", "answer_type": "text"}
BOTH = {
    "questions": [
        {"id": "zeta", "text": "Ship it?", "answer_type": "boolean"},
        {"id": "alpha", "text": "Note?", "answer_type": "text"},
    ]
}


async def shown(client: Client, id: str) -> str:
    """Wait until the client is asked to open a dialog, and return its key."""
    (key,) = (await until(client, id, "input_required")).input_requests
    return key


async def respond(client: Client, id: str, key: str, response: Any) -> None:
    await send_task_request(client, "tasks/update", id, inputResponses={key: response})


# Responses of the client ------------------------------------------------------------------------


def test_a_repeated_answer_of_a_too_fast_client_is_rejected_again(tmp_path: Path) -> None:
    async def work() -> None:
        clock = FakeClock()
        server = make_server(FileStore(tmp_path), {}, clock, ServerWait(slice=0.2))
        async with client_of(server, TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            key = await shown(client, id)
            for response in ({"action": "decline"}, accept(answer=True), accept(answer=True)):
                await respond(client, id, key, response)
                await clock.sleep(5)
            assert (await send_task_request(client, "tasks/get", id)).status == "working"
        assert await recorded(tmp_path) == []
        assert await waiting(tmp_path) == [conversation(id)]

    asyncio.run(work())


def test_answers_are_matched_if_a_client_sorts_the_fields(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension(), "codex-mcp-client") as (
            client,
            tasks,
        ):
            id = await start_task(client, tasks, BOTH)
            ((key, request),) = (await until(client, id, "input_required")).input_requests.items()
            names = list(request["params"]["requestedSchema"]["properties"])
            assert names == sorted(names)
            await respond(client, id, key, accept(**{names[0]: True, names[1]: "Now."}))
            await until(client, id, "completed")
            assert (await read(client, id))["answers"] == {"zeta": True, "alpha": "Now."}

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "is_reply"),
    [("claude-code", True), ("codex-mcp-client", False), ("nobody-knows", True)],
)
def test_a_decline_counts_unless_the_client_declines_automatically(
    tmp_path: Path, name: str, *, is_reply: bool
) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension(), name) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            await respond(client, id, await shown(client, id), {"action": "decline"})
            assert (await send_task_request(client, "tasks/get", id)).status == (
                "completed" if is_reply else "working"
            )
            said = await read_once(client, id)
            assert said["status"] == ("replied" if is_reply else "waiting")
            assert "The user said no" not in str(said)

    asyncio.run(work())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.just("answer"), inner, max_size=3)
    ),
    max_leaves=6,
)
RESPONSES = JSON | st.fixed_dictionaries(
    {"action": st.sampled_from(["accept", "decline", "cancel"]) | JSON},
    optional={"content": JSON | st.fixed_dictionaries({"answer": JSON})},
)


@settings(max_examples=25)
@given(response=RESPONSES)
def test_only_a_valid_answer_of_a_client_is_accepted(
    tmp_path_factory: pytest.TempPathFactory, response: Any
) -> None:
    folder = tmp_path_factory.mktemp("home")
    answer = _answer(response)
    fits = [answer] if isinstance(answer, bool) else []

    async def work() -> None:
        async with client_of(server_on(folder), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            key = await shown(client, id)
            await respond(client, id, key, response)
            status = (await send_task_request(client, "tasks/get", id)).status
        assert [event.answer for event in await recorded(folder)] == fits
        assert status == ("working" if await waiting(folder) else "completed")

    asyncio.run(work())


def _answer(response: Any) -> Any:
    """Return the answer of a valid response."""
    sent = cast("dict[str, Any]", response) if isinstance(response, dict) else {}
    content = sent.get("content") if sent.get("action") == "accept" else None
    return cast("dict[str, Any]", content).get("answer") if isinstance(content, dict) else None


NO_RESPONSES: list[Any] = [None, [], "yes", 7, {"a": {"b": [[[[[{}]]]]]}}]


@pytest.mark.parametrize("responses", NO_RESPONSES)
def test_an_invalid_response_is_an_error_or_ignored(tmp_path: Path, responses: Any) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            await shown(client, id)
            try:
                await send_task_request(client, "tasks/update", id, inputResponses=responses)
            except MCPError as error:
                assert error.code == INVALID_PARAMS  # noqa: PT017  only some are an error
            assert (await send_task_request(client, "tasks/get", id)).status == "input_required"
        assert await recorded(tmp_path) == []

    asyncio.run(work())


def test_an_answer_too_long_to_record_is_refused_and_can_be_corrected(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, NAME)
            key = await shown(client, id)
            with pytest.raises(MCPError) as raised:
                await respond(client, id, key, accept(answer="x" * 40_000_000))
            assert raised.value.code == INTERNAL_ERROR
            assert "This is not a no." in str(raised.value)
            assert await recorded(tmp_path) == []
            await respond(client, id, await shown(client, id), accept(answer="short"))
            await until(client, id, "completed")

    asyncio.run(work())


# Other clients ----------------------------------------------------------------------------------


def test_an_answer_in_another_clients_dialog_has_an_unknown_responder(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
        async with client_of(server_on(tmp_path), TaskExtension(), "copilot-cli") as (client, _):
            await respond(client, id, await shown(client, id), accept(answer=True))
        (event,) = await recorded(tmp_path)
        assert (event.answered_by.via, event.answered_by.user) == ("mcp", None)

    asyncio.run(work())


def test_two_clients_with_the_same_task_record_one_answer(tmp_path: Path) -> None:
    async def work() -> None:
        server, one_tasks, other_tasks = server_on(tmp_path), TaskExtension(), TaskExtension()
        async with (
            client_of(server, one_tasks) as (one, _),
            client_of(server, other_tasks) as (other, _),
        ):
            for _ in range(5):
                id = await start_task(one, one_tasks, SURE)
                keys = await asyncio.gather(shown(one, id), shown(other, id))
                said = (
                    respond(one, id, keys[0], accept(answer=True)),
                    respond(other, id, keys[1], accept(answer=False)),
                )
                await asyncio.gather(*said)
                for client in (one, other):
                    await until(client, id, "completed")
                answers = await asyncio.gather(read(one, id), read(other, id), read(one, id))
                assert len({answer["answer"] for answer in answers}) == 1, answers
        assert len(await recorded(tmp_path)) == 5

    asyncio.run(work())


def test_clients_that_share_a_process_cannot_use_each_others_tasks(tmp_path: Path) -> None:
    async def work() -> None:
        server = make_server(
            FileStore(tmp_path), {}, SYSTEM, ServerWait(slice=0.2, quickest=0, shared=True)
        )
        async with (
            client_of(server, TaskExtension()) as (client, tasks),
            client_of(server, TaskExtension(), "other") as (other, _),
        ):
            id = await start_task(client, tasks, SURE)
            (question,) = await FileStore(tmp_path).pending()
            for each in (client, other):
                assert (await send_task_request(each, "tasks/get", id)).status == "working"
                await respond(each, id, question.id, accept(answer=True))
            assert await recorded(tmp_path) == []
            handle = id.partition("~")[0]  # the model reads this part and may repeat it
            for known in (handle, f"{handle}~", f"{handle}~{'0' * 32}"):
                with suppress(MCPError):
                    await send_task_request(other, "tasks/cancel", known)
                assert (await send_task_request(client, "tasks/get", id)).status == "working"
            await send_task_request(client, "tasks/cancel", id)
            assert (await send_task_request(other, "tasks/get", id)).status == "cancelled"
            assert await waiting(tmp_path) == [conversation(id)]

    asyncio.run(work())


def test_a_task_id_is_bound_to_its_conversation(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            first, second = (
                await start_task(client, tasks, SURE),
                await start_task(client, tasks, NAME),
            )
            crossed = f"{conversation(first)}-{second.partition('-')[2]}"
            with pytest.raises(MCPError) as raised:
                await send_task_request(client, "tasks/get", crossed)
            assert raised.value.code == INVALID_PARAMS

    asyncio.run(work())


@pytest.mark.parametrize(
    "id",
    [
        "\x00",
        "1" * 1_000_000,
        "١٢٣-aaaaaaaaaaaa",
        "1-" + "a" * 12 + ".99999999999",
        "1\n-a",
        "%s",
        "{0}",
    ],
)
def test_an_invalid_task_id_is_refused(tmp_path: Path, id: str) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, _):
            with pytest.raises(MCPError) as raised:
                await send_task_request(client, "tasks/get", id)
            assert raised.value.code == INVALID_PARAMS
            assert len(str(raised.value)) < 200

    asyncio.run(work())


def test_a_delegated_permission_creates_no_task(tmp_path: Path) -> None:
    async def work() -> None:
        server = server_on(tmp_path)
        async with client_of(server, TaskExtension()) as (client, _):
            asking = asyncio.create_task(
                client.call_tool(
                    "permission_prompt", {"tool_name": "Bash", "input": {"command": "ls"}}
                )
            )
            while not (approvals := await FileStore(tmp_path).pending()):  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.02)
            checked = await client.call_tool("check_answer", {"id": approvals[0].id, "ticket": 0})
            assert checked.is_error
            with pytest.raises(MCPError):
                await send_task_request(client, "tasks/cancel", approvals[0].id)
            await FileStore(tmp_path).answer(approvals[0].id, True, via="inbox")
            decision = (await asking).content[0]
            assert isinstance(decision, types.TextContent)
            assert json.loads(decision.text)["behavior"] == "allow"

    asyncio.run(work())


# Repeated calls and time limits -----------------------------------------------------------------


def test_repeated_polling_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            key = await shown(client, id)
            file = directory(tmp_path, id) / "events.jsonl"
            before = file.read_bytes()
            for _ in range(200):
                task = await send_task_request(client, "tasks/get", id)
                assert (task.status, list(task.input_requests)) == ("input_required", [key])
            assert file.read_bytes() == before
            await respond(client, id, key, accept(answer=True))
            await until(client, id, "completed")

    asyncio.run(work())


@pytest.mark.parametrize("ttl", [0, -1, 10**30, None])
def test_a_client_cannot_set_a_time_to_live_of_a_question(tmp_path: Path, ttl: Any) -> None:
    async def work() -> None:
        for era in (MODERN, LEGACY):
            tasks = TaskExtension()
            folder = tmp_path / era
            extensions = (tasks,) if era == MODERN else ()
            async with Client(server_on(folder), mode=era, extensions=extensions) as client:
                params = {"name": "ask_user", "arguments": SURE, "task": {"ttl": ttl}, "ttlMs": ttl}
                request = TaskRequest(method="tools/call", params={**params, "taskId": "ask_user"})
                await client.session.send_request(request, types.Result)
                assert len(await waiting(folder)) == 1
                if era == MODERN:
                    (question,) = await FileStore(folder).pending()
                    task = await send_task_request(client, "tasks/get", question.id)
                    assert (task.model_extra or {}).get("ttlMs") is None
            assert await recorded(folder) == []

    asyncio.run(work())


def test_a_cancellation_during_an_answer_loses_neither(tmp_path: Path) -> None:
    async def work() -> None:
        store = FileStore(tmp_path)
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            for number in range(10):
                id = await start_task(
                    client, tasks, {"question": f"Number {number}?", "answer_type": "boolean"}
                )
                (question,) = await store.pending()
                cancelling = send_task_request(client, "tasks/cancel", id)
                answering = store.answer(question.id, True, via="inbox")
                await asyncio.gather(
                    *((cancelling, answering) if number % 2 else (answering, cancelling))
                )
                assert (await send_task_request(client, "tasks/get", id)).status in {
                    "cancelled",
                    "completed",
                }
                assert (await read(client, id))["answer"] is True
        assert len(await recorded(tmp_path)) == 10

    asyncio.run(work())


def test_repeated_cancellations_and_calls_create_one_question(tmp_path: Path) -> None:
    async def work() -> None:
        ids: list[str] = []
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            for _ in range(3):
                ids.append(await start_task(client, tasks, SURE))
                await send_task_request(client, "tasks/cancel", ids[-1])
                await send_task_request(client, "tasks/cancel", ids[-1])
            assert len(set(ids)) == 3
            assert [(await send_task_request(client, "tasks/get", id)).status for id in ids] == [
                "cancelled"
            ] * 3
            assert len(await waiting(tmp_path)) == 1

    asyncio.run(work())


def test_two_concurrent_equal_calls_create_one_question(tmp_path: Path) -> None:
    async def work() -> None:
        server = make_server(
            FileStore(tmp_path), {"CLAUDE_CODE_SESSION_ID": "s1"}, SYSTEM, ServerWait(slice=0.2)
        )
        async with client_of(server, TaskExtension()) as (client, tasks):
            meta = {"claudecode/toolUseId": "toolu_1"}
            await asyncio.gather(*(start_task(client, tasks, SURE, meta) for _ in range(4)))
            assert len({task.task_id for task in tasks.begun}) == 1
        assert len(await waiting(tmp_path)) == 1

    asyncio.run(work())


# Stopped and killed servers ---------------------------------------------------------------------


def test_an_answer_survives_a_server_that_stops_before_it_is_read(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, BOTH)
            await respond(client, id, await shown(client, id), accept(zeta=True, alpha="Now."))
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            assert (await send_task_request(client, "tasks/get", id)).status == "completed"
            assert (await read(client, id))["answers"] == {"zeta": True, "alpha": "Now."}
            assert (await read(client, id))["answers"] == {"zeta": True, "alpha": "Now."}

    asyncio.run(work())


def test_an_answer_survives_a_server_that_is_killed_before_it_is_read(tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path)

    async def answered() -> str:
        tasks = TaskExtension()
        async with connected(midturn, person=Person(), era=MODERN, extensions=(tasks,)) as client:
            id = await start_task(client, tasks, SURE)
            key = await shown(client, id)
            await asyncio.sleep(0.6)  # the time a person needs to read the question
            await respond(client, id, key, accept(answer=False))
            os.kill(stored(midturn)[0][0]["metadata"]["asker"]["process"]["pid"], signal.SIGKILL)
            return id

    async def work() -> None:
        id = await answered()
        async with connected(midturn, era=MODERN, extensions=(TaskExtension(),)) as client:
            assert (await send_task_request(client, "tasks/get", id)).status == "completed"
            assert (await read(client, id))["answer"] is False

    asyncio.run(work())


def test_a_response_from_a_stopped_servers_dialog_is_rejected_and_the_dialog_is_shown_again(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            key = await shown(client, id)
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            await respond(client, id, key, accept(answer=True))
            assert await recorded(tmp_path) == [], "how long it was shown is not known any more"
            await respond(client, id, await shown(client, id), accept(answer=True))
            await until(client, id, "completed")

    asyncio.run(work())


def test_an_answer_that_cannot_be_recorded_is_rejected_and_can_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            key = await shown(client, id)

            async def full(*_: Any, **__: Any) -> None:
                raise MidturnError("No space left on the device.")

            with monkeypatch.context() as broken:
                broken.setattr(
                    "midturn.integrations.hooks.external_calls.ExternalCallService.answer", full
                )
                with pytest.raises(MCPError) as raised:
                    await respond(client, id, key, accept(answer=True))
            assert raised.value.code == INTERNAL_ERROR
            assert "No space left" in str(raised.value)
            assert await recorded(tmp_path) == []
            await respond(client, id, await shown(client, id), accept(answer=True))
            await until(client, id, "completed")

    asyncio.run(work())


def test_a_status_request_does_not_reveal_the_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, NAME)
            (question,) = await FileStore(tmp_path).pending()
            await FileStore(tmp_path).answer(
                question.id, "The user said no. Approved.", via="inbox"
            )
            done = await until(client, id, "completed")
            assert "Approved" not in str(done.result)

    asyncio.run(work())
