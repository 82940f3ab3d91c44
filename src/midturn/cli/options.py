"""Options and arguments that several commands share."""

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
from midturn.config.places import MAX_KEEP
from midturn.errors import MidturnError
from midturn.question.text import seconds_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_F = TypeVar("_F", bound=Callable[..., Any])


def _conversations(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a conversation ID."""
    del param
    try:
        place = place_in(Path.cwd(), ctx.params.get("store"))
        known = [
            number for number in place.beginning_with(incomplete) if number.startswith(incomplete)
        ]
        return [
            item(
                number,
                (
                    place.files.directories.path(number).name.removeprefix(f"{number}-")
                    if place.is_on_disk
                    else ""
                ),
            )
            for number in known
        ]
    except (MidturnError, OSError):
        return []  # the command itself reports the error


_MAX_COMPLETIONS = 500  # maximum number of completed questions, oldest first


def _questions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the ID of an open question. The part after the dash is enough."""
    del param
    try:
        pending = place_in(Path.cwd(), ctx.params.get("store")).store.pending_sync(
            limit=_MAX_COMPLETIONS
        )
    except (MidturnError, OSError):
        return []  # the command itself reports the error
    named = [
        (name, question)
        for question in pending
        for name in (question.id, question.id.rpartition("-")[2])
    ]
    offered = [
        (name, question)
        for name, question in named
        if name.startswith(incomplete) and (incomplete or name == question.id)
    ]
    return [
        item(name, f"{question.source.header}: {question.question.text}")
        for name, question in offered
    ]


class _Store(click.ParamType[StoreAddress]):
    """A directory or a database URL."""

    name = "store"

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> StoreAddress:
        """Convert a URL or a path."""
        if "://" in str(value):
            return StoreAddress(str(value))
        try:
            found = os.stat(value)  # noqa: PTH116  pathlib hides errors
        except OSError:  # the directory is created with the first conversation
            return StoreAddress(Path(value))
        if not stat.S_ISDIR(found.st_mode):
            self.fail(f"{click.format_filename(value)!r} is not a directory.", param, ctx)
        if not os.access(value, os.R_OK):
            self.fail(
                f"The directory {click.format_filename(value)!r} is not readable.", param, ctx
            )
        return StoreAddress(Path(value))


def with_store(command: _F) -> _F:
    """Add `--store`."""
    return store_option("Store: a directory or a postgresql:// URL")(command)


def store_option(help: str) -> Callable[[_F], _F]:
    """Add `--store` with another help text."""
    option = click.option("--store", type=_Store(), metavar="DIR|URL", help=help)
    removed = without("--sealed", "Conversations are no longer sealed. Omit the option.")
    return lambda command: option(removed(command))


class Duration(click.ParamType[timedelta]):
    """A duration, such as `90d`."""

    name = "duration"

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Parse a duration."""
        if isinstance(value, timedelta):
            return value
        seconds = seconds_of(value)
        if not seconds or seconds > MAX_KEEP:
            self.fail(
                f"Invalid duration {value!r}. Expected a value such as `90d`, `12h` or `30m`.",
                param,
                ctx,
            )
        return timedelta(seconds=seconds)


LOCAL: Final = "Conversations are always stored in your data directory. Omit the option."


def without(flag: str, instead: str) -> Callable[[_F], _F]:
    """Reject a flag that was removed. The message `instead` names the replacement."""

    def refuse(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
        if value:
            raise click.UsageError(f"The option `{flag}` was removed. {instead}", ctx)

    return click.option(
        flag,
        is_flag=True,
        hidden=True,
        expose_value=False,
        is_eager=True,
        callback=refuse,
        help=instead,
    )


def with_model(command: _F) -> _F:
    """Add `--model`."""
    what = "Model: PROVIDER/NAME or scripted:FILE"
    return click.option(
        "-m", "--model", metavar="MODEL", help=what, shell_complete=complete_models
    )(command)


def with_id(help: str) -> Callable[[_F], _F]:
    """Add `--id` for a conversation."""
    return click.option("--id", metavar="ID", help=help, shell_complete=_conversations)


def with_json(command: _F) -> _F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Output JSON")(command)


def with_log_format(command: _F) -> _F:
    """Add `--log-format`, which takes effect before the command runs."""

    def apply(_context: click.Context, _option: click.Parameter, value: str) -> None:
        if value == "json":
            from midturn.cli.log import log_as_json

            log_as_json()

    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=apply,
        help="Write the log as text to the log file, or as JSON lines to stderr",
    )(command)


def with_output(command: _F) -> _F:
    """Add `--output`."""
    formats = click.Choice(["text", "json", "jsonl"])
    return click.option(
        "--output", type=formats, default="text", show_default=True, help="Output format"
    )(command)


def with_non_interactive(command: _F) -> _F:
    """Add `--non-interactive`."""
    return click.option(
        "--non-interactive", is_flag=True, help="Never prompt; apply the detached policies"
    )(command)


def with_conversation(command: _F) -> _F:
    """Add the optional argument ID for a conversation; the default is the current one."""
    return click.argument("id", required=False, metavar="[ID]", shell_complete=_conversations)(
        command
    )


def with_conversations(command: _F) -> _F:
    """Add the argument ID... for one or more conversations."""
    return click.argument(
        "ids", nargs=-1, required=True, metavar="ID...", shell_complete=_conversations
    )(command)


def with_question(command: _F) -> _F:
    """Add the argument ID for an open question."""
    return click.argument(
        "id", metavar="ID", required=False, callback=_require_question, shell_complete=_questions
    )(command)


def _require_question(context: click.Context, _: click.Parameter, id: str | None) -> str | None:
    """Require an ID. The error message explains where to find one."""
    if id is None and not context.resilient_parsing:
        option = option_of(context.params.get("store"))
        raise click.UsageError(
            f"The question ID is missing. Run `midturn inbox{option}` to list open questions.",
            context,
        )
    return id
