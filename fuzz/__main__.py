"""`python -m fuzz [--seconds 60] [target …]`: runs each fuzzer in its own process.

Uses coverage guidance with atheris if it is installed (Linux), otherwise hypothesis. Inputs that
break a target are written to `fuzz/found`. After the bug is fixed, move the input to
`fuzz/kept/<target>`, so that `make test` always tries it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "fuzz" / "found"
NAMES = ("events", "outcome", "schema", "configuration", "text", "walker", "keys", "web")
_HUNG = 25  # timeout per input in seconds
_MEMORY = 4096  # MiB


def main() -> int:
    """Run the fuzzers; the status is 1 if one of them found an error."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.targets) - set(NAMES):
        parser.error(
            f"There is no target {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}."
        )
    sys.path.insert(0, str(ROOT / "tests"))
    if given.inside:
        return _inside(given.targets[0], given.seconds)
    engine = "atheris" if _has_atheris() else "hypothesis"
    broken = [name for name in given.targets or NAMES if not _runs(name, given.seconds, engine)]
    print(
        f"{len(given.targets or NAMES)} targets, {given.seconds} s each, {engine}:"
        f" {', '.join(broken) or 'nothing'} broke"
    )
    return 1 if broken else 0


def _has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def _runs(name: str, seconds: int, engine: str) -> bool:
    FOUND.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--inside", "--seconds", str(seconds), name],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    said = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode:
        print("\n".join(said[-60:]))
    last = next(
        (line for line in reversed(said) if line.startswith("Done") or "inputs" in line),
        "it stopped early",
    )
    print(f"{name} ({engine}): {'ok' if not done.returncode else 'BROKEN'}: {last}", flush=True)
    return not done.returncode


def _inside(name: str, seconds: int) -> int:
    return _guided(name, seconds) if _has_atheris() else _drawn(name, seconds)


def _guided(name: str, seconds: int) -> int:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["midturn"]):
        from fuzz.targets import TARGETS
    from fuzz.seeds import seeds

    target = TARGETS[name]
    folder = tempfile.mkdtemp()
    for data in seeds()[name]:
        Path(folder, hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

    def one(data: bytes) -> None:
        target(data)

    options = [
        f"-max_total_time={seconds}",
        f"-timeout={_HUNG}",
        f"-rss_limit_mb={_MEMORY}",
        f"-artifact_prefix={FOUND}/{name}-",
        "-max_len=4096",
    ]
    atheris.Setup([sys.argv[0], *options, folder], one)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _drawn(name: str, seconds: int) -> int:
    from hypothesis import HealthCheck, Phase, given, settings, target

    from fuzz.mutations import mutated
    from fuzz.seeds import seeds
    from fuzz.targets import TARGETS

    every = cast("list[HealthCheck]", [*HealthCheck])
    tried, until = 0, time.monotonic() + seconds

    @settings(
        max_examples=500,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=every,
    )
    @given(mutated(seeds()[name]))
    def run(data: bytes) -> None:
        nonlocal tried
        tried += 1
        try:
            target(float(TARGETS[name](data)))
        except BaseException:
            (FOUND / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)
            raise

    while time.monotonic() < until:
        run()
    print(f"{tried} inputs in {seconds} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
