"""What all tests share: `real` marks a test that needs a part which is not Python (a database, a browser, an agent).

`make test` skips such tests, saying why. `make test-real` installs the parts first and runs them; there, a skip is a failure. Somebody
else's program that a registry may withdraw (`may_be_missing=True`) is the one exception: that it is missing is said, and no failure.

Tests that are started in the background (`nohup make test`, or `make test &` in a script) inherit signals that are ignored. The processes
that tests start must not inherit that in turn, since they are sent these signals.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from midturn.security import private_files
from midturn.testing import Clock

pytest_plugins = ["support.forked", "support.processor_time"]

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # how long a machine takes, however loaded, fails no test

REAL = os.environ.get("MIDTURN_REAL", "").split(",")
"""The parts that are here, by name, or `1` for all of them: a test that needs one of these has no reason to skip."""

_ROOM_FOR_SOCKETS = 70
"""So long may a directory's path be in which sockets are made: a system takes about a hundred letters."""

SENT_TO_PROCESSES = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)
"""What tests send to the processes that they start; `nohup` and `&` ignore some of them."""


os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "authority.pem")
"""The authority whom all trust: one that has signed nothing. No server is reached but our own, and each client would read 150 others."""


def pytest_configure(config: pytest.Config) -> None:
    for number in SENT_TO_PROCESSES:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignored)
    config.addinivalue_line("markers", "real(part): needs a real part, such as PostgreSQL, Chromium or Node; `make test-real` installs it")
    config.addinivalue_line("markers", "long: takes seconds, and is begun before what does not")
    shared = "shares what takes long to make, or costs while it is there, with others of its module (those that name the same)"
    config.addinivalue_line("markers", f"together(what): {shared}, and is run by the same process")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile: there is none, and looking for it among all that is loaded takes as long as the rest."""
    gc.disable()
    collected = yield
    gc.enable()
    return collected


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for what tests left open once; pytest, and the interpreter after it, look through all that is loaded six times more."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("real")
        if marker is not None and not _is_here(marker):
            item.add_marker(pytest.mark.skip(reason=f"needs {marker.args[0]}: `make test-real` installs it and runs this"))


@pytest.fixture(scope="session", autouse=True)
def _a_pytest_that_tests_start_clears_up_after_itself(tmp_path_factory: pytest.TempPathFactory) -> None:  # pyright: ignore[reportUnusedFunction]  pytest finds it
    """Give it a directory of its own: at its end it would remove what is left of all tests of the day before, which takes a minute."""
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path_factory.mktemp("inside"))


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_outside_of_their_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]  pytest finds it
    """Have what is made among temporary files, and kept, go with what tests left: an output for its reader, say."""
    made = str(tmp_path_factory.mktemp("made"))
    with ExitStack() as patched:
        if len(made) <= _ROOM_FOR_SOCKETS:
            patched.enter_context(patch.object(tempfile, "tempdir", made))
            patched.enter_context(patch.dict(os.environ, TMPDIR=made))
        yield


@pytest.fixture(autouse=True)
def _a_process_knows_the_stores_of_its_own_test() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]  pytest finds it
    """Forget the stores of every test at its end: a tool is kept out of all that its process knows of, and a process knows a few."""
    with patch.object(private_files, "_KNOWN", {str(path) for path in private_files.kept()}):
        yield


@pytest.fixture(autouse=True)
def _no_power_is_lost() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]  pytest finds it
    """Sync nothing in this process: that takes milliseconds tens of thousands of times, and no test brings a loss of power about."""
    syncs = [patch.object(os, name, os.fstat) for name in ("fsync", "fdatasync") if hasattr(os, name)]
    with ExitStack() as patched:
        for sync in syncs:
            patched.enter_context(sync)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("real")
    must_run = marker is not None and _is_here(marker) and not marker.kwargs.get("may_be_missing", False)
    if must_run and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, though its part should be here: {report.longrepr}"
    return report


def _is_here(marker: pytest.Mark) -> bool:
    return "1" in REAL or marker.args[0] in REAL


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """Go on ignoring a signal ourselves: a handler, unlike `SIG_IGN`, is not inherited by a program that is started."""


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Return midturn's own clock, which the test moves."""
    with Clock().moved() as moved:
        yield moved
