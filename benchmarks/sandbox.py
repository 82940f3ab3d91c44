"""Overhead of the sandbox: `true` is started a hundred times with each mechanism and without one.

Each sandboxed start is compared with a plain start right next to it, so that a busy machine
affects both equally. Processor time includes our own process and its children.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from midturn.security import confine, landlock, tool_sandbox
from midturn.security.confine import Means, SandboxBackend, sandbox_backend
from midturn.security.profile import Declared
from midturn.security.tool_sandbox import ToolSandbox, UserPaths
from midturn.tools.process import ProcessSpec, run_process

ROUNDS = 100
BAR = 10.0  # milliseconds
TRUE = ("/bin/true",)


class Start(Struct, frozen=True):
    """One start: milliseconds of wall time and of processor time."""

    wall: float
    cpu: float


def main() -> None:
    means: list[Means] = ["none"]
    if landlock.abi():
        means.append("landlock")
    if confine.bubblewrap():
        means.append("bubblewrap")
    print(f"here tools run with: {sandbox_backend().means}; bar: {BAR:g} ms more a start")
    with tempfile.TemporaryDirectory() as folder:
        taken = asyncio.run(_taken(means, Path(folder)))
    bare = taken["none"]
    print(
        f"{'none':<11} {_both([one.wall for one in bare])}; processors"
        f" {_both([one.cpu for one in bare])}"
    )
    for name in means[1:]:
        wall = [one.wall - beside.wall for one, beside in zip(taken[name], bare, strict=True)]
        cpu = [one.cpu - beside.cpu for one, beside in zip(taken[name], bare, strict=True)]
        least = min(one.wall for one in taken[name]) - min(one.wall for one in bare)
        print(
            f"{name:<11} +{statistics.median(wall):.2f} ms, least to least +{least:.2f}; processors"
            f" +{statistics.median(cpu):.2f}"
        )


async def _taken(means: Sequence[Means], root: Path) -> dict[Means, list[Start]]:
    home = root / "home"
    home.mkdir()
    taken: dict[Means, list[Start]] = {one: [] for one in means}
    boxes = {
        one: ToolSandbox(
            Declared(enable=one != "none"), UserPaths(home=Path.home(), private=(home,), cache=home)
        )
        for one in means
    }
    for _ in range(ROUNDS):
        for one in means:
            with _offered(one):
                taken[one].append(await _start(boxes[one], root))
    return taken


async def _start(around: ToolSandbox, root: Path) -> Start:
    clock, used = time.perf_counter(), _cpu()
    with around.around(TRUE, root, str(root), os.environ["PATH"]) as started:
        argv, enter = started.confined.argv, started.confined.enter
        done = await run_process(
            ProcessSpec(
                argv=argv, cwd=str(root), environment=dict(started.environment), enter=enter
            )
        )
    assert done.status == 0, done
    return Start((time.perf_counter() - clock) * 1000, (_cpu() - used) * 1000)


@contextmanager
def _offered(means: Means) -> Generator[None]:
    """Make the sandbox use one mechanism, whichever others are available."""
    before = confine.sandbox_backend
    tool_sandbox.sandbox_backend = confine.sandbox_backend = lambda: SandboxBackend(means)
    try:
        yield
    finally:
        tool_sandbox.sandbox_backend = confine.sandbox_backend = before


def _cpu() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def _both(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ms (least {min(values):.2f})"


if __name__ == "__main__":
    main()
