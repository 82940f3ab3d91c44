"""Groups of commands whose modules are loaded when they are called: `--help` costs nothing of what a command needs."""

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
"""The variable with which a shell asks for completions; the shell's line is in others, and there are no arguments."""
_NARROW = 52
_BEGINNING = 2  # letters that say enough of a command
_NAMES = 4  # columns for names; a longer one has a line of its own


class HelpContext(click.Context):
    """A context whose help fits the terminal."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter for the terminal's width."""
        width = columns(sys.stdout)
        return super().make_formatter() if width is None or width >= _NARROW else _NarrowFormatter(width=width)


class _NarrowFormatter(click.HelpFormatter):
    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = _NAMES, col_spacing: int = 2) -> None:
        """Write names with what they mean below them."""
        super().write_dl(rows, col_max=min(col_max, _NAMES), col_spacing=col_spacing)


class CommandEntry(Struct, frozen=True):
    """One command: its home as entry points name theirs (`module:name`; `command` where only a module is named), and what it does."""

    home: str
    help: LiteralString


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP = click.Option(
    ["show_help", "-h", "--help"], is_flag=True, expose_value=False, is_eager=True, callback=_show_help, help="Show this message and exit."
)
_C = TypeVar("_C", bound=click.Command)


def with_help(command: _C) -> _C:
    """Give a command `--help` in words of ours: for its own, click looks for translations at each start, and loads locales for that."""
    if _HELP not in command.params:
        command.params.append(_HELP)
    return command


class LazyGroup(click.Group):
    """A group whose `sections` name its commands under headings; `shortcuts` are other names for some of them."""

    sections: Mapping[str, Mapping[str, CommandEntry]] = {}
    shortcuts: Mapping[str, str] = {}
    meanings: Mapping[str, str] = {}
    """Words that people try for a command, with what they are called here, further words included."""
    gone: Mapping[str, str] = {}
    """Commands of earlier versions, each with what to do instead."""
    context_class = HelpContext

    @property
    def entries(self) -> dict[str, CommandEntry]:
        """Every command by name."""
        return {name: entry for section in self.sections.values() for name, entry in section.items()}

    @property
    def added(self) -> Mapping[str, str]:
        """The packages that add further commands, by the names of these."""
        return {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of all commands."""
        return [*self.entries, *self.added]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        entry = self.entries.get(self.shortcuts.get(cmd_name, cmd_name))
        if entry is None:
            return self._added(cmd_name, ctx) if cmd_name in self.added else None
        module, _, name = entry.home.partition(":")
        command = with_help(cast("click.Command", getattr(importlib.import_module(module), name or "command")))
        command.context_class = HelpContext
        return command

    def _added(self, name: str, ctx: click.Context) -> click.Command | None:
        try:
            return self.from_a_package(name)
        except ConfigError:
            if ctx.resilient_parsing:  # a shell that completes a line has no use for it, and offers the others
                return None
            raise

    def from_a_package(self, name: str) -> click.Command:
        """Load a command that a package adds."""
        raise NotImplementedError(name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name."""
        first = args[0]
        if self.shortcuts.get(first, first) not in self.entries and first not in self.added:
            instead = f" any more. {self.gone[first]}" if first in self.gone else f".{self._hint(first)}"
            raise click.UsageError(f"There is no command {first!r}{instead}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return self.shortcuts.get(name or "", name), command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """List the commands under their headings, without loading one."""
        names = {full: short for short, full in self.shortcuts.items()}
        for heading, section in self.sections.items():
            with formatter.section(heading):
                rows = [(f"{name}, {names[name]}" if name in names else name, entry.help) for name, entry in section.items()]
                formatter.write_dl(rows)
        if added := self.added:
            with formatter.section("From other packages"):
                formatter.write_dl([(name, f"Of {exact(package)}.") for name, package in added.items()])

    def _hint(self, unknown: str) -> str:
        word = unknown.casefold()
        known = [*self.entries, *self.added]
        begun = [name for name in known if len(word) >= _BEGINNING and name.startswith(word)]
        words = [*known, *self.shortcuts, *self.meanings]
        swapped = [name for name in words if sorted(name) == sorted(word)]
        close = next(iter(swapped), None) or nearest(word, words)
        meant = [self.meanings[word]] if word in self.meanings else begun or ([self.meanings.get(close, close)] if close else [])
        return f" Did you mean `{meant[0]}`?" if meant else self.advice(unknown)

    def advice(self, unknown: str) -> str:
        """Say what else could be meant by a command that there is not."""
        del unknown
        return f" There are: {', '.join([*self.entries, *self.added])}."


def lazy_group(name: str, help: str, commands: Mapping[str, CommandEntry], meanings: Mapping[str, str] | None = None) -> LazyGroup:
    """Make a group of commands under one heading."""
    group = LazyGroup(name, help=help)
    group.sections = {"Commands": commands}
    group.meanings = meanings or {}
    return group
