"""An answer cannot be recorded: the question stays open, the input stays on the page, with the
reason and what to do.
"""

from __future__ import annotations

from typing import NoReturn

import pytest

import midturn as mt
from midturn.errors import MidturnError, PersonNeeded
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.web import inbox
from support.pages import ada, agent_with, asking, browsing, send, wait_for

REASONS = [
    pytest.param(mt.Busy("Others write it."), 503, "busy", id="busy"),
    pytest.param(mt.StoreLocked("It is being written."), 409, "locked", id="locked"),
    pytest.param(mt.StoreError("The disk is full."), 503, "not_recorded", id="disk"),
    pytest.param(
        mt.NotAllowed("Only Grace may answer this."), 403, "may_not_answer", id="may_answer"
    ),
    pytest.param(PersonNeeded("This process may not answer."), 403, "person_needed", id="person"),
]


@pytest.fixture
def waiting(store: MemoryStore) -> mt.OpenQuestion:
    """An open question."""
    return wait_for(agent_with(store, asking(Question.text("when", "When?"))))


def refuse(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, why: MidturnError) -> None:
    """Make every write of the store fail from now on."""

    async def settle(*_: object) -> NoReturn:
        raise why

    monkeypatch.setattr(store, "_submit", settle)


@pytest.mark.parametrize(("why", "status", "word"), REASONS)
def test_api_reports_reason_and_retry(
    store: MemoryStore,
    waiting: mt.OpenQuestion,
    monkeypatch: pytest.MonkeyPatch,
    why: MidturnError,
    status: int,
    word: str,
) -> None:
    with browsing(inbox(store, user=ada)) as client:
        refuse(store, monkeypatch, why)
        sent = client.post(f"/api/questions/{waiting.id}/answer", json={"value": "Tuesday"})
        problem = {
            "title": word.replace("_", " ").capitalize(),
            "status": status,
            "detail": str(why),
        }
        assert (sent.status_code, sent.json()) == (
            status,
            {**problem, "error": word, "message": str(why)},
        )
        assert client.get(f"/api/questions/{waiting.id}").status_code == 200


@pytest.mark.parametrize(("why", "status", "word"), REASONS)
def test_page_shows_the_question_again_with_the_input(
    store: MemoryStore,
    waiting: mt.OpenQuestion,
    monkeypatch: pytest.MonkeyPatch,
    why: MidturnError,
    status: int,
    word: str,
) -> None:
    del word
    with browsing(inbox(store, user=ada)) as client:
        refuse(store, monkeypatch, why)
        sent = send(client, waiting, answer="Tuesday", act="answer")
        assert sent.status_code == status
        for expected in ("When?", "Tuesday", str(why)):
            assert expected in sent.text
