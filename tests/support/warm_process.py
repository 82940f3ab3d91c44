"""The process that has loaded everything and forks for each command; see `warm_commands`, which starts it.

It needs nothing of the tests' own, since it begins without them. Whoever started it asks by a socket of its own; programs that others
start ask by its address (see `warm_start`), and are ended when whoever asked is gone.
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
COLLAPSE = 25  # MADV_COLLAPSE, which neither `mmap` nor `ctypes` names
MANY = 50  # modules: after so many more, what is loaded is settled again
COSTS = "MIDTURN_TESTS_COSTS"  # names a file, where somebody wants to know what commands cost
_LOADED = ("agent.assembly", "cli", "config", "runtime", "stores", "terminal", "tools")
_SERVING = ("inbox", "integrations.acp", "integrations.hooks", "integrations.mcp_server", "mcp", "models", "web")
_PROVIDERS = ("pydantic_ai.models.anthropic", "pydantic_ai.models.google", "pydantic_ai.models.openai")
_WHEN_NEEDED = (  # what is loaded late, by many
    "click.shell_completion",
    "encodings.idna",
    "encodings.utf_8_sig",
    "midturn.integrations.hooks.hook",
    "prompt_toolkit.key_binding.bindings.search",
)
_SCRIPTS = ("midturn.cli.demo.publish",)  # tools of the demo, which run when they are imported
_TESTS = Path(__file__).parents[1]
_OF_PROGRAMS = ("support.prompt_catalogue",)  # what programs of the tests import, and need not load each time


class Request(NamedTuple):
    """What is to be forked; see `warm_commands.Command`."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    program: str = ""
    served: str = ""
    on_terminal: bool = False


def packed(request: Request) -> bytes:
    """Return a request as it is sent."""
    data = marshal.dumps(tuple(request))
    return LENGTH.pack(len(data)) + data


class Ways:
    """How requests come: by sockets of those who started this process, and by connections to its address."""

    def __init__(self, listener: socket.socket, ways: list[socket.socket]) -> None:
        self._listener = listener
        self._ways = ways
        self._started: dict[socket.socket, int] = {}  # what was started by a connection, which it does not outlive

    def wait(self) -> None:
        """Wait until somebody asks for the first time, or no one is left who could."""
        while self._ways:
            ready = select.select([self._listener, *self._ways], [], [])[0]
            for way in [way for way in self._ways if way in ready and not way.recv(1, socket.MSG_PEEK)]:
                ready.remove(way)
                self._ways.remove(way)
                way.close()
            if ready:
                return
        sys.exit()

    def next(self, ends: Ends) -> tuple[Request, list[int], socket.socket | None] | None:
        """Wait for a request; return it with its streams and its connection, if it has one; None when no one is left who started this."""
        while self._ways:
            ready = select.select([self._listener, *self._ways, *self._started, ends.heard], [], [])[0]
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
        """Keep what a connection has started."""
        if way is not None:
            self._started[way] = pid

    def forget(self) -> None:
        """In what was forked: keep nothing of it open."""
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


class Ends:
    """Where it is told how each command ended. One process starts them all and waits for them: a second fork costs as much as the first."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._costs = Costs(os.environ[COSTS]) if COSTS in os.environ else None
        self.heard, self._told = os.pipe()
        for end in (self.heard, self._told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _heard)  # the default would not wake us

    def expect(self, command: int, status: int, request: Request) -> None:
        """Tell which process a command is, and, later, how it ended."""
        self._of[command] = status
        if self._costs:
            self._costs.expect(command, request)
        with suppress(BrokenPipeError):  # who asked for it is gone
            os.write(status, NUMBER.pack(command))

    def kill(self, command: int) -> None:
        """Kill a command and what it started, unless it has ended."""
        if command in self._of:
            for kill in (os.kill, os.killpg):
                with suppress(ProcessLookupError):
                    kill(command, signal.SIGKILL)

    def tell(self) -> None:
        """Tell how those ended that have."""
        with suppress(BlockingIOError):
            os.read(self.heard, 65_536)
        with suppress(ChildProcessError):  # there is none
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                command, how, used = ended
                status = self._of.pop(command)
                if self._costs:
                    self._costs.tell(command, used)
                with suppress(BrokenPipeError):  # its test does not care
                    os.write(status, NUMBER.pack(os.waitstatus_to_exitcode(how)))
                os.close(status)

    def forget(self) -> None:
        """In a command: be none of those, and keep nothing of the others open."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self.heard, self._told, *self._of.values()):
            os.close(end)


class Costs:
    """The processor time of commands, told in a file as `processor_time` reads it; what this process itself takes is told, too."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._tests: dict[int, str] = {}
        self._told = 0.0

    def expect(self, command: int, request: Request) -> None:
        """Keep whose command it is, where its environment says so."""
        test = request.environment.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        self._tests[command] = test or f"a test: {request.program or 'midturn'}"

    def tell(self, command: int, used: resource.struct_rusage) -> None:
        """Tell what a command has taken, and this process meanwhile."""
        here = time.process_time()
        rows = [[self._tests.pop(command), 0, 0, used.ru_utime + used.ru_stime], ["what forks commands", here - self._told, 0, 0]]
        self._told = here
        with self._file.open("a") as file:
            file.write("".join(f"{json.dumps(row)}\n" for row in rows))


def settle() -> None:
    """Have all that is loaded stay one in memory: what is forked from here looks through none of it, and finds it in large pages.

    To fork is to copy a table with a line for each page, which is undone when the fork ends: with pages of 2 MB that takes half the time.
    A kernel that makes none on demand says no, and all is as it was.
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
    """Leave it to the pipe that is written when a signal comes."""


class Lessons:
    """What commands had to load themselves, and who comes after them need not: modules of installed packages, never of a workspace."""

    def __init__(self) -> None:
        self._heard, self._told = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._told, False)
        self._known = len(sys.modules)
        self._read: set[str] = set()

    def learn(self, request: Request) -> None:
        """Load what commands have told of since, and what this one's program imports: it may be killed before it tells."""
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
                with suppress(Exception):  # it may load with others only
                    importlib.import_module(name)
        if len(sys.modules) > loaded:
            self._known = len(sys.modules)
            _rehearse()
            gc.freeze()
        if len(sys.modules) > loaded + MANY:
            settle()

    def tell(self) -> None:
        """Tell what this process has loaded: the last of its modules. To look at all of them is to write to the pages of each."""
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


def _serve(ways: Ways, lessons: Lessons | None) -> None:
    ways.wait()
    for package in (f"midturn.{name}" for name in _LOADED):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in _SCRIPTS:
                importlib.import_module(module.name)
    for name in _WHEN_NEEDED:
        importlib.import_module(name)
    _rehearse_reading()
    if lessons:
        _load_for_servers()
    else:
        _load_for_programs()
    _rehearse()
    settle()
    ends = Ends()
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
            _become(request, standard, lessons)
        ways.started(way, command)
        ends.expect(command, status, request)
        for stream in standard:
            os.close(stream)


def _load_for_servers() -> None:
    """Load what serves, is killed and tells nothing of it, and what loads more than it could tell; a missing library is left out."""
    packages = [f"midturn.{name}" for name in _SERVING]
    modules = [one.name for package in packages for one in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")]
    for module in (*modules, *_PROVIDERS):
        with suppress(ImportError):
            importlib.import_module(module)


def _load_for_programs() -> None:
    """Load what programs of the tests import; commands find none of it."""
    sys.path.append(str(_TESTS))
    for name in _OF_PROGRAMS:
        importlib.import_module(name)
    sys.path.remove(str(_TESTS))


def _rehearse() -> None:
    """Do once what every command does first and Python remembers: else each one finds it out, and copies the pages that this writes to."""
    commands = importlib.import_module("midturn.cli.main")
    importlib.import_module("midturn.__main__")
    empty: dict[object, object] = {}
    nothing: tuple[Iterable[object], ...] = ((), [*empty], empty, iter(()), empty.values())
    for given in nothing:
        Counter(given)  # it is asked whether it is a mapping, and so is every class of mappings
    commands.midturn.make_context("midturn", [], resilient_parsing=True)


def _rehearse_reading() -> None:
    """Read something of each kind once: types are looked at, and patterns compiled, when they are first needed."""
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


def _become(request: Request, standard: list[int], lessons: Lessons | None) -> NoReturn:
    os.setsid()
    for number, stream in enumerate(standard):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.chdir(request.directory)
    os.fsync = os.fdatasync = os.fstat  # no test brings a loss of power about
    if request.on_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _open_streams()
    leave = os._exit

    def told(status: int) -> NoReturn:
        if lessons and os.getpid() == own:
            lessons.tell()
        leave(status)

    own, os._exit = os.getpid(), told  # so ends a command, too
    status = _run(request)
    with suppress(OSError):  # as an interpreter does that ends
        sys.stdout.flush()
    told(status)


def _open_streams() -> None:
    """Open the streams anew, as an interpreter does that starts on a terminal: what is printed is there after each line."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115  it stays open
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


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
    """Run a program as an interpreter does; programs of the tests find what tests share."""
    program = Path(request.program)
    sys.path[:0] = [str(_TESTS if _TESTS in program.parents else program.parent)]
    sys.argv = [request.program, *([request.served] if request.served else []), *request.arguments]
    try:
        runpy.run_path(request.program, run_name="__main__")
    finally:
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  an interpreter waits for threads
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        gc.collect()  # what was left open is said


if __name__ == "__main__":
    own = os.getpid()
    listening, *asking = [socket.socket(fileno=int(way)) for way in sys.argv[2:]]
    try:
        _serve(Ways(listening, asking), Lessons() if sys.argv[1] == "learning" else None)
    finally:
        if os.getpid() == own:  # who started it may have been killed
            shutil.rmtree(Path(listening.getsockname()).parent)
        listening.close()
