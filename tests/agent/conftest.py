"""Fixtures that run each agent test with both kinds of store."""

from __future__ import annotations

from support.stores import store

__all__ = ["store"]
