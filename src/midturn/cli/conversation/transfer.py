"""`midturn conversation export`.

`midturn conversation edit`.
"""

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
from midturn.cli.command_context import Place, StoreAddress, find_place, place_of
from midturn.cli.conversation.show import read_for_a_person
from midturn.cli.locked import Held
from midturn.cli.options import Duration, with_conversation, with_conversations, with_store
from midturn.cli.output import ExitStatus, block, is_terminal, line, note, say, table
from midturn.cli.resume import owner_may
from midturn.config.places import configured_keep, own_name, shown, state_directory
from midturn.errors import ConfigError, NotAllowed, StoreError, StoreLocked
from midturn.question.json_value import JsonObject
from midturn.question.question import Question
from midturn.security.authorization import for_people_only
from midturn.security.private_files import LONGEST_IMPORT, ensure_private, read_private, read_regular, user_data, write_parts_private
from midturn.stores.conversation import turns_in
from midturn.stores.export import Copied, Copying, History, Unreadable, export_jp, export_jsonl, export_markdown
from midturn.stores.jp import BASE_CONFIG, JpFiles, labels_lost, read_jp, shortened_for_jp
from midturn.stores.jp_check import refused_by_jp
from midturn.stores.log_tail import NAME, Part, is_jp
from midturn.stores.metadata import Metadata
from midturn.stores.opening import store_at
from midturn.stores.store import ConversationStore
from midturn.stores.workspace import Workspace, trustworthy
from midturn.terminal.editor import NoEdit, editor_command
from midturn.turn.people import listed

if TYPE_CHECKING:
    from midturn.events.open_question import OpenQuestion
    from midturn.stores.pruning import Prunable

# ----------------------------------------------------------------------------------------------------------------------
# `conversation export`: a conversation as a file for other people


def write_export(store: ConversationStore, id: str, form: str, to: Path | None) -> ExitStatus:
    """Write a conversation in a format; a terminal gets it through the one sink, a file or a pipe as it is."""
    if form == "jp":
        return _write_jp(store, id, to)
    parts = store.parts_sync(id)
    content = export_jsonl(line for part in parts for line in part.lines) if form == "jsonl" else _markdown(parts)
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
    return (text.encode() for text in export_markdown(turns_in(chain([first], parts)), first.metadata.title))


def _write_jp(store: ConversationStore, id: str, to: Path | None) -> ExitStatus:
    """Write the files of `jp` into a directory."""
    if to is None:
        raise ConfigError("`--format jp` writes several files: name the directory for them with `--to DIR`.")
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
        note("midturn: {} is not from this conversation. Delete it, or export to another directory.", to / BASE_CONFIG)
    return ExitStatus.DONE


def _warn_of_scopes(lines: Sequence[bytes]) -> None:
    """Say what `jp` does not know of decisions that hold for the conversation."""
    standing, questions = shortened_for_jp(lines)
    if standing:
        note("midturn: {} decisions for the rest of the conversation are left out: `jp` remembers for a turn only.", str(standing))
    if questions:
        note("midturn: {} questions have `persistence` = `turn` there, for `conversation` here.", str(questions))


def _warn_of_jp(files: JpFiles, metadata: JsonObject) -> None:
    """Say, before anything is written, what `jp` cannot hold and why it would refuse the conversation."""
    for label in labels_lost(metadata.get("labels")):
        note("midturn: the label {} is left out: in `jp` a label is made of letters, digits, `_` and `-`.", repr(label))
    for reason in refused_by_jp(files):
        note("midturn: `jp` will refuse this conversation. {}.", reason)


def _make_directory(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise StoreError(f"`--to {path}`: it is not a directory. `--format jp` writes several files: name a directory for them.")
    try:
        ensure_private(path)
    except OSError as error:
        raise StoreError(f"`--to {path}`: the directory cannot be created: {error.strerror}.") from error


def _write(path: Path, parts: Iterable[bytes]) -> None:
    try:
        write_parts_private(path, parts)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.") from error


@click.command
@with_conversation
@click.option(
    "--format", "form", type=click.Choice(["markdown", "jsonl", "jp"]), default="markdown", show_default=True, help="What to write."
)
@click.option("--to", type=click.Path(path_type=Path), metavar="PATH", help="The file, or the directory for jp (by default stdout).")
@with_store
def export_command(id: str | None, *, form: str, to: Path | None, store: StoreAddress | None) -> ExitStatus:
    """Export conversation ID (by default the current one)."""
    place = find_place(store)
    return write_export(place.store, place.conversation(id), form, to)


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation import`


@click.command
@click.argument("source", required=False)
@click.option("--id", "only", metavar="ID", help="Of a whole store, take this conversation alone.")
@click.option("--all", "everywhere", is_flag=True, help="Take in what the version before kept, of every workspace that you used with it.")
@with_store
def import_command(source: str | None, *, only: str | None, everywhere: bool, store: StoreAddress | None) -> ExitStatus:
    """Take conversations in from SOURCE, as history.

    SOURCE is another store, in a directory or at `postgresql://...`; the directory of one conversation; a file that `export --format jsonl`
    wrote; or a folder that `jp` recorded. Without it, what lies in this workspace is meant. A turn that is open there is ended here; no
    permission and no flag comes along. What is there already is left alone, so an import that was interrupted can be run again.
    """
    if everywhere:
        if source or only or store:
            raise click.UsageError("`--all` takes in what the version before kept: give neither SOURCE nor `--id` nor `--store`.")
        return _of_the_version_before()
    place = find_place(store)
    if source is None:
        return _all(place, store_at(trustworthy(_brought(place))), only)
    return _all(place, store_at(source), only) if "://" in source else _of_path(place, Path(source), only)


def _of_path(place: Place, path: Path, only: str | None) -> ExitStatus:
    if path.is_file():
        return _lines(place, path)
    if not path.is_dir():
        raise click.UsageError(f"There is nothing at {path}.")
    if is_jp(path):
        recorded = read_jp(path)
        for sentence in recorded.notes:
            note("midturn: {}.", sentence)
        return _added(place, recorded.lines, recorded.as_ours())
    if (path / NAME).is_file():
        return _all(place, store_at(path.absolute().parent), path.absolute().name.partition("-")[0])
    return _all(place, store_at(path), only)


def _brought(place: Place) -> Path:
    brought = place.workspace.brought if place.workspace else None
    if brought is None:
        raise click.UsageError("No conversations lie in this workspace. Give SOURCE: another store, a file, or a folder of `jp`.")
    return brought


def _of_the_version_before() -> ExitStatus:
    """Take in what lies in each workspace, and what `--local` kept of it beside; it was noted which workspaces were used."""
    statuses = [ExitStatus.DONE]
    for workspace in _used_before():
        for folder in (workspace.brought, _kept_beside(workspace)):
            if folder is not None:
                note("midturn: of {}:", shown(workspace.root))
                try:
                    statuses.append(_all(place_of(workspace, workspace.root), store_at(trustworthy(folder)), None))
                except StoreError as error:
                    note(line("midturn: {}", block(str(error))))
                    statuses.append(ExitStatus.ERROR)
    if len(statuses) == 1:
        note("midturn: no workspace has conversations of the version before.")
    return max(statuses)


def _used_before() -> Iterator[Workspace]:
    notes = sorted((state_directory() / "workspaces").glob("*"))
    written = (read_private(note) for note in notes)
    roots = {Path(os.fsdecode(text)) for text in written if text and text.startswith(b"/") and b"\0" not in text}
    here = Workspace.find(Path.cwd())
    for root in sorted(roots | ({here.root} if here else set[Path]())):
        found = Workspace.find(root)
        if found and found.root == root:
            yield found


def _kept_beside(workspace: Workspace) -> Path | None:
    digest = hashlib.sha256(os.fsencode(workspace.root)).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9]+", "-", workspace.root.name)[:40].strip("-") or "workspace"
    folder = user_data() / "workspaces" / f"{name}-{digest}" / "conversations"
    return folder if folder.is_dir() else None


def _lines(place: Place, path: Path) -> ExitStatus:
    """Take in what `export --format jsonl` wrote."""
    try:
        content = read_regular(os.path.realpath(path), LONGEST_IMPORT)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from error
    lines = [row for row in content.split(b"\n") if row.strip()]
    if not lines or not lines[0].lstrip().startswith(b"{"):
        raise StoreError(f"{path} has no lines of JSON, as `midturn conversation export --format jsonl` writes them.")
    return _added(place, lines, Metadata())


def _added(place: Place, lines: Sequence[bytes], metadata: Metadata) -> ExitStatus:
    history = History.of(lines)
    number = place.run(place.port.add([*history.lines, *history.ending], metadata))
    note("midturn: imported as conversation {}.", number)
    if history.ending:
        _say_that_it_was_open(number)
    say("{}", place.files.directories.path(number) if place.is_on_disk else number)
    return ExitStatus.DONE


def _all(place: Place, source: ConversationStore, only: str | None) -> ExitStatus:
    """Copy what another store has; a conversation that is being written or cannot be read is named, and keeps back no other."""
    copying = Copying(source, place.store)
    run = source.run_sync if source.port.needs_loop else place.store.run_sync
    numbers = [only] if only else list(dict.fromkeys(source.ids_sync()))
    left = 0
    for number in numbers:
        try:
            _say(number, run("copy", copying.copy(number)))
        except (StoreLocked, Unreadable) as error:
            left += 1
            note(line("midturn: {}", block(str(error))))
    if not numbers:
        raise StoreError("There is no conversation in that store.")
    if left:
        note("midturn: left behind: {}. Import again when their turns are done or wait, and what is wrong with them is mended.", str(left))
    return ExitStatus.ERROR if left else ExitStatus.DONE


def _say(number: str, copied: Copied) -> None:
    match copied.fate:
        case "was there":
            note("midturn: conversation {} is there already.", number)
            return
        case "renamed":
            note("midturn: another conversation has the id {}; this one is {} here.", number, copied.id)
        case "copied":
            pass
    note("midturn: {}: {}", copied.id, copied.title or "(untitled)")
    if copied.was_open:
        _say_that_it_was_open(copied.id)
    say("{}", copied.id)


def _say_that_it_was_open(number: str) -> None:
    note("midturn: the last turn of {} was open where it came from. Here it is ended, with its answers to read.", number)


@click.command
@with_conversation
@click.option("--title", metavar="TEXT", help="What it is called from now on.")
@click.option("--label", "labels", multiple=True, metavar="TEXT", help="Its labels from now on; may be given several times.")
@click.option("--no-labels", is_flag=True, help="Take its labels away.")
@with_store
def edit_command(id: str | None, *, title: str | None, labels: tuple[str, ...], no_labels: bool, store: StoreAddress | None) -> ExitStatus:
    """Change the title or the labels of conversation ID (by default the current one); with neither, open its file in your editor."""
    if labels and no_labels:
        raise click.UsageError("`--label` sets labels, `--no-labels` takes them away: choose one.")
    for_people_only("edit conversations")
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


def _edit_file(place: Place, number: str) -> ExitStatus:
    """Let the person edit the events; no other process writes meanwhile, and what cannot be read afterwards is said."""
    file = place.files.directories.path(number) / NAME
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or (sys.stdin and sys.stdin.isatty())):
        raise click.UsageError("There is no terminal for an editor: set EDITOR to a command that needs none.")
    with Held.existing(place, number):
        try:
            command_line = [*editor_command(os.environ), str(file)]
            status = subprocess.run(command_line, check=False).returncode  # noqa: S603  the person's own editor
        except (NoEdit, OSError) as error:
            raise StoreError(f"The file cannot be edited: {error}") from error
    read_for_a_person(place, number)
    if status:
        raise StoreError(f"The editor ended with status {status}.")
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation fork`


@click.command
@with_conversation
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Copy the first N turns only.")
@with_store
def fork_command(id: str | None, *, turns: int | None, store: StoreAddress | None) -> ExitStatus:
    """Copy the finished turns of conversation ID (by default the current one) into a new one, and make that the current one."""
    place = find_place(store)
    source = place.conversation(id)
    made = fork(place, source, turns)
    note("midturn: conversation {} begins as {} does; `midturn query -c{}` goes on with it.", made, source, place.option)
    say("{}", made)
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation rm`


@click.command
@with_conversations
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_store
def rm_command(ids: tuple[str, ...], *, yes: bool, store: StoreAddress | None) -> ExitStatus:
    """Remove conversations for good, with their files.

    Where a question is open that is for others to decide, its turn has to be ended first.
    """
    for_people_only("remove conversations")
    place = find_place(store)
    chosen = list(dict.fromkeys(place.conversation(id) for id in ids))  # noqa: A001  the wire's word
    if not yes and not _agreed(place, chosen):
        note("midturn: nothing was removed.")
        return ExitStatus.ERROR
    for number in chosen:
        try:
            place.store.remove_sync(number, user=own_name(os.environ))
        except NotAllowed as refused:
            raise NotAllowed(f"{refused}{owner_may(place, number)}", user=refused.user) from None
        note("midturn: conversation {} was removed.", number)
    return ExitStatus.DONE


def _agreed(place: Place, chosen: list[str]) -> bool:
    waiting = {question.conversation for number in chosen for question in _asked(place, number)}
    for row in table([(line("{}", number), line("{}{}", *_described(place, number, waiting))) for number in chosen]):
        say(row)
    what = "this conversation" if len(chosen) == 1 else f"these {len(chosen)} conversations"
    return confirmed(Question.boolean("remove", f"Remove {what} for good?"), "Add `--yes` to remove without being asked.")


def _asked(place: Place, number: str) -> list[OpenQuestion]:
    try:
        return place.store.pending_sync(number)
    except StoreError:  # it is damaged, as below
        return []


def _described(place: Place, number: str, waiting: set[str]) -> tuple[str, str]:
    try:
        name = place.store.read_sync(number).title
    except StoreError:  # it is damaged, which is a reason to remove it
        name = place.files.directories.path(number).name if place.is_on_disk else ""
    return name, " (waits for an answer)" if number in waiting else ""


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation prune`


@click.command
@click.option("--older", type=Duration(), metavar="90d", help="How long ago the last word was said, at least.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@with_store
def prune_command(*, older: timedelta | None, dry_run: bool, store: StoreAddress | None) -> ExitStatus:
    """Remove finished conversations in which nothing was said for long, and those that never began an hour after they were made.

    `conversation.keep` stands in for `--older`. One with an open turn is never removed, nor one that a process holds. Those of agents
    inside of tools go with the conversation around.
    """
    for_people_only("remove conversations")
    older = older or configured_keep(os.environ)
    if older is None:
        raise click.UsageError("Say how old they must be: `--older 90d`, or `conversation.keep` in your own configuration.")
    place = find_place(store)
    if dry_run:
        return _would_go(place.store.prunable_sync(older))
    pruned = place.store.prune_sync(older)
    for why in pruned.reasons(place.option):
        note(line("midturn: {}", block(why)))
    note("midturn: {}.", msgspec.structs.replace(pruned, left={}))
    return ExitStatus.ERROR if pruned.left else ExitStatus.DONE


def _would_go(found: list[Prunable]) -> ExitStatus:
    for row in table([(line("{}", one.id), line("{}", f"{one.last:%Y-%m-%d}"), line("{}", _named(one))) for one in found]):
        say(row)
    gone = sum(len(one.family) for one in found)
    note("midturn: {} would be removed.", f"{gone} conversation{'' if gone == 1 else 's'}")
    return ExitStatus.DONE


def _named(prunable: Prunable) -> str:
    inside = f" (and {len(prunable.family) - 1} inside of it)" if len(prunable.family) > 1 else ""
    return f"{prunable.title}{inside}" if prunable.why == "finished" else "(never began)"
