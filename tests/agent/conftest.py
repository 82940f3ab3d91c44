"""Every test of an agent runs over both kinds of store."""

from __future__ import annotations

from support.stores import store

__all__ = ["store"]
