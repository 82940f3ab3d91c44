"""HTTP serving: bounded connections, timely request heads, no log of requests, an end that loses nothing."""

from __future__ import annotations

import errno
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from midturn.errors import ConfigError

# ----------------------------------------------------------------------------------------------------------------------
# Where a server listens, and what is not safe about that


LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
BACKLOG: Final = 512
_HERE: Final = ("127.0.0.1", "::1")
_NONE_HERE: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_TRIES: Final = 20  # for a port that is free at both addresses of this machine
_FOR_THE_PROXY: Final = 0o660


class Listening(Struct, frozen=True, kw_only=True):
    """The address of a server, and its certificate. `port` 0 is any free one; a Unix socket takes the place of host and port."""

    host: str = "127.0.0.1"
    port: int = 7478
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False
    unix_socket: Path | None = None

    @property
    def is_here_alone(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in LOOPBACK or self.unix_socket is not None

    @property
    def scheme(self) -> str:
        """`https` with a certificate, else `http`."""
        return "https" if self.certificate else "http"

    @property
    def refusal(self) -> str | None:
        """A sentence on what is unsafe about it, and what to do; None where it is safe."""
        if (self.certificate is None) != (self.key is None):
            return "A certificate and its key belong together: give both `--tls-cert` and `--tls-key`."
        if not self.is_here_alone and not self.certificate and not self.behind_proxy:
            return (
                f"At {self.host} others on the network could read questions, answers and the key to them. Give a certificate "
                "(`--tls-cert`, `--tls-key`), or put a proxy with TLS in front and say `--behind-proxy`."
            )
        return None


def bound(listening: Listening) -> list[socket.socket]:
    """Take the port: on this machine at both of its addresses, since a browser tries one and then the other.

    Raises:
        ConfigError: It is taken, or not ours to take.
    """
    if listening.unix_socket is not None:
        return [_bound_in_a_file(listening.unix_socket)]
    if listening.host not in LOOPBACK:
        return [_bound(listening.host, listening.port)]
    for last in range(1 - _TRIES, 1):
        taken: list[socket.socket] = []
        try:
            for host in _HERE:
                port = taken[0].getsockname()[1] if taken else listening.port
                with suppress(_NoSuchAddress):
                    taken.append(_bound(host, port))
        except ConfigError:
            for one in taken:
                one.close()
            if listening.port or not last:
                raise
        else:
            return taken
    raise AssertionError


class _NoSuchAddress(Exception):  # noqa: N818  it says what there is not
    """This machine does not have the address, so nothing else can listen there either."""


def _bound(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    except OSError as error:
        if host in _HERE[1:] and error.errno in _NONE_HERE:
            raise _NoSuchAddress from None
        where = f"{host} port {port}"
        raise ConfigError(f"Nothing can listen at {where}: {error.strerror or error}. Choose another port.") from None


def _bound_in_a_file(path: Path) -> socket.socket:
    """Listen at a path, for the user and the group that its directory gives it."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode) and not _is_heard(path):
            path.unlink()
        listener.bind(str(path))
        path.chmod(_FOR_THE_PROXY)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"Nothing can listen at {path}: {error.strerror or error}.") from None
    return listener


def _is_heard(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
