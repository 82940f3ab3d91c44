"""Shared setup of all tests.

The marker `real(part)` marks a test that needs software other than Python (a database, a browser,
an agent). `make test` skips such tests with a reason. `make test-real` installs the software and
runs them; there, a skip is a failure. The exception is a third-party program that a registry may
withdraw (`may_be_missing=True`): its test may be skipped.

Tests started in the background (`nohup make test`, or `make test &` in a script) inherit ignored
signals. Processes that tests start must not inherit them, because tests send these signals to
them.
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

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")  # a slow or loaded machine must not fail a test

REAL = os.environ.get("MIDTURN_REAL", "").split(",")
"""Names of the installed parts, or `1` for all of them. A test that needs one of these must not
be skipped.
"""

_MAX_SOCKET_DIRECTORY = 70
"""Maximum path length of a directory for sockets. The operating system allows about 100
characters.
"""

SENT_TO_PROCESSES = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)
"""Signals that tests send to the processes they start. `nohup` and `&` ignore some of them."""


os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "authority.pem")
"""An authority that has signed nothing, used as the only trusted one. Tests contact only their
own servers, and loading the usual 150 certificates would slow down each client.
"""


def pytest_configure(config: pytest.Config) -> None:
    for number in SENT_TO_PROCESSES:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignored)
    config.addinivalue_line(
        "markers",
        "real(part): needs a real part, such as PostgreSQL, Chromium or Node; `make test-real`"
        " installs it",
    )
    config.addinivalue_line("markers", "long: takes seconds; long tests start first")
    shared = (
        "shares what takes long to make, or costs while it is there, with others of its module"
        " (those that name the same)"
    )
    config.addinivalue_line("markers", f"together(what): {shared}, and is run by the same process")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during collection: there is no garbage to find, and scanning all
    loaded objects takes as long as the rest.
    """
    gc.disable()
    collected = yield
    gc.enable()
    return collected


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once. pytest and the interpreter would otherwise scan all loaded objects
    six more times.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("real")
        if marker is not None and not _is_here(marker):
            item.add_marker(
                pytest.mark.skip(
                    reason=f"needs {marker.args[0]}: `make test-real` installs it and runs this"
                )
            )


@pytest.fixture(scope="session", autouse=True)
def _own_temporary_root_for_nested_pytest(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Give pytest runs that tests start their own temporary root. Otherwise each would remove the
    leftovers of older test runs at its end, which takes a minute.
    """
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path_factory.mktemp("inside"))


@pytest.fixture(scope="session", autouse=True)
def _temporary_files_below_test_directory(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Create temporary files below the tests' directory, so that files kept after a test are
    removed with it.
    """
    made = str(tmp_path_factory.mktemp("made"))
    with ExitStack() as patched:
        if len(made) <= _MAX_SOCKET_DIRECTORY:
            patched.enter_context(patch.object(tempfile, "tempdir", made))
            patched.enter_context(patch.dict(os.environ, TMPDIR=made))
        yield


@pytest.fixture(autouse=True)
def _forget_stores_of_other_tests() -> Iterator[None]:
    """Forget the stores of each test at its end. Tools may not access any store that the process
    knows, and a real process knows only a few.
    """
    with patch.object(
        private_files, "_protected_paths", {str(path) for path in private_files.protected_paths()}
    ):
        yield


@pytest.fixture(autouse=True)
def _no_fsync() -> Iterator[None]:
    """Replace fsync in this process. It takes milliseconds tens of thousands of times, and no
    test simulates a power failure.
    """
    syncs = [
        patch.object(os, name, os.fstat) for name in ("fsync", "fdatasync") if hasattr(os, name)
    ]
    with ExitStack() as patched:
        for sync in syncs:
            patched.enter_context(sync)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("real")
    must_run = (
        marker is not None and _is_here(marker) and not marker.kwargs.get("may_be_missing", False)
    )
    if must_run and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} was skipped, though its part should be here: {report.longrepr}"
        )
    return report


def _is_here(marker: pytest.Mark) -> bool:
    return "1" in REAL or marker.args[0] in REAL


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """Ignore the signal with a handler: unlike `SIG_IGN`, started programs do not inherit a
    handler.
    """


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The clock of midturn, which the test can advance."""
    with Clock().moved() as moved:
        yield moved
