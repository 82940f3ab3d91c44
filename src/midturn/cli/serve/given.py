"""What was asked of `midturn serve`, and the addresses that follow from it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from midturn.cli.place import StoreAddress

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SCHEMES = {"http": 80, "https": 443}


class Serve(Struct, frozen=True, kw_only=True):
    """What was asked on the command line."""

    host: str = "127.0.0.1"
    port: int = 7478
    open: bool = False
    user: str | None = None
    no_resume: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    user_header: str | None = None
    url: str | None = None
    store: StoreAddress | None = None

    @property
    def scheme(self) -> str:
        """`http`, or `https` with a certificate."""
        return "https" if self.tls_cert else "http"

    @property
    def address(self) -> str:
        """How people reach the page."""
        if self.url:
            return self.url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{_with_port(self.scheme, host, self.port)}"

    @property
    def is_here_alone(self) -> bool:
        """Whether the address that is printed leads nowhere from another machine."""
        return self.host in LOOPBACK and not self.url

    @property
    def hosts(self) -> set[str]:
        """The names under which the page may be asked for."""
        names = {"127.0.0.1", "localhost", "[::1]"} if self.host in LOOPBACK else {f"[{self.host}]" if ":" in self.host else self.host}
        hosts = {f"{name}:{self.port}" for name in names}
        if self.port == SCHEMES[self.scheme]:
            hosts |= names
        return hosts | ({urlsplit(self.url).netloc.lower()} if self.url else set())


def _with_port(scheme: str, host: str, port: int) -> str:
    return host if port == SCHEMES[scheme] else f"{host}:{port}"
