"""Fixtures of the tests of the A2A server."""

from __future__ import annotations

import sys

import pytest

from support.stores import cluster, store_address

__all__ = ["cluster", "store_address"]


@pytest.fixture(autouse=True)
def streams_are_open() -> None:
    """Undo an effect of earlier tests. When a test stops a server in this process, the SDK's library
    for server-sent events ends all later streams of the process.
    """
    library = sys.modules.get("sse_starlette.sse")
    if library is not None:
        library.AppStatus.should_exit = False
