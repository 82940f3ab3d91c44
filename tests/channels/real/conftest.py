"""A store for each test, and a home of its own."""

from __future__ import annotations

from support.stores import own_home, store

__all__ = ["own_home", "store"]
