"""Fixtures of the AG-UI tests."""

from __future__ import annotations

from support.stores import any_store as store, cluster, store_address

__all__ = ["cluster", "store", "store_address"]
