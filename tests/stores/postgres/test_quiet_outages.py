"""One outage is one line when it begins and one when it ends, in a worker's log and in a page's: however long, however often it is met."""

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
from support.serving import free_port, wait_until_taken

pytestmark = pytest.mark.real("PostgreSQL")
SHOP = """
import midturn as mt
from midturn.stores.postgres import database
database.Database.__init__.__defaults__ = (0.5,)  # seconds after which calls fail: several do
agent = mt.Agent(mt.ScriptedModel([{"text": "Done."}]))
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that the test stops."""
    server = Cluster("fsync=off")
    yield server
    server.remove()


@pytest.mark.parametrize("command", [["worker", "shop:agent", "--health"], ["serve", "--port"]], ids=["worker", "serve"])
def test_an_outage_is_one_line_when_it_begins_and_one_when_it_ends(cluster: Cluster, tmp_path: Path, command: list[str]) -> None:
    PostgresStore(cluster.url).new_sync("Mine")
    (tmp_path / "shop.py").write_text(SHOP)
    port = free_port()
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    at = f"127.0.0.1:{port}" if command[0] == "worker" else str(port)
    started = [sys.executable, "-c", RUN, *command, at, "--store", cluster.url]
    environment = {"PATH": os.environ["PATH"], **homes}
    pipe = subprocess.PIPE
    with subprocess.Popen(started, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
        wait_until_taken(port)
        _until_ready(port, 200)
        cluster.stop("immediate")
        _until_given_up(port)
        cluster.start()
        _until_ready(port, 200)
        process.terminate()
        _, errors = process.communicate(timeout=60)
    said = [line for line in errors.splitlines() if "working on turns" not in line and "Ctrl-C" not in line and "browser" not in line]
    logged = (tmp_path / "midturn" / "midturn.log").read_text().splitlines()

    for lines in (said, logged):
        assert [("is away" in line, "is back, after" in line) for line in lines] == [(True, False), (False, True)], "\n".join(lines)


RUN = """
import sys
sys.path.insert(0, "")
import shop
from midturn.__main__ import main
sys.argv[0] = "midturn"
main()
"""


def _until_ready(port: int, status: int) -> None:
    deadline = time.monotonic() + 60
    while httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=20).status_code != status:
        assert time.monotonic() < deadline, f"never: {status}"
        time.sleep(0.05)


def _until_given_up(port: int) -> None:
    """Wait until a probe is told at once: the store has given up, and gives up again with the next one."""
    for _ in range(2):
        _until_ready(port, 503)
        began = time.monotonic()
        while httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=20).elapsed.total_seconds() > 1.5:
            assert time.monotonic() - began < 60, "never given up"


@pytest.mark.parametrize("wrong", [("/postgres?", "/nothing?"), ("midturn@", "nobody@")], ids=["a database", "a role"])
def test_what_does_not_exist_is_no_outage(cluster: Cluster, wrong: tuple[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """It is not waited for, and named as the server names it."""
    store = PostgresStore(cluster.url.replace(*wrong))
    with pytest.raises(StoreError, match="does not exist"):
        store.ids_sync()
    assert not [record for record in caplog.records if record.name == "midturn.store.away"]
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_messages_of_other_pools_are_left_alone(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    PostgresStore(cluster.url).ids_sync()

    logging.getLogger("psycopg.pool").warning("error connecting in %r", "theirs")

    assert [record.getMessage() for record in caplog.records if record.name == "psycopg.pool"] == ["error connecting in 'theirs'"]


@pytest.mark.parametrize(
    "wrong", ["options=-c%20no_such_parameter%3D1", "options=-c%20work_mem", "options=-c%20work_mem%3Dmuch", "no_such=1"]
)
def test_a_wrong_option_in_an_address_is_no_outage(cluster: Cluster, wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreError):
        PostgresStore(f"{cluster.url}&{wrong}").ids_sync()
    assert not [record for record in caplog.records if record.name == "midturn.store.away"]


def test_an_option_in_an_address_reaches_the_server(cluster: Cluster) -> None:
    address = f"{cluster.url}&midturn_schema=optional&options=-c%20statement_timeout%3D54321"
    assert PostgresStore(address).ids_sync() == []
    with psycopg.connect(parse_database_address(address).url) as connection:
        assert connection.execute("show statement_timeout").fetchone() == ("54321ms",)
