"""Stores that several folders of tests are run over, and the home of a user of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """A store of each kind, empty."""
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a home that nobody else has."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("STATE", "DATA", "CONFIG"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
