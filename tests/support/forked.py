"""Tests in several processes that are forked once everything is collected: `pytest --forks 6`.

Collecting these tests takes as long as a fiftieth of running them, and pytest-xdist has each of its workers do it. A worker that is forked
has all that was loaded for nothing, so there can be as many as the tests that wait leave room for. What stays the same: a test runs in one
of a few processes that run many, each module's tests stay together as long as there is enough to do, and a worker that dies fails the test
that it was at.

A worker asks for more whenever it begins the last test that it has: only with the next one known can pytest tell what to keep between
the two. It is given fewer at a time the fewer are left, so all end together; what may take longest is begun first.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any, NoReturn

import pytest

from support import warm_commands
from support.lasting import UNTIL_THE_END
from support.warm_process import settle

_AT_ONCE = 16  # tests that a worker is given, at most
_LONG = 200.0  # seconds, for the order of tests that say of themselves that they are long
_SHARES = 8  # and no more than this part of what is left for each
_OUTCOME = {True: pytest.ExitCode.TESTS_FAILED, False: pytest.ExitCode.OK}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="so many processes, forked when all tests are collected, run them")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Where all tests are run, have what forks commands load while they are collected, which takes one core."""
    config = session.config
    if config.option.forks > 1 and config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.collectonly:
        warm_commands.share(config.option.forks)
        warm_commands.load()


def pytest_unconfigure() -> None:
    UNTIL_THE_END.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all in workers; leave it to pytest where none are wanted, or nothing is to be run."""
    wanted = session.config.option.forks
    forks = min(int(wanted), len(session.items))
    if forks < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    _Workers(session, forks).run()
    return True


class _Workers:
    """The workers, seen from the process that has forked them."""

    def __init__(self, session: pytest.Session, number: int) -> None:
        self._session = session
        self._number = number
        self._left = deque(_longest_first(session.items))
        self._temporary = _directories(session).getbasetemp()
        self._running: dict[Connection, _Running] = {}
        self._waiting = DefaultSelector()
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False  # several files are run at once

    def run(self) -> None:
        """Fork them, give them work, pass on what they report, and see them end."""
        warm_commands.share(self._number)
        for item in self._session.items:
            _ = item.location  # which each worker would find out anew, and we, too
        settle()  # no worker looks through what is loaded, nor writes to it
        try:
            for place in range(self._number):
                self._start(place)
            while self._running:
                for key, _ in self._waiting.select():
                    self._hear(key.data)
        finally:
            self._waiting.close()
            gc.unfreeze()
            for worker in self._running.values():
                worker.end()
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _start(self, place: int) -> None:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in self._running:
                other.close()
            warm_commands.use_shared(place)
            _Worker(self._session, theirs, self._temporary / f"worker-{place}").run()
        theirs.close()
        self._running[ours] = _Running(pid, place)
        self._waiting.register(ours, EVENT_READ, ours)

    def _hear(self, connection: Connection) -> None:
        try:
            heard = connection.recv()
        except (EOFError, ConnectionResetError):
            self._ended(connection)
            return
        for what, told in heard:
            self._take(connection, what, told)

    def _take(self, connection: Connection, what: str, told: Any) -> None:
        worker = self._running[connection]
        hook, config = self._session.config.hook, self._session.config
        match what:
            case "more":
                worker.given.extend(more := self._next())
                connection.send(more)
            case "begun":
                worker.given.remove(told)
                worker.at = told
            case "report":
                hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=config, data=told))
            case "done":
                item = self._item(told)
                hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
                worker.at = None
            case "left":
                worker.left = True
            case _:
                raise RuntimeError(f"worker {worker.place}: {told}")

    def _ended(self, connection: Connection) -> None:
        """Fail the test that a worker was at when it died, and let another one do what it had not begun."""
        worker = self._running.pop(connection)
        self._waiting.unregister(connection)
        connection.close()
        how = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.left:
            return
        if worker.at is not None:
            item = self._item(worker.at)
            self._session.config.hook.pytest_runtest_logreport(report=_death(item, how))
        self._left.extendleft(reversed(worker.given))
        self._start(worker.place)

    def _next(self) -> list[int]:
        """Return what a worker does next: tests of one module, or a single one that may take long."""
        if self._session.shouldfail or self._session.shouldstop:
            self._left.clear()
        most = min(_AT_ONCE, len(self._left) // (self._number * _SHARES) + 1)
        given: list[int] = []
        while self._left and len(given) < most and (not given or self._belongs(self._left[0]) == self._belongs(given[0])):
            given.append(self._left.popleft())
            item = self._item(given[-1])
            if _seconds(item) and not item.get_closest_marker("together"):
                break
        return given

    def _belongs(self, index: int) -> tuple[Path, str]:
        """Return the module of a test, and what it shares with others there."""
        return self._item(index).path, _shared(self._item(index))

    def _item(self, index: int) -> pytest.Item:
        return self._session.items[index]


class _Running:
    """A worker that runs: its process, which of them it is, what it was given and has not begun, what it is at, and whether it is done."""

    def __init__(self, pid: int, place: int) -> None:
        self.pid = pid
        self.place = place
        self.given: list[int] = []
        self.at: int | None = None
        self.left = False

    def end(self) -> None:
        """Have it end now."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


class _Worker:
    """A worker, in its own process."""

    def __init__(self, session: pytest.Session, parent: Connection, temporary: Path) -> None:
        self._session = session
        self._parent = parent
        self._temporary = temporary
        self._untold: list[tuple[str, Any]] = []

    def run(self) -> NoReturn:
        """Run what is given until there is no more."""
        status = 1
        try:
            self._settle()
            for index, following in self._pairs():
                self._tell("begun", index)
                item = self._session.items[index]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None if following is None else self._session.items[following])
                self._untold.append(("done", index))  # it is told with what comes next
            self._session.config._ensure_unconfigure()  # what tests share is ended so
            atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  and databases; the rest we leave as it is
            self._tell("left", None)
            status = 0
        except KeyboardInterrupt:
            pass
        except BaseException:  # noqa: BLE001  who started us says it
            self._tell("error", traceback.format_exc())
        os._exit(status)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook, config = self._session.config.hook, self._session.config
        if report.passed and report.when != "call" and not report.sections and config.option.durations is None:
            return  # that it was set up and torn down says nothing to anybody
        self._untold.append(("report", hook.pytest_report_to_serializable(config=config, report=report)))

    def _settle(self) -> None:
        """Have what the process that forked us has one of: a screen that nobody sees, files for what is captured, a directory."""
        plugins = self._session.config.pluginmanager
        self._session.config.get_terminal_writer()._file = Path(os.devnull).open("w")  # noqa: SIM115  to its end
        capturing = plugins.get_plugin("capturemanager")
        assert capturing is not None
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
        self._temporary.mkdir(mode=0o700, exist_ok=True)
        _directories(self._session)._basetemp = self._temporary
        plugins.register(self)

    def _pairs(self) -> Iterator[tuple[int, int | None]]:
        """Go through what is to be run, each with what is run after it."""
        given = deque(self._more())
        while given:
            index = given.popleft()
            if not given:
                given.extend(self._more())
            yield index, given[0] if given else None

    def _more(self) -> list[int]:
        self._tell("more", None)
        return self._parent.recv()

    def _tell(self, what: str, told: Any) -> None:
        """Tell something, after what was not worth telling alone: to take a message costs as much as what is in it."""
        self._parent.send([*self._untold, (what, told)])
        self._untold.clear()


def _directories(session: pytest.Session) -> pytest.TempPathFactory:
    return getattr(session.config, "_tmp_path_factory")  # noqa: B009  pytest does not say that it has it


def _longest_first(items: list[pytest.Item]) -> list[int]:
    """Return the places of all tests, those first that may take longest; those that share something stand side by side."""
    return sorted(range(len(items)), key=lambda place: (-_seconds(items[place]), not _shared(items[place]), _shared(items[place])))


def _seconds(item: pytest.Item) -> float:
    """Return how long a test may take, where it says so itself; one that is only long comes before those that do not."""
    marker = item.get_closest_marker("timeout")
    least = _LONG if item.get_closest_marker("long") else 0.0
    return max(float(marker.args[0]), least) if marker and marker.args else least


def _shared(item: pytest.Item) -> str:
    """Return the name of what a test shares with some others of its module; empty where it does not."""
    marker = item.get_closest_marker("together")
    return marker.args[0] if marker and marker.args else ""


def _death(item: pytest.Item, how: int) -> pytest.TestReport:
    words = f"the process that ran it died ({how})"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
