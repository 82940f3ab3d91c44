"""Fixtures for the tests of the page."""

from __future__ import annotations

import pytest

from midturn.stores.memory_conversations import MemoryStore
from support.stores import own_home

__all__ = ["own_home"]


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return MemoryStore()
