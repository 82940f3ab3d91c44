"""Options and arguments that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from midturn.cli.completing import complete_models, item
from midturn.cli.place import StoreAddress, find_place
from midturn.errors import MidturnError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_F = TypeVar("_F", bound=Callable[..., Any])


def _conversations(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of a conversation."""
    del param
    try:
        place = find_place(ctx.params.get("store"))
        known = [number for number in place.beginning_with(incomplete) if number.startswith(incomplete)]
        return [item(number, place.files.path(number).name.removeprefix(f"{number}-") if place.is_on_disk else "") for number in known]
    except (MidturnError, OSError):
        return []  # nothing to choose from: the command itself says why


def _questions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of an open question, also by its last part, whose beginning is enough for `answer`."""
    del param
    try:
        pending = find_place(ctx.params.get("store")).store.pending_sync()
    except (MidturnError, OSError):
        return []  # as above
    named = [(name, question) for question in pending for name in (question.id, question.id.rpartition("-")[2])]
    offered = [(name, question) for name, question in named if name.startswith(incomplete) and (incomplete or name == question.id)]
    return [item(name, f"{question.source.header}: {question.question.text}") for name, question in offered]


class _Store(click.ParamType[StoreAddress]):
    """A directory, or the address of a database."""

    name = "store"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> StoreAddress:
        """Tell the two apart."""
        if "://" in str(value):
            return StoreAddress(str(value), _is_sealed(ctx))
        return StoreAddress(Path(os.fsdecode(click.Path(file_okay=False).convert(value, param, ctx))), _is_sealed(ctx))


_SEALED = "midturn.sealed"


def _is_sealed(ctx: click.Context | None) -> bool:
    return bool(ctx and ctx.meta.get(_SEALED))


def _keep_sealed(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001  click calls it so
    ctx.meta[_SEALED] = value


def with_store(command: _F) -> _F:
    """Add `--store`, and `--sealed`, which is a part of what `--store` becomes."""
    what = "Where the conversations are: a directory, or `postgresql://...`."
    sealed = "Seal the conversations of `--store`, and run nothing there that was not begun here; a workspace's always are."
    command = click.option("--sealed", is_flag=True, is_eager=True, expose_value=False, callback=_keep_sealed, help=sealed)(command)
    return click.option("--store", type=_Store(), metavar="DIR|URL", help=what)(command)


def with_model(command: _F) -> _F:
    """Add `--model`."""
    what = "The model of this conversation: PROVIDER/MODEL, or scripted:FILE."
    return click.option("-m", "--model", metavar="MODEL", help=what, shell_complete=complete_models)(command)


def with_id(help: str) -> Callable[[_F], _F]:
    """Add `--id`, a conversation."""
    return click.option("--id", metavar="ID", help=help, shell_complete=_conversations)


def with_json(command: _F) -> _F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def with_output(command: _F) -> _F:
    """Add `--output`."""
    formats = click.Choice(["text", "json", "jsonl"])
    return click.option("--output", type=formats, default="text", show_default=True, help="What stdout carries.")(command)


def with_non_interactive(command: _F) -> _F:
    """Add `--non-interactive`."""
    return click.option("--non-interactive", is_flag=True, help="Ask nobody; the detached policies decide.")(command)


def with_conversation(command: _F) -> _F:
    """Add the argument ID, a conversation; without it, the current one is meant."""
    return click.argument("id", required=False, metavar="[ID]", shell_complete=_conversations)(command)


def with_conversations(command: _F) -> _F:
    """Add the argument ID…, one or more conversations."""
    return click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=_conversations)(command)


def with_question(command: _F) -> _F:
    """Add the argument ID, an open question."""
    return click.argument("id", metavar="ID", shell_complete=_questions)(command)
