"""`midturn serve`: serve the open questions on a web page."""

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
from midturn.cli.options import with_log_format, with_store
from midturn.cli.output import ExitStatus, is_terminal, note, notes_are_logged, presented, say, tell
from midturn.cli.serve_options import (
    OPENED,
    SCHEMES,
    Serve,
    announce,
    directory_of,
    find_running,
    open_code_socket,
    own_name,
    withdraw,
)
from midturn.config.places import configured_keep
from midturn.errors import ConfigError
from midturn.http import bound
from midturn.security.authorization import require_human
from midturn.stores.pruning import keep_for

if TYPE_CHECKING:
    pass


_WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104  named in order to reject them


_PORT = click.IntRange(1, 65535)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(invoke_without_command=True)
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on"
)
@click.option(
    "--port", default=7478, show_default=True, type=_PORT, metavar="PORT", help="Port to listen on"
)
@click.option("--open", is_flag=True, help="Open the page in a browser")
@click.option("--user", metavar="NAME", help="Name recorded with answers")
@click.option("--no-resume", is_flag=True, help="Record answers only; do not continue turns")
@click.option(
    "--tls-cert", type=_FILE, metavar="FILE", help="TLS certificate, to listen on other addresses"
)
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Private key of --tls-cert")
@click.option("--behind-proxy", is_flag=True, help="Serve behind a TLS proxy")
@click.option("--user-header", metavar="NAME", help="Header in which the proxy passes the user")
@click.option(
    "--proxy-secret-file",
    type=_FILE,
    metavar="FILE",
    help="File with the secret the proxy sends as X-Midturn-Proxy-Secret",
)
@click.option(
    "--unix-socket",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Listen on a Unix socket instead of a port",
)
@click.option(
    "--forwarded", is_flag=True, help="Accept connections forwarded by SSH or into a container"
)
@click.option("--new-name", is_flag=True, help="Generate a new host name for the page")
@click.option("--url", metavar="URL", help="Public URL of the page")
@with_log_format
@with_store
@click.pass_context
def command(context: click.Context, **given: object) -> ExitStatus:
    """Serve a web page with the open questions

    Prints a URL with a sign-in code that works once, for five minutes. Press Enter for a new code
    and Ctrl-C to stop. Turns are continued after their questions are answered, unless --no-resume
    is given.
    """
    if context.invoked_subcommand is not None:
        return ExitStatus.DONE
    return run_serve(Serve(**given))  # type: ignore[arg-type]  # click has validated the fields


@command.command("code")
@click.option(
    "--port", type=_PORT, metavar="PORT", help="Port of the server, if several are running"
)
def code(*, port: int | None) -> ExitStatus:
    """Print a new sign-in URL for a running server"""
    _check_extra()
    require_human("create a sign-in code")
    running = find_running(port)
    show_address(sign_in_url(running.url, running.new_code()))
    return ExitStatus.DONE


def run_serve(given: Serve) -> ExitStatus:
    """Serve until a signal arrives."""
    require_human("accept answers")
    _check(given)
    _check_extra()
    place = find_place(given.store)
    if given.takes_own_name:
        given = replace(given, name=own_name(given.port, new=given.new_name))
    from midturn.cli.serve_turns import application_of, codes_of, site_of  # slow import
    from midturn.http_server import serve

    start_measuring(os.environ, place.store)
    listeners = bound(given.listening)
    site = site_of(place, given)
    announce(given.port, given.address)
    keep = configured_keep(os.environ)
    background: list[asyncio.Task[None]] = []

    def ready() -> None:
        _announce_page(given, codes_of(site))
        if keep is not None:
            background.append(
                asyncio.get_running_loop().create_task(
                    keep_for(keep, place.store.prune, place.option)
                )
            )

    try:
        with without_echo():
            serving = serve(
                application_of(place, site, given),
                given.listening,
                listeners,
                ready,
                site.board.feed.close,
            )
            received = asyncio.run(serving)
    finally:
        withdraw(given.port)
    if received in (signal.SIGTERM, signal.SIGHUP):
        raise SystemExit(128 + received)
    return ExitStatus.DONE


def _announce_page(given: Serve, new_code: Callable[[], str] | None) -> None:
    """Print the URL.

    If people sign in with codes, print another code whenever Enter is pressed, and serve codes to
    `midturn serve code`.
    """
    another = ""
    if new_code is not None:

        def invite() -> None:
            show_address(sign_in_url(given.address, new_code()))

        if notes_are_logged():  # a sign-in code must not be collected with the log
            note("midturn: run `midturn serve code` on this machine for an address to sign in.")
        else:
            invite()
        listener, serve_client = open_code_socket(given.port, new_code)
        asyncio.get_running_loop().add_reader(listener, serve_client)
        if given.open:
            _open(given, sign_in_url(given.address, new_code()))
        another = "Press Enter for a new code. " if _on_enter(invite) else ""
    for line in _notes(given):
        note("{}", line)
    note(f"{another}Press Ctrl-C to stop the server; turns stay open.")


def _notes(given: Serve) -> Iterator[str]:
    if given.fallback:
        yield f"If the address does not open, go to {given.fallback}/enter and enter the code."
    if given.is_local and is_terminal():
        yield (
            "Only this machine can open the page. To use it on a phone, set up a tunnel and restart"
            " with `--url` and its URL."
        )
    if given.listening.is_local and not given.behind_proxy and not sys.platform.startswith("linux"):
        yield (
            "This system does not identify the process behind a connection. Tools that run as you"
            " can reach the page, but cannot sign in."
        )


def sign_in_url(address: str, code: str) -> str:
    """Return the URL for signing in with a code."""
    return f"{address}/enter?code={quote(code)}"


def show_address(address: str) -> None:
    """Print a URL. On a terminal, also print its QR code."""
    if is_terminal():
        say(presented(qr_code(address)))
    say("{}", address)


def qr_code(address: str) -> str:
    """Draw a QR code in black on white.

    The terminal's theme colours are not used, because many cameras cannot read them.
    """
    import segno

    code = io.StringIO()
    segno.make(address, error="l").terminal(out=code, compact=True, border=1)
    return "\n".join(f"\x1b[97;40m{row}\x1b[0m" for row in code.getvalue().splitlines())


def _check_extra() -> None:
    try:
        importlib.import_module("midturn.web")  # raises an error that names the missing extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "midturn":
            raise
        raise ConfigError(str(error)) from None


def _check(given: Serve) -> None:
    if given.user_header and not given.behind_proxy:
        raise click.UsageError("`--user-header` requires `--behind-proxy`.")
    if given.user_header and not (given.proxy_secret_file or given.unix_socket):
        raise click.UsageError(
            f"Every user of this machine can send the header {given.user_header}. Let the proxy"
            " send a secret as well (`--proxy-secret-file`), or make the page reachable for the"
            " proxy only (`--unix-socket`)."
        )
    if given.unix_socket and not (given.behind_proxy and given.url):
        raise click.UsageError("`--unix-socket` requires `--behind-proxy` and `--url`.")
    if refusal := given.listening.refusal:
        raise click.UsageError(refusal)
    if given.host in _WILDCARD_HOSTS and not given.url:
        raise click.UsageError(
            f"{given.host} stands for all addresses of this machine. Set the URL of the page with"
            " `--url`."
        )
    if given.url and urlsplit(given.url).scheme not in SCHEMES:
        raise click.UsageError(
            f"Invalid `--url` {given.url!r}. Expected a complete URL, for example"
            " https://questions.example.org."
        )


def _open(given: Serve, address: str) -> None:
    """Open the page through a file that only the user can read.

    The URL is not passed on the browser's command line, where other users could read the code.
    """
    file = directory_of(given.port) / OPENED
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as writing:
        writing.write(
            '<!doctype html><meta http-equiv="refresh" content="0;'
            f' url={address}"><title>midturn</title>'
        )
    if not webbrowser.open(file.as_uri()):
        tell("Cannot open a browser. Open the address above.")


def _on_enter(invite: Callable[[], None]) -> bool:
    """Print a new code whenever Enter is pressed. Return False if there is no terminal."""
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
