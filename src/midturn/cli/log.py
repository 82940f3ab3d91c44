"""The log: what went wrong behind the scenes, and with `MIDTURN_LOG=debug` what models are sent and answer."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from midturn.cli.output import block, line, note
from midturn.config.places import shown, state_directory
from midturn.errors import ConfigError
from midturn.question.text import exact
from midturn.security.private_files import ensure_private
from midturn.security.process_ancestry import keep_to_itself

if TYPE_CHECKING:
    from midturn.stores.store import ConversationStore

VARIABLE = "MIDTURN_LOG"
LEVELS = ("debug", "info", "warning", "error")
_USUAL = "warning"
_OURS = ("midturn", "asyncio", "py.warnings", "psycopg")
"""asyncio reports tasks that were never awaited, py.warnings what Python warns of, psycopg each connection that is lost."""
_ONLY_ERRORS = {"warning": ("asyncio", "psycopg")}
"""Each try to reach a database that is away is one of psycopg's warnings: the store says once that it is."""
_SAID = "midturn.store.away"
"""Logger of what the waiting person is told as well."""
_LOG = logging.getLogger("midturn")


def log_file() -> Path:
    """Return where the log is, in the user's state directory."""
    return state_directory() / "midturn.log"


def begin_command(environment: Mapping[str, str]) -> None:
    """Do what every command begins with: no other process reads this one's memory, and what goes wrong is logged.

    Raises:
        ConfigError: See `start_log`.
    """
    keep_to_itself()
    start_log(environment)


def start_log(environment: Mapping[str, str]) -> None:
    """Send what is logged to the file, never to the terminal; the file is made with the first line.

    Raises:
        ConfigError: `MIDTURN_LOG` names no level.
    """
    level = environment.get(VARIABLE, "").strip().lower() or _USUAL
    if level not in LEVELS:
        raise ConfigError(f"{VARIABLE}: `{environment[VARIABLE]}` is not a level; allowed are {', '.join(LEVELS)}.")
    handler = _PrivateFile(log_file())
    handler.setFormatter(_OneLine("%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"))
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.ERROR if name in _ONLY_ERRORS.get(level, ("asyncio",)) else level.upper())
        logger.propagate = False
    logging.getLogger(_SAID).handlers = [_Told()]
    root = logging.getLogger()  # libraries that we use have loggers of their own, and some have none
    root.handlers = [*(other for other in root.handlers if not isinstance(other, _PrivateFile)), handler]
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_thread
    sys.unraisablehook = _log_unraisable


def log_unexpected(error: BaseException) -> None:
    """Keep the whole story of an error that should not have happened, even where no command was found yet."""
    if not _LOG.handlers:
        start_log({})
    _LOG.error("unexpected", exc_info=error)


def tell_unexpected(error: Exception) -> None:
    """Keep the whole story of an error, and say in a line what it was and where the story is."""
    log_unexpected(error)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename if isinstance(error.filename, str) else ""
        note("midturn: {}{}. The log has the details: {}", f"{name}: " if name else "", error.strerror, shown(log_file()))
    else:
        what = f"{type(error).__name__}: {error}"
        note("midturn: something went wrong that should not have ({}). The log has the details: {}", what[:300], shown(log_file()))


def start_measuring(environment: Mapping[str, str], store: ConversationStore) -> None:
    """Make spans and metrics where the environment configures OpenTelemetry, as `opentelemetry-instrument midturn worker …` does.

    A program that the command has loaded, and that measures already, is left alone.
    """
    if not any(name.startswith("OTEL_") for name in environment):
        return
    try:
        from midturn import otel  # only for those who measure
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "midturn":
            raise
        _LOG.warning("%s", error)
        return
    if not otel.OBSERVERS:
        otel.instrument()
        otel.measure(store=store)


class _OneLine(logging.Formatter):
    """Every record on one line in which every character is seen."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record out."""
        return exact(super().format(record))


class _PrivateFile(logging.Handler):
    """A file that only its user reads and writes; a record is one write. Where it cannot be written, that cannot be reported anywhere."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._descriptor: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record."""
        with suppress(OSError):
            if self._descriptor is None:
                ensure_private(self._path.parent)
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self._path, flags, 0o600)
            os.write(self._descriptor, f"{self.format(record)}\n".encode(errors="backslashreplace"))


class _Told(logging.Handler):
    """Says a record on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        note(line("midturn: {}", block(record.getMessage())))


def _log_thread(args: threading.ExceptHookArgs) -> None:
    _LOG.error("in thread %s", args.thread.name if args.thread else "?", exc_info=args.exc_value)


def _log_unraisable(args: sys.UnraisableHookArgs) -> None:
    _LOG.error("%s %r", args.err_msg or "ignored", args.object, exc_info=args.exc_value)
