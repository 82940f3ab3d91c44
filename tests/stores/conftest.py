"""Fixtures: both kinds of store for shared tests, and PostgreSQL schemas for the tests that need
one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.stores.folder import Folder
from support.postgres import Cluster
from support.stores import cluster, own_home, store

__all__ = ["cluster", "own_home", "store"]

_NUMBERS = itertools.count(1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.at(tmp_path) as opened:
        yield opened


@pytest.fixture
def url(cluster: Cluster) -> str:
    """Return the address of an unused schema."""
    return f"{cluster.url}&midturn_schema=s{next(_NUMBERS)}"


@pytest.fixture
def other_url(cluster: Cluster) -> str:
    """Return the address of another unused schema."""
    return f"{cluster.url}&midturn_schema=s{next(_NUMBERS)}"
