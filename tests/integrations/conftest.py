"""What the tests of all adapters share."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    """A store on disk, empty: what is opened anew there is what another process would find."""
    return FileStore(tmp_path / "conversations")
