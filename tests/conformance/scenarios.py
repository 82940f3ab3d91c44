"""The scenarios of the protocol's own conformance tests that are about asking people: run one, or run all and print the counts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from support.installed import Missing, installed
from support.no_lie import lies

HERE = Path(__file__).parent
PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22.23.3")
OLD, PUSHED, RETURNED = "2025-06-18", "2025-11-25", "2026-07-28"
"""The two eras: a server sends its question (in the first revision that has questions, too), or returns it."""
TASKS = "tasks"
"""An extension, of no era: calls that run on."""


class Scenario(Struct, frozen=True):
    """One of them.

    Args:
        side: Which side of ours it tries.
        name: What the tests call it.
        era: The revision of the protocol.
        out: The checks that cannot apply to us, by their ids, and why. They fail, and have to: one that passes is a failure of this table.
        on: The module beside this one that serves, where that is `midturn mcp` under other names, and not our forms behind the SDK.
    """

    side: str
    name: str
    era: str
    out: Mapping[str, str] = {}
    on: str = ""

    def __str__(self) -> str:
        return f"{self.side} {self.name} {self.era}" + (" on midturn mcp" if self.on else "")


_FORMS, _TASKS, _MIDTURN = "server_under_test", "tasks_under_test", "midturn_under_test"
_NEVER_SHOWN = (
    "it brings an answer, with extra keys beside it, to a form that was never shown. midturn mcp shows the form first: nobody can have "
    "answered it. Beside the answer to a form that was shown, extra keys are ignored."
)
_ONE_AT_A_TIME = (
    "it wants a tool of a reference server that puts two requests at once. A task of ours is one question or one form: one request. "
    'The protocol: "A server MAY accept a partial set of responses".'
)
_NOTHING_BEFORE = (
    "it wants a tool that asks once before it becomes a task, and a task whose result repeats the answer. Our question is the task, and "
    "agents are told to take nothing that a task brings for a person's word: it says that check_answer reads it. "
    'The protocol speaks of "Server implementations that use multi round-trip requests in conjunction with task creation".'
)
SCENARIOS = (
    Scenario("client", "elicitation-sep1034-client-defaults", PUSHED),
    Scenario("client", "sep-2322-client-request-state", RETURNED),
    Scenario("server", "tools-call-elicitation", OLD),
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
        Scenario("server", f"tasks-{name}", TASKS, on=_TASKS)
        for name in (
            "lifecycle",
            "capability-negotiation",
            "wire-fields",
            "request-state-removal",
            "request-headers",
            "dispatch-and-envelope",
            "required-task-error",
        )
    ),
    Scenario("server", "tasks-mrtr-input", TASKS, {"tasks-mrtr-partial-fulfillment": _ONE_AT_A_TIME}, _TASKS),
    Scenario("server", "tasks-mrtr-composition", TASKS, {"sep-2663-mrtr-synchronous-before-task-creation": _NOTHING_BEFORE}, _TASKS),
    *(Scenario("server", name, PUSHED, on=_MIDTURN) for name in ("tools-call-elicitation", "elicitation-sep1034-defaults")),
    *(
        Scenario("server", f"input-required-result-{name}", RETURNED, on=_MIDTURN)
        for name in (
            "basic-elicitation",
            "request-state",
            "multi-round",
            "missing-input-response",
            "result-type",
            "unsupported-methods",
            "tampered-state",
            "validate-input",
        )
    ),
    Scenario(
        "server", "input-required-result-ignore-extra-params", RETURNED, {"sep-2322-ignore-unexpected-params": _NEVER_SHOWN}, _MIDTURN
    ),
)
"""Everything that the tests have about asking."""
NOT_RUN = {
    "tasks-status-notifications": "the tests have nothing in it yet: they skip it themselves, until it is rewritten",
    "tools-call-sampling": "it asks the client's model, not a person; midturn asks people, and refuses to be a model for a server",
}
"""What is named like asking and is not run, and why."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_CHECK = re.compile(r"^\S+Z \[(\S+) *\] ([A-Z]+) ", re.MULTILINE)
_ABOUT_ASKING = re.compile(r"elicit|input-required|request-state|mrtr|task|sampling")


class Counted(Struct, frozen=True):
    """What became of a scenario's checks, by their ids, and what was printed. An id may have several checks."""

    failed: tuple[str, ...]
    total: int
    printed: str

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return self.total - len(self.failed)

    def is_whole(self, out: Mapping[str, str]) -> bool:
        """Say whether every check passed that can, and none that cannot."""
        return self.total > 0 and sorted(self.failed) == sorted(out)


def offered() -> dict[str, list[str]]:
    """Return the names of all scenarios that the installed tests have, and that sound like asking, with their eras.

    Raises:
        Missing: The tests cannot be installed here.
    """
    listed = subprocess.run([*_program(), "list"], capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.findall(r"^  - (\S+) \[(.*)\]$", listed, re.MULTILINE)
    assert len(found) > len(SCENARIOS), listed
    return {name: eras.split(",") for name, eras in found if _ABOUT_ASKING.search(name)}


def _program() -> list[str]:
    binaries = installed("conformance", *PACKAGES)
    return [str(binaries / "node"), str(binaries.parent / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")]


def run(scenario: Scenario, home: Path) -> Counted:
    """Run a scenario against our side, whose stores are in a directory below `home`.

    Raises:
        Missing: The tests cannot be installed here.
    """
    command = [*_program(), scenario.side, "--scenario", scenario.name]
    if scenario.era != TASKS:
        command += ["--spec-version", scenario.era]
    if scenario.side == "client":
        return _counted([*command, "--command", f"{sys.executable} {HERE / 'client_under_test.py'} {home}"])
    with _server(home, scenario.on or _FORMS) as url:
        return _counted([*command, "--url", url])


def _counted(command: list[str]) -> Counted:
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    printed = done.stdout + done.stderr
    checks = _CHECK.findall(_COLOR.sub("", printed))
    counted = [(id, status) for id, status in checks if status != "INFO"]
    return Counted(tuple(id for id, status in counted if status != "SUCCESS"), len(counted), printed)


@contextmanager
def _server(home: Path, module: str) -> Generator[str]:
    command = [sys.executable, "-m", f"conformance.{module}", str(home)]
    process = subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def main() -> int:
    """Run all of them; the status is 1 if something is not as it should be, 0 also where they cannot be installed, which is said."""
    with tempfile.TemporaryDirectory() as home:
        try:
            counted = [_said(scenario, run(scenario, Path(home))) for scenario in SCENARIOS]
            unknown = offered().keys() - {scenario.name for scenario in SCENARIOS} - NOT_RUN.keys()
        except Missing as missing:
            _say(f"SKIPPED: {missing}")
            return 0
        invented = lies(Path(home))
        stores = sum(1 for _ in Path(home).rglob("events.jsonl"))
    for name, reason in [*NOT_RUN.items(), *((name, "nobody has looked at it") for name in sorted(unknown))]:
        _say(f"  not run   {name}: {reason}")
    for lie in invented:
        _say(lie)
    passed, total, out = sum(each.passed for each in counted), sum(each.total for each in counted), sum(len(each.out) for each in SCENARIOS)
    _say(f"{passed} of {total} checks passed, in {len(SCENARIOS)} scenarios; {out} do not apply, as said above.")
    _say(f"{len(invented)} answers or refusals that nobody gave, in {stores} conversations on record.")
    whole = all(each.is_whole(scenario.out) for each, scenario in zip(counted, SCENARIOS, strict=True))
    return 0 if whole and not unknown and not invented else 1


def _said(scenario: Scenario, counted: Counted) -> Counted:
    _say(f"{counted.passed:3} of {counted.total:3}  {scenario}")
    for check, reason in scenario.out.items():
        _say(f"            does not apply: {check}: {reason}")
    if not counted.is_whole(scenario.out):
        _say(counted.printed)
    return counted


def _say(words: str) -> None:
    print(words, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
