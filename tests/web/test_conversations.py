"""Conversations are listed, searched, shown as a timeline and exported. Statistics show who
answers.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import tracemalloc
import zipfile
from datetime import date
from pathlib import Path
from typing import NoReturn

import pytest

import midturn as mt
from midturn.question.question import Question
from midturn.stores import log_tail
from midturn.stores.memory_conversations import MemoryStore
from midturn.web import inbox, timeline
from midturn.web.conversation_cache import QuestionFact
from midturn.web.statistics import compute_statistics
from support.pages import ada, agent_with, asking, browsing, send, wait_for
from support.stored import keep, path_of
from support.tapes import Tape

CONFIRM = Question.boolean("q", "Deploy to production?", context="It *restarts* three services.")


def _finished(store: MemoryStore) -> mt.OpenQuestion:
    """Run a turn that waits, gets an answer with a reason, and ends."""
    agent = agent_with(store, asking(CONFIRM))
    waiting = wait_for(agent, "Ship version 2.4.")
    asyncio.run(
        store.answer(waiting.id, value=True, user="grace", via="web", reason="The freeze is over.")
    )
    asyncio.run(agent.resume(waiting.conversation))
    return waiting


def test_conversation_is_shown_as_a_timeline(store: MemoryStore) -> None:
    waiting = _finished(store)
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/c/{waiting.conversation}").text
    for said in (
        "Ship version 2.4.",
        "One moment.",
        'Called <span class="name">deploy</span>',
        "Deploy to production?",
        "<em>restarts</em>",
        "grace (web) answered",
        "The freeze is over.",
        "Done.",
        "completed",
    ):
        assert said in page, said
    assert (
        page.index("Ship version")
        < page.index("Called <span")
        < page.index("Deploy to production?")
        < page.index("Done.")
    )
    assert page.count(f'href="#e-{waiting.request.event_id}"') == 1


def test_open_question_is_linked(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/c/{waiting.conversation}").text
        assert f'<a href="/q/{waiting.id}">Waiting for an answer</a>' in page
        assert "data-live" in page
        send(client, waiting, answer="no")
        assert (
            "Waiting for an answer"
            not in client.get(f"/c/{waiting.conversation}?part=timeline").text
        )


def _long(store: mt.ConversationStore, turns: int, said: int = 1, words: str = "Hello") -> str:
    """Create a conversation of many turns with long replies."""
    tape = Tape("e")
    for number in range(1, turns + 1):
        tape.start()
        tape.user(f"Question {number}.")
        for each in range(1, said + 1):
            tape.model(f"{words} {number}/{each}.")
        tape.end()
    return keep(store, tape)


def _numbers(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'id="turn-(\d+)"', page)]


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_long_conversation_is_paginated_from_the_end(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "LARGEST_BLOCK", 700)
    long_store = mt.open_store(tmp_path) if place == "disk" else MemoryStore()
    conversation = _long(long_store, 120)
    with browsing(inbox(long_store, user=ada)) as client:
        last, middle, first = (
            client.get(f"/c/{conversation}{query}").text
            for query in ("", "?before=71", "?before=21")
        )
        odd = [
            client.get(f"/c/{conversation}?before={number}").text
            for number in ("x", "0", "999", "-1", "1")
        ]
    assert [_numbers(page) for page in (last, middle, first)] == [
        list(range(71, 121)),
        list(range(21, 71)),
        list(range(1, 21)),
    ]
    assert (
        "70 earlier turns" in last,
        'href="?before=71"' in last,
        'href="?before=21"' in middle,
    ) == (True, True, True)
    assert ("earlier" in first, "Question 1." in first, "Question 21." in first) == (
        False,
        True,
        False,
    )
    assert [_numbers(page)[-1:] for page in odd] == [[120]] * 4 + [[]]


def test_turns_are_in_log_order_with_any_clock(tmp_path: Path) -> None:
    store = mt.open_store(tmp_path)
    conversation = _long(store, 3)
    file = path_of(store, conversation) / "events.jsonl"
    lines = file.read_text().splitlines()
    file.write_text(
        "".join(
            re.sub(r'("timestamp":")\d{4}', rf"\g<1>{2030 - place}", line) + "\n"
            for place, line in enumerate(lines)
        )
    )
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/c/{conversation}").text
    places = [
        page.index(words)
        for number in (1, 2, 3)
        for words in (f"Question {number}.", f"Hello {number}/1.")
    ]
    assert places == sorted(places)


def test_very_long_turn_shows_its_last_events(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MAX_ITEMS", 10)
    conversation = _long(store, 3, said=30)
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/c/{conversation}").text
    assert _numbers(page) == [3]
    assert ("2 earlier turns" in page, "21 earlier events of this turn" in page) == (True, True)
    assert ("Hello 3/20." in page, "Hello 3/21." in page, "Hello 3/30." in page) == (
        False,
        True,
        True,
    )


def test_page_of_a_large_log_uses_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the shown events and a few parts are in memory."""
    monkeypatch.setattr(log_tail, "LARGEST_BLOCK", 100_000)
    monkeypatch.setattr(timeline, "MAX_TURNS", 3)
    store = mt.open_store(tmp_path)
    conversation = _long(store, 200, said=2, words="x" * 50_000)
    with browsing(inbox(store, user=ada)) as client:
        client.get(f"/c/{conversation}")
        tracemalloc.start()
        try:
            page = client.get(f"/c/{conversation}").text
            _, shown = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            with client.stream("GET", f"/c/{conversation}/export/jsonl") as answer:
                exported = sum(map(len, answer.iter_bytes()))
            _, taken = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert _numbers(page) == [198, 199, 200]
    assert exported == (path_of(store, conversation) / "events.jsonl").stat().st_size > 20_000_000
    assert max(shown, taken) < 10_000_000


def test_the_list_is_searched(store: MemoryStore) -> None:
    wait_for(agent_with(store, asking(CONFIRM)), "Ship the SHOP.")
    wait_for(agent_with(store, asking(CONFIRM)), "Write the notes.")
    with browsing(inbox(store, user=ada)) as client:
        everything = client.get("/c").text
        found = client.get("/c?q=shop+ship").text
        nothing = client.get('/c?q="><script>').text
    assert everything.index("Write the notes.") < everything.index("Ship the SHOP.")
    assert ("Ship the SHOP." in found, "Write the notes." in found) == (True, False)
    assert "No results." in nothing
    assert 'value="&#34;&gt;&lt;script&gt;"' in nothing


def test_conversation_can_be_exported(store: MemoryStore) -> None:
    waiting = _finished(store)
    with browsing(inbox(store, user=ada)) as client:
        markdown, lines, jp = (
            client.get(f"/c/{waiting.conversation}/export/{form}")
            for form in ("markdown", "jsonl", "jp")
        )
        assert client.get(f"/c/{waiting.conversation}/export/exe").status_code == 404
    assert (
        markdown.headers["content-disposition"]
        == f'attachment; filename="{waiting.conversation}.md"'
    )
    assert "Deploy to production?" in markdown.text
    assert [json.loads(line)["type"] for line in lines.text.splitlines()][:2] == [
        "turn_start",
        "chat_request",
    ]
    assert zipfile.ZipFile(io.BytesIO(jp.content)).namelist() == [
        "metadata.json",
        "base_config.json",
        "events.json",
    ]


def test_missing_conversation_is_reported(store: MemoryStore) -> None:
    with browsing(inbox(store, user=ada)) as client:
        for path in (
            "/c/nothing",
            "/c/nothing/export/jsonl",
            "/c/..%2f..%2fetc%2fpasswd",
            "/api/conversations/nothing",
        ):
            assert client.get(path).status_code == 404, path


def test_store_location_is_not_shown(tmp_path: Path) -> None:
    with browsing(inbox(mt.open_store(tmp_path), user=ada)) as client:
        for path in ("/c/nothing", "/c/nothing/export/jsonl", "/api/conversations/nothing"):
            assert str(tmp_path) not in client.get(path).text, path


def test_failing_store_is_not_shown_as_empty(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = _finished(store)

    async def away(*_: object, **__: object) -> NoReturn:
        raise mt.StoreError("The database does not answer.")

    with browsing(inbox(store, user=ada)) as client:
        for call in ("read", "ids", "pending"):
            monkeypatch.setattr(store, call, away)
        for call in ("ids", "newest", "part", "last_turns"):
            monkeypatch.setattr(store.port, call, away)
        for path in (
            "/c/{}",
            "/c/{}/export/jsonl",
            "/api/conversations/{}",
            "/c/nothing",
            "/api/conversations",
        ):
            answer = client.get(path.format(waiting.conversation))
            assert (answer.status_code, "does not answer" in answer.text) == (503, True), path


def test_statistics_show_responders_and_response_times(store: MemoryStore) -> None:
    _finished(store)
    wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        page = client.get("/stats").text
    assert "2 questions in all 2 conversations" in page
    assert (
        page.count("<svg") == 1 + 1 + 1 + 3 + 1
    )  # the curve, days, hours, and one bar each: tool, person, responder, question
    assert "deploy: Deploy to production?" in page
    assert ">People<" in page
    assert '<th scope="row">grace</th><td>1</td>' in page
    assert "Deadlines missed: 0." in page


def test_open_questions_are_counted_per_day() -> None:
    facts = [
        QuestionFact(
            tool="a",
            text="?",
            at="2026-01-01T10:00:00Z",
            closed_at="2026-03-02T10:00:00Z",
            by="user",
            waited=60.0,
        ),
        QuestionFact(
            tool="a", text="?", at="2026-03-01T10:00:00Z", closed_at="", by="", waited=None
        ),
        QuestionFact(
            tool="b",
            text="!",
            at="nonsense",
            closed_at="",
            by="assistant",
            waited=None,
            overturns=None,
        ),
        QuestionFact(
            tool="b",
            text="!",
            at="2026-03-03T10:00:00Z",
            closed_at="2026-03-03T10:01:00Z",
            by="user",
            waited=60.0,
            overturns=True,
        ),
    ]
    added = compute_statistics(facts, date(2026, 3, 4))
    assert [count for _, count in added.days[-5:]] == [1, 2, 1, 1, 1]
    assert (added.escalated, added.overturned) == (1, 1)
    assert [(row.name, row.count) for row in added.answered_by] == [("People", 2), ("Models", 1)]


def test_conversation_without_events_is_not_listed(store: MemoryStore) -> None:
    waiting = _finished(store)
    asyncio.run(store.new("Killed at once"))

    with browsing(inbox(store, user=ada)) as client:
        page = client.get("/c").text
        by_program = client.get("/api/conversations").json()

    assert "Ship version 2.4." in page
    assert "Killed at once" not in page
    assert [one["id"] for one in by_program] == [waiting.conversation]
