from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from midturn.models.reached_model import imported_in_thread


def test_a_module_is_loaded_without_blocking_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_beside.py").write_text("import time\ntime.sleep(0.1)\nVALUE = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    async def both() -> tuple[int, int]:
        task = asyncio.create_task(imported_in_thread("slow_beside"))
        turns = 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0.01)
        return (await task).VALUE, turns

    value, turns = asyncio.run(both())
    assert value == 7
    assert turns > 1


def test_a_failed_import_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module_beside"):
        asyncio.run(imported_in_thread("no_such_module_beside"))


def test_leaving_does_not_wait_for_the_module(tmp_path: Path) -> None:
    (tmp_path / "endless_beside.py").write_text("import time\ntime.sleep(3600)\n")
    code = (
        "import asyncio, sys\nsys.path.insert(0, sys.argv[1])\nfrom midturn.models.reached_model"
        " import imported_in_thread\nasync def leave():\n    await"
        " asyncio.wait_for(imported_in_thread('endless_beside'), 0.05)\ntry:\n   "
        " asyncio.run(leave())\nexcept TimeoutError:\n    print('left')\n"
    )
    begun = time.monotonic()

    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert run.stdout == "left\n"
    assert time.monotonic() - begun < 60
