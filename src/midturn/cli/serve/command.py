"""`midturn serve`: the open questions on a web page."""

from __future__ import annotations

import asyncio
import importlib
import io
import os
import signal
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_store
from midturn.cli.output import is_terminal, note, say, tell
from midturn.cli.place import find_place
from midturn.cli.serve.given import LOOPBACK, SCHEMES, Serve
from midturn.cli.serve.places import announce, directory_of, find_running, withdraw
from midturn.cli.shown import presented
from midturn.cli.watching import without_echo
from midturn.errors import ConfigError
from midturn.sandbox.doors import for_people_only

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
@click.option("--user-header", metavar="NAME", help="With --behind-proxy: the header in which it says who somebody is.")
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
    from midturn.web.keyring import Keyring

    for_people_only("sign in for one")
    running = find_running(port)
    show_address(entrance(running.url, Keyring(running.directory).new_code()))
    return ExitStatus.DONE


def run_serve(given: Serve) -> ExitStatus:
    """Serve until Ctrl-C."""
    for_people_only("take answers for one")
    _check(given)
    _check_extra()
    place = find_place(given.store)
    from midturn.cli.serve.turns import site_of  # loads what the page needs
    from midturn.web.access import CookieAccess
    from midturn.web.app import application
    from midturn.web.server import Listening, bound, serve

    listening = Listening(host=given.host, port=given.port, certificate=_text(given.tls_cert), key=_text(given.tls_key))
    listener = bound(listening)
    site = site_of(place, given)
    announce(given.port, given.address)

    def invite() -> None:
        if isinstance(site.access, CookieAccess):
            show_address(entrance(given.address, site.access.keyring.new_code()))

    def ready() -> None:
        invite()
        if given.open and isinstance(site.access, CookieAccess):
            _open(given, entrance(given.address, site.access.keyring.new_code()))
        if given.is_here_alone and is_terminal():
            note("Only this machine reaches it. For a phone, have a tunnel lead here, and start again with `--url` and its address.")
        another = "Enter prints another code; " if _on_enter(invite) else ""
        note(f"{another}Ctrl-C ends the server, and turns stay open.")

    try:
        with without_echo():
            received = asyncio.run(serve(application(site, given.hosts), site, listening, listener, ready))
    finally:
        withdraw(given.port)
    if received in (signal.SIGTERM, signal.SIGHUP):
        raise SystemExit(128 + received)
    return ExitStatus.DONE


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
    if (given.tls_cert is None) != (given.tls_key is None):
        raise click.UsageError("A certificate and its key belong together: give both `--tls-cert` and `--tls-key`.")
    if given.user_header and not given.behind_proxy:
        raise click.UsageError("`--user-header` is believed only where a proxy sets it: add `--behind-proxy`.")
    if given.host not in LOOPBACK and not given.tls_cert and not given.behind_proxy:
        raise click.UsageError(
            f"At {given.host} others on the network could read questions, answers and your cookie. Give a certificate (`--tls-cert`, "
            "`--tls-key`), or put a proxy with TLS in front and say `--behind-proxy`."
        )
    if given.host in _EVERYWHERE and not given.url:
        raise click.UsageError(f"{given.host} is every address of this machine: say under which one people reach it with `--url`.")
    if given.url and urlsplit(given.url).scheme not in SCHEMES:
        raise click.UsageError("`--url` is a whole address, such as `https://questions.example.org`.")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _open(given: Serve, address: str) -> None:
    """Open the page by a file that only the user can read: on a command line, everybody could read the code."""
    file = directory_of(given.port) / "open.html"
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as writing:
        writing.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><title>midturn</title>')
    if not webbrowser.open(file.as_uri()):
        tell("No browser could be opened; open the address above.")


def _on_enter(invite: Callable[[], None]) -> bool:
    """Print another code when Enter is pressed; return whether somebody can press it."""
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
