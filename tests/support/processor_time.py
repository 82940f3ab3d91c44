"""Measures the processor time of tests: `pytest --cpu 60` lists the 60 most expensive tests and
the time of each file.

The time of a test includes its own process, the processes that it started and waited for, and the
commands forked for it by `warm_commands`. The file `.pytest_cache/d/processor-time/tests` has a
line for each test.
"""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import warm_commands

_KINDS = ("own", "started", "forked")  # where a test's time was spent
_FILES = 40


class _Spent(NamedTuple):
    """Processor time in seconds until now: of this process, and of the processes it has waited
    for.
    """

    own: float
    started: float

    @classmethod
    def now(cls) -> _Spent:
        return cls(
            *(
                used.ru_utime + used.ru_stime
                for used in map(
                    resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
                )
            )
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu",
        type=int,
        default=0,
        metavar="N",
        help="name the N tests that took most processor time, and their files",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.cpu:
        file = config.cache.mkdir("processor-time") / "tests"
        file.unlink(missing_ok=True)
        config.pluginmanager.register(_Costs(file, config.option.cpu))
        warm_commands.record_costs(file)


class _Costs:
    """Writes the time of each test to a file, in every worker, and prints the summary at the
    end.
    """

    def __init__(self, file: Path, named: int) -> None:
        self._file = file
        self._named = named

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = _Spent.now()
        result = yield
        after = _Spent.now()
        with self._file.open("a") as file:
            file.write(
                json.dumps([item.nodeid, after.own - before.own, after.started - before.started, 0])
                + "\n"
            )
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        costs: dict[str, Counter[str]] = {}
        for line in self._file.read_text().splitlines():
            test, *seconds = json.loads(line)
            costs.setdefault(test, Counter()).update(dict(zip(_KINDS, seconds, strict=True)))
        files: dict[str, Counter[str]] = {}
        for test, cost in costs.items():
            files.setdefault(test.partition("::")[0], Counter()).update(cost)
        say = terminalreporter.write_line
        terminalreporter.section("processor time, in seconds")
        for named, most in ((files, _FILES), (costs, self._named)):
            say(f"{'all':>8}" + "".join(f"{kind:>8}" for kind in _KINDS))
            for name, cost in sorted(named.items(), key=lambda one: -one[1].total())[:most]:
                say(_row(cost, name))
        say(_row(sum(costs.values(), Counter[str]()), "all tests"))
        here = _Spent.now()
        say(
            f"{here.own:8.1f}  this process; with all that it waited for"
            f" {here.own + here.started:.1f}"
        )


def _row(cost: Counter[str], name: str) -> str:
    return f"{cost.total():8.1f}" + "".join(f"{cost[kind]:8.1f}" for kind in _KINDS) + f"  {name}"
