"""`midturn mcp` with clients that support tasks.

A question becomes a task. Its answer is read with `check_answer`.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from midturn.clock import SYSTEM
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.stores.opening import FileStore
from support.cli import CommandLine
from support.hooks import answers, stored, wait_for
from support.mcp_clients import LEGACY, MODERN, TaskExtension, connected, send_task_request
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
ENV = {"question": "Which env?", "answer_type": "select", "options": ["prod", "dev"]}
SURE = {"question": "Ship it?", "answer_type": "boolean"}
BOTH = {
    "questions": [
        {"id": "ship", "text": "Ship it?", "answer_type": "boolean"},
        {"id": "note", "text": "Note?", "answer_type": "text"},
    ]
}


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@asynccontextmanager
async def task_client(
    midturn: CommandLine, **environment: str
) -> AsyncGenerator[tuple[Client, TaskExtension]]:
    """Connect a client that supports tasks and has no dialog."""
    tasks = TaskExtension()
    async with connected(
        midturn, "--slice", "0.2", person=None, era=MODERN, extensions=(tasks,), **environment
    ) as client:
        yield client, tasks


def test_the_turn_continues_and_check_answer_returns_the_answer(midturn: CommandLine) -> None:
    async def work() -> None:
        async with task_client(midturn) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            (task,) = tasks.begun
            assert (task.status, task.ttl_ms, task.poll_interval_ms) == ("working", None, 1000)
            assert (await send_task_request(client, "tasks/get", id)).status == "working"
            (question,) = await asyncio.to_thread(wait_for, midturn)
            await asyncio.to_thread(
                midturn.ok, "answer", question["id"], "no", "--reason", "Not yet."
            )
            done = await until(client, id, "completed")
            assert done.result is not None
            assert "check_answer" in done.result["content"][0]["text"]
            assert "Not yet" not in str(done.result), (
                "a task's result is nothing that a model may take for an answer"
            )
            assert (await read(client, id))["answer"] is False

    asyncio.run(work())
    (events,) = stored(midturn)
    assert [event["answered_by"] for event in answers(events)] == [
        {"by": "user", "via": "inbox", "user": "ana"}
    ]
    assert events[-1]["type"] == "turn_end"


# Dialogs ----------------------------------------------------------------------------------------


def test_the_dialog_shows_the_form_with_one_key_and_its_answer_counts(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, BOTH)
            ((key, request),) = (await until(client, id, "input_required")).input_requests.items()
            assert request["method"] == "elicitation/create"
            assert list(request["params"]["requestedSchema"]["properties"]) == ["ship", "note"]
            assert list((await send_task_request(client, "tasks/get", id)).input_requests) == [key]
            await send_task_request(
                client, "tasks/update", id, inputResponses={key: accept(ship=True, note="Now.")}
            )
            assert (await until(client, id, "completed")).input_requests == {}
            assert (await read(client, id))["answers"] == {"ship": True, "note": "Now."}
        assert {
            (event.answered_by.via, event.answered_by.user) for event in await recorded(tmp_path)
        } == {("mcp", None)}

    asyncio.run(work())


def test_dependent_questions_are_shown_one_after_the_other_with_their_own_keys(
    tmp_path: Path,
) -> None:
    questions = [
        {"id": "ship", "text": "Ship it?", "answer_type": "boolean"},
        {
            "id": "when",
            "text": "When?",
            "answer_type": "text",
            "when": {"question_id": "ship", "equals": True},
        },
    ]

    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, {"questions": questions})
            ((first, _),) = (await until(client, id, "input_required")).input_requests.items()
            await send_task_request(
                client, "tasks/update", id, inputResponses={first: accept(ship=True)}
            )
            ((second, request),) = (
                await until(client, id, "input_required")
            ).input_requests.items()
            assert second != first
            assert list(request["params"]["requestedSchema"]["properties"]) == ["when"]
            await send_task_request(
                client,
                "tasks/update",
                id,
                inputResponses={second: accept(when="Now."), first: accept(ship=False)},
            )
            await until(client, id, "completed")
            assert (await read(client, id))["answers"] == {"ship": True, "when": "Now."}

    asyncio.run(work())


HASTE: dict[str, Any] = {
    "a yes in no time": accept(answer="prod"),
    "a no in no time": {"action": "decline"},
}
LIES: dict[str, Any] = {
    "a cancel": {"action": "cancel"},
    "nothing in it": accept(),
    "none of the options": accept(answer=["prod"]),
    "no response to a form": {"roots": []},
    "no object": 7,
}


@pytest.mark.parametrize("lie", [*HASTE, *LIES])
def test_an_implausibly_fast_answer_leaves_the_question_open(tmp_path: Path, lie: str) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path, 600 if lie in HASTE else 0), TaskExtension()) as (
            client,
            tasks,
        ):
            id = await start_task(client, tasks, ENV)
            (key,) = (await until(client, id, "input_required")).input_requests
            await send_task_request(
                client, "tasks/update", id, inputResponses={key: {**HASTE, **LIES}[lie]}
            )
            assert (await send_task_request(client, "tasks/get", id)).status == "working", (
                "a key is never used twice"
            )
            assert (await read_once(client, id))["status"] == "waiting"
        assert len(await FileStore(tmp_path).pending()) == 1
        assert await recorded(tmp_path) == []

    asyncio.run(work())


def test_a_response_to_a_form_that_was_not_shown_is_ignored(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, ENV)
            (question,) = await FileStore(tmp_path).pending()
            await send_task_request(
                client,
                "tasks/update",
                id,
                inputResponses={question.id: accept(answer="prod"), "else": accept()},
            )
            assert (await send_task_request(client, "tasks/get", id)).status == "input_required"
        assert await recorded(tmp_path) == []

    asyncio.run(work())


# After restarts and cancellation ----------------------------------------------------------------


def test_a_task_survives_its_server_and_client(midturn: CommandLine) -> None:
    async def work() -> None:
        async with task_client(midturn, CLAUDE_CODE_SESSION_ID="s1") as (client, tasks):
            id = await start_task(client, tasks, SURE, meta={"claudecode/toolUseId": "toolu_1"})
        (question,) = await asyncio.to_thread(wait_for, midturn)
        assert question["asker"]["waits"] is False
        async with task_client(midturn, CLAUDE_CODE_SESSION_ID="s1") as (client, tasks):
            assert (
                await start_task(client, tasks, SURE, meta={"claudecode/toolUseId": "toolu_1"})
                == id
            ), "the same call is the same question"
            await asyncio.to_thread(midturn.ok, "answer", question["id"], "yes")
            await until(client, id, "completed")
            assert (await read(client, id))["answer"] is True
            again = await client.call_tool(
                "ask_user", SURE, meta={"claudecode/toolUseId": "toolu_1"}
            )
            assert again.structured_content is not None
            assert again.structured_content["answer"] is True, (
                "what was answered is no task any more"
            )

    asyncio.run(work())
    assert len(stored(midturn)) == 1


def test_a_cancelled_task_keeps_its_question_until_the_next_question(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            await send_task_request(client, "tasks/cancel", id)
            assert await waiting(tmp_path) == [conversation(id)]
            assert (await send_task_request(client, "tasks/get", id)).status == "cancelled"
            other = await start_task(client, tasks, ENV)
            assert await waiting(tmp_path) == [conversation(other)]
            assert (await read(client, id))["status"] == "withdrawn"
            assert (await send_task_request(client, "tasks/get", id)).status == "cancelled", (
                "what is over stays as it was"
            )
        assert await recorded(tmp_path) == []

    asyncio.run(work())


def test_a_repeated_call_after_a_cancellation_is_a_new_task_with_the_same_question(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            first = await start_task(client, tasks, SURE)
            (shown,) = (await until(client, first, "input_required")).input_requests
            await send_task_request(client, "tasks/cancel", first)
            (question,) = await FileStore(tmp_path).pending()
            assert question.asker is not None
            assert (question.asker.waits, question.asker.cancelled) == (False, True)
            await send_task_request(
                client, "tasks/update", first, inputResponses={shown: accept(answer=True)}
            )
            assert await recorded(tmp_path) == [], (
                "the dialog of a cancelled call is nobody's any more"
            )
            second = await start_task(client, tasks, SURE)
            assert second != first
            assert await waiting(tmp_path) == [conversation(first)], "nobody is asked twice"
        async with client_of(server_on(tmp_path), TaskExtension()) as (
            client,
            _,
        ):  # a restarted server
            assert (await send_task_request(client, "tasks/get", first)).status == "cancelled"
            assert (await send_task_request(client, "tasks/get", second)).status == "input_required"
            await FileStore(tmp_path).answer(question.id, True, via="inbox")
            await until(client, second, "completed")
            assert (await send_task_request(client, "tasks/get", first)).status == "cancelled"
            for id in (first, question.id):
                assert (await read(client, id))["answer"] is True, (
                    "an answer is there for whoever looks for it"
                )

    asyncio.run(work())


def test_a_cancelled_call_is_marked_and_can_still_be_answered(midturn: CommandLine) -> None:
    async def work() -> None:
        async with task_client(midturn) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            await send_task_request(client, "tasks/cancel", id)
            listed = await asyncio.to_thread(midturn.ok, "inbox")
            assert "it cancelled its call" in listed.stdout
            (question,) = await asyncio.to_thread(wait_for, midturn)
            said = await asyncio.to_thread(midturn.ok, "answer", question["id"], "yes")
            assert (
                "Claude Code cancelled its call and gets the answer when it asks again."
                in said.stderr
            )
            assert (await read(client, id))["answer"] is True

    asyncio.run(work())


def test_an_answered_task_cannot_be_cancelled(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            (question,) = await FileStore(tmp_path).pending()
            await FileStore(tmp_path).answer(question.id, False, via="inbox")
            await send_task_request(client, "tasks/cancel", id)
            assert (await send_task_request(client, "tasks/get", id)).status == "completed"
            assert (await read(client, id))["answer"] is False

    asyncio.run(work())


# Damaged and changed stores ---------------------------------------------------------------------


def test_a_task_fails_if_its_question_was_removed(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            shutil.rmtree(directory(tmp_path, id))
            lost = await send_task_request(client, "tasks/get", id)
            assert (lost.status, lost.task_id) == ("failed", id)
            assert lost.error is not None
            assert "This is not a no." in lost.error["message"]
            await send_task_request(client, "tasks/cancel", id)
            await send_task_request(client, "tasks/update", id, inputResponses={})
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            with pytest.raises(MCPError) as raised:
                await send_task_request(client, "tasks/get", id)
            assert raised.value.code == INVALID_PARAMS

    asyncio.run(work())


def test_a_task_with_a_temporarily_unreadable_question_recovers(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            events = directory(tmp_path, id) / "events.jsonl"
            events.rename(events.with_suffix(".aside"))
            events.symlink_to("/dev/null")  # a file with no content to read
            with pytest.raises(MCPError) as raised:
                await send_task_request(client, "tasks/get", id)
            assert raised.value.code == INTERNAL_ERROR
            assert "This is not a no." in str(raised.value)
            events.with_suffix(".aside").rename(events)
            assert (await send_task_request(client, "tasks/get", id)).status == "input_required"

    asyncio.run(work())


def test_a_withdrawn_question_ends_its_task_with_an_error(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            (question,) = await FileStore(tmp_path).pending()
            assert question.asker is not None
            calls = ExternalCallService(FileStore(tmp_path), question.asker, SYSTEM)
            external_call = await calls.find_call(question.conversation)
            assert external_call is not None
            await calls.close(external_call, "")
            done = await until(client, id, "completed")
            assert done.result is not None
            assert done.result["isError"] is True
            assert (
                done.result["content"][0]["text"]
                == "The question was withdrawn; nobody has answered it."
            )
        assert await recorded(tmp_path) == []

    asyncio.run(work())


def test_task_ids_cannot_be_guessed(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            id = await start_task(client, tasks, SURE)
            number, _, secret = id.partition("-")
            for guess in (
                number,
                f"{number}-",
                f"{number}-{'a' * 12}",
                f"-{secret}",
                secret,
                f"{id}-",
                f"{id}.1",
                f"{id}.0",
                f"{id}.x",
            ):
                with pytest.raises(MCPError) as raised:
                    await send_task_request(client, "tasks/get", guess)
                assert raised.value.code == INVALID_PARAMS, guess
            checked = await client.call_tool("check_answer", {"id": number, "ticket": 1})
            assert checked.is_error

    asyncio.run(work())


def test_two_concurrent_questions_are_two_tasks_answered_in_any_order(tmp_path: Path) -> None:
    store = FileStore(tmp_path)

    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, tasks):
            first, second = (
                await start_task(client, tasks, SURE),
                await start_task(client, tasks, ENV),
            )
            questions = {question.conversation: question.id for question in await store.pending()}
            await store.answer(questions[conversation(second)], "dev", via="inbox")
            await until(client, second, "completed")
            assert (await send_task_request(client, "tasks/get", first)).status == "input_required"
            await store.answer(questions[conversation(first)], True, via="inbox")
            await until(client, first, "completed")
            assert [(await read(client, id))["answer"] for id in (first, second)] == [True, "dev"]

    asyncio.run(work())


@pytest.mark.parametrize("id", ["nothing", "../../etc/passwd", ""])
def test_an_unknown_task_is_an_error(tmp_path: Path, id: str) -> None:
    async def work() -> None:
        async with client_of(server_on(tmp_path), TaskExtension()) as (client, _):
            kinds: dict[str, dict[str, Any]] = {
                "get": {},
                "update": {"inputResponses": {}},
                "cancel": {},
            }
            for kind, params in kinds.items():
                with pytest.raises(MCPError) as raised:
                    await send_task_request(client, f"tasks/{kind}", id, **params)
                assert raised.value.code == INVALID_PARAMS

    asyncio.run(work())


def test_a_client_without_the_capability_gets_no_task(tmp_path: Path) -> None:
    async def work() -> None:
        async with Client(server_on(tmp_path), mode=MODERN) as client:
            first = await client.call_tool("ask_user", SURE)
            assert first.structured_content is not None
            assert first.structured_content["status"] == "waiting"
            with pytest.raises(MCPError) as raised:
                await send_task_request(client, "tasks/get", first.structured_content["id"])
            assert raised.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY

    asyncio.run(work())


@pytest.mark.parametrize(("era", "offered"), [(LEGACY, False), ("auto", True)])
def test_only_the_newer_version_supports_tasks(tmp_path: Path, era: str, *, offered: bool) -> None:
    async def work() -> None:
        async with Client(server_on(tmp_path), mode=era) as client:
            assert (
                "io.modelcontextprotocol/tasks" in (client.server_capabilities.extensions or {})
            ) is offered

    asyncio.run(work())
