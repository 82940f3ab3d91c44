"""Maintenance commands (import, upgrade, reindex) that are killed halfway complete when they run
again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from midturn.events.codec import encode_event
from midturn.events.types import ChatRequest, TurnEnd, TurnStart
from midturn.stores.batch import event_id
from midturn.stores.metadata import Metadata
from midturn.stores.opening import FileStore, open_store
from midturn.stores.postgres.conversations import PostgresStore
from midturn.stores.store import ConversationStore

pytestmark = pytest.mark.real("PostgreSQL")

MANY = 40
SLOW = """
from midturn.cli.main import run
from midturn.stores.postgres import statements
statements.MIGRATIONS[1] = statements.MIGRATIONS[1].replace("create table {s}.handed", "select pg_sleep(5); create table {s}.handed")
run(["store", "upgrade", "--store", URL])
"""
STEP_BY_STEP = """
import sys
from midturn.cli.conversation import transfer
from midturn.cli.main import run
say = transfer._report_copy
def say_and_wait(number, copied):
    say(number, copied)
    if copied.fate == "copied":
        sys.stdin.readline()
transfer._report_copy = say_and_wait
run(sys.argv[1:])
"""


def _filled(store: ConversationStore) -> dict[str, list[bytes]]:
    """Add conversations to a store, some of them long; return their lines."""
    made: dict[str, list[bytes]] = {}
    for number in range(MANY):
        events = [TurnStart(timestamp="2026-01-01T00:00:00Z", event_id=event_id())]
        asked = [
            ChatRequest(
                timestamp="2026-01-01T00:00:00Z", event_id=event_id(), content="Ship it " * 50
            )
            for _ in range(number * 3)
        ]
        # an open turn would be ended by the import
        ended = TurnEnd(timestamp="2026-01-01T00:00:00Z", event_id=event_id(), status="completed")
        lines = [encode_event(event) for event in (*events, *asked, ended)]
        made[store.run_sync("add", store.port.add(lines, Metadata(title=f"Number {number}")))] = (
            lines
        )
    return made


def _lines(store: ConversationStore) -> dict[str, list[bytes]]:
    return {id: store.run_sync("lines", store.port.lines(id)) for id in store.ids_sync()}


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


@pytest.mark.parametrize("direction", ["to the database", "to files"])
def test_killed_import_leaves_whole_conversations_and_resumes(
    direction: str, url: str, tmp_path: Path
) -> None:
    files, database = str(tmp_path / "files"), url
    source, target = (files, database) if direction == "to the database" else (database, files)
    wanted = _filled(open_store(source))
    words = ["conversation", "import", source, "--store", target]
    command = [sys.executable, "-u", "-c", STEP_BY_STEP, *words]
    pipe = subprocess.PIPE
    for copied in (1, 7, 11):
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, bufsize=1
        ) as importing:
            assert importing.stdin
            assert importing.stdout
            for _ in range(copied):
                assert importing.stdout.readline()
                importing.stdin.write("\n")
            importing.kill()  # in the middle of the next conversation
        found = _lines(open_store(target))
        assert 0 < len(found) < MANY
        assert all(wanted[id] == lines for id, lines in found.items())

    done = subprocess.run(
        [sys.executable, "-m", "midturn", *words], capture_output=True, text=True, check=True
    )

    assert "already exists." in done.stderr
    assert _lines(open_store(target)) == wanted
    if direction == "to files":
        assert not list((tmp_path / "files").glob(".new-*"))
        assert FileStore(tmp_path / "files").files.turns.reindex() == []
    else:
        assert PostgresStore(url).check_sync() == []


def test_killed_upgrade_leaves_no_tables_and_resumes(url: str) -> None:
    store = PostgresStore(url)
    plain = store.database.address.url
    upgrading = subprocess.Popen(
        [sys.executable, "-c", f"URL = {url!r}\n{SLOW}"], stderr=subprocess.DEVNULL
    )
    with psycopg.connect(plain, autocommit=True) as connection:

        def is_halfway() -> bool:
            return bool(
                connection.execute(
                    "select 1 from pg_stat_activity where wait_event = 'PgSleep'"
                ).fetchall()
            )

        _until(is_halfway, "it is in the middle of a migration")
        upgrading.kill()
        upgrading.wait()
        _until(lambda: not is_halfway(), "the server has seen it")
        table = f"{store.database.address.schema}.conversation"
        assert connection.execute("select to_regclass(%s)", [table]).fetchone() == (None,)
    assert store.upgrade_sync() == (0, 1)
    assert store.ids_sync() == []


def test_killed_reindex_keeps_its_progress_and_resumes(url: str) -> None:
    store = PostgresStore(url)
    wanted = _filled(store)
    database = store.database.database
    spoiling = database.rows(
        "update {s}.conversation set head = head + 1, unfinished = false returning id"
    )
    store.run_sync("spoil", store.database.loop.run(spoiling))
    assert len(store.check_sync()) == MANY
    keeping = subprocess.Popen(
        [sys.executable, "-m", "midturn", "store", "reindex", "--store", url],
        stderr=subprocess.DEVNULL,
    )
    _until(lambda: len(store.check_sync()) < MANY, "it has begun")
    keeping.kill()
    keeping.wait()

    store.reindex_sync()

    assert store.check_sync() == []
    assert _lines(store) == wanted
