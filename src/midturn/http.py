"""Addresses that servers listen on, and the checks that make them safe."""

from __future__ import annotations

import errno
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from midturn.errors import ConfigError

# --------------------------------------------------------------------------------------------------
# Addresses


LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
BACKLOG: Final = 512
_LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "::1")
_ADDRESS_MISSING: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
# maximum number of attempts to find a port that is free on both loopback addresses
_MAX_ATTEMPTS: Final = 20
_SOCKET_MODE: Final = 0o660  # mode of the socket: the proxy connects as a member of the group


class Listening(Struct, frozen=True, kw_only=True):
    """Address and certificate of a server.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 selects a free one.
        certificate: File with the TLS certificate.
        key: File with the private key of the certificate.
        behind_proxy: Whether a TLS proxy forwards the requests.
        unix_socket: Path of a Unix socket to listen on instead of host and port.
    """

    host: str = "127.0.0.1"
    port: int = 7478
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False
    unix_socket: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK or self.unix_socket is not None

    @property
    def scheme(self) -> str:
        """`https` with a certificate, else `http`."""
        return "https" if self.certificate else "http"

    @property
    def refusal(self) -> str | None:
        """Description of an unsafe setting and its remedy, or None if the settings are safe."""
        if (self.certificate is None) != (self.key is None):
            return (
                "A TLS certificate needs its private key: pass both `--tls-cert` and `--tls-key`."
            )
        if not self.is_local and not self.certificate and not self.behind_proxy:
            return (
                "Without TLS, others on the network could read questions, answers and sign-in"
                f" codes sent to {self.host}. Pass a certificate (`--tls-cert`, `--tls-key`), or"
                " put a TLS proxy in front and pass `--behind-proxy`."
            )
        return None


def bound(listening: Listening) -> list[socket.socket]:
    """Open the listening sockets. For a loopback host this is one per loopback address, since
    browsers try both.

    Raises:
        ConfigError: The port is in use, or this process may not listen on it.
    """
    if listening.unix_socket is not None:
        return [_bind_unix_socket(listening.unix_socket)]
    if listening.host not in LOOPBACK:
        return [_bind(listening.host, listening.port)]
    for attempts_left in range(_MAX_ATTEMPTS - 1, -1, -1):
        sockets: list[socket.socket] = []
        try:
            for host in _LOOPBACK_ADDRESSES:
                port = sockets[0].getsockname()[1] if sockets else listening.port
                with suppress(_AddressMissing):
                    sockets.append(_bind(host, port))
        except ConfigError:
            for opened in sockets:
                opened.close()
            if listening.port or not attempts_left:
                raise
        else:
            return sockets
    raise AssertionError


class _AddressMissing(Exception):  # noqa: N818  handled at once, never shown
    """The machine does not have this address, so no other program can listen on it either."""


def _bind(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
    except OSError as error:
        if host in _LOOPBACK_ADDRESSES[1:] and error.errno in _ADDRESS_MISSING:
            raise _AddressMissing from None
        raise ConfigError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. Choose another port."
        ) from None


def _bind_unix_socket(path: Path) -> socket.socket:
    """Listen on a Unix socket that its owner and the group of its directory can connect to."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode) and not _has_listener(path):
            path.unlink()
        listener.bind(str(path))
        path.chmod(_SOCKET_MODE)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"Cannot listen on {path}: {error.strerror or error}.") from None
    return listener


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
