"""The process that has loaded everything and forks for each command; `warm_commands` starts it.

It imports nothing of the tests, because it starts without them. Its parent sends requests through
its own socket. Programs that others start send requests to its address (see `warm_start`), and
are killed when the connection closes.
"""

from __future__ import annotations

import ast
import atexit
import ctypes
import fcntl
import gc
import importlib
import importlib.util
import json
import marshal
import os
import pkgutil
import resource
import runpy
import select
import shutil
import signal
import socket
import struct
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

NUMBER = struct.Struct("i")
LENGTH = struct.Struct("I")
LARGE_PAGE = 2 << 20
COLLAPSE = 25  # MADV_COLLAPSE, which neither `mmap` nor `ctypes` defines
MANY = 50  # number of new modules after which memory is frozen again
COSTS = "MIDTURN_TESTS_COSTS"  # variable with the file for the costs of commands
_LOADED = ("agent.assembly", "cli", "config", "runtime", "stores", "terminal", "tools")
_SERVING = (
    "inbox",
    "integrations.acp",
    "integrations.hooks",
    "integrations.mcp_server",
    "mcp",
    "models",
    "web",
)
_PROVIDERS = (
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "pydantic_ai.models.openai",
)
_LOADED_LATE = (  # modules that many commands load late
    "click.shell_completion",
    "encodings.idna",
    "encodings.utf_8_sig",
    "midturn.integrations.hooks.hook",
    "prompt_toolkit.key_binding.bindings.search",
)
_SCRIPTS = ("midturn.cli.demo.publish",)  # tools of the demo, which run when they are imported
_WITHOUT_SDK = (
    ()
    if importlib.util.find_spec("a2a")
    else ("midturn.integrations.a2a", "midturn.cli.a2a_serving")
)
"""Modules that cannot be imported because the SDK of A2A is not installed."""
_TESTS = Path(__file__).parents[1]
_FOR_PROGRAMS = ("support.prompt_catalogue",)  # modules that the tests' programs import


class Request(NamedTuple):
    """A command to fork; see `warm_commands.Command`."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    program: str = ""
    served: str = ""
    on_terminal: bool = False


def packed(request: Request) -> bytes:
    """Return a request as bytes."""
    data = marshal.dumps(tuple(request))
    return LENGTH.pack(len(data)) + data


class RequestChannels:
    """Receives requests: from sockets of the parent's workers, and from connections to the
    address of this process.
    """

    def __init__(self, listener: socket.socket, ways: list[socket.socket]) -> None:
        self._listener = listener
        self._ways = ways
        self._started: dict[
            socket.socket, int
        ] = {}  # commands started through a connection; they are killed when it closes

    def wait(self) -> None:
        """Wait for the first request. Exit if all sockets of the parent are closed."""
        while self._ways:
            ready = select.select([self._listener, *self._ways], [], [])[0]
            for way in [
                way for way in self._ways if way in ready and not way.recv(1, socket.MSG_PEEK)
            ]:
                ready.remove(way)
                self._ways.remove(way)
                way.close()
            if ready:
                return
        sys.exit()

    def next(self, ends: ExitReporter) -> tuple[Request, list[int], socket.socket | None] | None:
        """Wait for a request; return it with its streams and its connection, if any. Return None
        if all sockets of the parent are closed.
        """
        while self._ways:
            ready = select.select(
                [self._listener, *self._ways, *self._started, ends.heard], [], []
            )[0]
            if ends.heard in ready:
                ends.tell()
            for gone in [way for way in self._started if way in ready]:
                ends.kill(self._started.pop(gone))
                gone.close()
            if self._listener in ready:
                way, _ = self._listener.accept()
                if asked := _read(way):
                    return *asked, way
                way.close()
            for way in [way for way in self._ways if way in ready]:
                if asked := _read(way):
                    return *asked, None
                self._ways.remove(way)
                way.close()
        return None

    def started(self, way: socket.socket | None, pid: int) -> None:
        """Remember the command that a connection has started."""
        if way is not None:
            self._started[way] = pid

    def forget(self) -> None:
        """In a forked command: close all sockets."""
        for way in (self._listener, *self._ways, *self._started):
            way.close()


def _read(way: socket.socket) -> tuple[Request, list[int]] | None:
    head, streams, _, _ = socket.recv_fds(way, LENGTH.size, 4)
    if not head:
        return None
    (length,) = LENGTH.unpack(head)
    data = b""
    while len(data) < length:
        data += way.recv(length - len(data))
    return Request(*marshal.loads(data)), list(streams)


class ExitReporter:
    """Reports the exit status of each command. One process forks and waits for all commands,
    because a second fork would cost as much as the first.
    """

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._costs = Costs(os.environ[COSTS]) if COSTS in os.environ else None
        self.heard, self._told = os.pipe()
        for end in (self.heard, self._told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        signal.signal(
            signal.SIGCHLD, _heard
        )  # the default action would not write to the wakeup descriptor

    def expect(self, command: int, status: int, request: Request) -> None:
        """Report the process ID of a command, and later its exit status."""
        self._of[command] = status
        if self._costs:
            self._costs.expect(command, request)
        with suppress(BrokenPipeError):  # the requester is gone
            os.write(status, NUMBER.pack(command))

    def kill(self, command: int) -> None:
        """Kill a command and its process group, unless it has ended."""
        if command in self._of:
            for kill in (os.kill, os.killpg):
                with suppress(ProcessLookupError):
                    kill(command, signal.SIGKILL)

    def tell(self) -> None:
        """Report the commands that have ended."""
        with suppress(BlockingIOError):
            os.read(self.heard, 65_536)
        with suppress(ChildProcessError):  # there are no child processes
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                command, how, used = ended
                status = self._of.pop(command)
                if self._costs:
                    self._costs.tell(command, used)
                with suppress(BrokenPipeError):  # its test does not read it
                    os.write(status, NUMBER.pack(os.waitstatus_to_exitcode(how)))
                os.close(status)

    def forget(self) -> None:
        """In a forked command: restore the signal handling, and close all pipes."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self.heard, self._told, *self._of.values()):
            os.close(end)


class Costs:
    """Records the processor time of commands, and of this process, in a file for
    `processor_time`.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._tests: dict[int, str] = {}
        self._told = 0.0

    def expect(self, command: int, request: Request) -> None:
        """Remember the test of a command, if its environment names it."""
        test = request.environment.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        self._tests[command] = test or f"a test: {request.program or 'midturn'}"

    def tell(self, command: int, used: resource.struct_rusage) -> None:
        """Record the time of a command, and of this process since the last record."""
        here = time.process_time()
        rows = [
            [self._tests.pop(command), 0, 0, used.ru_utime + used.ru_stime],
            ["what forks commands", here - self._told, 0, 0],
        ]
        self._told = here
        with self._file.open("a") as file:
            file.write("".join(f"{json.dumps(row)}\n" for row in rows))


def freeze_memory() -> None:
    """Prepare the memory for forks: exclude loaded objects from garbage collection, and use large
    pages.

    A fork copies a table with an entry for each page. Pages of 2 MB halve the time. A kernel
    without support for this returns an error, which has no effect.
    """
    gc.collect()
    gc.freeze()
    if not sys.platform.startswith("linux"):
        return
    collapse = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, access, _, _, _, *name = line.split()
        if access == "rw-p" and name in ([], ["[heap]"]):
            begin, end = (int(address, 16) for address in place.split("-"))
            begin, end = -(-begin // LARGE_PAGE) * LARGE_PAGE, end // LARGE_PAGE * LARGE_PAGE
            if begin < end:
                collapse(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), COLLAPSE)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. The signal is read from the wakeup pipe."""


class LearnedModules:
    """Modules of installed packages that commands had to load, so that later commands find them
    loaded. Modules of workspaces are ignored.
    """

    def __init__(self) -> None:
        self._heard, self._told = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._told, False)
        self._known = len(sys.modules)
        self._read: set[str] = set()

    def learn(self, request: Request) -> None:
        """Load the reported modules, and the imports of this request's program, which may be
        killed before it reports.
        """
        told = b""
        with suppress(BlockingIOError):
            while more := os.read(self._heard, 65_536):
                told += more
        names = told.decode().split("\n")[:-1]
        for file in {request.program, request.served} - {"", *self._read}:
            self._read.add(file)
            names += _imported(file)
        loaded = self._known
        for name in names:
            if name not in sys.modules:
                with suppress(Exception):  # some modules load only together with others
                    importlib.import_module(name)
        if len(sys.modules) > loaded:
            self._known = len(sys.modules)
            _fill_caches()
            gc.freeze()
        if len(sys.modules) > loaded + MANY:
            freeze_memory()

    def tell(self) -> None:
        """In a command: report the modules that it has loaded. Only the last entries are read,
        because reading all would copy their memory pages.
        """
        installed = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2] / "src"))
        last = [*islice(reversed(sys.modules), max(len(sys.modules) - self._known, 0))]
        loaded = {name: getattr(sys.modules[name], "__file__", None) for name in reversed(last)}
        names = [name for name, file in loaded.items() if file and file.startswith(installed)]
        with suppress(BlockingIOError):
            for name in names:
                os.write(self._told, f"{name}\n".encode())


def _imported(file: str) -> list[str]:
    """Return the modules of installed packages that a program imports anywhere."""
    names: list[str] = []
    for node in ast.walk(ast.parse(Path(file).read_bytes())):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return [name for name in names if importlib.util.find_spec(name.partition(".")[0])]


def _serve(ways: RequestChannels, lessons: LearnedModules | None) -> None:
    ways.wait()
    for package in (f"midturn.{name}" for name in _LOADED):
        for module in pkgutil.walk_packages(
            importlib.import_module(package).__path__, f"{package}."
        ):
            if module.name not in _SCRIPTS and not module.name.startswith(_WITHOUT_SDK):
                importlib.import_module(module.name)
    for name in _LOADED_LATE:
        importlib.import_module(name)
    _fill_parser_caches()
    if lessons:
        _load_for_servers()
    else:
        _load_for_programs()
    _fill_caches()
    freeze_memory()
    ends = ExitReporter()
    while received := ways.next(ends):
        request, streams, way = received
        if lessons:
            lessons.learn(request)
        *standard, status = streams
        command = os.fork()
        if command == 0:
            ways.forget()
            ends.forget()
            os.close(status)
            _run_forked(request, standard, lessons)
        ways.started(way, command)
        ends.expect(command, status, request)
        for stream in standard:
            os.close(stream)


def _load_for_servers() -> None:
    """Load the modules of servers, which are killed before they can report, and large libraries.
    Missing libraries are skipped.
    """
    packages = [f"midturn.{name}" for name in _SERVING]
    modules = [
        one.name
        for package in packages
        for one in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    ]
    for module in (*modules, *_PROVIDERS):
        with suppress(ImportError):
            importlib.import_module(module)


def _load_for_programs() -> None:
    """Load what programs of the tests import. The path is restored, so that commands cannot
    import it.
    """
    sys.path.append(str(_TESTS))
    for name in _FOR_PROGRAMS:
        importlib.import_module(name)
    sys.path.remove(str(_TESTS))


def _fill_caches() -> None:
    """Fill caches of Python that every command needs. Otherwise each command fills them again,
    and copies the memory pages.
    """
    commands = importlib.import_module("midturn.cli.main")
    importlib.import_module("midturn.__main__")
    empty: dict[object, object] = {}
    nothing: tuple[Iterable[object], ...] = ((), [*empty], empty, iter(()), empty.values())
    for given in nothing:
        Counter(given)  # checks for mappings, which caches the classes
    commands.midturn.make_context("midturn", [], resilient_parsing=True)


def _fill_parser_caches() -> None:
    """Parse one value of each kind: types are inspected and patterns compiled on first use."""
    from midturn.config.load import LoadRequest, load
    from midturn.events.codec import decode_event, decode_visible
    from midturn.models.script_reader import build_script
    from midturn.question.json_text import read_json
    from midturn.question.question import Question
    from midturn.stores.folder import host
    from midturn.stores.metadata import slug

    nowhere = Path(__file__) / "nowhere"
    load(LoadRequest(cwd=nowhere, user_file=nowhere, state=nowhere))
    build_script({"replies": []}, origin="")
    Question.boolean("rehearsal", "Again?")
    decode_event(b"{}", "")
    decode_visible(b"{}\n")
    read_json("{}")
    slug("words")
    host()


def _run_forked(request: Request, standard: list[int], lessons: LearnedModules | None) -> NoReturn:
    os.setsid()
    for number, stream in enumerate(standard):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.chdir(request.directory)
    os.fsync = os.fdatasync = os.fstat  # no test simulates a power failure
    if request.on_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _open_streams()
    leave = os._exit

    def told(status: int) -> NoReturn:
        if lessons and os.getpid() == own:
            lessons.tell()
        leave(status)

    own, os._exit = os.getpid(), told  # a command may call `os._exit` itself
    status = _run(request)
    with suppress(OSError):  # an interpreter that exits does the same
        sys.stdout.flush()
    told(status)


def _open_streams() -> None:
    """Open the streams like an interpreter that starts on a terminal: output is line-buffered."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115  it stays open
    sys.stdout = sys.__stdout__ = open(  # noqa: SIM115
        1, "w", encoding="utf-8", errors="surrogateescape", buffering=1, closefd=False
    )
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )


def _run(request: Request) -> int:
    try:
        if request.program:
            _run_program(request)
        else:
            from midturn import __main__ as midturn

            sys.argv = [str(midturn.__file__), *request.arguments]
            midturn.main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    except BaseException as error:  # noqa: BLE001  as an interpreter ends that nothing has caught
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _run_program(request: Request) -> None:
    """Run a program like an interpreter does. Programs of the tests can import the tests'
    modules.
    """
    program = Path(request.program)
    sys.path[:0] = [str(_TESTS if _TESTS in program.parents else program.parent)]
    sys.argv = [request.program, *([request.served] if request.served else []), *request.arguments]
    try:
        runpy.run_path(request.program, run_name="__main__")
    finally:
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  an interpreter waits for threads
        atexit._run_exitfuncs()
        gc.collect()  # emits warnings about unclosed resources


if __name__ == "__main__":
    own = os.getpid()
    listening, *asking = [socket.socket(fileno=int(way)) for way in sys.argv[2:]]
    try:
        _serve(
            RequestChannels(listening, asking),
            LearnedModules() if sys.argv[1] == "learning" else None,
        )
    finally:
        if os.getpid() == own:  # the parent may have been killed
            shutil.rmtree(Path(listening.getsockname()).parent)
        listening.close()
