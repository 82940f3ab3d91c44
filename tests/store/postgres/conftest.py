from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator

import pytest

from support.postgres import Cluster

_NUMBERS = itertools.count(1)


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
