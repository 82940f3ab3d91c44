"""What is asked: the words of the command line, and what is piped into stdin."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence

import click

from midturn.cli.output import note

_PATIENCE = 2.0  # seconds of silence, after which we say what we are waiting for


def request_text(words: Sequence[str]) -> str:
    """Return the words, and after them what is piped into stdin; with neither, what is written in the person's editor.

    Raises:
        click.UsageError: Both are empty, or stdin is not text.
    """
    text = "\n\n".join(part for part in (" ".join(words), _piped()) if part.strip())
    text = text or _edited()
    if not text:
        raise click.UsageError('There is nothing to ask. Write `midturn query "…"`, or pipe text into it.')
    return text


def _edited() -> str:
    """Let the person write in their editor, if somebody is at a terminal; nothing where nobody is, or where nothing was written."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return ""
    written = click.edit("\n# What do you want to ask? Lines that begin with # are left out.\n", extension=".md")
    return "\n".join(row for row in (written or "").splitlines() if not row.startswith("#")).strip()


def _piped() -> str:
    """Read stdin to its end, if it is a pipe, a socket or a file."""
    try:
        if sys.stdin is None or not _has_text(os.fstat(sys.stdin.fileno()).st_mode):
            return ""
        if not select.select([sys.stdin], [], [], _PATIENCE)[0]:
            note("midturn: reading stdin to its end. With nothing to pipe in, end it with Ctrl-C and add `< /dev/null`.")
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"What is piped into stdin is not UTF-8 text (byte {error.start}).") from error
    except (OSError, ValueError) as error:
        raise click.UsageError(f"stdin cannot be read: {error}.") from error


def _has_text(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)
