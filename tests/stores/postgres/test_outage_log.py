"""Logs of workers and servers have one line when a database outage begins and one when it
ends.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from midturn.errors import StoreError
from midturn.stores.postgres.conversations import PostgresStore
from midturn.stores.postgres.own_loop import parse_database_address
from support.postgres import Cluster
from support.serving import free_port, wait_for_listener

pytestmark = pytest.mark.real("PostgreSQL")
SHOP = """
import midturn as mt
from midturn.stores.postgres import database
database.Database.__init__.__defaults__ = (0.5,)  # seconds after which calls fail: several do
agent = mt.Agent(mt.ScriptedModel([{"text": "Done."}]))
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server that the test can stop."""
    server = Cluster("fsync=off")
    yield server
    server.remove()


@pytest.mark.parametrize(
    "command", [["worker", "shop:agent", "--health"], ["serve", "--port"]], ids=["worker", "serve"]
)
def test_outage_is_logged_once_at_begin_and_end(
    cluster: Cluster, tmp_path: Path, command: list[str]
) -> None:
    PostgresStore(cluster.url).new_sync("Mine")
    (tmp_path / "shop.py").write_text(SHOP)
    port = free_port()
    homes = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    at = f"127.0.0.1:{port}" if command[0] == "worker" else str(port)
    started = [sys.executable, "-c", RUN, *command, at, "--store", cluster.url]
    environment = {"PATH": os.environ["PATH"], **homes}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        started,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as process:
        wait_for_listener(port)
        _until_ready(port, 200)
        cluster.stop("immediate")
        _until_given_up(port)
        cluster.start()
        _until_ready(port, 200)
        process.terminate()
        _, errors = process.communicate(timeout=120)
    said = [
        line
        for line in errors.splitlines()
        if "midturn: worker started (up to" not in line
        and "Ctrl-C" not in line
        and "browser" not in line
        and "If the address" not in line
    ]
    logged = (tmp_path / "midturn" / "midturn.log").read_text().splitlines()

    for lines in (said, logged):
        assert [("is away" in line, "is back, after" in line) for line in lines] == [
            (True, False),
            (False, True),
        ], "\n".join(lines)


RUN = """
import sys
sys.path.insert(0, "")
import shop
from midturn.__main__ import main
sys.argv[0] = "midturn"
main()
"""


def _until_ready(port: int, status: int) -> None:
    deadline = time.monotonic() + 120
    while httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=120).status_code != status:
        assert time.monotonic() < deadline, f"never: {status}"
        time.sleep(0.05)


def _until_given_up(port: int) -> None:
    """Wait until a probe fails at once, which means that the store has stopped waiting for the
    database.
    """
    for _ in range(2):
        _until_ready(port, 503)
        began = time.monotonic()
        while (
            httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=120).elapsed.total_seconds() > 1.5
        ):
            assert time.monotonic() - began < 60, "never given up"


@pytest.mark.parametrize(
    "wrong", [("/postgres?", "/nothing?"), ("midturn@", "nobody@")], ids=["a database", "a role"]
)
def test_missing_database_is_not_an_outage(
    cluster: Cluster, wrong: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The error is raised at once with the server's message."""
    store = PostgresStore(cluster.url.replace(*wrong))
    with pytest.raises(StoreError, match="does not exist"):
        store.ids_sync()
    assert not [record for record in caplog.records if record.name == "midturn.store.away"]
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    # sessions of earlier tests may log that their removed server is unreachable
    assert not [warning for warning in warnings if "does not exist" in warning]


def test_log_messages_of_other_pools_are_kept(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    PostgresStore(cluster.url).ids_sync()

    logging.getLogger("psycopg.pool").warning("error connecting in %r", "theirs")

    assert [record.getMessage() for record in caplog.records if record.name == "psycopg.pool"] == [
        "error connecting in 'theirs'"
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        "options=-c%20no_such_parameter%3D1",
        "options=-c%20work_mem",
        "options=-c%20work_mem%3Dmuch",
        "no_such=1",
    ],
)
def test_wrong_address_option_is_not_an_outage(
    cluster: Cluster, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StoreError):
        PostgresStore(f"{cluster.url}&{wrong}").ids_sync()
    assert not [record for record in caplog.records if record.name == "midturn.store.away"]


def test_an_option_in_an_address_reaches_the_server(cluster: Cluster) -> None:
    address = f"{cluster.url}&midturn_schema=optional&options=-c%20statement_timeout%3D54321"
    assert PostgresStore(address).ids_sync() == []
    with psycopg.connect(parse_database_address(address).url) as connection:
        assert connection.execute("show statement_timeout").fetchone() == ("54321ms",)
