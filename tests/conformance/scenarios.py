"""The scenarios of the protocol's own conformance tests that are about asking people: run one, or run all and print the counts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from support.installed import Missing, installed

HERE = Path(__file__).parent
PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22.23.3")
PUSHED, RETURNED = "2025-11-25", "2026-07-28"
"""The two eras: a server sends its question, or returns it."""
TASKS = "tasks"
"""An extension, of no era: calls that run on."""


class Scenario(Struct, frozen=True):
    """One of them."""

    side: str
    name: str
    era: str

    def __str__(self) -> str:
        return f"{self.side} {self.name} {self.era}"


SCENARIOS = (
    Scenario("client", "elicitation-sep1034-client-defaults", PUSHED),
    Scenario("client", "sep-2322-client-request-state", RETURNED),
    *(Scenario("server", name, PUSHED) for name in ("tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums")),
    *(
        Scenario("server", f"input-required-result-{name}", RETURNED)
        for name in (
            "basic-elicitation",
            "basic-sampling",
            "basic-list-roots",
            "request-state",
            "multiple-input-requests",
            "multi-round",
            "missing-input-response",
            "non-tool-request",
            "result-type",
            "unsupported-methods",
            "tampered-state",
            "capability-check",
            "ignore-extra-params",
            "validate-input",
        )
    ),
    *(
        Scenario("server", f"tasks-{name}", TASKS)
        for name in ("capability-negotiation", "wire-fields", "request-state-removal", "request-headers", "dispatch-and-envelope")
    ),
)
"""What is left out of tasks: tools that fail, are cancelled for good or ask two things at once, which questions never do."""


class Counted(Struct, frozen=True):
    """How many checks of a scenario passed, of how many, and what was printed."""

    passed: int
    total: int
    printed: str

    @property
    def is_whole(self) -> bool:
        """Every check passed."""
        return 0 < self.passed == self.total


def run(scenario: Scenario) -> Counted:
    """Run a scenario against our side.

    Raises:
        Missing: The tests cannot be installed here.
    """
    binaries = installed("conformance", *PACKAGES)
    program = binaries.parent / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    command = [str(binaries / "node"), str(program), scenario.side, "--scenario", scenario.name]
    if scenario.era == TASKS:
        with _server("tasks_under_test.py") as url:
            return _counted([*command, "--url", url])
    command += ["--spec-version", scenario.era]
    if scenario.side == "client":
        return _counted([*command, "--command", f"{sys.executable} {HERE / 'client_under_test.py'}"])
    with _server() as url:
        return _counted([*command, "--url", url])


def _counted(command: list[str]) -> Counted:
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    printed = done.stdout + done.stderr
    found = re.search(r"Passed: (\d+)/(\d+)", printed)
    return Counted(int(found[1]), int(found[2]), printed) if found else Counted(0, 0, printed)


@contextmanager
def _server(script: str = "server_under_test.py") -> Generator[str]:
    process = subprocess.Popen([sys.executable, str(HERE / script)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def main() -> int:
    """Run all of them; the status is 1 if a check failed, 0 also where they cannot be installed, which is said."""
    passed = total = 0
    for scenario in SCENARIOS:
        try:
            counted = run(scenario)
        except Missing as missing:
            print(f"SKIPPED: {missing}")  # noqa: T201
            return 0
        passed, total = passed + counted.passed, total + max(counted.total, 1)
        print(f"{counted.passed:3} of {counted.total:3}  {scenario}", flush=True)  # noqa: T201
        if not counted.is_whole:
            print(counted.printed)  # noqa: T201
    print(f"{passed} of {total} checks passed, in {len(SCENARIOS)} scenarios.")  # noqa: T201
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main())
