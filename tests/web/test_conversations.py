"""Conversations are listed, searched, read as a timeline, and taken away as files; sums say who answers."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from datetime import date
from pathlib import Path
from typing import NoReturn

import pytest

import midturn as mt
from midturn.question.question import Question
from midturn.store.memory_conversations import MemoryStore
from midturn.web import inbox
from midturn.web.library import FormFact, sums
from support.pages import ada, agent_with, asking, browsing, send, wait_for

CONFIRM = Question.boolean("q", "Deploy to production?", context="It *restarts* three services.")


def _finished(store: MemoryStore) -> mt.OpenQuestion:
    """Have a turn wait, be answered with a reason, and end."""
    agent = agent_with(store, asking(CONFIRM))
    waiting = wait_for(agent, "Ship version 2.4.")
    asyncio.run(store.answer(waiting.id, value=True, user="grace", via="web", reason="The freeze is over."))
    asyncio.run(agent.resume(waiting.conversation))
    return waiting


def test_a_conversation_is_a_timeline_of_what_was_said_called_asked_and_answered(store: MemoryStore) -> None:
    waiting = _finished(store)
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/c/{waiting.conversation}").text
    for said in (
        "Ship version 2.4.",
        "One moment.",
        "deploy</span> was called",
        "Deploy to production?",
        "<em>restarts</em>",
        "answered by grace (web)",
        "The freeze is over.",
        "Done.",
        "completed",
    ):
        assert said in page, said
    assert page.index("Ship version") < page.index("was called") < page.index("Deploy to production?") < page.index("Done.")
    assert page.count(f'href="#e-{waiting.request.event_id}"') == 1


def test_an_open_question_is_a_link_away(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/c/{waiting.conversation}").text
        assert f'<a href="/q/{waiting.id}">It waits for an answer</a>' in page
        assert "data-live" in page
        send(client, waiting, answer="no")
        assert "It waits for an answer" not in client.get(f"/c/{waiting.conversation}?part=timeline").text


def test_the_list_is_searched(store: MemoryStore) -> None:
    wait_for(agent_with(store, asking(CONFIRM)), "Ship the SHOP.")
    wait_for(agent_with(store, asking(CONFIRM)), "Write the notes.")
    with browsing(inbox(store, user=ada)) as client:
        everything = client.get("/c").text
        found = client.get("/c?q=shop+ship").text
        nothing = client.get('/c?q="><script>').text
    assert everything.index("Write the notes.") < everything.index("Ship the SHOP.")
    assert ("Ship the SHOP." in found, "Write the notes." in found) == (True, False)
    assert "Nothing fits." in nothing
    assert 'value="&#34;&gt;&lt;script&gt;"' in nothing


def test_a_conversation_can_be_taken_away(store: MemoryStore) -> None:
    waiting = _finished(store)
    with browsing(inbox(store, user=ada)) as client:
        markdown, lines, jp = (client.get(f"/c/{waiting.conversation}/export/{form}") for form in ("markdown", "jsonl", "jp"))
        assert client.get(f"/c/{waiting.conversation}/export/exe").status_code == 404
    assert markdown.headers["content-disposition"] == f'attachment; filename="{waiting.conversation}.md"'
    assert "Deploy to production?" in markdown.text
    assert [json.loads(line)["type"] for line in lines.text.splitlines()][:2] == ["turn_start", "chat_request"]
    assert zipfile.ZipFile(io.BytesIO(jp.content)).namelist() == ["events.json", "metadata.json"]


def test_a_conversation_that_is_not_there_is_said_to_be_so(store: MemoryStore) -> None:
    with browsing(inbox(store, user=ada)) as client:
        for path in ("/c/nothing", "/c/nothing/export/jsonl", "/c/..%2f..%2fetc%2fpasswd", "/api/conversations/nothing"):
            assert client.get(path).status_code == 404, path


def test_nobody_is_told_where_conversations_are_kept(tmp_path: Path) -> None:
    with browsing(inbox(mt.open_store(tmp_path), user=ada)) as client:
        for path in ("/c/nothing", "/c/nothing/export/jsonl", "/api/conversations/nothing"):
            assert str(tmp_path) not in client.get(path).text, path


def test_a_store_that_cannot_say_now_is_not_said_to_have_nothing(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = _finished(store)

    async def away(*_: object, **__: object) -> NoReturn:
        raise mt.StoreError("The database does not answer.")

    with browsing(inbox(store, user=ada)) as client:
        for call in ("read", "ids", "pending"):
            monkeypatch.setattr(store, call, away)
        for call in ("ids", "newest"):
            monkeypatch.setattr(store.port, call, away)
        for path in ("/c/{}", "/c/{}/export/jsonl", "/api/conversations/{}", "/c/nothing", "/api/conversations"):
            answer = client.get(path.format(waiting.conversation))
            assert (answer.status_code, "does not answer" in answer.text) == (503, True), path


def test_sums_show_who_answers_and_how_long_they_are_waited_for(store: MemoryStore) -> None:
    _finished(store)
    wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        page = client.get("/stats").text
    assert "2 questions in all 2 conversations" in page
    assert page.count("<svg") == 1 + 1 + 1 + 1  # the curve, and one bar each: who waited, who answered, what was asked
    assert "deploy: Deploy to production?" in page
    assert ">People<" in page
    assert '<th scope="row">grace</th><td>1</td>' in page
    assert "Deadlines missed: 0." in page


def test_what_was_open_is_counted_day_by_day() -> None:
    facts = [
        FormFact(tool="a", text="?", at="2026-01-01T10:00:00Z", closed_at="2026-03-02T10:00:00Z", by="user", waited=60.0),
        FormFact(tool="a", text="?", at="2026-03-01T10:00:00Z", closed_at="", by="", waited=None),
        FormFact(tool="b", text="!", at="nonsense", closed_at="", by="assistant", waited=None, overturns=None),
        FormFact(tool="b", text="!", at="2026-03-03T10:00:00Z", closed_at="2026-03-03T10:01:00Z", by="user", waited=60.0, overturns=True),
    ]
    added = sums(facts, date(2026, 3, 4))
    assert [count for _, count in added.days[-5:]] == [1, 2, 1, 1, 1]
    assert (added.escalated, added.overturned) == (1, 1)
    assert [(row.name, row.count) for row in added.answered_by] == [("People", 2), ("Models", 1)]


def test_a_conversation_whose_starter_was_killed_before_its_first_word_is_not_listed(store: MemoryStore) -> None:
    waiting = _finished(store)
    asyncio.run(store.new("Killed at once"))

    with browsing(inbox(store, user=ada)) as client:
        page = client.get("/c").text
        by_program = client.get("/api/conversations").json()

    assert "Ship version 2.4." in page
    assert "Killed at once" not in page
    assert [one["id"] for one in by_program] == [waiting.conversation]
