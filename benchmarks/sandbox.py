"""What a confined start costs: `true`, started a hundred times with each means, in turn, against the same without."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from midturn.sandbox import bubblewrap, landlock
from midturn.sandbox.confine import Confined, offer
from midturn.sandbox.profile import Declared, Profile, Workplace, profile
from midturn.tools.process import Command, run_process

ROUNDS = 100
BAR = 10.0  # milliseconds
TRUE = ("/bin/true",)


def main() -> None:
    """Print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        reached = profile(Declared(), Workplace(root=root, home=Path.home(), private=()), network=False)
        ways: dict[str, Callable[[], Confined]] = {"none": lambda: Confined(TRUE)}
        if landlock.abi():
            ways["landlock"] = lambda: Confined(TRUE, lambda: _enter(reached))
        if bubblewrap.program():
            ways["bubblewrap"] = lambda: Confined(bubblewrap.wrapped(TRUE, reached, (), folder))
        times = asyncio.run(_timed(ways, folder))
    bare = statistics.median(times["none"])
    print(f"here tools run with: {offer().means}")
    for name, taken in times.items():
        middle = statistics.median(taken)
        print(f"{name:<11} {middle:6.2f} ms a start, {middle - bare:+6.2f} ms; bar {BAR:g} ms more")


async def _timed(ways: dict[str, Callable[[], Confined]], folder: str) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            confined = way()
            begun = time.perf_counter()
            done = await run_process(Command(argv=confined.argv, cwd=folder, environment={}, enter=confined.enter))
            times[name].append((time.perf_counter() - begun) * 1000)
            assert done.status == 0, done
    return times


def _enter(reached: Profile) -> None:
    landlock.restrict(landlock.ruleset(reached.read, reached.write, network=reached.network))


if __name__ == "__main__":
    main()
