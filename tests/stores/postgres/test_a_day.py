"""Plays the document about a day of three people with PostgreSQL, whose clock follows the
document's clock.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from midturn.testing import Clock
from support.documents import ROOT, blocks
from support.examples import Examples
from support.postgres import Cluster

pytestmark = pytest.mark.real("PostgreSQL")
AHEAD = """
drop schema if exists a_day, clock cascade;
create schema clock;
create table clock.ahead (seconds float8);
insert into clock.ahead values (0);
create function clock.now() returns timestamptz language sql stable as
  'select pg_catalog.now() + seconds * interval ''1 second'' from clock.ahead';
"""


@pytest.fixture
def url(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a store in whose sessions `now()` returns the time of the document's
    clock.
    """
    passes = Clock.pass_

    def pass_(clock: Clock, **lengths: float) -> None:
        before = clock.elapsed()
        passes(clock, **lengths)
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            connection.execute(
                "update clock.ahead set seconds = seconds + %s", [clock.elapsed() - before]
            )

    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(AHEAD)
    monkeypatch.setattr(Clock, "pass_", pass_)
    return f"{cluster.url}&midturn_schema=a_day&options=-csearch_path%3Dclock%2Cpg_catalog"


def test_day_of_three_people_over_postgres(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = Examples(tmp_path)
    monkeypatch.setenv("HOME", str(examples.home))

    with examples.as_current():
        for block in (
            block for block in blocks(ROOT / "docs" / "howto" / "people.md") if block.example == 1
        ):
            there = block.text.replace('"conversations"', f'"{url}"').replace(
                "--store conversations", f"--store '{url}'"
            )
            examples.play(replace(block, text=there))
        examples.finish()

    with psycopg.connect(url.partition("&midturn_schema")[0]) as connection:
        count = connection.execute("select count(*) from a_day.conversation").fetchone()
    assert count == (3,)
