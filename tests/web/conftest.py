"""What the tests of the page share."""

from __future__ import annotations

import pytest

from midturn.stores.memory_conversations import MemoryStore
from support.stores import own_home

__all__ = ["own_home"]


@pytest.fixture
def store() -> MemoryStore:
    """Return an empty store."""
    return MemoryStore()
