"""`midturn mcp` with clients that receive a form as a call's result.

They repeat the call with the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, types
from mcp.types import INVALID_PARAMS

from midturn.clock import SYSTEM
from midturn.integrations.mcp_server.asking import ServerWait
from midturn.integrations.mcp_server.server import make_server
from midturn.stores.opening import FileStore
from support.channels.sentences import CONDITIONAL, NOT_A_DECISION
from support.mcp_clients import MODERN, Person
from support.mcp_tasks import recorded, waiting

pytestmark = pytest.mark.timeout(600)
SURE = {"question": "Ship it?", "answer_type": "boolean"}
STEPS = {
    "questions": [
        {"id": "ship", "text": "Ship it?", "answer_type": "boolean"},
        {
            "id": "when",
            "text": "When?",
            "answer_type": "text",
            "when": {"question_id": "ship", "equals": True},
        },
    ]
}


@asynccontextmanager
async def client_on(folder: Path, *, shared: bool = False) -> AsyncGenerator[Client]:
    settings = ServerWait(slice=0.1, quickest=0, shared=shared)
    info = types.Implementation(name="claude-code", version="1")
    async with Client(
        make_server(FileStore(folder), {}, SYSTEM, settings),
        mode=MODERN,
        client_info=info,
        elicitation_callback=Person(),
    ) as one:
        yield one


async def call(
    client: Client, arguments: dict[str, Any], state: str | None = None, **responses: Any
) -> Any:
    """Make a call without the client library's loop, or repeat it with responses."""
    brought = responses or None
    return await client.session.call_tool(
        "ask_user",
        arguments,
        allow_input_required=True,
        input_responses=brought,
        request_state=state,
    )


def accept(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


def data(result: Any) -> Mapping[str, Any]:
    assert isinstance(result, types.CallToolResult), result
    assert result.structured_content is not None
    return result.structured_content


def test_every_form_has_its_own_state(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_on(tmp_path) as client:
            first = await call(client, STEPS)
            second = await call(client, STEPS, first.request_state, form=accept(ship=True))
            assert first.request_state != second.request_state
            assert list(second.input_requests["form"].params.requested_schema["properties"]) == [
                "when"
            ]
            done = await call(client, STEPS, second.request_state, form=accept(when="Now."))
            assert data(done)["answers"] == {"ship": True, "when": "Now."}

    asyncio.run(work())


@pytest.mark.parametrize("shared", [False, True])
def test_a_modified_state_is_refused_without_asking(tmp_path: Path, *, shared: bool) -> None:
    async def work() -> None:
        async with client_on(tmp_path, shared=shared) as client:
            first = await call(client, SURE)
            asked = await waiting(tmp_path)
            given = first.request_state
            for state in (
                f"x{given}",
                f"{given}x",
                "-TAMPERED",
                given[:-1] if shared else given.replace("-", "-a"),
            ):
                with pytest.raises(MCPError) as raised:
                    await call(client, SURE, state, form=accept(answer=True))
                assert raised.value.code == INVALID_PARAMS
            with pytest.raises(MCPError):
                await call(
                    client, STEPS, first.request_state, form=accept(ship=True)
                )  # the state belongs to another call
            assert await waiting(tmp_path) == asked
        assert await recorded(tmp_path) == []

    asyncio.run(work())


def test_an_answer_to_a_form_that_was_not_shown_is_ignored_and_the_form_is_shown(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with client_on(tmp_path) as client:
            first = await call(client, SURE, form=accept(answer=True))
            assert isinstance(first, types.InputRequiredResult)
            assert await recorded(tmp_path) == []
            done = await call(client, SURE, first.request_state, form=accept(answer=False))
            assert data(done)["answer"] is False

    asyncio.run(work())


def test_an_old_form_is_not_answered_by_a_later_response(tmp_path: Path) -> None:
    questions = [{**question, "answer_type": "boolean"} for question in STEPS["questions"]]

    async def work() -> None:
        async with client_on(tmp_path) as client:
            first = await call(client, {"questions": questions})
            (question,) = await FileStore(tmp_path).pending()
            await FileStore(tmp_path).answer(question.id, True, via="inbox")
            second = await call(
                client,
                {"questions": questions},
                first.request_state,
                form=accept(ship=False, when=False),
            )
            assert isinstance(second, types.InputRequiredResult)
            assert [event.answer for event in await recorded(tmp_path)] == [True]

    asyncio.run(work())


def test_an_unrelated_response_shows_the_form_again_a_few_times(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_on(tmp_path) as client:
            result = await call(client, SURE)
            rounds = 0
            while isinstance(result, types.InputRequiredResult):
                rounds += 1
                assert rounds < 20
                result = await call(client, SURE, result.request_state, wrong=accept(answer=True))
            assert rounds > 1
            assert data(result)["status"] == "waiting"
            assert len(await waiting(tmp_path)) == 1
        assert await recorded(tmp_path) == []

    asyncio.run(work())


@pytest.mark.parametrize(
    "words", [*CONDITIONAL, *NOT_A_DECISION, "yes", "no, because it is Friday"]
)
def test_text_of_a_client_is_not_a_yes_or_no(tmp_path: Path, words: str) -> None:
    async def work() -> None:
        async with client_on(tmp_path) as client:
            first = await call(client, SURE)
            second = await call(client, SURE, first.request_state, form=accept(answer=words))
            assert data(second)["status"] == "waiting"
            assert len(await waiting(tmp_path)) == 1
        assert await recorded(tmp_path) == []

    asyncio.run(work())


def test_a_restarted_server_shows_the_form_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with client_on(tmp_path) as client:
            first = await call(client, SURE)
        async with client_on(tmp_path) as client:
            second = await call(client, SURE, first.request_state, form=accept(answer=True))
            assert isinstance(second, types.InputRequiredResult), (
                "how long it was shown is not known any more"
            )
            assert (
                data(await call(client, SURE, second.request_state, form=accept(answer=True)))[
                    "answer"
                ]
                is True
            )
        assert len(await recorded(tmp_path)) == 1

    asyncio.run(work())
