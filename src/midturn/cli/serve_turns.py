"""The page over the conversations of a place, and turns that go on under its configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from midturn.cli.loading import Flags, load_for, load_here, said_of_ignored
from midturn.cli.output import note
from midturn.cli.place import Place, StoreAddress
from midturn.cli.serve_places import directory_of
from midturn.compose.command_line import CommandLine, CommandParts
from midturn.compose.mcp import Connected, asks_somebody
from midturn.compose.session import RunParts
from midturn.config.settings import NotificationSettings
from midturn.errors import ConfigError, ModelError
from midturn.http import LOOPBACK, Listening
from midturn.journal import Journal
from midturn.prompter import Prompter
from midturn.runtime.driver import RunEnding
from midturn.web.board import Board
from midturn.web.gate import Access, CookieAccess, HeaderAccess, Names, Peers, is_shared
from midturn.web.keyring import Keyring
from midturn.web.library import Library
from midturn.web.notifying import Notifying, NotifyServices, NotifyWhen
from midturn.web.port import Port
from midturn.web.resuming import Resuming
from midturn.web.site import Site
from midturn.web.walk import Drafts

# ----------------------------------------------------------------------------------------------------------------------
# What was asked of `midturn serve`, and the addresses that follow from it


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


_SHORTEST_SECRET = 16


def site_of(place: Place, given: Serve) -> Site:
    """Return the inbox of a place."""
    port = Port(place.store)
    resumer = None if given.no_resume else Resuming(port, partial(go_on, place))
    access = _access(given)
    settings = load_here().settings
    return Site(
        board=Board(port),
        library=Library(port),
        access=access,
        resumer=resumer,
        signs_in=isinstance(access, CookieAccess),
        secrets=settings.web.secrets,
        elsewhere="Answer it at a terminal: midturn answer {id}",
        notifying=_notifying(settings.notifications, given),
        drafts=Drafts(directory_of(given.port) / "drafts"),
    )


async def go_on(place: Place, conversation: str, *, prompter: Prompter | None = None) -> None:
    """Go on with an open turn, under what was set for it.

    Raises:
        ConfigError: A file of the workspace has to be trusted first, or something cannot be set up.
        ModelError: The model stayed down; the turn is open.
    """
    async with await place.store.open(conversation) as journal:
        loaded = load_for(place, Flags(resumed=True), journal.events)
        if said := said_of_ignored(loaded):
            raise ConfigError("\n".join(said))
        attached = prompter is not None
        asks = asks_somebody(loaded.settings, attached=attached)
        servers = await asyncio.to_thread(Connected, loaded.settings, place.root, asks=asks)
        try:
            for warning in servers.warnings:
                note("midturn: {}", warning)
            parts = CommandParts(settings=loaded.settings, root=place.root, attached=attached, others=servers.tools)
            ending = await _resumed(CommandLine(parts, RunParts(prompter=prompter)), journal)
        finally:
            await asyncio.to_thread(servers.close)
    if ending.status == "open":
        raise ModelError(ending.error or "the model is down")


async def _resumed(command_line: CommandLine, journal: Journal) -> RunEnding:
    try:
        return await command_line.session(journal).resume()
    finally:
        await command_line.aclose()


def _notifying(settings: NotificationSettings, given: Serve) -> Callable[[Board], Coroutine[Any, Any, None]] | None:
    if not settings.services:
        return None
    services = NotifyServices(settings.services)

    def warn(text: str) -> None:
        note("midturn: {}", text)

    notice = NotifyWhen(after=settings.after, address=given.address, remembered=directory_of(given.port) / "sent.json", warn=warn)

    async def run(board: Board) -> None:
        await Notifying(board, services, notice).run()

    return run


def names_of(given: Serve) -> Names:
    """Return the names of the page; where a connection's other end is not known, none of them keeps a cookie to ourselves."""
    shared = frozenset(host for host in given.hosts if given.forwarded or is_shared(host))
    return Names(own=frozenset(given.hosts) - shared, shared=shared)


def peers_of(given: Serve) -> Peers:
    """Return whose connections the page takes."""
    if given.behind_proxy:
        return "any"
    return "forwarded" if given.forwarded else "own"


def _access(given: Serve) -> Access:
    if given.user_header:
        return HeaderAccess(given.user_header, _proxy_secret(given.proxy_secret_file) if given.proxy_secret_file else None)
    secure = given.address.startswith("https://")
    cookie = f"{'__Host-' if secure else ''}midturn-{given.port}"
    return CookieAccess(Keyring(), cookie=cookie, name=given.user, secure=secure)


def _proxy_secret(file: Path) -> str:
    """Read what the proxy shows.

    Raises:
        ConfigError: Others can read it, or it is too short to keep them out.
    """
    if file.stat().st_mode & 0o007:
        raise ConfigError(f"Other users of this machine can read {file}: set its mode to 0600, or 0640 for the proxy's group.")
    secret = file.read_text(errors="replace").strip()
    if len(secret) < _SHORTEST_SECRET or not secret.isascii():
        raise ConfigError(f"The secret in {file} is too short: write at least {_SHORTEST_SECRET} random letters and digits.")
    return secret
