"""What was asked of `midturn serve`, and the addresses that follow from it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from midturn.cli.place import StoreAddress
from midturn.http import LOOPBACK, Listening

SCHEMES = {"http": 80, "https": 443}
_FALLBACK = "127.0.0.1"


class Serve(Struct, frozen=True, kw_only=True):
    """What was asked on the command line; `name` is the page's own host name, where it has one."""

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
        """Where it listens."""
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
        """How people reach the page."""
        return self.url.rstrip("/") if self.url else self._address(self.name or self.host)

    @property
    def fallback(self) -> str:
        """How they do where a browser does not find the page's own name; empty where it has none."""
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
