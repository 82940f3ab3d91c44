from __future__ import annotations

import subprocess
import sys

import pytest

from midturn.stores.postgres.conversations import PostgresStore

pytestmark = pytest.mark.real("PostgreSQL")


def _midturn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midturn", *arguments], capture_output=True, text=True, check=False
    )


def test_tables_are_created_checked_and_reindexed(url: str) -> None:
    made = _midturn("store", "upgrade", "--store", url)
    assert (made.returncode, made.stderr) == (0, "midturn: created the tables (version 1).\n")
    assert (
        "the tables are up to date (version 1)"
        in _midturn("store", "upgrade", "--store", url).stderr
    )
    assert _midturn("store", "check", "--store", url).returncode == 0
    store = PostgresStore(url)
    conversation = store.new_sync("Ship it")
    spoil = store.database.database.rows("update {s}.conversation set head = 3 returning id")
    store.run_sync("check", store.database.loop.run(spoil))
    checked = _midturn("store", "check", "--store", url)
    assert (checked.returncode, checked.stdout) == (1, f"{conversation}: head is 3, not 0\n")
    assert (
        _midturn("store", "reindex", "--store", url).stderr
        == "midturn: rebuilt the tables of 1 conversations.\n"
    )
    assert _midturn("store", "check", "--store", url).returncode == 0


def test_directory_needs_no_maintenance() -> None:
    refused = _midturn("store", "check", "--store", "var")
    assert refused.returncode == 2
    assert "'var' is not a database" in refused.stderr
