"""Options and arguments that several commands have."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from midturn.cli.command_context import StoreAddress, option_of, place_in
from midturn.cli.completing import complete_models, item
from midturn.config.places import LONGEST_KEPT
from midturn.errors import MidturnError
from midturn.question.text import seconds_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_F = TypeVar("_F", bound=Callable[..., Any])


def _conversations(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of a conversation."""
    del param
    try:
        place = place_in(Path.cwd(), ctx.params.get("store"))
        known = [number for number in place.beginning_with(incomplete) if number.startswith(incomplete)]
        return [
            item(number, place.files.directories.path(number).name.removeprefix(f"{number}-") if place.is_on_disk else "")
            for number in known
        ]
    except (MidturnError, OSError):
        return []  # nothing to choose from: the command itself says why


_OFFERED = 500  # questions: of more, those that have waited longest


def _questions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of an open question, also by its last part, whose beginning is enough for `answer`."""
    del param
    try:
        pending = place_in(Path.cwd(), ctx.params.get("store")).store.pending_sync(limit=_OFFERED)
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
            return StoreAddress(str(value))
        try:
            found = os.stat(value)  # noqa: PTH116  a path may be anything by now
        except OSError:  # it is made with the first conversation
            return StoreAddress(Path(value))
        if not stat.S_ISDIR(found.st_mode):
            self.fail(f"Directory {click.format_filename(value)!r} is a file.", param, ctx)
        if not os.access(value, os.R_OK):
            self.fail(f"Directory {click.format_filename(value)!r} is not readable.", param, ctx)
        return StoreAddress(Path(value))


def with_store(command: _F) -> _F:
    """Add `--store`."""
    what = "Where the conversations are: a directory, or `postgresql://...`."
    gone = without("--sealed", "Conversations are not sealed any more: leave it out. What lies in a store that you name is yours.")
    return click.option("--store", type=_Store(), metavar="DIR|URL", help=what)(gone(command))


class Duration(click.ParamType[timedelta]):
    """A length of time, such as `90d`."""

    name = "duration"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read it."""
        if isinstance(value, timedelta):
            return value
        seconds = seconds_of(value)
        if not seconds or seconds > LONGEST_KEPT:
            self.fail(f"{value!r} is no length of time. Give one such as `90d`, `12h` or `30m`.", param, ctx)
        return timedelta(seconds=seconds)


LOCAL: Final = "Conversations are always kept in your own data directory: leave it out."


def without(flag: str, instead: str) -> Callable[[_F], _F]:
    """Refuse a flag that this command once had, and say what to do `instead`."""

    def refuse(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001  click calls it so
        if value:
            raise click.UsageError(f"`{flag}` is gone. {instead}", ctx)

    return click.option(flag, is_flag=True, hidden=True, expose_value=False, is_eager=True, callback=refuse, help=instead)


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
    return click.option("--non-interactive", is_flag=True, help="Ask no one; the detached policies decide.")(command)


def with_conversation(command: _F) -> _F:
    """Add the argument ID, a conversation; without it, the current one is meant."""
    return click.argument("id", required=False, metavar="[ID]", shell_complete=_conversations)(command)


def with_conversations(command: _F) -> _F:
    """Add the argument ID…, one or more conversations."""
    return click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=_conversations)(command)


def with_question(command: _F) -> _F:
    """Add the argument ID, an open question."""
    return click.argument("id", metavar="ID", required=False, callback=_named, shell_complete=_questions)(command)


def _named(context: click.Context, _: click.Parameter, id: str | None) -> str | None:
    """Say where ids are to be found, which a required argument does not."""
    if id is None and not context.resilient_parsing:
        option = option_of(context.params.get("store"))
        raise click.UsageError(f"Which question? `midturn inbox{option}` lists those that are open, each with its ID.", context)
    return id
