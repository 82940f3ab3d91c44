"""A secret typed on a page reaches the tool that asked, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import midturn as mt
from midturn.events.types import InquiryAnswered, InquiryRedacted
from midturn.question.question import Question
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.agents import tool_results
from support.pages import OWN, ada, agent_with, asking, browsing, carried, send, wait_for

SECRET = "correct horse battery"
PASSPHRASE = Question.secret("passphrase", "What is the passphrase?")


@pytest.fixture
def on_disk(tmp_path: Path) -> ConversationStore:
    """A store whose files can be searched."""
    return FileStore(tmp_path / "conversations")


def vault_tool(received: list[Any]) -> mt.FunctionTool[..., Any]:
    """Return a tool that asks for a secret and then for a yes, and returns the secret."""

    @mt.tool
    async def unlock(ctx: mt.ToolContext) -> str:
        """Unlock."""
        passphrase = await ctx.ask(PASSPHRASE)
        received.append(passphrase.reveal())
        return (
            f"unlocked with {passphrase.reveal()}"
            if await ctx.ask(Question.boolean("sure", "Really?"))
            else "left it"
        )

    return unlock


def finished(client: TestClient, waiting: mt.OpenQuestion) -> str:
    """Wait for the turn to end; return the page of its conversation."""
    path = f"/c/{waiting.conversation}"
    return until(lambda: "Done." in (shown := client.get(path).text) and shown)


def until(look: Callable[[], Any]) -> Any:
    """Poll until a value is there; return it."""
    for _ in range(600):
        if found := look():
            return found
        time.sleep(0.05)
    return pytest.fail("it did not come")


def test_ineligible_user_cannot_give_a_secret(on_disk: ConversationStore) -> None:
    received: list[str] = []
    agent = agent_with(on_disk, vault_tool(received))
    waiting = wait_for(agent)
    with browsing(
        inbox(agent, user=ada, may_answer=lambda _question, user: user != "ada")
    ) as client:
        for secret in (SECRET, ""):
            sent = send(client, waiting, secret=secret, act="answer")
            assert (
                sent.status_code,
                "may not answer" in sent.text,
                "Nothing was typed" in sent.text,
            ) == (403, True, False)
    assert (received, [one.id for one in on_disk.pending_sync()]) == ([], [waiting.id])


def test_secret_reaches_only_the_tool(
    on_disk: ConversationStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    received: list[str] = []
    agent = agent_with(on_disk, vault_tool(received))
    waiting = wait_for(agent)
    seen: list[str] = []
    with caplog.at_level(logging.INFO), browsing(inbox(agent, user=ada)) as client:
        page = client.get(f"/q/{waiting.id}")
        assert 'type="password"' in page.text
        sent = send(client, waiting, secret=SECRET, act="answer")
        assert sent.status_code == 303, sent.text
        seen += [page.text, sent.text, str(sent.headers), client.get(sent.headers["location"]).text]
        (then,) = until(lambda: client.get("/api/questions").json())
        assert then["question"]["text"] == "Really?"
        client.post(f"/api/questions/{then['id']}/answer", json={"value": True})
        shown = finished(client, waiting)
        seen += [
            shown,
            client.get(f"/api/conversations/{waiting.conversation}").text,
            client.get("/stats").text,
        ]
        seen += [
            client.get(f"/c/{waiting.conversation}/export/{form}").text
            for form in ("markdown", "jsonl")
        ]
    assert received == [
        SECRET
    ]  # the turn continued in this process: the secret is not asked for again
    assert tool_results(on_disk, waiting.conversation) == ["unlocked with [redacted]"]
    on_files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in on_files
    assert all(SECRET not in text for text in seen)
    assert SECRET not in caplog.text
    redacted = [
        response
        for _, response in on_disk.read_sync(waiting.conversation).pairs()
        if isinstance(response, InquiryRedacted)
    ]
    assert all(
        one.answered_by and (one.answered_by.via, one.answered_by.user) == ("web", "ada")
        for one in redacted
    )
    assert redacted


def test_form_with_a_secret_is_submitted_as_a_whole(
    on_disk: ConversationStore, tmp_path: Path
) -> None:
    received: list[Any] = []

    @mt.tool
    async def publish(ctx: mt.ToolContext) -> str:
        """Publish."""
        answers = await ctx.ask_form(
            mt.Form(
                [Question.text("where", "Where?"), PASSPHRASE, Question.boolean("now", "Now?")],
                review=True,
            )
        )
        received.append(repr(answers))
        return "published"

    agent = agent_with(on_disk, publish)
    waiting = wait_for(agent)
    with browsing(inbox(agent, user=ada)) as client:
        page = send(client, waiting, act="answer", answer="eu-1")
        assert 'type="password"' in page.text
        page = send(client, waiting, act="answer", secret=SECRET, walk=carried(page.text))
        assert SECRET not in page.text
        page = send(client, waiting, act="back", walk=carried(page.text))
        assert 'type="password"' in page.text
        assert SECRET not in page.text
        page = send(client, waiting, act="answer", secret=SECRET, walk=carried(page.text))
        page = send(client, waiting, answer="yes", walk=carried(page.text))
        assert "(hidden)" in page.text
        assert SECRET not in page.text
        assert send(client, waiting, act="send", walk=carried(page.text)).status_code == 303
        finished(client, waiting)
    assert len(received) == 1
    answers = {
        request.question_id: type(response)
        for request, response in on_disk.read_sync(waiting.conversation).pairs()
    }
    assert answers == {
        "where": InquiryAnswered,
        "passphrase": InquiryRedacted,
        "now": InquiryAnswered,
    }
    assert SECRET.encode() not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


def test_lost_secret_is_asked_for_again(store: ConversationStore) -> None:
    agent = agent_with(store, asking(PASSPHRASE))
    form = mt.Form([PASSPHRASE, Question.boolean("now", "Now?")])

    @mt.tool
    async def publish(ctx: mt.ToolContext) -> str:
        """Publish."""
        return repr(await ctx.ask_form(form))

    agent = agent_with(store, publish)
    waiting = wait_for(agent)
    with browsing(inbox(agent, user=ada)) as client:
        walk = carried(send(client, waiting, act="answer", secret=SECRET).text)
        assert "secret" in walk
        assert SECRET not in walk
    with browsing(
        inbox(agent, user=ada)
    ) as client:  # another server: the secret is not in its memory
        assert 'type="password"' in send(client, waiting, answer="yes", walk=walk).text


@pytest.mark.parametrize(
    ("app", "headers", "said"),
    [
        ("store", {}, "it does not resume turns"),
        ("agent", {"Host": "questions.example.org"}, "only over TLS or on this computer"),
    ],
)
def test_secret_is_refused_on_insecure_connections_or_without_a_turn(
    store: ConversationStore, app: str, headers: dict[str, str], said: str
) -> None:
    agent = agent_with(store, asking(PASSPHRASE))
    waiting = wait_for(agent)
    with browsing(inbox(agent if app == "agent" else store, user=ada)) as client:
        page = client.get(f"/q/{waiting.id}", headers=headers)
        assert said in page.text
        assert "Answer it in the program or terminal that runs the turn" in page.text
        assert 'type="password"' not in page.text
        sent = client.post(
            f"/q/{waiting.id}", data={"act": "answer", "secret": SECRET}, headers={**OWN, **headers}
        )
        assert (sent.status_code, said in sent.text, SECRET in sent.text) == (422, True, False)
        assert (
            client.post(
                f"/api/questions/{waiting.id}/answer", json={"value": SECRET}, headers=headers
            ).status_code
            == 409
        )
    assert store.pending_sync()


def test_secret_for_a_changed_question_is_refused(store: ConversationStore) -> None:
    texts = ["What is the passphrase?", "What is the password of your bank?"]

    @mt.tool
    async def unlock(ctx: mt.ToolContext) -> str:
        """Unlock."""
        return (await ctx.ask(Question.secret("passphrase", texts[0]))).reveal()

    agent = agent_with(store, unlock)
    waiting = wait_for(agent)
    texts.pop(0)
    with browsing(inbox(agent, user=ada)) as client:
        sent = send(client, waiting, act="answer", secret=SECRET)
        assert (sent.status_code, "asks something else now" in sent.text) == (410, True)
    assert store.pending_sync()[0].question.text == texts[0]


def test_secret_must_be_given_in_the_process_that_runs_the_turn(on_disk: ConversationStore) -> None:
    agent = agent_with(on_disk, asking(PASSPHRASE))
    waiting = wait_for(agent)
    held = asyncio.run(on_disk.open(waiting.conversation))
    with browsing(inbox(agent, user=ada)) as client:
        assert "running in another process" in client.get(f"/q/{waiting.id}").text
    asyncio.run(held.__aexit__(None, None, None))
