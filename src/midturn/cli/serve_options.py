"""Options of `midturn serve`, the addresses that follow from them, and the private files of the server."""

from __future__ import annotations

import json
import os
import secrets
import socket
import string
import struct
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from midturn.cli.command_context import StoreAddress
from midturn.config.places import state_directory
from midturn.errors import ConfigError, NotOpen, PersonNeeded
from midturn.http import LOOPBACK, Listening
from midturn.security.authorization import not_a_persons_process
from midturn.security.private_files import ensure_private, read_private, write_private

SCHEMES = {"http": 80, "https": 443}
_FALLBACK = "127.0.0.1"


class Serve(Struct, frozen=True, kw_only=True):
    """Flags of the command line; `name` is the page's own host name, where it has one."""

    host: str = "127.0.0.1"
    port: int = 7478
    open: bool = False
    user: str | None = None
    no_resume: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    user_header: str | None = None
    proxy_secret_file: Path | None = None
    unix_socket: Path | None = None
    forwarded: bool = False
    new_name: bool = False
    url: str | None = None
    store: StoreAddress | None = None
    name: str = ""

    @property
    def listening(self) -> Listening:
        """Addresses to listen at."""
        return Listening(
            host=self.host,
            port=self.port,
            certificate=_text(self.tls_cert),
            key=_text(self.tls_key),
            behind_proxy=self.behind_proxy,
            unix_socket=self.unix_socket,
        )

    @property
    def takes_own_name(self) -> bool:
        """Whether the page has a host name of its own: on this machine, where neither a certificate nor an address of yours names it."""
        return self.host in LOOPBACK and not (self.url or self.tls_cert or self.behind_proxy)

    @property
    def address(self) -> str:
        """Address by which people reach the page."""
        return self.url.rstrip("/") if self.url else self._address(self.name or self.host)

    @property
    def fallback(self) -> str:
        """Address for browsers that do not find the page's own name; empty where it has none."""
        return self._address(_FALLBACK) if self.name else ""

    @property
    def is_here_alone(self) -> bool:
        """Whether the address that is printed leads nowhere from another machine."""
        return self.listening.is_here_alone and not self.url

    @property
    def hosts(self) -> set[str]:
        """The names under which the page may be asked for."""
        names = {_FALLBACK, "localhost", "[::1]", self.name} - {""} if self.host in LOOPBACK else {_in_brackets(self.host)}
        hosts = {f"{name}:{self.port}" for name in names}
        if self.port == SCHEMES[self.listening.scheme]:
            hosts |= names
        return hosts | ({urlsplit(self.url).netloc.lower()} if self.url else set())

    def _address(self, host: str) -> str:
        scheme = self.listening.scheme
        return f"{scheme}://{_in_brackets(host)}" + ("" if self.port == SCHEMES[scheme] else f":{self.port}")


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


_ANNOUNCED, _HOST_NAME, _CODES, OPENED = "server.json", "name", "codes", "open.html"
_LETTERS = 16
_REFUSED = b"!"
_MOST_BYTES = 1024
_SECONDS = 5.0
_LONGEST_PATH = 100  # what every system takes for the address of a Unix socket


class Running(Struct, frozen=True):
    """A server that runs."""

    port: int
    url: str
    directory: Path

    def new_code(self) -> str:
        """Have it make a code, which it alone keeps.

        Raises:
            NotOpen: It does not answer.
            PersonNeeded: It gives none to this process.
        """
        with socket.socket(socket.AF_UNIX) as asking, _socket_path(self.directory) as path:
            asking.settimeout(_SECONDS)
            try:
                asking.connect(path)
                said = asking.recv(_MOST_BYTES)
            except OSError as error:
                raise NotOpen(f"The server at {self.port} does not answer: {error.strerror or error}. Start it again.") from None
        if said.startswith(_REFUSED) or not said:
            raise PersonNeeded(f"The server gives no code to this process: {said[1:].decode(errors='replace')}.")
        return said.decode("ascii")


def directory_of(port: int) -> Path:
    """Return the directory of the server at a port."""
    return _all() / str(port)


def own_name(port: int, *, new: bool) -> str:
    """Return the host name of the page at a port, which no other server of this machine knows: kept until a new one is wanted."""
    directory = directory_of(port)
    kept = (read_private(directory / _HOST_NAME) or b"").decode(errors="replace").strip()
    if new or len(kept) != _LETTERS or not set(kept) <= set(string.ascii_lowercase):
        kept = "".join(secrets.choice(string.ascii_lowercase) for _ in range(_LETTERS))
        ensure_private(directory)
        write_private(directory / _HOST_NAME, kept.encode())
    return f"{kept}.localhost"


def announce(port: int, url: str) -> None:
    """Say that a server runs."""
    directory = directory_of(port)
    ensure_private(directory)
    write_private(directory / _ANNOUNCED, json.dumps({"pid": os.getpid(), "url": url}).encode())


def withdraw(port: int) -> None:
    """Say that it runs no more."""
    for name in (_ANNOUNCED, _CODES, OPENED):
        (directory_of(port) / name).unlink(missing_ok=True)


def door_for_codes(port: int, new_code: Callable[[], str]) -> tuple[socket.socket, Callable[[], None]]:
    """Return a socket at which processes of this user get a code, but no tool's and no agent's, and what takes the next one who comes."""
    directory = directory_of(port)
    (directory / _CODES).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with _socket_path(directory) as path:
        listener.bind(path)
    (directory / _CODES).chmod(0o600)
    listener.listen()
    listener.setblocking(False)

    def take() -> None:
        asking, _ = listener.accept()
        with asking:
            why = _why_not(asking)
            asking.send(_REFUSED + why.encode() if why else new_code().encode())

    return listener, take


def find_running(port: int | None) -> Running:
    """Return the server that is meant: the one at `port`, or the only one.

    Raises:
        NotOpen: None runs there.
        ConfigError: Several run.
    """
    running = [found for path in sorted(_all().glob(f"*/{_ANNOUNCED}")) if (found := _read(path))]
    meant = [one for one in running if port in (None, one.port)]
    if not meant:
        raise NotOpen(
            "No server of yours runs here. `midturn serve` starts one." if port is None else f"No server of yours runs at {port}."
        )
    if len(meant) > 1:
        ports = ", ".join(str(one.port) for one in meant)
        raise ConfigError(f"Several servers run, at the ports {ports}. Say which one is meant with `--port`.")
    return meant[0]


def _why_not(asking: socket.socket) -> str | None:
    """Say why a process gets no code; where the system does not tell which it is, the mode of the socket's directory decides."""
    if not sys.platform.startswith("linux"):
        return None
    credentials = struct.Struct("3i")
    pid, uid, _ = credentials.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
    return "it belongs to another user" if uid != os.geteuid() else not_a_persons_process(pid)


@contextmanager
def _socket_path(directory: Path) -> Generator[str]:
    """Yield an address for the socket in a directory; a long one by way of the directory itself, where the system has such a way."""
    path = str(directory / _CODES)
    if len(os.fsencode(path)) <= _LONGEST_PATH or not sys.platform.startswith("linux"):
        yield path
        return
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_CODES}"
    finally:
        os.close(descriptor)


def _read(path: Path) -> Running | None:
    try:
        read = cast("dict[str, object]", json.loads(path.read_text()))
        os.kill(int(str(read["pid"])), 0)
        return Running(int(path.parent.name), str(read["url"]), path.parent)
    except (OSError, ValueError, KeyError, TypeError):  # it is gone, or never was one
        return None


def _all() -> Path:
    return state_directory() / "serve"
