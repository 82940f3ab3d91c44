"""Options of `midturn serve`, the URLs that result from them, and the private files of a server."""

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
from midturn.security.authorization import nonhuman_process_reason
from midturn.security.private_files import ensure_private, read_private, write_private

SCHEMES = {"http": 80, "https": 443}
_LOOPBACK_HOST = "127.0.0.1"


class Serve(Struct, frozen=True, kw_only=True):
    """Options of `midturn serve`. `name` is the generated host name of the page, or empty."""

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
        """The addresses to listen on."""
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
        """Whether the page gets a generated host name: on loopback without a certificate, proxy
        or public URL.
        """
        return self.host in LOOPBACK and not (self.url or self.tls_cert or self.behind_proxy)

    @property
    def address(self) -> str:
        """The URL of the page."""
        return self.url.rstrip("/") if self.url else self._address(self.name or self.host)

    @property
    def fallback(self) -> str:
        """URL for browsers that cannot resolve the generated host name, or an empty string."""
        return self._address(_LOOPBACK_HOST) if self.name else ""

    @property
    def is_local(self) -> bool:
        """Whether the printed URL only works on this machine."""
        return self.listening.is_local and not self.url

    @property
    def hosts(self) -> set[str]:
        """The accepted values of the `Host` header."""
        names = (
            {_LOOPBACK_HOST, "localhost", "[::1]", self.name} - {""}
            if self.host in LOOPBACK
            else {_bracketed(self.host)}
        )
        hosts = {f"{name}:{self.port}" for name in names}
        if self.port == SCHEMES[self.listening.scheme]:
            hosts |= names
        return hosts | ({urlsplit(self.url).netloc.lower()} if self.url else set())

    def _address(self, host: str) -> str:
        scheme = self.listening.scheme
        return f"{scheme}://{_bracketed(host)}" + (
            "" if self.port == SCHEMES[scheme] else f":{self.port}"
        )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


_SERVER_FILE, _NAME_FILE, _CODE_SOCKET, OPENED = "server.json", "name", "codes", "open.html"
_NAME_LENGTH = 16
_REFUSAL_PREFIX = b"!"
_MAX_REPLY_BYTES = 1024
_TIMEOUT = 5.0
# maximum length of a socket path in bytes that every system supports
_MAX_SOCKET_PATH = 100


class Running(Struct, frozen=True):
    """A running server."""

    port: int
    url: str
    directory: Path

    def new_code(self) -> str:
        """Request a new sign-in code from the server.

        Raises:
            NotOpen: The server does not respond.
            PersonNeeded: The server refused to issue a code to this process.
        """
        with socket.socket(socket.AF_UNIX) as client, _socket_path(self.directory) as path:
            client.settimeout(_TIMEOUT)
            try:
                client.connect(path)
                reply = client.recv(_MAX_REPLY_BYTES)
            except OSError as error:
                raise NotOpen(
                    f"The server on port {self.port} does not respond: {error.strerror or error}."
                    " Restart it."
                ) from None
        if reply.startswith(_REFUSAL_PREFIX) or not reply:
            raise PersonNeeded(
                f"The server refused to issue a code to this process:"
                f" {reply[1:].decode(errors='replace')}."
            )
        return reply.decode("ascii")


def directory_of(port: int) -> Path:
    """Return the private directory of the server on a port."""
    return _servers_directory() / str(port)


def own_name(port: int, *, new: bool) -> str:
    """Return the generated host name of the page on a port. No other server has the same name.

    The name stays the same until a new name is requested (`new`).
    """
    directory = directory_of(port)
    name = (read_private(directory / _NAME_FILE) or b"").decode(errors="replace").strip()
    if new or len(name) != _NAME_LENGTH or not set(name) <= set(string.ascii_lowercase):
        name = "".join(secrets.choice(string.ascii_lowercase) for _ in range(_NAME_LENGTH))
        ensure_private(directory)
        write_private(directory / _NAME_FILE, name.encode())
    return f"{name}.localhost"


def announce(port: int, url: str) -> None:
    """Register a running server."""
    directory = directory_of(port)
    ensure_private(directory)
    write_private(directory / _SERVER_FILE, json.dumps({"pid": os.getpid(), "url": url}).encode())


def withdraw(port: int) -> None:
    """Unregister a server that is stopping."""
    for name in (_SERVER_FILE, _CODE_SOCKET, OPENED):
        (directory_of(port) / name).unlink(missing_ok=True)


def open_code_socket(
    port: int, new_code: Callable[[], str]
) -> tuple[socket.socket, Callable[[], None]]:
    """Open the socket that issues sign-in codes.

    Return the socket and a function that serves one client. Processes of this user get codes,
    except tools and agents.
    """
    directory = directory_of(port)
    (directory / _CODE_SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with _socket_path(directory) as path:
        listener.bind(path)
    (directory / _CODE_SOCKET).chmod(0o600)
    listener.listen()
    listener.setblocking(False)

    def serve_client() -> None:
        client, _ = listener.accept()
        with client:
            refusal = _refusal(client)
            client.send(_REFUSAL_PREFIX + refusal.encode() if refusal else new_code().encode())

    return listener, serve_client


def find_running(port: int | None) -> Running:
    """Return the running server on `port`, or the only running server.

    Raises:
        NotOpen: No server is running there.
        ConfigError: Several servers are running.
    """
    running = [
        found
        for path in sorted(_servers_directory().glob(f"*/{_SERVER_FILE}"))
        if (found := _read(path))
    ]
    matching = [server for server in running if port in (None, server.port)]
    if not matching:
        raise NotOpen(
            "No server is running. To start one: `midturn serve`"
            if port is None
            else f"No server is running on port {port}."
        )
    if len(matching) > 1:
        ports = ", ".join(str(server.port) for server in matching)
        raise ConfigError(
            f"Several servers are running, on the ports {ports}. Select one with `--port`."
        )
    return matching[0]


def _refusal(client: socket.socket) -> str | None:
    """Return why a process is refused a code, or None if it gets a code.

    Only Linux identifies the process. On other systems, the directory's mode protects the socket.
    """
    if not sys.platform.startswith("linux"):
        return None
    credentials = struct.Struct("3i")
    pid, uid, _ = credentials.unpack(
        client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    )
    return "it belongs to another user" if uid != os.geteuid() else nonhuman_process_reason(pid)


@contextmanager
def _socket_path(directory: Path) -> Generator[str]:
    """Yield a path to which the socket can be bound.

    On Linux, a path that is too long is replaced by a shorter path through `/proc`.
    """
    path = str(directory / _CODE_SOCKET)
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH or not sys.platform.startswith("linux"):
        yield path
        return
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_CODE_SOCKET}"
    finally:
        os.close(descriptor)


def _read(path: Path) -> Running | None:
    try:
        read = cast("dict[str, object]", json.loads(path.read_text()))
        os.kill(int(str(read["pid"])), 0)
        return Running(int(path.parent.name), str(read["url"]), path.parent)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
    ):  # the server has ended, or the file is invalid
        return None


def _servers_directory() -> Path:
    return state_directory() / "serve"
