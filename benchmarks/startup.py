"""How long midturn takes to be there: the import, `--version`, and `query` to its first byte. Prints medians; asserts nothing."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROUNDS = 15


def seconds(command: list[str], cwd: Path | None = None) -> float:
    """Return how long a command takes until it has ended."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd, stdin=subprocess.DEVNULL)
    return time.perf_counter() - start


def to_first_byte(command: list[str], cwd: Path, environment: Mapping[str, str] | None = None) -> float:
    """Return how long a command takes until its first byte on stdout."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        if process.stdout is None or not process.stdout.read(1):
            raise SystemExit("the command printed nothing")
        took = time.perf_counter() - start
        process.stdout.read()
    return took


def median(measure: Callable[[], float]) -> float:
    """Return the median of several rounds, in milliseconds."""
    return statistics.median(measure() for _ in range(ROUNDS)) * 1e3


def main() -> None:
    """Print one line a measurement."""
    python = sys.executable
    bare = median(lambda: seconds([python, "-c", "pass"]))
    imported = median(lambda: seconds([python, "-c", "import midturn"]))
    agent = median(lambda: seconds([python, "-c", "import midturn; midturn.Agent, midturn.tool, midturn.Question"]))
    version = median(lambda: seconds([python, "-m", "midturn", "--version"]))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "play.json").write_text(json.dumps({"replies": [{"text": "Hello."}] * (ROUNDS + 1)}))
        os.environ["XDG_STATE_HOME"] = directory
        subprocess.run([python, "-m", "midturn", "init"], cwd=root, check=True, stdout=subprocess.DEVNULL)
        query = [python, "-m", "midturn", "query", "-m", "scripted:play.json", "hello"]
        first = median(lambda: to_first_byte(query, root))
    print(f"bare Python              {bare:7.1f} ms")
    print(f"import midturn           {imported:7.1f} ms  (+{imported - bare:.1f})")
    print(f"  with Agent and tool    {agent:7.1f} ms  (+{agent - bare:.1f})")
    print(f"midturn --version        {version:7.1f} ms  (+{version - bare:.1f})")
    print(f"query to its first byte  {first:7.1f} ms  (+{first - bare:.1f})")


if __name__ == "__main__":
    main()
