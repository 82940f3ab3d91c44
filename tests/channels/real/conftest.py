"""A store and a home for each test."""

from __future__ import annotations

from support.stores import own_home, store

__all__ = ["own_home", "store"]
