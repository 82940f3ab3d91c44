"""`make attacks`: run the tests that SECURITY.md lists and count the attacks for each promise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
PARTS = {
    "bubblewrap": ("bwrap",),
    "Chromium": ("chromium",),
    "PostgreSQL": ("pg_ctl",),
    "channels": (
        "/usr/sbin/dovecot",
        "/usr/lib/dovecot/lmtp",
        str(ROOT / ".venv-homeserver" / "bin" / "python"),
    ),
}
"""The parts that some tests need, with the programs whose presence shows that a part is
installed.
"""
BROWSER = "tests/web/browser"
"""Browser tests run in a separate pytest process: the browser driver leaves an event loop running
in the thread of the tests.
"""
Outcome: TypeAlias = Literal["failed", "worked", "not tried"]
_ROW = re.compile(r"^\| (?P<promise>\d+\. [^|]+) \| (?P<tests>`tests/[^|]+) \|$", re.MULTILINE)


def promises(text: str) -> Mapping[str, Sequence[str]]:
    """Return the promises of the table in SECURITY.md, with the test files and folders for each."""
    return {row["promise"]: re.findall(r"`([^`]+)`", row["tests"]) for row in _ROW.finditer(text)}


def outcomes(report: Path) -> Mapping[str, Sequence[Outcome]]:
    """Read a JUnit report: return the outcomes of the attacks of each file."""
    ended: dict[str, list[Outcome]] = {}
    for case in ET.parse(report).iter("testcase"):
        outcome: Outcome = "failed" if case.find("skipped") is None else "not tried"
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = "worked"
        ended.setdefault(_file(case), []).append(outcome)
    return ended


def table(
    promised: Mapping[str, Sequence[str]],
    ended: Mapping[str, Sequence[Outcome]],
    missing: Sequence[str],
) -> Iterator[str]:
    """Yield a line for each promise and a line for the total. A test listed under two promises
    counts once in the total.
    """
    for promise, places in promised.items():
        found: list[Outcome] = [
            outcome
            for file, some in ended.items()
            if any(_is_in(file, place) for place in places)
            for outcome in some
        ]
        lacks = "".join(f"; {place} is missing" for place in places if place in missing)
        yield f"{_counted(found)}: {promise}{lacks}"
    every: list[Outcome] = [outcome for some in ended.values() for outcome in some]
    yield f"{_counted(every)}: in all"


def main() -> int:
    """Print the table. Return 1 if an attack worked, a listed test is missing or a test run
    failed.
    """
    promised = promises((ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    named = list(dict.fromkeys(place for places in promised.values() for place in places))
    missing = [place for place in named if not (ROOT / place).exists()]
    with tempfile.TemporaryDirectory() as folder:
        there = [place for place in named if place not in missing]
        in_browser = [place for place in there if place.startswith(BROWSER)]
        others = [place for place in there if place not in in_browser]
        runs = [
            _run(places, Path(folder) / f"{number}.xml")
            for number, places in enumerate((in_browser, others))
        ]
        ended = {
            file: some
            for report in Path(folder).iterdir()
            for file, some in outcomes(report).items()
        }
    for line in table(promised, ended, missing):
        sys.stdout.write(f"{line}\n")
    return 1 if any(runs) or missing or not promised else 0


def _run(places: Sequence[str], report: Path) -> int:
    """Run the tests in two worker processes. Progress and failures go to stderr."""
    if not places:
        return 0
    here = ",".join(part for part, programs in PARTS.items() if all(map(shutil.which, programs)))
    options = [
        "-q",
        "-n",
        "2",
        "--dist",
        "worksteal",
        f"--junitxml={report}",
        "-o",
        "junit_family=xunit1",
    ]
    command = [sys.executable, "-m", "pytest", *options, *places]
    return subprocess.run(
        command, stdout=sys.stderr, cwd=ROOT, check=False, env=os.environ | {"MIDTURN_REAL": here}
    ).returncode


def _file(case: ET.Element) -> str:
    """Return the file of a test. If its module could not be imported, the report names only the
    module.
    """
    return (
        case.get("file")
        or f"{(case.get('classname') or case.get('name') or '').replace('.', '/')}.py"
    )


def _is_in(file: str, place: str) -> bool:
    return file == place or file.startswith(f"{place}/")


def _counted(found: Sequence[Outcome]) -> str:
    return (
        f"{len(found):5} attacks, {found.count('worked')} worked, {found.count('not tried')} not"
        " tried"
    )


if __name__ == "__main__":
    raise SystemExit(main())
