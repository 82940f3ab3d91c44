"""The log: errors and warnings, and with `MIDTURN_LOG=debug` all model requests and responses.

Commands write it to a file. Servers can write it to stderr instead, as JSON, for a platform's log
collector.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from midturn.cli.output import block, json_line, line, note, write_notes_with
from midturn.config.places import shown, state_directory
from midturn.errors import ConfigError
from midturn.question.json_value import Json
from midturn.question.text import exact
from midturn.security.private_files import ensure_private
from midturn.security.process_ancestry import harden_process

if TYPE_CHECKING:
    from midturn.stores.store import ConversationStore

VARIABLE = "MIDTURN_LOG"
LEVELS = ("debug", "info", "warning", "error")
_DEFAULT_LEVEL = "warning"
_LOGGERS = ("midturn", "asyncio", "py.warnings", "psycopg")
"""Loggers whose records are written.

`asyncio` logs tasks that were never awaited, `py.warnings` logs Python's warnings, and `psycopg`
logs lost connections.
"""
_ONLY_ERRORS = {"warning": ("asyncio", "psycopg")}
"""Loggers that write only errors, by log level.

psycopg warns at each attempt to reach an unavailable database, but the store reports this once.
"""
_OUTAGES = "midturn.store.away"
"""Logger for database outages. The user also sees its messages."""
_NOTICES = "midturn.notices"
"""Logger for the messages to the user (`cli.output.note`) when the log goes to stderr."""
_LOG = logging.getLogger("midturn")


def log_file() -> Path:
    """Return the path of the log file, in the user's state directory."""
    return state_directory() / "midturn.log"


def begin_command(environment: Mapping[str, str]) -> None:
    """Set up the process: protect its memory from other processes, and start the log.

    Raises:
        ConfigError: See `start_log`.
    """
    harden_process()
    start_log(environment)


def start_log(environment: Mapping[str, str]) -> None:
    """Write log records to the log file, never to the terminal. The file is created with the first
    record.

    Raises:
        ConfigError: `MIDTURN_LOG` is not a valid level.
    """
    level = environment.get(VARIABLE, "").strip().lower() or _DEFAULT_LEVEL
    if level not in LEVELS:
        raise ConfigError(
            f"{VARIABLE}: `{environment[VARIABLE]}` is not a log level; expected"
            f" {', '.join(LEVELS)}."
        )
    handler = _PrivateFile(log_file())
    handler.setFormatter(_OneLine("%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(
            logging.ERROR if name in _ONLY_ERRORS.get(level, ("asyncio",)) else level.upper()
        )
        logger.propagate = False
    logging.getLogger(_OUTAGES).handlers = [_StderrHandler()]
    root = logging.getLogger()  # for libraries that use other loggers
    root.handlers = [
        *(other for other in root.handlers if not isinstance(other, _PrivateFile)),
        handler,
    ]
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_thread
    sys.unraisablehook = _log_unraisable


def log_as_json() -> None:
    """From now on, write log records and the messages of `note` to stderr.

    Each is one JSON object on one line. Call this function after `start_log`.

    Each object has `time` (RFC 3339, UTC), `level`, `logger`, `process` and `message`, and
    `exception` if there is a traceback.
    """
    handler = _JsonHandler()
    for name in (*_LOGGERS, ""):
        logger = logging.getLogger(name)
        logger.handlers = [
            *(other for other in logger.handlers if not isinstance(other, _PrivateFile)),
            handler,
        ]
    logging.getLogger(_OUTAGES).handlers = []  # the handler of the parent logger writes its records
    notices = logging.getLogger(_NOTICES)
    notices.setLevel(logging.INFO)

    def log_notice(message: str, is_failure: bool) -> None:  # noqa: FBT001  see `write_notes_with`
        level = logging.ERROR if is_failure else logging.INFO
        notices.log(level, "%s", message.removeprefix("midturn: "))

    write_notes_with(log_notice)


def log_unexpected(error: BaseException) -> None:
    """Log an unexpected error with its traceback, even if no command has started the log."""
    if not _LOG.handlers:
        start_log({})
    _LOG.error("unexpected", exc_info=error)


def tell_unexpected(error: Exception) -> None:
    """Log an unexpected error with its traceback, and print its message with the path
    of the log.
    """
    log_unexpected(error)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename if isinstance(error.filename, str) else ""
        note(
            "midturn: {}{}. The log has the details: {}",
            f"{name}: " if name else "",
            error.strerror,
            shown(log_file()),
        )
    else:
        what = f"{type(error).__name__}: {error}"
        note(
            "midturn: unexpected error ({}). The log has the details: {}",
            what[:300],
            shown(log_file()),
        )


def start_measuring(environment: Mapping[str, str], store: ConversationStore) -> None:
    """Record spans and metrics if the environment configures OpenTelemetry, as
    `opentelemetry-instrument` does.

    Do nothing if the user's program, which the command loaded, already enabled them.
    """
    if not any(name.startswith("OTEL_") for name in environment):
        return
    try:
        from midturn import otel  # imported lazily: rarely needed
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "midturn":
            raise
        _LOG.warning("%s", error)
        return
    if not otel.OBSERVERS:
        otel.instrument()
        otel.measure(store=store)


class _OneLine(logging.Formatter):
    """Formats a record as one line, with control characters made visible."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        return exact(super().format(record))


class _PrivateFile(logging.Handler):
    """Log file that only its user can read.

    Each record is written with one `write` call. Write errors are ignored, because they cannot be
    reported anywhere.
    """

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


class _JsonHandler(logging.Handler):
    """Writes each record to stderr as one line of JSON.

    Write errors are ignored, because they cannot be reported anywhere.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        shown: dict[str, Json] = {
            "time": (
                datetime.fromtimestamp(record.created, UTC)
                .isoformat(timespec="milliseconds")
                .replace("+00:00", "Z")
            ),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            shown["exception"] = _TRACEBACKS.formatException(record.exc_info)
        with suppress(OSError, ValueError):  # ValueError: stderr is closed
            sys.stderr.write(json_line(shown, sys.stderr))
            sys.stderr.flush()


_TRACEBACKS = logging.Formatter()


class _StderrHandler(logging.Handler):
    """Prints records on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        note(line("midturn: {}", block(record.getMessage())))


def _log_thread(args: threading.ExceptHookArgs) -> None:
    _LOG.error("in thread %s", args.thread.name if args.thread else "?", exc_info=args.exc_value)


def _log_unraisable(args: sys.UnraisableHookArgs) -> None:
    _LOG.error("%s %r", args.err_msg or "ignored", args.object, exc_info=args.exc_value)
