"""A full disk.

The turn stops with a clear error. Acknowledged events are kept, and the turn continues when
there is space.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
import midturn as mt

@mt.tool
async def fill(ctx: mt.ToolContext) -> str:
    "Ask, and say a lot."
    sure = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    return f"{sure} " + "x" * 60_000

store = mt.open_store(sys.argv[1])
model = mt.ScriptedModel([{"calls": [{"name": "fill"}]}, {"text": "Done."}])
agent = mt.Agent(model, tools=[fill], store=store, prompter=mt.ScriptedPrompter({"fill.sure": True}))
try:
    ids = store.ids_sync()
    result = asyncio.run(agent.resume(ids[0]) if ids else agent.run("Fill it"))
    print(result.status)
except mt.StoreError as error:
    print(f"StoreError: {error}")
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None,
    reason="only root can mount a small file system",
)
def test_a_full_disk_stops_the_turn_without_losing_events(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k,mode=0700", "tmpfs", str(disk)], check=True
    )
    try:
        first = _run(disk)
        assert first.startswith("StoreError: "), first
        assert "events.jsonl" in first
        subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
        assert _run(disk) == "completed"
        log = next(disk.glob("*/events.jsonl")).read_text()
        assert log.count('"outcome":"answered"') == 1, (
            "the answer was acknowledged once, and nobody was asked again"
        )
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _run(disk: Path) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(disk)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return finished.stdout.strip()
