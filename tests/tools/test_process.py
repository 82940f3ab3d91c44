from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from midturn.tools.process import ProcessEnd, Program, run_process

MIB = 1024 * 1024
ESCAPE = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(30)"


def command(script: str, **fields: object) -> Program:
    given = {"argv": ("/bin/sh", "-c", script), "cwd": "/", "environment": {"PATH": os.environ["PATH"]}, "timeout": 20.0, **fields}
    return Program(**given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # fields of a test


def run(script: str, **fields: object) -> ProcessEnd:
    return asyncio.run(run_process(command(script, **fields)))


def alive(pid: int) -> bool:
    """Say whether a process runs; a zombie that init has yet to reap does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_output_errors_and_status_come_back() -> None:
    assert run("echo out; echo err >&2; exit 3") == ProcessEnd("exited", 3, b"out\n", b"err\n")


def test_a_signal_is_a_negative_status() -> None:
    assert run("kill -SEGV $$").status == -11


def test_the_child_leads_a_session_without_a_terminal_and_dumps_no_core() -> None:
    finished = run("ps -o sid= -p $$ | tr -d ' '; echo $$; (exec 3<>/dev/tty) 2>/dev/null && echo tty; ulimit -c; ulimit -Hc")
    session, pid, *rest = finished.stdout.decode().split()

    assert (session, rest) == (pid, ["0", "0"])


def test_the_environment_is_exactly_what_was_given() -> None:
    finished = asyncio.run(run_process(Program(argv=("/usr/bin/env",), cwd="/", environment={"A": "1", "PWD": "/"}, timeout=20)))

    assert set(finished.stdout.decode().split()) <= {"A=1", "PWD=/", "_=/usr/bin/env", "SHLVL=0", "OLDPWD=/"}


@pytest.mark.parametrize("script", ["cat >/dev/null; echo read", "exec 0<&-; sleep 0.2; echo read", "echo read", "sleep 0.2; echo read"])
def test_a_document_larger_than_the_pipe_holds_up_nobody(script: str) -> None:
    """Whether the child reads all, closes its input, or never looks at it."""
    assert run(script, stdin=b"x" * 4 * MIB) == ProcessEnd("exited", 0, b"read\n", b"")


def test_a_large_document_arrives_whole_while_output_flows_back() -> None:
    """Neither side waits for the other."""
    assert len(run("cat", stdin=b"x" * 4 * MIB).stdout) == 4 * MIB


def test_a_child_that_hangs_is_ended_when_its_time_is_over() -> None:
    finished = run("echo begun; sleep 600", timeout=0.3)

    assert finished == ProcessEnd("timeout", None, b"begun\n", b"")


def test_a_child_that_ignores_the_polite_signal_is_killed() -> None:
    finished = run("trap '' TERM; echo begun; while :; do sleep 0.1; done", timeout=0.3)

    assert (finished.ending, finished.stdout) == ("timeout", b"begun\n")


def test_a_child_may_clean_up_when_its_time_is_over() -> None:
    assert run("trap 'echo cleaned; exit' TERM; while :; do sleep 0.05; done", timeout=0.3).stdout == b"cleaned\n"


def test_endless_output_fills_neither_memory_nor_disk() -> None:
    """A gigabyte is asked for; the reader stops at its cap and ends the writer."""
    finished = run("yes | head -c 1000000000", cap=MIB)

    assert (finished.ending, finished.status, len(finished.stdout)) == ("overflow", None, MIB)


def test_endless_errors_are_capped_too() -> None:
    assert run("yes >&2", cap=MIB).ending == "overflow"


def test_a_grandchild_that_holds_the_output_open_does_not_hold_the_call() -> None:
    finished = run("sleep 600 & echo $!; exit 0")

    assert (finished.ending, finished.status) == ("exited", 0)
    assert wait_until(lambda: not alive(int(finished.stdout)))


def test_a_grandchild_that_hides_its_output_is_ended_all_the_same() -> None:
    finished = run("sleep 600 >/dev/null 2>&1 </dev/null & echo $!")

    assert wait_until(lambda: not alive(int(finished.stdout)))


def test_a_grandchild_is_ended_with_its_parent_when_time_is_over() -> None:
    finished = run("(sleep 600 & echo $!; wait) & wait", timeout=0.3)

    assert wait_until(lambda: not alive(int(finished.stdout)))


def test_a_grandchild_in_a_session_of_its_own_does_not_hold_the_call() -> None:
    """It escaped the group on purpose; the call ends all the same, and reads what was written."""
    finished = run(
        f"{sys.executable} -c 'import os; os.setsid(); print(os.getpid(), flush=True); import time; time.sleep(30)' & sleep 1; echo done"
    )

    os.kill(int(finished.stdout.split()[0]), 9)
    assert finished.stdout.endswith(b"done\n")


async def begun_and_cancelled(pids: Path) -> None:
    task = asyncio.create_task(run_process(command(f"sleep 600 & echo $$ $! > {pids}; wait", timeout=None)))
    await asyncio.to_thread(wait_until, lambda: pids.exists() and pids.read_text().endswith("\n"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    asyncio.run(begun_and_cancelled(pids))

    assert wait_until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_a_command_that_begins_while_its_program_ends_is_ended_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs before the thread that starts it comes to tell so, and by then the loop is closed."""
    pids, closed, start = tmp_path / "pids", threading.Event(), subprocess.Popen[bytes]

    def start_slowly(*given: Any, **fields: Any) -> subprocess.Popen[bytes]:
        begun = start(*given, **fields)
        closed.wait()
        return begun

    monkeypatch.setattr(subprocess, "Popen", start_slowly)
    asyncio.run(begun_and_cancelled(pids))
    closed.set()

    assert wait_until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_cancelling_twice_does_not_wait_for_a_stubborn_child(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def scene() -> None:
        task = asyncio.create_task(run_process(command(f"trap '' TERM; echo $$ > {pids}; while :; do sleep 0.1; done", timeout=None)))
        await asyncio.to_thread(wait_until, lambda: pids.exists() and pids.read_text().endswith("\n"))
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())

    assert wait_until(lambda: not alive(int(pids.read_text())))


@pytest.mark.parametrize("turns_of_the_loop", range(6))
def test_a_child_whose_caller_goes_away_while_it_begins_leaves_no_stream_open(turns_of_the_loop: int) -> None:
    async def scene() -> None:
        task = asyncio.create_task(run_process(command("sleep 60")))
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wait_until, lambda: not [one for one in threading.enumerate() if one.name == "midturn-child"])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(scene())
        gc.collect()

    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []


def test_nothing_stays_open_and_nobody_stays_a_zombie() -> None:
    async def scene() -> tuple[set[str], set[str]]:
        await several(lambda: run_process(command("echo x")))
        before = open_files()
        await several(lambda: run_process(command("echo x; exit 1")))
        await several(lambda: run_process(command("sleep 60", timeout=0.05)))
        await several(lambda: run_process(command("yes", cap=1000)))
        gc.collect()
        return before, open_files()

    before, after = asyncio.run(scene())

    assert after <= before
    with suppress(ChildProcessError):  # what other tests have started may still run
        assert os.waitpid(-1, os.WNOHANG) == (0, 0)


async def several(start: Callable[[], Awaitable[ProcessEnd]]) -> None:
    await asyncio.gather(*(start() for _ in range(5)))


def test_many_run_at_once() -> None:
    async def scene() -> list[ProcessEnd]:
        return list(await asyncio.gather(*(run_process(command(f"cat; echo {n}", stdin=b"in ")) for n in range(20))))

    assert [finished.stdout for finished in asyncio.run(scene())] == [f"in {n}\n".encode() for n in range(20)]


def test_it_runs_on_a_loop_that_is_not_in_the_main_thread() -> None:
    async def scene() -> ProcessEnd:
        return await asyncio.to_thread(run, "echo x")

    assert asyncio.run(scene()).stdout == b"x\n"


def test_a_nul_character_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="null byte"):
        asyncio.run(run_process(Program(argv=("/bin/echo", "a\0b"), cwd="/", environment={})))


def test_no_more_than_eight_run_at_once_and_waiting_costs_no_time(tmp_path: Path) -> None:
    script = f"touch {tmp_path}/$$; ls {tmp_path} | wc -l; sleep 0.2; rm {tmp_path}/$$"

    async def scene() -> list[ProcessEnd]:
        return list(await asyncio.gather(*(run_process(command(script, timeout=1.5)) for _ in range(24))))

    finished = asyncio.run(scene())

    assert {one.ending for one in finished} == {"exited"}
    assert max(int(one.stdout) for one in finished) <= 8
