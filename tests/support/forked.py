"""Runs tests in processes that are forked after collection: `pytest --forks 6`.

With pytest-xdist, each worker collects the tests, which takes a fiftieth of the time to run them.
A forked worker already has everything loaded, so there can be enough workers to use the time in
which tests wait. As with xdist, a worker runs many tests, tests of a module stay together if
there is enough work, and a crash of a worker fails its current test.

A worker requests more tests when it begins its last one, because pytest must know the next test
to decide which fixtures to keep. The batches get smaller towards the end, so that all workers end
together. The longest tests start first.
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
from support.shared_resources import SESSION_RESOURCES
from support.warm_process import freeze_memory

_AT_ONCE = 16  # maximum number of tests in a batch
_LONG = 200.0  # assumed duration in seconds of tests marked `long`, for their order
_SHARES = 8  # a batch has at most this fraction of the remaining tests per worker
_OUTCOME = {True: pytest.ExitCode.TESTS_FAILED, False: pytest.ExitCode.OK}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks",
        type=int,
        default=0,
        help="number of processes, forked after collection, that run the tests",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """If the whole test suite runs, load the processes that fork commands during collection,
    which uses only one core.
    """
    config = session.config
    if (
        config.option.forks > 1
        and config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and not config.option.collectonly
    ):
        warm_commands.share(config.option.forks)
        warm_commands.load()


def pytest_unconfigure() -> None:
    SESSION_RESOURCES.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers. Return None to let pytest run them in this process."""
    wanted = session.config.option.forks
    forks = min(int(wanted), len(session.items))
    if forks < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    _Workers(session, forks).run()
    return True


class _Workers:
    """The workers, as seen by the process that forked them."""

    def __init__(self, session: pytest.Session, number: int) -> None:
        self._session = session
        self._number = number
        self._left = deque(_longest_first(session.items))
        self._temporary = _directories(session).getbasetemp()
        self._running: dict[Connection, _Running] = {}
        self._waiting = DefaultSelector()
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False  # several files run at the same time

    def run(self) -> None:
        """Fork the workers, distribute the tests, pass on the reports, and wait for the workers."""
        warm_commands.share(self._number)
        for item in self._session.items:
            _ = item.location  # cache it here instead of in each worker
        freeze_memory()  # keeps shared memory pages unmodified in the workers
        try:
            for place in range(self._number):
                self._start(place)
            while self._running:
                for key, _ in self._waiting.select():
                    self._receive(key.data)
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

    def _receive(self, connection: Connection) -> None:
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
                hook.pytest_runtest_logreport(
                    report=hook.pytest_report_from_serializable(config=config, data=told)
                )
            case "done":
                item = self._item(told)
                hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
                worker.at = None
            case "left":
                worker.left = True
            case _:
                worker.error = str(told)  # this worker ends now; the others continue

    def _ended(self, connection: Connection) -> None:
        """Handle the end of a worker. If it died, fail its current test and start another worker
        for the remaining ones.
        """
        worker = self._running.pop(connection)
        self._waiting.unregister(connection)
        connection.close()
        how = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.left:
            return
        if worker.at is not None:
            item = self._item(worker.at)
            self._session.config.hook.pytest_runtest_logreport(
                report=_death(item, worker.error or f"the process that ran it died ({how})")
            )
        elif worker.error:
            raise RuntimeError(f"worker {worker.place}: {worker.error}")
        self._left.extendleft(reversed(worker.given))
        self._start(worker.place)

    def _next(self) -> list[int]:
        """Return the next batch for a worker: tests of one module, or a single long test."""
        if self._session.shouldfail or self._session.shouldstop:
            self._left.clear()
        most = min(_AT_ONCE, len(self._left) // (self._number * _SHARES) + 1)
        given: list[int] = []
        while (
            self._left
            and len(given) < most
            and (not given or self._belongs(self._left[0]) == self._belongs(given[0]))
        ):
            given.append(self._left.popleft())
            item = self._item(given[-1])
            if _seconds(item) and not item.get_closest_marker("together"):
                break
        return given

    def _belongs(self, index: int) -> tuple[Path, str]:
        """Return the group of a test: its module and the name in its `together` marker."""
        return self._item(index).path, _shared(self._item(index))

    def _item(self, index: int) -> pytest.Item:
        return self._session.items[index]


class _Running:
    """State of a running worker: process ID, number, assigned tests that have not begun, current
    test, and how it ended.
    """

    def __init__(self, pid: int, place: int) -> None:
        self.pid = pid
        self.place = place
        self.given: list[int] = []
        self.at: int | None = None
        self.left = False
        self.error = ""

    def end(self) -> None:
        """Terminate the worker."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


class _Worker:
    """A worker, in its own process."""

    def __init__(self, session: pytest.Session, parent: Connection, temporary: Path) -> None:
        self._session = session
        self._parent = parent
        self._temporary = temporary
        self._deferred: list[tuple[str, Any]] = []

    def run(self) -> NoReturn:
        """Run tests until there are no more."""
        status = 1
        try:
            self._settle()
            for index, following in self._pairs():
                self._send("begun", index)
                item = self._session.items[index]
                item.config.hook.pytest_runtest_protocol(
                    item=item,
                    nextitem=None if following is None else self._session.items[following],
                )
                self._deferred.append(("done", index))  # sent with the next message
            self._session.config._ensure_unconfigure()  # closes what tests share
            atexit._run_exitfuncs()
            self._send("left", None)
            status = 0
        except KeyboardInterrupt:
            pass
        except BaseException:  # noqa: BLE001  the parent process reports it
            self._send("error", traceback.format_exc())
        os._exit(status)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook, config = self._session.config.hook, self._session.config
        if (
            report.passed
            and report.when != "call"
            and not report.sections
            and config.option.durations is None
        ):
            return  # successful set-up and tear-down need no report
        self._deferred.append(
            ("report", hook.pytest_report_to_serializable(config=config, report=report))
        )

    def _settle(self) -> None:
        """Give the worker its own resources: a discarded terminal, capture files and a temporary
        directory.
        """
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
        """Yield each test to run with the test after it."""
        given = deque(self._more())
        while given:
            index = given.popleft()
            if not given:
                given.extend(self._more())
            yield index, given[0] if given else None

    def _more(self) -> list[int]:
        self._send("more", None)
        return self._parent.recv()

    def _send(self, what: str, told: Any) -> None:
        """Send a message together with the deferred ones: the cost is per message, not per size."""
        self._parent.send([*self._deferred, (what, told)])
        self._deferred.clear()


def _directories(session: pytest.Session) -> pytest.TempPathFactory:
    return getattr(session.config, "_tmp_path_factory")  # noqa: B009  not part of pytest's typed API


def _longest_first(items: list[pytest.Item]) -> list[int]:
    """Return the indexes of all tests, longest first. Tests with the same `together` marker are
    adjacent.
    """
    return sorted(
        range(len(items)),
        key=lambda place: (
            -_seconds(items[place]),
            not _shared(items[place]),
            _shared(items[place]),
        ),
    )


def _seconds(item: pytest.Item) -> float:
    """Return the maximum duration of a test in seconds, from its markers. Tests marked `long`
    come before unmarked ones.
    """
    marker = item.get_closest_marker("timeout")
    least = _LONG if item.get_closest_marker("long") else 0.0
    return max(float(marker.args[0]), least) if marker and marker.args else least


def _shared(item: pytest.Item) -> str:
    """Return the name in the `together` marker of a test, or an empty string."""
    marker = item.get_closest_marker("together")
    return marker.args[0] if marker and marker.args else ""


def _death(item: pytest.Item, words: str) -> pytest.TestReport:
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
