"""Where a command's words go: every string from outside reaches a terminal through the one sink (spec 9.1)."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from midturn.core.json_value import Json
from midturn.core.visible import exact, exact_block


def say(line: str) -> None:
    """Print a line, or several, of a listing on stdout."""
    _write(sys.stdout, exact_block(line) if _is_terminal(sys.stdout) else line)


def note(line: str) -> None:
    """Print a line, or several, beside the result, on stderr."""
    _write(sys.stderr, exact_block(line) if _is_terminal(sys.stderr) else line)


def cell(text: str) -> str:
    """Return text as one line, for a listing made of several fields."""
    return exact(text)


def say_json(value: Json) -> None:
    """Print JSON on stdout; towards a terminal nothing in it can act, for all of it is ASCII."""
    _write(sys.stdout, json.dumps(value, ensure_ascii=_is_terminal(sys.stdout), indent=2))


def say_json_line(value: Json) -> None:
    """Print JSON on one line of stdout, at once."""
    _write(sys.stdout, json.dumps(value, ensure_ascii=_is_terminal(sys.stdout), separators=(",", ":")))


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()
