"""A short torture run. `make torture` runs it for longer."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from support.postgres import Cluster
from torture.torture import Plan, run_torture


@pytest.mark.long
def test_killed_workers_lose_nothing_on_disk(tmp_path: Path) -> None:
    counts = asyncio.run(run_torture(Plan(store=str(tmp_path / "store"), kills=4, conversations=6)))
    assert counts.is_clean, (counts, counts.examples)
    assert counts.acknowledged > 20


@pytest.mark.real("PostgreSQL")
@pytest.mark.parametrize(
    ("engine", "kills", "every"), [("none", 12, (0.2, 0.8)), ("dbos", 4, (0.8, 2.0))]
)
def test_killed_workers_and_a_crashed_server_lose_nothing(
    engine: str, kills: int, every: tuple[float, float]
) -> None:
    if shutil.which("pg_ctl") is None:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    cluster = Cluster("max_connections=200")
    try:
        plan = Plan(
            store=cluster.url, kills=kills, crashes=2, conversations=10, engine=engine, every=every
        )
        counts = asyncio.run(run_torture(plan, cluster.crash))
    finally:
        cluster.remove()
    assert counts.is_clean, (counts, counts.examples)
    assert counts.crashes == 2
    assert counts.acknowledged > 20
