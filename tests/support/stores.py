"""Fixtures: a store of each kind, addresses of stores, and a separate home directory."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore, open_store
from midturn.stores.store import ConversationStore
from support.postgres import Cluster

_NUMBERS = itertools.count(1)
_DATABASE = pytest.param("database", marks=pytest.mark.real("PostgreSQL"))


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """An empty store of each kind."""
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server."""
    if shutil.which("pg_ctl") is None:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    server = Cluster("fsync=off", "max_connections=200")
    yield server
    server.remove()


@pytest.fixture(params=["disk", "memory", _DATABASE])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """An empty store of each kind, PostgreSQL included."""
    if request.param == "memory":
        return MemoryStore()
    return open_store(_address(request, tmp_path))


@pytest.fixture(params=["disk", _DATABASE])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of an empty store that several processes can open."""
    return _address(request, tmp_path)


def _address(request: pytest.FixtureRequest, directory: Path) -> str:
    if request.param == "disk":
        return str(directory / "conversations")
    server: Cluster = request.getfixturevalue("cluster")
    return f"{server.url}&midturn_schema=shared{next(_NUMBERS)}"


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a home directory that belongs to the test."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("STATE", "DATA", "CONFIG"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
