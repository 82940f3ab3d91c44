"""A question of a turn that was not begun here, on the page and through the API: nothing of it is answered, and it is said what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import midturn as mt
from midturn.core.question import Question
from midturn.files.private import ensure_private
from midturn.store.file_store import FileStore
from midturn.store.seal import without_seal
from midturn.store.workspace import Workspace
from midturn.web import inbox
from support.pages import ada, agent_with, asking, browsing, send, wait_for

TAKEN_OVER = "was not begun here, or was changed by another program"


@pytest.fixture
def disk(tmp_path: Path, own_home: None) -> FileStore:
    """Return the sealed store of a workspace."""
    del own_home
    ensure_private(tmp_path / "work")
    return FileStore(Workspace.make(tmp_path / "work").conversations)


def from_elsewhere(store: FileStore, question: Question[Any]) -> mt.OpenQuestion:
    """Ask a question in a turn, and let the turn look as one that a clone brought."""
    waiting = wait_for(agent_with(store, asking(question)))
    file = store.files.path(waiting.conversation) / "events.jsonl"
    file.write_bytes(b"".join(without_seal(line) + b"\n" for line in file.read_bytes().splitlines()))
    return waiting


@pytest.fixture
def client(disk: FileStore) -> Generator[TestClient]:
    """Serve the store as an application mounts it."""
    with browsing(inbox(disk, user=ada)) as browser:
        yield browser


def test_the_api_refuses_an_answer_and_says_what_to_do(disk: FileStore, client: TestClient) -> None:
    waiting = from_elsewhere(disk, Question.boolean("sure", "Sure?"))
    sent = client.post(f"/api/questions/{waiting.id}/answer", json={"value": True})
    assert (sent.status_code, sent.json()["error"]) == (409, "needs_adoption")
    assert TAKEN_OVER in sent.json()["message"]
    assert "Ask whoever runs this application to look at it" in sent.json()["message"]
    assert asyncio.run(disk.pending()) != []


@pytest.mark.parametrize("fields", [{"answer": "Tuesday", "act": "answer"}, {"reply": "Tuesday", "act": "reply"}], ids=["answer", "reply"])
def test_the_page_shows_the_question_again_with_what_was_typed_and_what_to_do(
    disk: FileStore, client: TestClient, fields: dict[str, str]
) -> None:
    waiting = from_elsewhere(disk, Question.text("when", "When?"))
    sent = send(client, waiting, **fields)
    assert sent.status_code == 409
    for expected in ("When?", "Tuesday", TAKEN_OVER, "Ask whoever runs this application to look at it"):
        assert expected in sent.text
    assert "midturn resume" not in sent.text
    assert asyncio.run(disk.pending()) != []
