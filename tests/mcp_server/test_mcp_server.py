"""`midturn mcp` with real clients of both protocol versions. Some of the clients misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from support.cli import CommandLine
from support.hooks import Session, answers, stored, until, wait_for
from support.mcp_clients import (
    ERAS,
    LEGACY,
    HttpServer,
    Person,
    connected,
    connected_to,
    in_thread,
    served,
)
from support.warm_commands import Command, Running, kill_at_exit, started_by_others

pytestmark = pytest.mark.timeout(600)
ENV = {"question": "Which env?", "answer_type": "select", "options": ["prod", "dev"]}
SURE = {"question": "Ship it?", "answer_type": "boolean"}
BOTH = {
    "questions": [
        {"id": "ship", "text": "Ship it?", "answer_type": "boolean"},
        {"id": "note", "text": "Note?", "answer_type": "text"},
    ]
}
KILLED = Path(__file__).parents[1] / "support" / "mcp_client_to_kill.py"
"""A client program that asks one question and waits for the answer."""
each_era = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def waiting_questions(midturn: CommandLine) -> list[dict[str, Any]]:
    """Return the open questions once the client waits for the answer."""
    return until(
        lambda: midturn.ok("inbox", "--json").json, lambda questions: questions[0]["asker"]["waits"]
    )


@contextmanager
def client_to_kill(
    midturn: CommandLine, era: str, name: str, **environment: str
) -> Generator[None]:
    """Run a client that asks a question. The client is killed at the end of the block."""
    arguments, variables = (
        [json.dumps(started_by_others()), era, json.dumps(SURE), name],
        {**midturn.environment, **environment},
    )
    with kill_at_exit(
        Running(Command(arguments, midturn.root, variables, uses_network=True, program=KILLED))
    ):
        yield


def questions_left_by_a_killed_client(midturn: CommandLine, era: str) -> list[dict[str, Any]]:
    """Kill a client without a session ID while it waits. Return the questions that stay open."""
    with client_to_kill(midturn, era, "opencode"):
        wait_for(midturn)
    return until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: questions[0]["asker"]["waits"] is False,
    )


def run(work: Any) -> None:
    asyncio.run(work)


def data(result: Any) -> dict[str, Any]:
    """Return the structured content of a result, after checking that its text says the same."""
    assert result.structured_content["text"] == result.content[0].text
    return result.structured_content


async def answer(midturn: CommandLine, value: str, *options: str) -> None:
    """Answer the open question from another process."""

    def work() -> None:
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], value, *options)

    await in_thread(work)


# Tools ------------------------------------------------------------------------------------------


@each_era
def test_tools_are_listed_in_both_versions(midturn: CommandLine, era: str) -> None:
    async def work() -> None:
        async with connected(midturn, era=era) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["ask_user", "ask_person", "check_answer", "permission_prompt"]
            assert all(
                tool.annotations
                and tool.annotations.read_only_hint
                and not tool.annotations.destructive_hint
                for tool in tools.values()
            )
            assert all(
                tool.annotations and tool.annotations.open_world_hint is False
                for tool in tools.values()
            )
            assert "That is not a no" in (tools["ask_user"].description or "")

    run(work())


@each_era
def test_invalid_arguments_are_returned_with_the_errors(midturn: CommandLine, era: str) -> None:
    async def work() -> None:
        async with connected(midturn, era=era) as client:
            result = await client.call_tool(
                "ask_user", {"question": "Which?", "answer_type": "select"}
            )
            assert result.is_error
            assert "/options: missing" in data(result)["text"]
            assert midturn.ok("inbox", "--json").json == []

    run(work())


# Answers
# --------------------------------------------------------------------------------------------------


@each_era
def test_a_client_without_a_dialog_gets_the_answer_from_the_inbox(
    midturn: CommandLine, era: str
) -> None:
    async def work() -> None:
        async with connected(midturn, name="opencode", era=era) as client:
            result, _ = await asyncio.gather(
                client.call_tool("ask_person", ENV), answer(midturn, "dev")
            )
            assert data(result)["answer"] == "dev"
            assert "The user answered: dev" in data(result)["text"]

    run(work())
    (events,) = stored(midturn)
    request = next(event for event in events if event["type"] == "inquiry_request")
    assert request["source"] == {"source": "other", "name": "opencode"}
    assert [event["answered_by"] for event in answers(events)] == [
        {"by": "user", "via": "inbox", "user": "ana"}
    ]
    assert events[-1]["type"] == "turn_end"


@each_era
def test_an_answer_in_the_clients_dialog_is_recorded_with_its_source(
    midturn: CommandLine, era: str
) -> None:
    person = Person(content={"answer": "prod"})

    async def work() -> None:
        async with connected(midturn, person=person, era=era) as client:
            assert data(await client.call_tool("ask_user", ENV))["answer"] == "prod"

    run(work())
    (shown,) = person.shown
    assert "Which env?" in shown.message
    assert [event["answered_by"] for event in answers(stored(midturn)[0])] == [
        {"by": "user", "via": "mcp"}
    ]


@each_era
def test_a_call_in_another_agents_format_is_asked_with_previews(
    midturn: CommandLine, era: str
) -> None:
    person = Person(content={"q1": "wide"})
    options = [
        {"label": "wide", "preview": "+--+"},
        {"label": "narrow", "description": "One column"},
    ]
    listed = json.dumps(
        [
            {
                "question": "Which layout?",
                "header": "Layout",
                "multiSelect": False,
                "options": options,
            }
        ]
    )

    async def work() -> None:
        async with connected(midturn, person=person, era=era) as client:
            assert data(await client.call_tool("ask_user", {"questions": listed}))["answers"] == {
                "q1": "wide"
            }

    run(work())
    (shown,) = person.shown
    assert "wide:\n+--+" in shown.message


@each_era
def test_a_dialog_accepts_an_answer_in_own_words(midturn: CommandLine, era: str) -> None:
    async def work() -> None:
        async with connected(
            midturn, person=Person(content={"answer_other": "staging"}), era=era
        ) as client:
            assert data(await client.call_tool("ask_user", ENV))["answer"] == {"other": "staging"}

    run(work())


@each_era
def test_a_form_is_one_dialog(midturn: CommandLine, era: str) -> None:
    person = Person(content={"ship": True, "note": "Now."})

    async def work() -> None:
        async with connected(midturn, person=person, era=era) as client:
            assert data(await client.call_tool("ask_user", BOTH))["answers"] == {
                "ship": True,
                "note": "Now.",
            }

    run(work())
    assert len(person.shown) == 1


def test_an_answer_in_the_inbox_closes_an_open_dialog(midturn: CommandLine) -> None:
    async def work() -> None:
        async with connected(midturn, person=Person(content={"answer": True}, after=30)) as client:
            result, _ = await asyncio.gather(
                client.call_tool("ask_user", SURE), answer(midturn, "no", "--reason", "Not yet.")
            )
            assert data(result) | {"text": ""} == {
                "answer_type": "boolean",
                "answer": False,
                "reason": "Not yet.",
                "text": "",
            }
            assert "The user answered: no (Not yet.)" in data(result)["text"]

    run(work())


@each_era
def test_a_reply_is_not_an_answer(midturn: CommandLine, era: str) -> None:
    def reply() -> None:
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "--reply", "What is dev?")

    async def work() -> None:
        async with connected(midturn, name="opencode", era=era) as client:
            result, _ = await asyncio.gather(client.call_tool("ask_user", ENV), in_thread(reply))
            assert data(result)["status"] == "replied"
            assert "What is dev?" in data(result)["text"]

    run(work())


@each_era
def test_a_slow_decline_in_a_real_dialog_is_a_reply(midturn: CommandLine, era: str) -> None:
    async def work() -> None:
        async with connected(midturn, person=Person("decline"), era=era) as client:
            assert data(await client.call_tool("ask_user", ENV))["status"] == "replied"

    run(work())


# Implausible answers ----------------------------------------------------------------------------


LIES = {
    "a no in 5 ms": Person("decline", after=0.005),
    "a yes in 5 ms": Person(content={"answer": "prod"}, after=0.005),
    "a cancel": Person("cancel"),
    "nothing in it": Person(content={}),
    "no content at all": Person(content=None),
    "no option": Person(content={"answer": "moon"}),
    "of another type": Person(content={"answer": ["prod"]}),
}


@each_era
@pytest.mark.parametrize("lie", LIES)
def test_an_implausibly_fast_answer_leaves_the_question_open(
    midturn: CommandLine, era: str, lie: str
) -> None:
    async def work() -> None:
        async with connected(midturn, "--slice", "1", person=LIES[lie], era=era) as client:
            waiting = data(await client.call_tool("ask_user", ENV))
            assert waiting["status"] == "waiting"
            assert "This is not a no" in waiting["text"]

    run(work())
    assert len(midturn.ok("inbox", "--json").json) == 1
    assert answers(stored(midturn)[0]) == []


def test_an_automatic_decline_is_ignored(midturn: CommandLine) -> None:
    async def work() -> None:
        async with connected(
            midturn, "--slice", "1", name="codex-mcp-client", person=Person("decline")
        ) as client:
            assert data(await client.call_tool("ask_user", SURE))["status"] == "waiting"

    run(work())


@each_era
def test_a_decline_of_an_unknown_client_is_recorded_with_the_clients_name(
    midturn: CommandLine, era: str
) -> None:
    async def work() -> None:
        async with connected(
            midturn, name="something-new", person=Person("decline"), era=era
        ) as client:
            result = data(await client.call_tool("ask_user", SURE))
            assert result["status"] == "replied"
            assert "The user did not choose" in result["text"]

    run(work())
    (events,) = stored(midturn)
    assert [(event["outcome"], event.get("reason")) for event in answers(events)] == [
        ("cancelled", "reply")
    ]
    assert "something-new" in json.dumps(events)
    assert midturn.ok("inbox", "--json").json == []


@each_era
def test_a_too_fast_decline_of_an_unknown_client_is_ignored(midturn: CommandLine, era: str) -> None:
    async def work() -> None:
        async with connected(
            midturn,
            "--slice",
            "1",
            name="something-new",
            person=Person("decline", after=0.005),
            era=era,
        ) as client:
            assert data(await client.call_tool("ask_user", SURE))["status"] == "waiting"

    run(work())
    assert len(midturn.ok("inbox", "--json").json) == 1


def test_no_dialog_is_shown_without_a_person_at_the_client(midturn: CommandLine) -> None:
    person = Person("decline")

    async def work() -> None:
        async with connected(
            midturn, "--slice", "0.3", person=person, CLAUDE_CODE_SESSION_ATTENDED="0"
        ) as client:
            assert data(await client.call_tool("ask_user", SURE))["status"] == "waiting"

    run(work())
    assert person.shown == []


def test_a_client_is_asked_only_what_its_dialog_can_show(midturn: CommandLine) -> None:
    """Such a dialog shows several choices as a yes/no box, in which "yes" has no meaning."""
    person = Person(content={})

    async def work() -> None:
        async with connected(
            midturn, "--slice", "0.3", name="codex-mcp-client", person=person
        ) as client:
            several = {
                "question": "Which parts?",
                "answer_type": "multi_select",
                "options": ["api", "web"],
            }
            assert data(await client.call_tool("ask_user", several))["status"] == "waiting"

    run(work())
    assert person.shown == []


def test_field_names_keep_their_order_when_sorted(midturn: CommandLine) -> None:
    person = Person(content={"q00": True, "q01": "Now."})

    async def work() -> None:
        async with connected(midturn, name="codex-mcp-client", person=person) as client:
            assert data(await client.call_tool("ask_user", BOTH))["answers"] == {
                "ship": True,
                "note": "Now.",
            }

    run(work())


@pytest.mark.parametrize("name", ["assistant", "Assistant", "midturn", "user", "\u202eevil", ""])
def test_a_client_cannot_impersonate_a_person(midturn: CommandLine, name: str) -> None:
    async def work() -> None:
        async with connected(midturn, "--slice", "0.2", name=name) as client:
            await client.call_tool("ask_user", SURE)

    run(work())
    (question,) = midturn.ok("inbox", "--json").json
    assert question["source"]["source"] == "other"
    assert question["source"]["name"].casefold() not in {"assistant", "midturn", "user"}
    assert question["source"]["name"].isascii()


# Waiting clients --------------------------------------------------------------------------------


@each_era
def test_a_ticket_returns_the_answer_after_a_time_slice(midturn: CommandLine, era: str) -> None:
    async def work() -> None:
        async with connected(
            midturn, "--slice", "0.3", name="gemini-cli-mcp-client-x", era=era
        ) as client:
            first = data(await client.call_tool("ask_user", SURE))
            second = data(
                await client.call_tool(
                    "check_answer", {"id": first["id"], "ticket": first["ticket"]}
                )
            )
            assert (first["ticket"], second["ticket"]) == (1, 2)
            assert "check_answer" in first["text"]
            assert "end your turn" in second["text"]
            await answer(midturn, "yes")
            third = data(
                await client.call_tool(
                    "check_answer", {"id": first["id"], "ticket": second["ticket"]}
                )
            )
            assert third["answer"] is True
            again = data(await client.call_tool("check_answer", {"id": first["id"], "ticket": 3}))
            assert again["answer"] is True, "it can be read twice"

    run(work())


def test_an_answer_is_available_after_the_server_died(midturn: CommandLine) -> None:
    async def work() -> None:
        async with connected(midturn, "--slice", "0.2", CLAUDE_CODE_SESSION_ID="s1") as client:
            first = data(await client.call_tool("ask_user", SURE))
        await answer(midturn, "no")
        async with connected(midturn, "--slice", "0.2", CLAUDE_CODE_SESSION_ID="s1") as client:
            later = data(await client.call_tool("check_answer", {"id": first["id"], "ticket": 1}))
            assert later["answer"] is False

    run(work())


def test_the_same_call_with_the_clients_own_id_is_not_asked_twice(midturn: CommandLine) -> None:
    async def work() -> None:
        meta: Any = {"claudecode/toolUseId": "toolu_1"}
        async with connected(midturn, "--slice", "0.2", CLAUDE_CODE_SESSION_ID="s1") as client:
            await client.call_tool("ask_user", SURE, meta=meta)
        await answer(midturn, "yes")
        async with connected(midturn, "--slice", "0.2", CLAUDE_CODE_SESSION_ID="s1") as client:
            assert data(await client.call_tool("ask_user", SURE, meta=meta))["answer"] is True
            assert data(await client.call_tool("ask_user", SURE, meta=meta))["answer"] is True

    run(work())
    assert len(stored(midturn)) == 1


@each_era
def test_a_client_without_a_session_finds_its_open_question_after_a_kill(
    midturn: CommandLine, era: str
) -> None:
    (question,) = questions_left_by_a_killed_client(midturn, era)

    async def work() -> None:
        async with connected(midturn, name="opencode", era=era) as later:
            asking = asyncio.create_task(later.call_tool("ask_user", SURE))
            waiting = await in_thread(waiting_questions, midturn)
            assert [one["id"] for one in waiting] == [question["id"]], (
                "it is the same question, and nobody is asked twice"
            )
            await in_thread(midturn.ok, "answer", question["id"], "yes")
            assert data(await asking)["answer"] is True

    run(work())
    assert len(stored(midturn)) == 1


def test_an_unread_answer_of_a_killed_client_does_not_answer_a_later_client(
    midturn: CommandLine,
) -> None:
    (question,) = questions_left_by_a_killed_client(midturn, LEGACY)
    midturn.ok("answer", question["id"], "yes")

    async def work() -> None:
        async with connected(midturn, name="opencode") as later:
            result, _ = await asyncio.gather(
                later.call_tool("ask_user", SURE), answer(midturn, "no")
            )
            assert data(result)["answer"] is False
            earlier = await later.call_tool("check_answer", {"id": question["id"], "ticket": 1})
            assert data(earlier)["answer"] is True, "who knows of it reads it"

    run(work())


def test_two_sessions_of_a_client_with_equal_questions_get_separate_answers(
    midturn: CommandLine,
) -> None:
    async def work() -> None:
        async with (
            connected(midturn, name="opencode") as one,
            connected(midturn, name="opencode") as other,
        ):
            asking = [
                asyncio.create_task(client.call_tool("ask_user", SURE)) for client in (one, other)
            ]
            questions = await in_thread(wait_for, midturn, 2)
            for question, value in zip(questions, ("yes", "no"), strict=True):
                await in_thread(midturn.ok, "answer", question["id"], value)
            assert {data(result)["answer"] for result in await asyncio.gather(*asking)} == {
                True,
                False,
            }

    run(work())


def test_a_client_that_asks_too_often_is_limited(midturn: CommandLine) -> None:
    async def work() -> None:
        async with connected(midturn, "--slice", "0.1", name="opencode") as client:
            asking = (
                client.call_tool("ask_user", {**SURE, "question": f"{number}?"})
                for number in range(70)
            )
            results = await asyncio.gather(*asking)
            refused = [data(result)["text"] for result in results if result.is_error]
            assert len(refused) == 20
            assert all("This is not a no" in text for text in refused)
            assert all(
                "50 questions of this session of opencode wait for the user already" in text
                for text in refused
            )
            (oldest,) = [
                one for one in midturn.ok("inbox", "--json").json if one["asker"].get("refused")
            ]
            assert (
                "; further questions were rejected because it asked too many"
                in midturn.ok("inbox").stdout
            )

            async with connected(midturn, "--slice", "0.1", name="qwen-cli") as other:
                assert data(await other.call_tool("ask_user", SURE))["status"] == "waiting"

            await in_thread(midturn.ok, "answer", oldest["id"], "yes")
            async with asyncio.timeout(120):
                while (await client.call_tool("ask_user", SURE)).is_error:  # noqa: ASYNC110  nothing else tells
                    await asyncio.sleep(0.1)

    run(work())
    assert len(stored(midturn)) == 52


def test_an_oversized_question_is_not_asked(midturn: CommandLine) -> None:
    async def work() -> None:
        async with connected(midturn, "--slice", "0.1") as client:
            call = {
                "tool_name": "Write",
                "input": {"content": "x" * 1_100_000},
                "tool_use_id": "t1",
            }
            result: Any = await client.call_tool("permission_prompt", call)
            decision = json.loads(result.content[0].text)
            assert decision["behavior"] == "deny"
            assert (
                "no question may have more than 1,048,576. It was not asked." in decision["message"]
            )

    run(work())
    assert stored(midturn) == []


def test_an_unknown_id_is_an_error(midturn: CommandLine) -> None:
    async def work() -> None:
        async with connected(midturn) as client:
            result = await client.call_tool("check_answer", {"id": "../../etc", "ticket": 1})
            assert result.is_error

    run(work())


@each_era
def test_an_abandoned_call_keeps_its_question_until_the_next_question(
    midturn: CommandLine, era: str
) -> None:
    async def work() -> None:
        async with connected(midturn, "--slice", "20", name="opencode", era=era) as client:
            given_up = asyncio.create_task(client.call_tool("ask_user", SURE))
            await in_thread(wait_for, midturn)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            (question,) = await in_thread(wait_for, midturn)
            other = asyncio.create_task(client.call_tool("ask_user", ENV))
            await in_thread(_wait_for_other, midturn, question["id"])
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)

    run(work())
    assert [event["reason"] for event in answers(stored(midturn)[0])] == ["superseded"]


def _wait_for_other(midturn: CommandLine, id: str) -> None:
    until(
        lambda: [question["id"] for question in midturn.ok("inbox", "--json").json],
        lambda ids: len(ids) == 1 and ids != [id],
    )


def test_a_client_that_dies_leaves_its_question_open(midturn: CommandLine) -> None:
    async def work() -> None:
        async with connected(midturn, "--slice", "20", name="opencode") as client:
            dying = asyncio.create_task(client.call_tool("ask_user", SURE))
            await in_thread(wait_for, midturn)
        await asyncio.gather(dying, return_exceptions=True)

    run(work())
    (question,) = midturn.ok("inbox", "--json").json
    assert question["asker"]["waits"] is False


@each_era
def test_the_next_session_of_a_killed_client_finds_the_answer(
    midturn: CommandLine, era: str
) -> None:
    with client_to_kill(midturn, era, "claude-code", CLAUDE_CODE_SESSION_ID="s1"):
        (question,) = wait_for(midturn)
    until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: questions[0]["asker"]["waits"] is False,
    )
    assert answers(stored(midturn)[0]) == []

    midturn.ok("answer", question["id"], "no")

    async def look() -> None:
        async with connected(
            midturn, "--slice", "0.2", era=era, CLAUDE_CODE_SESSION_ID="s1"
        ) as later:
            checked = data(
                await later.call_tool("check_answer", {"id": question["id"], "ticket": 1})
            )
            assert checked.get("answer") is False, checked
            same: Any = {"claudecode/toolUseId": "toolu_1"}
            assert data(await later.call_tool("ask_user", SURE, meta=same))["answer"] is False

    run(look())
    assert len(stored(midturn)) == 1, "nobody was asked twice"
    assert "unexpected" not in "".join(
        log.read_text() for log in midturn.state.glob("midturn.log")
    ), "its server has ended in order"


def test_over_http_the_token_is_required(midturn: CommandLine) -> None:
    async def work(server: HttpServer) -> None:
        async with connected_to(server) as client:
            assert data(await client.call_tool("ask_user", SURE))["status"] == "waiting"
        async with httpx2.AsyncClient(timeout=120) as http:
            assert (await http.post(server.url, json={})).status_code == 401

    with served(midturn, "--slice", "0.2") as server:
        run(work(server))
    assert len(midturn.ok("inbox", "--json").json) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["0.0.0.0:8765"],
            (
                "Without TLS, others on the network could read questions, answers and sign-in codes"
                " sent to 0.0.0.0."
            ),
        ),
        (
            ["[::]:8765"],
            (
                ". Pass a certificate (`--tls-cert`, `--tls-key`), or put a TLS proxy in front and"
                " pass `--behind-proxy`."
            ),
        ),
        (
            ["8765", "--tls-key", "key.pem"],
            "A TLS certificate needs its private key: pass both `--tls-cert` and `--tls-key`.",
        ),
        (["here"], "Invalid `--http here`. Expected [HOST:]PORT"),
    ],
)
def test_over_http_unsafe_settings_are_refused_with_advice(
    midturn: CommandLine, options: list[str], said: str
) -> None:
    (midturn.root / "key.pem").touch()
    refused = midturn.run("mcp", "--http", *options)
    assert refused.status == 2
    assert said in " ".join(refused.stderr.split())


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root becomes another user"
)
def test_over_http_another_user_is_refused_with_any_token(midturn: CommandLine) -> None:
    server = midturn.start("mcp", "--http", "0")
    assert server.stderr
    try:
        said = re.search(r"serving (\S+)\. .*Bearer (\S+)`", server.stderr.readline())
        assert said
        ask = (
            f"import urllib.request as u; print(u.urlopen(u.Request({said[1]!r}, b'{{}}',"
            f" {{'Authorization': 'Bearer {said[2]}'}})))"
        )
        another = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]
        done = subprocess.run(
            [*another, "/usr/bin/python3", "-c", ask],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd="/",
        )
        assert "403" in done.stderr
    finally:
        server.terminate()
        server.communicate()
    assert server.returncode == 128 + signal.SIGTERM


@each_era
def test_over_http_a_client_cannot_answer_another_clients_question(
    midturn: CommandLine, era: str
) -> None:
    """All clients of one process have the same mark, and can learn each other's question IDs."""
    liar = Person(content={"answer": True}, after=0.6)

    async def work(server: HttpServer) -> None:
        async with (
            connected_to(server, era=era) as asker,
            connected_to(server, "other", liar, era) as other,
        ):
            first = data(await asker.call_tool("ask_user", SURE))
            assert (
                data(await other.call_tool("check_answer", {"id": first["id"]}))["status"]
                == "waiting"
            )
            assert liar.shown == []
            if era != LEGACY:
                with pytest.raises(MCPError, match="requestState"):
                    await other.call_tool("ask_user", SURE, request_state=first["id"])
            own = await other.call_tool("ask_user", SURE)  # the same question, word for word
            assert "answered: yes" in data(own)["text"]

    with served(midturn, "--slice", "2") as server:
        run(work(server))
    assert len(midturn.ok("inbox", "--json").json) == 1


def test_a_stop_hook_of_the_same_session_returns_the_answer(midturn: CommandLine) -> None:
    headless: Any = {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli", "CLAUDE_CODE_SESSION_ATTENDED": "0"}
    (midturn.home / ".claude").mkdir()
    midturn.ok("hook", "install", "claude")

    async def work() -> None:
        async with connected(
            midturn, "--slice", "0.2", CLAUDE_CODE_SESSION_ID="s1", **headless
        ) as client:
            first = data(await client.call_tool("ask_user", ENV))
            second = data(await client.call_tool("check_answer", {"id": first["id"], "ticket": 1}))
            assert "you will be woken" in second["text"]

    run(work())
    stop = Session(midturn, "claude", "s1", **headless).start("Stop", stop_hook_active=False)
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], "dev")

    assert (
        stop.decision()["reason"]
        == 'midturn: the question "Which env?" was answered by the user: dev'
    )


# Permissions
# --------------------------------------------------------------------------------------------------


@each_era
@pytest.mark.parametrize(
    ("value", "decision"),
    [
        ("y", {"behavior": "allow", "updatedInput": {"command": "ls"}}),
        ("n", {"behavior": "deny", "message": "The user said no."}),
        ('{"edit": {"command": "pwd"}}', {"behavior": "allow", "updatedInput": {"command": "pwd"}}),
    ],
)
def test_a_delegated_permission_is_an_approval(
    midturn: CommandLine, era: str, value: str, decision: dict[str, Any]
) -> None:
    call = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t1"}

    async def work() -> None:
        async with connected(midturn, era=era) as client:
            result, _ = await asyncio.gather(
                client.call_tool("permission_prompt", call), answer(midturn, value)
            )
            assert json.loads(result.content[0].text) == decision  # type: ignore[union-attr]

    run(work())


# Printed setup ----------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "copilot", "opencode"])
def test_the_setup_for_an_agent_is_printed(midturn: CommandLine, agent: str) -> None:
    printed = midturn.ok("mcp", "--print-config", agent).stdout

    if agent == "codex":
        assert "required = true" in printed
    else:
        assert "midturn" in json.dumps(json.loads(printed))
