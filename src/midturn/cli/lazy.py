"""Click groups that import the module of a command when the command is called, so that `--help`
stays fast.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import LiteralString, TypeVar, cast

import click
from msgspec import Struct

from midturn.cli.output import columns
from midturn.errors import ConfigError
from midturn.question.text import exact, nearest

COMPLETING = "_MIDTURN_COMPLETE"
"""Environment variable that a shell sets to request completions."""
_MIN_TWO_COLUMN_WIDTH = 52
_MIN_PREFIX = 2  # minimum number of typed letters for which a command name is suggested
# width of the name column in cells; after a longer name, the description starts on the next line
_NARROW_NAME_COLUMN = 4


class HelpContext(click.Context):
    """A context whose help fits the width of the terminal."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter for the width of the terminal."""
        width = columns(sys.stdout)
        return (
            super().make_formatter()
            if width is None or width >= _MIN_TWO_COLUMN_WIDTH
            else _NarrowFormatter(width=width)
        )


class _NarrowFormatter(click.HelpFormatter):
    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = _NARROW_NAME_COLUMN,
        col_spacing: int = 2,
    ) -> None:
        """Write each description on the line below its name."""
        super().write_dl(rows, col_max=min(col_max, _NARROW_NAME_COLUMN), col_spacing=col_spacing)


class CommandEntry(Struct, frozen=True):
    """A command: where it is defined (`home`, as `module:name`), and its one-line help.

    `name` defaults to `command`.
    """

    home: str
    help: LiteralString


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP = click.Option(
    ["show_help", "-h", "--help"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_help,
    help="Show this help",
)
_C = TypeVar("_C", bound=click.Command)


def with_help(command: _C) -> _C:
    """Add `--help`. Click's own option is slow: it loads translations and locales at every start."""
    if _HELP not in command.params:
        command.params.append(_HELP)
    return command


class LazyGroup(click.Group):
    """A group with its commands in `sections`. `shortcuts` are alternative names."""

    sections: Mapping[str, Mapping[str, CommandEntry]] = {}
    shortcuts: Mapping[str, str] = {}
    suggestions: Mapping[str, str] = {}
    """Words that users may try, each with the command that is suggested instead."""
    gone: Mapping[str, str] = {}
    """Removed commands, each with advice on what to use instead."""
    context_class = HelpContext

    @property
    def entries(self) -> dict[str, CommandEntry]:
        """All built-in commands by name."""
        return {
            name: entry for section in self.sections.values() for name, entry in section.items()
        }

    @property
    def added(self) -> Mapping[str, str]:
        """The commands from plug-ins, each with the name of its package."""
        return {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of all commands."""
        return [*self.entries, *self.added]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        entry = self.entries.get(self.shortcuts.get(cmd_name, cmd_name))
        if entry is None:
            return self._added(cmd_name, ctx) if cmd_name in self.added else None
        module, _, name = entry.home.partition(":")
        command = with_help(
            cast("click.Command", getattr(importlib.import_module(module), name or "command"))
        )
        command.context_class = HelpContext
        return command

    def _added(self, name: str, ctx: click.Context) -> click.Command | None:
        try:
            return self.from_a_package(name)
        except ConfigError:
            if ctx.resilient_parsing:  # completion skips a broken plug-in
                return None
            raise

    def from_a_package(self, name: str) -> click.Command:
        """Load a command from a plug-in."""
        raise NotImplementedError(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name."""
        first = args[0]
        if self.shortcuts.get(first, first) not in self.entries and first not in self.added:
            if first in self.gone:
                raise click.UsageError(
                    f"The command {first!r} was removed. {self.gone[first]}", ctx
                )
            raise click.UsageError(f"There is no command {first!r}.{self._hint(first)}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return self.shortcuts.get(name or "", name), command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """List the commands under their headings, without importing them."""
        names = {full: short for short, full in self.shortcuts.items()}
        for heading, section in self.sections.items():
            with formatter.section(heading):
                rows = [
                    (f"{name}, {names[name]}" if name in names else name, entry.help)
                    for name, entry in section.items()
                ]
                formatter.write_dl(rows)
        if added := self.added:
            with formatter.section("Plug-ins"):
                formatter.write_dl(
                    [(name, f"From {exact(package)}") for name, package in added.items()]
                )

    def _hint(self, unknown: str) -> str:
        word = unknown.casefold()
        known = [*self.entries, *self.added]
        matching = [name for name in known if len(word) >= _MIN_PREFIX and name.startswith(word)]
        words = [*known, *self.shortcuts, *self.suggestions]
        swapped = [name for name in words if sorted(name) == sorted(word)]
        close = next(iter(swapped), None) or nearest(word, words)
        if word in self.suggestions:
            found = [self.suggestions[word]]
        else:
            found = matching or ([self.suggestions.get(close, close)] if close else [])
        return f" Did you mean `{found[0]}`?" if found else self.advice(unknown)

    def advice(self, unknown: str) -> str:
        """Return advice on an unknown command."""
        del unknown
        return f" Available: {', '.join([*self.entries, *self.added])}."


def lazy_group(
    name: str,
    help: str,
    commands: Mapping[str, CommandEntry],
    suggestions: Mapping[str, str] | None = None,
) -> LazyGroup:
    """Create a group of commands under one heading."""
    group = LazyGroup(name, help=help)
    group.sections = {"Commands": commands}
    group.suggestions = suggestions or {}
    return group
