from __future__ import annotations

import subprocess
import sys

import pytest

from midturn.stores.postgres.conversations import PostgresStore

pytestmark = pytest.mark.real("PostgreSQL")


def _midturn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "midturn", *arguments], capture_output=True, text=True, check=False)


def test_tables_are_made_checked_and_computed_again(url: str) -> None:
    made = _midturn("store", "upgrade", "--store", url)
    assert (made.returncode, made.stderr) == (0, "midturn: the tables have version 1 now; before, it was none.\n")
    assert "have version 1 already" in _midturn("store", "upgrade", "--store", url).stderr
    assert _midturn("store", "check", "--store", url).returncode == 0
    store = PostgresStore(url)
    conversation = store.new_sync("Ship it")
    spoil = store.database.database.rows("update {s}.conversation set head = 3 returning id")
    store.run_sync("check", store.database.loop.run(spoil))
    checked = _midturn("store", "check", "--store", url)
    assert (checked.returncode, checked.stdout) == (1, f"{conversation}: head is 3, not 0\n")
    assert _midturn("store", "reindex", "--store", url).stderr == "midturn: conversations mended: 1.\n"
    assert _midturn("store", "check", "--store", url).returncode == 0


def test_a_directory_needs_no_looking_after() -> None:
    refused = _midturn("store", "check", "--store", "var")
    assert refused.returncode == 2
    assert "'var' is not a database" in refused.stderr
