"""Both kinds of store, for the tests of what they have in common, and a database for those that need one."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.store.file_store import FileStore
from midturn.store.memory_store import MemoryStore
from midturn.store.store import ConversationStore
from support.postgres import Cluster

_NUMBERS = itertools.count(1)


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """A store of each kind, empty."""
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if shutil.which("pg_ctl") is None:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    server = Cluster("fsync=off", "max_connections=200")
    yield server
    server.remove()


@pytest.fixture
def url(cluster: Cluster) -> str:
    """Return the address of a schema that nobody has used."""
    return f"{cluster.url}&midturn_schema=s{next(_NUMBERS)}"


@pytest.fixture
def other_url(cluster: Cluster) -> str:
    """Return the address of another schema that nobody has used."""
    return f"{cluster.url}&midturn_schema=s{next(_NUMBERS)}"
