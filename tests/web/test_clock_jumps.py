"""The page while the system clock jumps, as after suspend or with a wrong time server. It must
not cause a server error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.question.question import Question
from midturn.web import inbox
from support.pages import ada, agent_with, asking, browsing, send, wait_for

JUMPS = (
    timedelta(days=-3),
    timedelta(hours=-1),
    timedelta(seconds=-2),
    timedelta(days=400),
    timedelta(days=-20_000),
    timedelta(),
)
QUESTION = Question.boolean("q", "Sure?")
TIMED = Question.boolean("timed", "Sure in time?", deadline=timedelta(hours=2))


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Return a function that shifts every wall clock, but not the monotonic clock."""
    by = timedelta()
    real, real_ns = time.time, time.time_ns

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.fromtimestamp(real() + by.total_seconds(), tz or UTC)

    def jump(to: timedelta) -> None:
        nonlocal by
        by = to

    monkeypatch.setattr(time, "time", lambda: real() + by.total_seconds())
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(by.total_seconds() * 1e9))
    for module in ("midturn.clock", "midturn.web.templating", "midturn.web.statistics"):
        monkeypatch.setattr(f"{module}.datetime", Jumping)
    return jump


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_clock_jumps_cause_no_page_error(
    kind: str, tmp_path: Path, jump: Callable[[timedelta], None]
) -> None:
    store = mt.open_store(tmp_path / "conversations") if kind == "files" else mt.MemoryStore()
    before: list[mt.OpenQuestion] = []
    with browsing(inbox(store, user=ada)) as client:

        def fine(path: str) -> Any:
            found = client.get(path)
            assert found.status_code in (200, 303, 410), (path, found.status_code, found.text)
            return found

        for each in JUMPS:
            jump(each)
            asked = [
                wait_for(agent_with(store, asking(question))) for question in (QUESTION, TIMED)
            ]
            for question in (*before, *asked):
                fine(f"/q/{question.id}")
                fine(f"/c/{question.conversation}")
                fine(f"/api/questions?conversation={question.conversation}")
            fine("/")
            fine("/c")
            fine("/stats")
            listed = [question["id"] for question in fine("/api/questions").json()]
            assert {question.id for question in (asked[0], *before)} <= set(listed)
            answered = client.post(f"/api/questions/{asked[1].id}/answer", json={"value": True})
            assert answered.status_code == 200, answered.text
            assert send(client, asked[0], answer="yes").status_code in (200, 303)
            before = [wait_for(agent_with(store, asking(QUESTION)))]
        for question in before:
            assert (
                client.post(
                    f"/api/questions/{question.id}/answer", json={"value": True}
                ).status_code
                == 200
            )
