"""The scenarios of the MCP conformance tests that are about questions to users. Run one, or
run all and print the counts.
"""

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
from support.invented_decisions import invented_decisions

HERE = Path(__file__).parent
PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22.23.3")
OLD, PUSHED, RETURNED = "2025-06-18", "2025-11-25", "2026-07-28"
"""The two eras: a server sends its question (also in the first revision with questions), or
returns it.
"""
TASKS = "tasks"
"""An extension for long-running calls, independent of the era."""


class Scenario(Struct, frozen=True):
    """A scenario of the conformance tests.

    Args:
        side: The tested side of midturn.
        name: The name of the scenario in the conformance tests.
        era: The revision of the protocol.
        out: IDs of checks that cannot apply, with the reason. They must fail; a passing one is
            reported as an error.
        on: The module of the server, if it is `midturn mcp` with other names instead of our forms
            behind the SDK.
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
    "it brings an answer, with extra keys beside it, to a form that was never shown. midturn mcp"
    " shows the form first: nobody can have answered it. Beside the answer to a form that was"
    " shown, extra keys are ignored."
)
_ONE_AT_A_TIME = (
    "it wants a tool of a reference server that puts two requests at once. A task of ours is one"
    ' question or one form: one request. The protocol: "A server MAY accept a partial set of'
    ' responses".'
)
_NOTHING_BEFORE = (
    "it wants a tool that asks once before it becomes a task, and a task whose result repeats the"
    " answer. Our question is the task, and agents are told to take nothing that a task brings for"
    " a person's word: it says that check_answer reads it. The protocol speaks of \"Server"
    ' implementations that use multi round-trip requests in conjunction with task creation".'
)
SCENARIOS = (
    Scenario("client", "elicitation-sep1034-client-defaults", PUSHED),
    Scenario("client", "sep-2322-client-request-state", RETURNED),
    Scenario("server", "tools-call-elicitation", OLD),
    *(
        Scenario("server", name, PUSHED)
        for name in (
            "tools-call-elicitation",
            "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums",
        )
    ),
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
    Scenario(
        "server",
        "tasks-mrtr-input",
        TASKS,
        {"tasks-mrtr-partial-fulfillment": _ONE_AT_A_TIME},
        _TASKS,
    ),
    Scenario(
        "server",
        "tasks-mrtr-composition",
        TASKS,
        {"sep-2663-mrtr-synchronous-before-task-creation": _NOTHING_BEFORE},
        _TASKS,
    ),
    *(
        Scenario("server", name, PUSHED, on=_MIDTURN)
        for name in ("tools-call-elicitation", "elicitation-sep1034-defaults")
    ),
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
        "server",
        "input-required-result-ignore-extra-params",
        RETURNED,
        {"sep-2322-ignore-unexpected-params": _NEVER_SHOWN},
        _MIDTURN,
    ),
)
"""All scenarios about questions to users."""
NOT_RUN = {
    "tasks-status-notifications": (
        "the tests have nothing in it yet: they skip it themselves, until it is rewritten"
    ),
    "tools-call-sampling": (
        "it asks the client's model, not a person; midturn asks people, and refuses to be a model"
        " for a server"
    ),
}
"""Scenarios with similar names that are not run, with the reason."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_CHECK = re.compile(r"^\S+Z \[(\S+) *\] ([A-Z]+) ", re.MULTILINE)
_ABOUT_ASKING = re.compile(r"elicit|input-required|request-state|mrtr|task|sampling")


class Counted(Struct, frozen=True):
    """The checks of a scenario by ID, and the output. An ID may have several checks."""

    failed: tuple[str, ...]
    total: int
    printed: str

    @property
    def passed(self) -> int:
        """Number of passed checks."""
        return self.total - len(self.failed)

    def is_whole(self, out: Mapping[str, str]) -> bool:
        """Return whether exactly the checks that can pass have passed."""
        return self.total > 0 and sorted(self.failed) == sorted(out)


def offered() -> dict[str, list[str]]:
    """Return the names and eras of all scenarios in the installed tests whose names suggest
    questions to users.

    Raises:
        Missing: The tests cannot be installed here.
    """
    listed = subprocess.run(
        [*_program(), "list"], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    found = re.findall(r"^  - (\S+) \[(.*)\]$", listed, re.MULTILINE)
    assert len(found) > len(SCENARIOS), listed
    return {name: eras.split(",") for name, eras in found if _ABOUT_ASKING.search(name)}


def _program() -> list[str]:
    binaries = installed("conformance", *PACKAGES)
    return [
        str(binaries / "node"),
        str(binaries.parent / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"),
    ]


def run(scenario: Scenario, home: Path) -> Counted:
    """Run a scenario. The stores are in a directory below `home`.

    Raises:
        Missing: The tests cannot be installed here.
    """
    command = [*_program(), scenario.side, "--scenario", scenario.name]
    if scenario.era != TASKS:
        command += ["--spec-version", scenario.era]
    if scenario.side == "client":
        return _counted(
            [*command, "--command", f"{sys.executable} {HERE / 'client_under_test.py'} {home}"]
        )
    with _server(home, scenario.on or _FORMS) as url:
        return _counted([*command, "--url", url])


def _counted(command: list[str]) -> Counted:
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    printed = done.stdout + done.stderr
    checks = _CHECK.findall(_COLOR.sub("", printed))
    counted = [(id, status) for id, status in checks if status != "INFO"]
    return Counted(
        tuple(id for id, status in counted if status != "SUCCESS"), len(counted), printed
    )


@contextmanager
def _server(home: Path, module: str) -> Generator[str]:
    command = [sys.executable, "-m", f"conformance.{module}", str(home)]
    process = subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
    finally:
        process.terminate()
        process.communicate(timeout=120)


def main() -> int:
    """Run all scenarios. Return 1 if a result is unexpected; 0 also if the tests cannot be
    installed, which is printed.
    """
    with tempfile.TemporaryDirectory() as home:
        try:
            counted = [_said(scenario, run(scenario, Path(home))) for scenario in SCENARIOS]
            unknown = offered().keys() - {scenario.name for scenario in SCENARIOS} - NOT_RUN.keys()
        except Missing as missing:
            _say(f"SKIPPED: {missing}")
            return 0
        invented = invented_decisions(Path(home))
        stores = sum(1 for _ in Path(home).rglob("events.jsonl"))
    for name, reason in [
        *NOT_RUN.items(),
        *((name, "nobody has looked at it") for name in sorted(unknown)),
    ]:
        _say(f"  not run   {name}: {reason}")
    for lie in invented:
        _say(lie)
    passed, total, out = (
        sum(each.passed for each in counted),
        sum(each.total for each in counted),
        sum(len(each.out) for each in SCENARIOS),
    )
    _say(
        f"{passed} of {total} checks passed, in {len(SCENARIOS)} scenarios; {out} do not apply, as"
        " said above."
    )
    _say(
        f"{len(invented)} answers or refusals that nobody gave, in {stores} conversations on"
        " record."
    )
    whole = all(
        each.is_whole(scenario.out) for each, scenario in zip(counted, SCENARIOS, strict=True)
    )
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
