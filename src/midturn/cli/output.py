"""Where a command's words go: its result to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import LiteralString, TextIO

from midturn.cli.layout import wrapped
from midturn.cli.shown import Shown, line
from midturn.core.json_value import Json


def say(text: LiteralString | Shown = "", *fields: object) -> None:
    """Print a line of a listing on stdout: a template of ours with its fields, or shown text."""
    _write(sys.stdout, text if isinstance(text, Shown) else line(text, *fields))


def tell(text: LiteralString | Shown, *fields: object) -> None:
    """Print a sentence on stdout; a terminal gets it wrapped between words."""
    for row in wrapped(text if isinstance(text, Shown) else line(text, *fields), sys.stdout):
        _write(sys.stdout, row)


def note(text: LiteralString | Shown, *fields: object) -> None:
    """Print something beside the result, on stderr; a terminal gets it wrapped between words. Nobody listening is no error."""
    with suppress(OSError):
        for row in wrapped(text if isinstance(text, Shown) else line(text, *fields), sys.stderr):
            _write(sys.stderr, row)


def say_json(value: Json) -> None:
    """Print JSON on stdout; towards a terminal nothing in it can act, for all of it is ASCII."""
    import json  # only where JSON is wanted: most commands print text

    _write(sys.stdout, json.dumps(value, ensure_ascii=_is_terminal(sys.stdout), indent=2))


def say_line(value: Json) -> None:
    """Print JSON on stdout, on a line of its own."""
    _write(sys.stdout, json_line(value, sys.stdout).rstrip("\n"))


def json_line(value: Json, stream: TextIO) -> str:
    """Return JSON on one line, as it is safe to write to `stream`."""
    import json  # as in `say_json`

    text = json.dumps(value, ensure_ascii=_is_terminal(stream), separators=(",", ":"))
    return f"{_encodable(text, stream)}\n"


def is_terminal() -> bool:
    """Say whether a person reads stdout on a terminal."""
    return _is_terminal(sys.stdout)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # it was closed before we began
        return
    stream.write(f"{_encodable(text, stream)}\n")
    stream.flush()


def _encodable(text: str, stream: TextIO) -> str:
    """Write what the stream cannot encode as escapes."""
    encoding = stream.encoding or "utf-8"
    if _is_terminal(stream) and encoding.replace("-", "").lower() != "utf8":
        from midturn.terminal.ascii import as_ascii  # hardly anybody's terminal needs it

        return as_ascii(text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def flush_stdout() -> None:
    """Write what is left, so that Python has nothing to complain about when it ends."""
    if sys.stdout is not None:
        sys.stdout.flush()


def forget_stdout() -> None:
    """Whoever read it is gone: let what is still to be written go nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
