"""Shared code of `agui serve` and `a2a serve`, whose clients send a token."""

from __future__ import annotations

import importlib
import signal
from pathlib import Path

from midturn.cli.output import ExitStatus, note
from midturn.errors import ConfigError


def check_installed(module: str) -> None:
    """Check that an extra is installed, by importing the module that needs it.

    Raises:
        ConfigError: A package is missing. The message names the extra.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "midturn":
            raise
        raise ConfigError(str(error)) from None


def announce(url: str, token: str | None) -> None:
    """Print the URL of a server that is ready, and the token if it was generated."""
    if token is None:
        note("midturn: serving {}.", url)
    else:
        note(
            "midturn: serving {}. Clients must send the header `Authorization: Bearer {}`.",
            url,
            token,
        )
    note("Press Ctrl-C to stop the server; turns stay open.")


def status_of(received: int) -> ExitStatus:
    """Return the exit status after a signal. Ctrl-C is not an error, because it is the usual way
    to stop a server.

    Raises:
        SystemExit: The signal was SIGTERM or SIGHUP.
    """
    if received in (signal.SIGTERM, signal.SIGHUP):
        raise SystemExit(128 + received)
    return ExitStatus.DONE


def read_token(file: Path) -> str:
    """Read the token from a file.

    Raises:
        ConfigError: Other users can access the file, or the token is too short or contains
            characters that are not printable ASCII.
    """
    from midturn.http_token import MIN_TOKEN_LENGTH

    if file.stat().st_mode & 0o007:
        raise ConfigError(f"Other users can read {file}. Set its mode to 0600.")
    token = file.read_text(errors="replace").strip()
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"The token in {file} is too short. Use at least {MIN_TOKEN_LENGTH} random letters and"
            " digits."
        )
    return token
