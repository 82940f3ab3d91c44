"""The page over the conversations of a place, and turns that go on under its configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from midturn.agent.assembly.command_line import CommandLine, CommandParts
from midturn.agent.assembly.mcp import Connected, can_ask
from midturn.agent.assembly.session import RunParts
from midturn.channels.running import ChannelRun
from midturn.cli.channels import made_channels
from midturn.cli.command_context import Place
from midturn.cli.config import write_permission
from midturn.cli.loading import Flags, load_for, load_here, said_of_ignored
from midturn.cli.output import note
from midturn.cli.serve_options import Serve, directory_of
from midturn.config.settings import Settings
from midturn.errors import ConfigError, ModelError
from midturn.extras import install_command
from midturn.http_server import Health
from midturn.inbox.deliveries import fingerprint, run_all
from midturn.inbox.notifications import Notifying, NotifyServices, NotifyWhen, Reminding
from midturn.inbox.open_questions import Board
from midturn.inbox.resuming import Resuming
from midturn.inbox.store_access import Port
from midturn.journal import Journal
from midturn.prompter import Prompter
from midturn.runtime.driver import RunEnding
from midturn.security.private_files import ensure_private
from midturn.web.app import application
from midturn.web.app_state import Site
from midturn.web.conversation_cache import Library
from midturn.web.gate import Access, CookieAccess, HeaderAccess, Names, Peers, is_shared
from midturn.web.keyring import Keyring

if TYPE_CHECKING:
    from midturn.channels.port import Channel, ChannelSettings
    from midturn.web.push import Push

_SHORTEST_SECRET = 16


def site_of(place: Place, given: Serve) -> Site:
    """Return the inbox of a place."""
    access = _access(given)
    port = Port(place.store.with_rule_writer(partial(write_permission, place)) if isinstance(access, CookieAccess) else place.store)
    resumer = None if given.no_resume else Resuming(port, partial(go_on, place))
    settings = load_here().settings
    push = _push(given, access)
    return Site(
        board=Board(port),
        library=Library(port),
        access=access,
        resumer=resumer,
        signs_in=isinstance(access, CookieAccess),
        secrets=settings.web.secrets,
        elsewhere="Answer it at a terminal: midturn answer {id}",
        notifying=_notifying(settings, given, place, push),
        push=push,
        root=Path(place.root),
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
        asks = can_ask(loaded.settings, attached=attached)
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


def _push(given: Serve, access: Access) -> Push | None:
    """Return what tells browsers whose page is closed: where the extra is there, and the page's address stays what it is."""
    if not (given.name or given.url) or not find_spec("py_vapid"):
        return None
    try:
        from midturn.web.push import Push, PushKeys
    except ModuleNotFoundError as error:
        raise ConfigError(f"Web push needs the extra `webpush`: {install_command('webpush')}") from error
    directory = directory_of(given.port)
    ensure_private(directory)
    return Push(PushKeys(directory / "push.json", given.address), access)


def _notifying(settings: Settings, given: Serve, place: Place, push: Push | None) -> Callable[[Board], Coroutine[Any, Any, None]] | None:
    wanted, directory = settings.notifications, settings.directory
    carried = made_channels(settings.channels, place) if settings.channels else []
    if not wanted.services and not directory.people and not push and not carried:
        return None
    services = NotifyServices(wanted.services) if wanted.services else None
    if addresses := [address for person in directory.people.values() for address in person.notify]:
        NotifyServices(addresses)  # what is wrong with them is said at the start

    def warn(text: str) -> None:
        note("midturn: {}", text)

    private = directory_of(given.port)
    notice = NotifyWhen(after=wanted.after, address=given.address, remembered=private / "sent.json", warn=warn)

    async def run(board: Board) -> None:
        tellers = [Notifying(board, services, notice).run()] if services else []
        reminders = [Reminding(board, directory, notice).run()] if directory.people else []
        pushes = [push.run(board), Notifying(board, push, pushed(notice, push, private)).run()] if push else []
        await run_all([*tellers, *reminders, *pushes, *_carriers(board, carried)])

    return run


def pushed(notice: NotifyWhen, push: Push, private: Path) -> NotifyWhen:
    """Return when the browsers of this server are notified: those of another one have other keys."""
    return replace(notice, service=f"push-{fingerprint(push.keys.public)}", remembered=private / "pushed.json")


def _carriers(board: Board, carried: Sequence[tuple[Channel, ChannelSettings]]) -> list[Coroutine[Any, Any, None]]:
    if not carried:
        return []
    return [ChannelRun(board, channel, settings).run() for channel, settings in carried]


def application_of(place: Place, site: Site, given: Serve) -> Health:
    """Return the page, with what probes ask beside it."""
    return Health(partial(Port(place.store).newest, 1), application(site, names_of(given), peers_of(given)))


def codes_of(site: Site) -> Callable[[], str] | None:
    """Return what makes a code to sign in with; None where a proxy says who is who."""
    return site.access.keyring.new_code if isinstance(site.access, CookieAccess) else None


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
