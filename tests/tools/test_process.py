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

from midturn.tools import process as tools_process
from midturn.tools.process import ProcessEnd, ProcessSpec, run_process

MIB = 1024 * 1024
ESCAPE = (
    "import os, sys, time; os.setsid(); print(os.getpid(), flush=True); open(sys.argv[1],"
    " 'w').close(); time.sleep(30)"
)


def command(script: str, **fields: object) -> ProcessSpec:
    given = {
        "argv": ("/bin/sh", "-c", script),
        "cwd": "/",
        "environment": {"PATH": os.environ["PATH"]},
        "timeout": 60.0,
        **fields,
    }
    return ProcessSpec(**given)  # type: ignore[arg-type]


def run(script: str, **fields: object) -> ProcessEnd:
    return asyncio.run(run_process(command(script, **fields)))


def alive(pid: int) -> bool:
    """Return whether a process runs. A zombie that init has not reaped yet does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_stdout_stderr_and_status_are_returned() -> None:
    assert run("echo out; echo err >&2; exit 3") == ProcessEnd("exited", 3, b"out\n", b"err\n")


def test_a_signal_is_a_negative_status() -> None:
    assert run("kill -SEGV $$").status == -11


def test_the_child_has_its_own_session_without_terminal_or_core_dumps() -> None:
    finished = run(
        "ps -o sid= -p $$ | tr -d ' '; echo $$; (exec 3<>/dev/tty) 2>/dev/null && echo tty; ulimit"
        " -c; ulimit -Hc"
    )
    session, pid, *rest = finished.stdout.decode().split()

    assert (session, rest) == (pid, ["0", "0"])


def test_the_environment_is_exactly_as_given() -> None:
    finished = asyncio.run(
        run_process(
            ProcessSpec(
                argv=("/usr/bin/env",), cwd="/", environment={"A": "1", "PWD": "/"}, timeout=20
            )
        )
    )

    assert set(finished.stdout.decode().split()) <= {
        "A=1",
        "PWD=/",
        "_=/usr/bin/env",
        "SHLVL=0",
        "OLDPWD=/",
    }


@pytest.mark.parametrize(
    "script",
    [
        "cat >/dev/null; echo read",
        "exec 0<&-; sleep 0.2; echo read",
        "echo read",
        "sleep 0.2; echo read",
    ],
)
def test_input_larger_than_a_pipe_does_not_block(script: str) -> None:
    """The child reads all of it, closes its input, or never reads."""
    assert run(script, stdin=b"x" * 4 * MIB) == ProcessEnd("exited", 0, b"read\n", b"")


def test_large_input_and_output_flow_at_the_same_time() -> None:
    """Neither side blocks the other."""
    assert len(run("cat", stdin=b"x" * 4 * MIB).stdout) == 4 * MIB


def run_too_long(script: str) -> ProcessEnd:
    """Run a script until its timeout.

    The timeout is extended if the machine was too busy for the script to print anything.
    """
    for seconds in (0.3, 3, 30):
        finished = run(script, timeout=seconds)
        if finished.stdout:
            return finished
    raise AssertionError("the script printed nothing")


def test_a_child_that_exceeds_its_timeout_is_ended() -> None:
    finished = run_too_long("echo begun; sleep 600")

    assert finished == ProcessEnd("timeout", None, b"begun\n", b"")


def test_a_child_that_ignores_sigterm_is_killed() -> None:
    finished = run_too_long("trap '' TERM; echo begun; while :; do sleep 0.1; done")

    assert (finished.ending, finished.stdout) == ("timeout", b"begun\n")


def test_a_child_can_clean_up_after_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools_process, "_GRACE_PERIOD", 60.0)
    assert (
        run_too_long(
            "trap 'echo cleaned; exit' TERM; echo begun; while :; do sleep 0.05; done"
        ).stdout
        == b"begun\ncleaned\n"
    )


def test_endless_output_is_limited() -> None:
    """The child writes a gigabyte. The reader stops at its limit and ends the child."""
    finished = run("yes | head -c 1000000000", cap=MIB)

    assert (finished.ending, finished.status, len(finished.stdout)) == ("overflow", None, MIB)


def test_endless_stderr_is_limited() -> None:
    assert run("yes >&2", cap=MIB).ending == "overflow"


def test_a_grandchild_holding_stdout_does_not_block_the_call() -> None:
    finished = run("sleep 600 & echo $!; exit 0")

    assert (finished.ending, finished.status) == ("exited", 0)
    assert wait_until(lambda: not alive(int(finished.stdout)))


def test_a_grandchild_that_closed_its_output_is_ended() -> None:
    finished = run("sleep 600 >/dev/null 2>&1 </dev/null & echo $!")

    assert wait_until(lambda: not alive(int(finished.stdout)))


def test_a_grandchild_is_ended_with_its_parent_after_the_timeout() -> None:
    finished = run_too_long("(sleep 600 & echo $!; wait) & wait")

    assert wait_until(lambda: not alive(int(finished.stdout)))


def test_a_grandchild_in_its_own_session_does_not_block_the_call(tmp_path: Path) -> None:
    """It left the process group. The call ends nevertheless, and reads the output."""
    escaped = tmp_path / "escaped"
    finished = run(
        f'{sys.executable} -c "{ESCAPE}" {escaped} & while [ ! -e {escaped} ]; do sleep 0.05; done;'
        " echo done"
    )

    os.kill(int(finished.stdout.split()[0]), 9)
    assert finished.stdout.endswith(b"done\n")


async def begun_and_cancelled(pids: Path) -> None:
    task = asyncio.create_task(
        run_process(command(f"sleep 600 & echo $$ $! > {pids}; wait", timeout=None))
    )
    await asyncio.to_thread(wait_until, lambda: pids.exists() and pids.read_text().endswith("\n"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_ends_the_whole_process_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    asyncio.run(begun_and_cancelled(pids))

    assert wait_until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_a_command_started_during_shutdown_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child runs before its starting thread reports it, and by then the loop is closed."""
    pids, closed, start = tmp_path / "pids", threading.Event(), subprocess.Popen[bytes]

    def start_slowly(*given: Any, **fields: Any) -> subprocess.Popen[bytes]:
        begun = start(*given, **fields)
        closed.wait()
        return begun

    monkeypatch.setattr(subprocess, "Popen", start_slowly)
    asyncio.run(begun_and_cancelled(pids))
    closed.set()

    assert wait_until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_cancelling_twice_does_not_wait_for_an_unresponsive_child(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def scene() -> None:
        task = asyncio.create_task(
            run_process(
                command(
                    f"trap '' TERM; echo $$ > {pids}; while :; do sleep 0.1; done", timeout=None
                )
            )
        )
        await asyncio.to_thread(
            wait_until, lambda: pids.exists() and pids.read_text().endswith("\n")
        )
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())

    assert wait_until(lambda: not alive(int(pids.read_text())))


@pytest.mark.parametrize("turns_of_the_loop", range(6))
def test_a_cancelled_start_leaves_no_stream_open(turns_of_the_loop: int) -> None:
    async def scene() -> None:
        task = asyncio.create_task(run_process(command("sleep 60")))
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(
            wait_until,
            lambda: not [one for one in threading.enumerate() if one.name == "midturn-child"],
        )

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(scene())
        gc.collect()

    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []


def test_no_descriptor_and_no_zombie_is_left() -> None:
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
    with suppress(ChildProcessError):  # children of other tests may still run
        assert os.waitpid(-1, os.WNOHANG) == (0, 0)


async def several(start: Callable[[], Awaitable[ProcessEnd]]) -> None:
    await asyncio.gather(*(start() for _ in range(5)))


def test_many_processes_run_concurrently() -> None:
    async def scene() -> list[ProcessEnd]:
        return list(
            await asyncio.gather(
                *(run_process(command(f"cat; echo {n}", stdin=b"in ")) for n in range(20))
            )
        )

    assert [finished.stdout for finished in asyncio.run(scene())] == [
        f"in {n}\n".encode() for n in range(20)
    ]


def test_processes_run_on_a_loop_outside_the_main_thread() -> None:
    async def scene() -> ProcessEnd:
        return await asyncio.to_thread(run, "echo x")

    assert asyncio.run(scene()).stdout == b"x\n"


def test_a_nul_character_is_refused_before_the_start() -> None:
    with pytest.raises(ValueError, match="null byte"):
        asyncio.run(run_process(ProcessSpec(argv=("/bin/echo", "a\0b"), cwd="/", environment={})))


def test_at_most_eight_processes_run_concurrently(tmp_path: Path) -> None:
    script = f"touch {tmp_path}/$$; ls {tmp_path} | wc -l; sleep 0.2; rm {tmp_path}/$$"

    async def scene() -> list[ProcessEnd]:
        return list(await asyncio.gather(*(run_process(command(script)) for _ in range(24))))

    finished = asyncio.run(scene())

    assert {one.ending for one in finished} == {"exited"}
    assert max(int(one.stdout) for one in finished) <= 8


def test_waiting_for_a_slot_does_not_use_up_the_timeout(tmp_path: Path) -> None:
    async def ending(seconds: float) -> str:
        """Run a child that sleeps longer than `seconds`, its time to end after it has started."""
        begun, go_on = tmp_path / f"begun {seconds}", tmp_path / f"go on {seconds}"
        begun.mkdir()
        script = f"touch '{begun}'/$$; while [ ! -e '{go_on}' ]; do sleep 0.05; done"
        first = [asyncio.create_task(run_process(command(script, timeout=None))) for _ in range(8)]
        await asyncio.to_thread(wait_until, lambda: len([*begun.iterdir()]) == len(first))
        ninth = asyncio.create_task(run_process(command("exit 0", timeout=seconds)))
        await asyncio.sleep(seconds + 0.1)
        go_on.touch()
        await asyncio.gather(*first)
        return (await ninth).ending

    assert any(
        asyncio.run(ending(seconds)) == "exited" for seconds in (0.5, 5, 30)
    )  # a busy machine needs more time for a child
