"""Set up the web page of `midturn serve`, and continue turns after their questions are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from midturn.agent.assembly.command_line import CommandArguments, CommandLine
from midturn.agent.assembly.mcp import Connected, can_ask
from midturn.channels.running import ChannelRun
from midturn.cli.channels import made_channels
from midturn.cli.command_context import CommandContext
from midturn.cli.config import write_permission
from midturn.cli.loading import Flags, ignored_warnings, load_for, load_here
from midturn.cli.output import note
from midturn.cli.remote_agents import with_remote_agent
from midturn.cli.serve_options import Serve, directory_of
from midturn.config.settings import Settings
from midturn.errors import ConfigError, ModelError
from midturn.extras import install_command
from midturn.http_server import Health
from midturn.inbox.deliveries import fingerprint, run_all
from midturn.inbox.notifications import Notifying, NotifyServices, NotifyWhen, Reminding
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.resuming import Resuming
from midturn.inbox.store_access import Port
from midturn.journal import Journal
from midturn.prompter import Prompter
from midturn.runtime.driver import RunEnding
from midturn.runtime.run_options import RunOptions
from midturn.security.private_files import ensure_private
from midturn.web.app import application
from midturn.web.app_state import AppState
from midturn.web.conversation_cache import ConversationCache
from midturn.web.keyring import Keyring
from midturn.web.request_checks import (
    Access,
    CookieAccess,
    HeaderAccess,
    HostNames,
    Peers,
    is_shared,
)

if TYPE_CHECKING:
    from midturn.channels.port import Channel, ChannelSettings
    from midturn.web.push import Push

_MIN_SECRET_LENGTH = 16


def site_of(place: CommandContext, given: Serve) -> AppState:
    """Return the state of the web page."""
    access = _access(given)
    port = Port(
        place.store.with_rule_writer(partial(write_permission, place))
        if isinstance(access, CookieAccess)
        else place.store
    )
    resumer = None if given.no_resume else Resuming(port, partial(continue_turn, place))
    settings = load_here().settings
    push = _push(given, access)
    return AppState(
        board=OpenQuestionList(port),
        library=ConversationCache(port),
        access=access,
        resumer=resumer,
        signs_in=isinstance(access, CookieAccess),
        secrets=settings.web.secrets,
        elsewhere="Answer it at a terminal: midturn answer {id}",
        notifying=_notifying(settings, given, place, push),
        push=push,
        root=Path(place.root),
    )


async def continue_turn(
    place: CommandContext, conversation: str, *, prompter: Prompter | None = None
) -> None:
    """Continue an open turn with its recorded flags.

    Raises:
        ConfigError: A workspace file must be trusted first, or the turn cannot be set up.
        ModelError: The model failed, and the turn is still open.
    """
    async with await place.store.open(conversation) as journal:
        loaded = load_for(place, Flags(resumed=True), journal.events)
        if warnings := ignored_warnings(loaded):
            raise ConfigError("\n".join(warnings))
        attached = prompter is not None
        asks = can_ask(loaded.settings, attached=attached)
        servers = await asyncio.to_thread(Connected, loaded.settings, place.root, asks=asks)
        try:
            for warning in servers.warnings:
                note("midturn: {}", warning)
            parts = CommandArguments(
                settings=loaded.settings, root=place.root, attached=attached, others=servers.tools
            )
            command_line = CommandLine(with_remote_agent(parts), RunOptions(prompter=prompter))
            ending = await _resume(command_line, journal)
        finally:
            await asyncio.to_thread(servers.close)
    if ending.status == "open":
        raise ModelError(ending.error or "the model failed")


async def _resume(command_line: CommandLine, journal: Journal) -> RunEnding:
    try:
        return await command_line.session(journal).resume()
    finally:
        await command_line.aclose()


def _push(given: Serve, access: Access) -> Push | None:
    """Return the push service, if its extra is installed and the page's URL is permanent."""
    if not (given.name or given.url) or not find_spec("py_vapid"):
        return None
    try:
        from midturn.web.push import Push, PushKeys
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Web push requires the extra `webpush`. To install it: {install_command('webpush')}"
        ) from error
    directory = directory_of(given.port)
    ensure_private(directory)
    return Push(PushKeys(directory / "push.json", given.address), access)


def _notifying(
    settings: Settings, given: Serve, place: CommandContext, push: Push | None
) -> Callable[[OpenQuestionList], Coroutine[Any, Any, None]] | None:
    wanted, directory = settings.notifications, settings.directory
    channels = made_channels(settings.channels, place) if settings.channels else []
    if not wanted.services and not directory.people and not push and not channels:
        return None
    services = NotifyServices(wanted.services) if wanted.services else None
    if addresses := [address for person in directory.people.values() for address in person.notify]:
        NotifyServices(addresses)  # so that invalid addresses are reported at the start

    def warn(text: str) -> None:
        note("midturn: {}", text)

    private = directory_of(given.port)
    notice = NotifyWhen(
        after=wanted.after, address=given.address, remembered=private / "sent.json", warn=warn
    )

    async def run(board: OpenQuestionList) -> None:
        notifiers = [Notifying(board, services, notice).run()] if services else []
        reminders = [Reminding(board, directory, notice).run()] if directory.people else []
        pushes = (
            [push.run(board), Notifying(board, push, pushed(notice, push, private)).run()]
            if push
            else []
        )
        await run_all([*notifiers, *reminders, *pushes, *_channel_runs(board, channels)])

    return run


def pushed(notice: NotifyWhen, push: Push, private: Path) -> NotifyWhen:
    """Return the settings for push notifications.

    Each server sends its own notifications, because each server has its own keys.
    """
    return replace(
        notice, service=f"push-{fingerprint(push.keys.public)}", remembered=private / "pushed.json"
    )


def _channel_runs(
    board: OpenQuestionList, channels: Sequence[tuple[Channel, ChannelSettings]]
) -> list[Coroutine[Any, Any, None]]:
    if not channels:
        return []
    return [ChannelRun(board, channel, settings).run() for channel, settings in channels]


def application_of(place: CommandContext, site: AppState, given: Serve) -> Health:
    """Return the web application with its health probes."""
    return Health(
        partial(Port(place.store).newest, 1), application(site, names_of(given), peers_of(given))
    )


def codes_of(site: AppState) -> Callable[[], str] | None:
    """Return the function that creates sign-in codes, or None if a proxy identifies users."""
    return site.access.keyring.new_code if isinstance(site.access, CookieAccess) else None


def names_of(given: Serve) -> HostNames:
    """Return the host names of the page, divided into names of this server only and names that
    other servers share. Browsers send the cookies of a shared name to all servers with this name.
    """
    shared = frozenset(host for host in given.hosts if given.forwarded or is_shared(host))
    return HostNames(own=frozenset(given.hosts) - shared, shared=shared)


def peers_of(given: Serve) -> Peers:
    """Return the kind of connections that the page accepts."""
    if given.behind_proxy:
        return "any"
    return "forwarded" if given.forwarded else "own"


def _access(given: Serve) -> Access:
    if given.user_header:
        return HeaderAccess(
            given.user_header,
            _proxy_secret(given.proxy_secret_file) if given.proxy_secret_file else None,
        )
    secure = given.address.startswith("https://")
    cookie = f"{'__Host-' if secure else ''}midturn-{given.port}"
    return CookieAccess(Keyring(), cookie=cookie, name=given.user, secure=secure)


def _proxy_secret(file: Path) -> str:
    """Read the secret that the proxy sends.

    Raises:
        ConfigError: Other users can read the file, or the secret is too short.
    """
    if file.stat().st_mode & 0o007:
        raise ConfigError(
            f"Other users can read {file}. Set its mode to 0600, or to 0640 for the group of the"
            " proxy."
        )
    secret = file.read_text(errors="replace").strip()
    if len(secret) < _MIN_SECRET_LENGTH or not secret.isascii():
        raise ConfigError(
            f"The secret in {file} is too short. Use at least {_MIN_SECRET_LENGTH} random letters"
            " and digits."
        )
    return secret
