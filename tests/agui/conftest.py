"""Fixtures of the AG-UI tests."""

from __future__ import annotations

from support.stores import store

__all__ = ["store"]
