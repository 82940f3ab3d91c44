"""Fixtures of the tests of the A2A server."""

from __future__ import annotations

from support.stores import cluster, store_address

__all__ = ["cluster", "store_address"]
