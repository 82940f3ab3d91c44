"""`midturn conversation export`, `import`, `edit`, `fork`, `rm` and `prune`."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from midturn.cli.asking import confirmed
from midturn.cli.chat import fork
from midturn.cli.command_context import CommandContext, StoreAddress, find_place, place_of
from midturn.cli.conversation.show import read_with_warnings
from midturn.cli.locked import ConversationLock
from midturn.cli.options import Duration, with_conversation, with_conversations, with_store
from midturn.cli.output import ExitStatus, block, is_terminal, line, note, say, table
from midturn.cli.resume import owner_may
from midturn.config.places import configured_keep, own_name, shown, state_directory
from midturn.errors import ConfigError, NotAllowed, StoreError, StoreLocked
from midturn.question.json_value import JsonObject
from midturn.question.question import Question
from midturn.security.authorization import require_human
from midturn.security.private_files import (
    MAX_IMPORT_BYTES,
    ensure_private,
    read_private,
    read_regular,
    user_data,
    write_parts_private,
)
from midturn.stores.conversation import turns_in
from midturn.stores.export import (
    Copied,
    CopiedHistory,
    Copying,
    Unreadable,
    export_jp,
    export_jsonl,
    export_markdown,
)
from midturn.stores.jp import BASE_CONFIG, JpFiles, labels_lost, read_jp, shortened_for_jp
from midturn.stores.jp_check import refused_by_jp
from midturn.stores.log_tail import NAME, Part, is_jp
from midturn.stores.metadata import Metadata
from midturn.stores.opening import store_at
from midturn.stores.store import ConversationStore
from midturn.stores.workspace import Workspace, trustworthy
from midturn.terminal.editor import NoEdit, editor_command
from midturn.turn.votes import listed

if TYPE_CHECKING:
    from midturn.events.open_question import OpenQuestion
    from midturn.stores.pruning import Prunable

# --------------------------------------------------------------------------------------------------
# `midturn conversation export`


def write_export(store: ConversationStore, id: str, form: str, to: Path | None) -> ExitStatus:
    """Write an exported conversation to a file or to stdout.

    On a terminal, control codes are removed. Files and pipes receive the exact content.
    """
    if form == "jp":
        return _write_jp(store, id, to)
    parts = store.parts_sync(id)
    content = (
        export_jsonl(line for part in parts for line in part.lines)
        if form == "jsonl"
        else _markdown(parts)
    )
    if to is not None:
        _write(to, content)
    elif is_terminal():
        say(block(b"".join(content).decode("utf-8", "replace")))
    elif sys.stdout is not None:
        sys.stdout.buffer.writelines(content)
        sys.stdout.buffer.flush()
    return ExitStatus.DONE


def _markdown(parts: Iterator[Part]) -> Iterator[bytes]:
    first = next(parts)
    return (
        text.encode()
        for text in export_markdown(turns_in(chain([first], parts)), first.metadata.title)
    )


def _write_jp(store: ConversationStore, id: str, to: Path | None) -> ExitStatus:
    """Write the files of a `jp` conversation to a directory."""
    if to is None:
        raise ConfigError(
            "`--format jp` writes several files. Set their directory with `--to DIR`."
        )
    metadata = store.read_sync(id).metadata.to_json()
    lines = store.run_sync("lines", store.port.lines(id))
    files = export_jp(lines, metadata)
    _warn_of_jp(files, metadata)
    _warn_of_scopes(lines)
    _make_directory(to)
    for name, content in files.named().items():
        _write(to / name, [content])
    note("midturn: wrote {} to {}.", listed([*files.named()]), to)
    if BASE_CONFIG not in files.named() and (to / BASE_CONFIG).exists():
        note(
            "midturn: {} is not from this conversation. Delete it, or export to another directory.",
            to / BASE_CONFIG,
        )
    return ExitStatus.DONE


def _warn_of_scopes(lines: Sequence[bytes]) -> None:
    """Print warnings about permanent decisions, which `jp` does not support."""
    standing, questions = shortened_for_jp(lines)
    if standing:
        note(
            "midturn: omitted {} decisions that apply to the whole conversation: `jp` only"
            " remembers decisions within a turn.",
            str(standing),
        )
    if questions:
        note(
            "midturn: exported {} questions with `persistence` = `turn` instead of `conversation`.",
            str(questions),
        )


def _warn_of_jp(files: JpFiles, metadata: JsonObject) -> None:
    """Print warnings about labels that `jp` cannot store, and about other reasons why `jp` would
    reject the conversation.
    """
    for label in labels_lost(metadata.get("labels")):
        note(
            "midturn: omitted the label {}: labels in `jp` may only contain letters, digits, `_`"
            " and `-`.",
            repr(label),
        )
    for reason in refused_by_jp(files):
        note("midturn: `jp` will reject this conversation. {}.", reason)


def _make_directory(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise StoreError(
            f"`--to {path}` is not a directory. `--format jp` writes several files and requires a"
            " directory."
        )
    try:
        ensure_private(path)
    except OSError as error:
        raise StoreError(
            f"`--to {path}`: cannot create the directory: {error.strerror}."
        ) from error


def _write(path: Path, parts: Iterable[bytes]) -> None:
    try:
        write_parts_private(path, parts)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror}.") from error


@click.command
@with_conversation
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "jsonl", "jp"]),
    default="markdown",
    show_default=True,
    help="Output format",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Output file; for jp, output directory (default: stdout)",
)
@with_store
def export_command(
    id: str | None, *, form: str, to: Path | None, store: StoreAddress | None
) -> ExitStatus:
    """Export a conversation"""
    place = find_place(store)
    return write_export(place.store, place.conversation(id), form, to)


# --------------------------------------------------------------------------------------------------
# `midturn conversation import`


@click.command
@click.argument("source", required=False)
@click.option("--id", "only", metavar="ID", help="Import one conversation")
@click.option(
    "--all",
    "everywhere",
    is_flag=True,
    help="Import the conversations that an earlier version kept inside workspaces",
)
@with_store
def import_command(
    source: str | None, *, only: str | None, everywhere: bool, store: StoreAddress | None
) -> ExitStatus:
    """Import conversations as history

    SOURCE is a store (directory or postgresql:// URL), the directory of one conversation, a file
    from `export --format jsonl`, or a jp folder. Default: the conversations in this workspace. Open
    turns are ended in the copy; permissions and flags are not imported. Existing conversations are
    skipped, so you can repeat an interrupted import.
    """
    if everywhere:
        if source or only or store:
            raise click.UsageError("`--all` cannot be combined with SOURCE, `--id` or `--store`.")
        return _import_earlier_version()
    place = find_place(store)
    if source is None:
        return _import_store(place, store_at(trustworthy(_workspace_folder(place))), only)
    return (
        _import_store(place, store_at(source), only)
        if "://" in source
        else _import_path(place, Path(source), only)
    )


def _import_path(place: CommandContext, path: Path, only: str | None) -> ExitStatus:
    if path.is_file():
        return _import_jsonl(place, path)
    if not path.is_dir():
        raise click.UsageError(f"{path} does not exist.")
    if is_jp(path):
        recorded = read_jp(path)
        for sentence in recorded.notes:
            note("midturn: {}.", sentence)
        return _add(place, recorded.lines, recorded.as_ours())
    if (path / NAME).is_file():
        return _import_store(
            place, store_at(path.absolute().parent), path.absolute().name.partition("-")[0]
        )
    return _import_store(place, store_at(path), only)


def _workspace_folder(place: CommandContext) -> Path:
    brought = place.workspace.brought if place.workspace else None
    if brought is None:
        raise click.UsageError(
            "This workspace contains no conversations. Pass SOURCE: a store, a file, or a `jp`"
            " folder."
        )
    return brought


def _import_earlier_version() -> ExitStatus:
    """Import the conversations that an earlier version stored inside each workspace, or next to it
    with `--local`.
    """
    statuses = [ExitStatus.DONE]
    for workspace in _earlier_workspaces():
        for folder in (workspace.brought, _local_folder(workspace)):
            if folder is not None:
                note("midturn: importing from {}:", shown(workspace.root))
                try:
                    statuses.append(
                        _import_store(
                            place_of(workspace, workspace.root), store_at(trustworthy(folder)), None
                        )
                    )
                except StoreError as error:
                    note(line("midturn: {}", block(str(error))))
                    statuses.append(ExitStatus.ERROR)
    if len(statuses) == 1:
        note("midturn: no workspace has conversations from an earlier version.")
    return max(statuses)


def _earlier_workspaces() -> Iterator[Workspace]:
    notes = sorted((state_directory() / "workspaces").glob("*"))
    written = (read_private(note) for note in notes)
    roots = {
        Path(os.fsdecode(text))
        for text in written
        if text and text.startswith(b"/") and b"\0" not in text
    }
    current = Workspace.find(Path.cwd())
    for root in sorted(roots | ({current.root} if current else set[Path]())):
        found = Workspace.find(root)
        if found and found.root == root:
            yield found


def _local_folder(workspace: Workspace) -> Path | None:
    digest = hashlib.sha256(os.fsencode(workspace.root)).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9]+", "-", workspace.root.name)[:40].strip("-") or "workspace"
    folder = user_data() / "workspaces" / f"{name}-{digest}" / "conversations"
    return folder if folder.is_dir() else None


def _import_jsonl(place: CommandContext, path: Path) -> ExitStatus:
    """Import a file written by `export --format jsonl`."""
    try:
        content = read_regular(os.path.realpath(path), MAX_IMPORT_BYTES)
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror}.") from error
    lines = [row for row in content.split(b"\n") if row.strip()]
    if not lines or not lines[0].lstrip().startswith(b"{"):
        raise StoreError(f"{path} is not a file from `midturn conversation export --format jsonl`.")
    return _add(place, lines, Metadata())


def _add(place: CommandContext, lines: Sequence[bytes], metadata: Metadata) -> ExitStatus:
    history = CopiedHistory.of(lines)
    number = place.run(place.port.add([*history.lines, *history.ending], metadata))
    note("midturn: imported as conversation {}.", number)
    if history.ending:
        _report_open_turn(number)
    say("{}", place.files.directories.path(number) if place.is_on_disk else number)
    return ExitStatus.DONE


def _import_store(place: CommandContext, source: ConversationStore, only: str | None) -> ExitStatus:
    """Copy the conversations of another store.

    Locked and unreadable conversations are reported and skipped.
    """
    copying = Copying(source, place.store)
    run = source.run_sync if source.port.needs_loop else place.store.run_sync
    numbers = [only] if only else list(dict.fromkeys(source.ids_sync()))
    skipped = 0
    for number in numbers:
        try:
            _report_copy(number, run("copy", copying.copy(number)))
        except (StoreLocked, Unreadable) as error:
            skipped += 1
            note(line("midturn: {}", block(str(error))))
    if not numbers:
        raise StoreError("The store contains no conversations.")
    if skipped:
        note(
            "midturn: skipped {} conversations. Fix the problems above, or wait until their turns"
            " end, and import again.",
            str(skipped),
        )
    return ExitStatus.ERROR if skipped else ExitStatus.DONE


def _report_copy(number: str, copied: Copied) -> None:
    match copied.fate:
        case "was there":
            note("midturn: conversation {} already exists.", number)
            return
        case "renamed":
            note(
                "midturn: the ID {} is used by another conversation; imported as {}.",
                number,
                copied.id,
            )
        case "copied":
            pass
    note("midturn: {}: {}", copied.id, copied.title or "(untitled)")
    if copied.was_open:
        _report_open_turn(copied.id)
    say("{}", copied.id)


def _report_open_turn(number: str) -> None:
    note(
        "midturn: the last turn of {} is open in the source. It was ended in the copy; its answers"
        " are included.",
        number,
    )


@click.command
@with_conversation
@click.option("--title", metavar="TEXT", help="New title")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="TEXT",
    help="New labels (repeatable; replaces existing labels)",
)
@click.option("--no-labels", is_flag=True, help="Remove all labels")
@with_store
def edit_command(
    id: str | None,
    *,
    title: str | None,
    labels: tuple[str, ...],
    no_labels: bool,
    store: StoreAddress | None,
) -> ExitStatus:
    """Change the title or labels, or open the log in your editor

    Without an option, the log is opened.
    """
    if labels and no_labels:
        raise click.UsageError("`--label` and `--no-labels` cannot be combined.")
    require_human("edit conversations")
    place = find_place(store)
    number = place.conversation(id)
    changes: dict[str, str | tuple[str, ...]] = {} if title is None else {"title": title}
    if labels or no_labels:
        changes["labels"] = labels
    if not changes:
        return _edit_file(place, number)
    place.run(place.port.describe(number, **changes))
    note("midturn: conversation {} was changed.", number)
    return ExitStatus.DONE


def _edit_file(place: CommandContext, number: str) -> ExitStatus:
    """Open the log in an editor while the conversation is locked.

    Afterwards, report the events that cannot be read.
    """
    file = place.files.directories.path(number) / NAME
    if not (
        os.environ.get("VISUAL") or os.environ.get("EDITOR") or (sys.stdin and sys.stdin.isatty())
    ):
        raise click.UsageError(
            "There is no terminal for an editor. Set EDITOR to a command that does not need one."
        )
    with ConversationLock.existing(place, number):
        try:
            command_line = [*editor_command(os.environ), str(file)]
            status = subprocess.run(command_line, check=False).returncode  # noqa: S603  configured by the user
        except (NoEdit, OSError) as error:
            raise StoreError(f"Cannot edit the file: {error}") from error
    read_with_warnings(place, number)
    if status:
        raise StoreError(f"The editor exited with status {status}.")
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------------
# `midturn conversation fork`


@click.command
@with_conversation
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Only the first N turns")
@with_store
def fork_command(id: str | None, *, turns: int | None, store: StoreAddress | None) -> ExitStatus:
    """Copy the finished turns into a new conversation and make it current"""
    place = find_place(store)
    source = place.conversation(id)
    forked = fork(place, source, turns)
    note(
        "midturn: created conversation {} from {}. To continue it: `midturn query -c{}`",
        forked,
        source,
        place.option,
    )
    say("{}", forked)
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------------
# `midturn conversation rm`


@click.command
@with_conversations
@click.option("--yes", is_flag=True, help="Skip the confirmation")
@with_store
def rm_command(ids: tuple[str, ...], *, yes: bool, store: StoreAddress | None) -> ExitStatus:
    """Delete conversations permanently

    A conversation with an open question for other people can only be deleted after its turn was
    ended.
    """
    require_human("delete conversations")
    place = find_place(store)
    chosen = list(dict.fromkeys(place.conversation(id) for id in ids))  # noqa: A001  named as in events
    if not yes and not _confirm(place, chosen):
        note("midturn: nothing was deleted.")
        return ExitStatus.ERROR
    for number in chosen:
        try:
            place.store.remove_sync(number, user=own_name(os.environ))
        except NotAllowed as refused:
            raise NotAllowed(f"{refused}{owner_may(place, number)}", user=refused.user) from None
        note("midturn: conversation {} was deleted.", number)
    return ExitStatus.DONE


def _confirm(place: CommandContext, chosen: list[str]) -> bool:
    waiting = {
        question.conversation for number in chosen for question in _open_questions(place, number)
    }
    for row in table(
        [
            (line("{}", number), line("{}{}", *_described(place, number, waiting)))
            for number in chosen
        ]
    ):
        say(row)
    what = "this conversation" if len(chosen) == 1 else f"these {len(chosen)} conversations"
    return confirmed(
        Question.boolean("remove", f"Delete {what} permanently?"),
        "To delete without confirmation, add `--yes`.",
    )


def _open_questions(place: CommandContext, number: str) -> list[OpenQuestion]:
    try:
        return place.store.pending_sync(number)
    except StoreError:  # the conversation is damaged
        return []


def _described(place: CommandContext, number: str, waiting: set[str]) -> tuple[str, str]:
    try:
        name = place.store.read_sync(number).title
    except StoreError:  # the conversation is damaged and can still be deleted
        name = place.files.directories.path(number).name if place.is_on_disk else ""
    return name, " (has open questions)" if number in waiting else ""


# --------------------------------------------------------------------------------------------------
# `midturn conversation prune`


@click.command
@click.option("--older", type=Duration(), metavar="90d", help="Minimum time since the last event")
@click.option("--dry-run", is_flag=True, help="List conversations without deleting them")
@with_store
def prune_command(
    *, older: timedelta | None, dry_run: bool, store: StoreAddress | None
) -> ExitStatus:
    """Delete finished conversations that have been inactive for a period

    Defaults to `conversation.keep`. Open and running conversations are never deleted. Conversations
    of nested agents are deleted with their parent. Conversations without a turn are deleted after
    an hour.
    """
    require_human("delete conversations")
    older = older or configured_keep(os.environ)
    if older is None:
        raise click.UsageError(
            "The period is missing. Pass `--older 90d`, or set `conversation.keep` in your user"
            " configuration."
        )
    place = find_place(store)
    if dry_run:
        return _list_prunable(place.store.prunable_sync(older))
    pruned = place.store.prune_sync(older)
    for why in pruned.reasons(place.option):
        note(line("midturn: {}", block(why)))
    note("midturn: {}.", msgspec.structs.replace(pruned, left={}))
    return ExitStatus.ERROR if pruned.left else ExitStatus.DONE


def _list_prunable(found: list[Prunable]) -> ExitStatus:
    for row in table(
        [
            (line("{}", item.id), line("{}", f"{item.last:%Y-%m-%d}"), line("{}", _named(item)))
            for item in found
        ]
    ):
        say(row)
    count = sum(len(item.family) for item in found)
    note("midturn: {} would be deleted.", f"{count} conversation{'' if count == 1 else 's'}")
    return ExitStatus.DONE


def _named(prunable: Prunable) -> str:
    nested = f" (and {len(prunable.family) - 1} nested)" if len(prunable.family) > 1 else ""
    return f"{prunable.title}{nested}" if prunable.why == "finished" else "(no turns)"
