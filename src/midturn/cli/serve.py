"""`midturn serve`: the open questions on a web page."""

from __future__ import annotations

import asyncio
import importlib
import io
import os
import signal
import sys
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import click
from msgspec.structs import replace

from midturn.cli.command_context import find_place
from midturn.cli.locked import without_echo
from midturn.cli.log import start_measuring
from midturn.cli.options import with_store
from midturn.cli.output import ExitStatus, is_terminal, note, presented, say, tell
from midturn.cli.serve_options import OPENED, SCHEMES, Serve, announce, directory_of, door_for_codes, find_running, own_name, withdraw
from midturn.config.places import configured_keep
from midturn.errors import ConfigError
from midturn.http import bound
from midturn.security.authorization import for_people_only
from midturn.stores.pruning import keep_for

if TYPE_CHECKING:
    pass


# ----------------------------------------------------------------------------------------------------------------------
# `midturn serve`: the open questions on a web page


_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  named to be refused


_PORT = click.IntRange(1, 65535)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", default=7478, show_default=True, type=_PORT, metavar="PORT", help="At which port.")
@click.option("--open", is_flag=True, help="Open the page in your browser.")
@click.option("--user", metavar="NAME", help="Who answers here; recorded with each answer.")
@click.option("--no-resume", is_flag=True, help="Only take answers; leave the turns to others.")
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="The certificate, for another host than this machine.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Its key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy with TLS stands in front.")
@click.option("--user-header", metavar="NAME", help="The header in which the proxy names the user.")
@click.option("--proxy-secret-file", type=_FILE, metavar="FILE", help="What the proxy sends as `X-Midturn-Proxy-Secret` with it.")
@click.option("--unix-socket", type=click.Path(path_type=Path), metavar="FILE", help="Listen there, for the proxy, and at no port.")
@click.option("--forwarded", is_flag=True, help="Take connections through SSH or into a container, too.")
@click.option("--new-name", is_flag=True, help="Give the page a new host name; the old one is forgotten.")
@click.option("--url", metavar="URL", help="How people reach the page, where that is another address.")
@with_store
@click.pass_context
def command(context: click.Context, **given: object) -> ExitStatus:
    """Show every open question on a web page, take the answers, and go on with the turns.

    It prints an address with a code that is good once, for five minutes; Enter prints another one. Ctrl-C ends it.
    """
    if context.invoked_subcommand is not None:
        return ExitStatus.DONE
    return run_serve(Serve(**given))  # type: ignore[arg-type]  # click has checked every field


@command.command("code")
@click.option("--port", type=_PORT, metavar="PORT", help="The port of the server that is meant, where several run.")
def code(*, port: int | None) -> ExitStatus:
    """Print a new address with a code, for another device, or after a night."""
    _check_extra()
    for_people_only("sign in for one")
    running = find_running(port)
    show_address(entrance(running.url, running.new_code()))
    return ExitStatus.DONE


def run_serve(given: Serve) -> ExitStatus:
    """Serve until Ctrl-C."""
    for_people_only("take answers for one")
    _check(given)
    _check_extra()
    place = find_place(given.store)
    if given.takes_own_name:
        given = replace(given, name=own_name(given.port, new=given.new_name))
    from midturn.cli.serve_turns import application_of, codes_of, site_of  # loads what the page needs
    from midturn.http_server import serve

    start_measuring(os.environ, place.store)
    listeners = bound(given.listening)
    site = site_of(place, given)
    announce(given.port, given.address)
    keep = configured_keep(os.environ)
    beside: list[asyncio.Task[None]] = []

    def ready() -> None:
        _begun(given, codes_of(site))
        if keep is not None:
            beside.append(asyncio.get_running_loop().create_task(keep_for(keep, place.store.prune, place.option)))

    try:
        with without_echo():
            serving = serve(application_of(place, site, given), given.listening, listeners, ready, site.board.feed.close)
            received = asyncio.run(serving)
    finally:
        withdraw(given.port)
    if received in (signal.SIGTERM, signal.SIGHUP):
        raise SystemExit(128 + received)
    return ExitStatus.DONE


def _begun(given: Serve, new_code: Callable[[], str] | None) -> None:
    """Print the address, and have codes at hand where people sign in with us: at the terminal's Enter, and for `midturn serve code`."""
    another = ""
    if new_code is not None:

        def invite() -> None:
            show_address(entrance(given.address, new_code()))

        invite()
        listener, take = door_for_codes(given.port, new_code)
        asyncio.get_running_loop().add_reader(listener, take)
        if given.open:
            _open(given, entrance(given.address, new_code()))
        another = "Enter prints another code; " if _on_enter(invite) else ""
    for line in _notes(given):
        note("{}", line)
    note(f"{another}Ctrl-C ends the server, and turns stay open.")


def _notes(given: Serve) -> Iterator[str]:
    if given.fallback:
        yield f"If your browser does not find that name, open {given.fallback}/enter and type the code."
    if given.is_here_alone and is_terminal():
        yield "Only this machine reaches it. For a phone, have a tunnel lead here, and start again with `--url` and its address."
    if given.listening.is_here_alone and not given.behind_proxy and not sys.platform.startswith("linux"):
        yield "This system does not say whose a connection is, so tools that run as you can reach the page; they have no sign-in."


def entrance(address: str, code: str) -> str:
    """Return the address with a code in it."""
    return f"{address}/enter?code={quote(code)}"


def show_address(address: str) -> None:
    """Print an address, and on a terminal what a telephone's camera reads."""
    if is_terminal():
        say(presented(drawn(address)))
    say("{}", address)


def drawn(address: str) -> str:
    """Draw the code of an address: in white on black, whatever the terminal's own colours are, for many cameras read no other."""
    import segno

    code = io.StringIO()
    segno.make(address, error="l").terminal(out=code, compact=True, border=1)
    return "\n".join(f"\x1b[97;40m{row}\x1b[0m" for row in code.getvalue().splitlines())


def _check_extra() -> None:
    try:
        importlib.import_module("midturn.web")  # says what is missing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "midturn":
            raise
        raise ConfigError(str(error)) from None


def _check(given: Serve) -> None:
    if given.user_header and not given.behind_proxy:
        raise click.UsageError("`--user-header` is believed only where a proxy sets it: add `--behind-proxy`.")
    if given.user_header and not (given.proxy_secret_file or given.unix_socket):
        raise click.UsageError(
            f"Every user of this machine can send the header {given.user_header}. Have the proxy send a secret, too "
            "(`--proxy-secret-file`), or let it alone reach the page (`--unix-socket`)."
        )
    if given.unix_socket and not (given.behind_proxy and given.url):
        raise click.UsageError("Only a proxy reaches a Unix socket: add `--behind-proxy`, and its address with `--url`.")
    if refusal := given.listening.refusal:
        raise click.UsageError(refusal)
    if given.host in _EVERYWHERE and not given.url:
        raise click.UsageError(f"{given.host} is every address of this machine: say under which one people reach it with `--url`.")
    if given.url and urlsplit(given.url).scheme not in SCHEMES:
        raise click.UsageError("`--url` is a whole address, such as `https://questions.example.org`.")


def _open(given: Serve, address: str) -> None:
    """Open the page by a file that only the user can read: on a command line, everybody could read the code."""
    file = directory_of(given.port) / OPENED
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as writing:
        writing.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><title>midturn</title>')
    if not webbrowser.open(file.as_uri()):
        tell("No browser could be opened; open the address above.")


def _on_enter(invite: Callable[[], None]) -> bool:
    """Print another code when Enter is pressed; return whether there is a person to press it."""
    if not sys.stdin or not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
        return False
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def pressed() -> None:
        if os.read(descriptor, 1024):
            invite()
        else:
            loop.remove_reader(descriptor)

    loop.add_reader(descriptor, pressed)
    return True
