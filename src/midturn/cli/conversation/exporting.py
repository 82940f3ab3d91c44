"""`conversation export`: a conversation as a file for somebody else."""

from __future__ import annotations

import sys
from pathlib import Path

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import is_terminal, note, say
from midturn.cli.shown import block
from midturn.errors import ConfigError, StoreError
from midturn.files.private import ensure_private, write_private
from midturn.store.export import export_jp, export_jsonl, export_markdown
from midturn.store.store import ConversationStore


def write_export(store: ConversationStore, id: str, form: str, to: Path | None) -> ExitStatus:
    """Write a conversation in a format; a terminal gets it through the one sink, a file or a pipe as it is."""
    if form == "jp":
        return _write_jp(store, id, to)
    conversation = store.read_sync(id)
    content = (
        export_jsonl(store.run_sync("lines", store.port.lines(id)))
        if form == "jsonl"
        else export_markdown(conversation.events, conversation.metadata.title).encode()
    )
    if to is not None:
        _write(to, content)
    elif is_terminal():
        say(block(content.decode("utf-8", "replace")))
    elif sys.stdout is not None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    return ExitStatus.DONE


def _write_jp(store: ConversationStore, id: str, to: Path | None) -> ExitStatus:
    """Write the two files of `jp` into a directory."""
    if to is None:
        raise ConfigError("`--format jp` writes two files: name the directory for them with `--to DIR`.")
    files = export_jp(store.run_sync("lines", store.port.lines(id)), store.read_sync(id).metadata.to_json())
    ensure_private(to)
    _write(to / "events.json", files.events)
    _write(to / "metadata.json", files.metadata)
    note("midturn: wrote {} and {}.", to / "events.json", to / "metadata.json")
    return ExitStatus.DONE


def _write(path: Path, content: bytes) -> None:
    try:
        write_private(path, content)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.") from error
