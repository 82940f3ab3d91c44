"""`-t` and `-T`: which tools are offered, in the order given, bare or with a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import click

from midturn.cli.completing import complete_tools
from midturn.core.enabling import Toggle

_F = TypeVar("_F", bound=Callable[..., Any])
_ON, _OFF = "tools_on", "tools_off"
_KEY = "midturn.toggles"
_BARE = ""


def with_toggles(command: _F) -> _F:
    """Add both options; `TogglingCommand` keeps their order."""
    return _toggling("-t", _ON, "Offer a tool, or all of them.")(_toggling("-T", _OFF, "Do not offer a tool, or any.")(command))


def _toggling(flag: str, name: str, help: str) -> Callable[[_F], _F]:
    return click.option(
        flag, name, multiple=True, is_flag=False, flag_value=_BARE, metavar="[TOOL]", help=help, shell_complete=complete_tools
    )


class TogglingCommand(click.Command):
    """A command whose parameter `toggles` holds each `-t` and `-T` in the order given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Where both are given, parse once more for the order alone: what click hands over is sorted by option."""
        given = _in_full(args, self.params)
        rest = super().parse_args(ctx, list(given))
        order = [name for name in (_ON, _OFF) for _ in ctx.params[name]]
        if ctx.params[_ON] and ctx.params[_OFF]:
            _, _, parsed = self.make_parser(ctx).parse_args(args=given)
            order = [param.name for param in parsed if param.name in (_ON, _OFF)]
        ctx.meta[_KEY] = order
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Put the two lists together."""
        given = {_ON: iter(_named(ctx, _ON)), _OFF: iter(_named(ctx, _OFF))}
        ctx.params["toggles"] = tuple(_toggle(name, given[name]) for name in cast("list[str]", ctx.meta[_KEY]))
        return super().invoke(ctx)


def _in_full(args: Sequence[str], params: Iterable[click.Parameter]) -> list[str]:
    """Write the short options at the beginning in full: click takes each for a long one first, and loads what finds similar names."""
    options = [param for param in params if isinstance(param, click.Option) and not param.multiple and param.nargs == 1]
    known = {short: option for option in options for short in option.opts if not short.startswith("--")}
    full = list(args)
    at = 0
    while at < len(full) and (option := known.get(full[at])) and (option.is_flag or at + 1 < len(full)):
        full[at] = next((name for name in option.opts if name.startswith("--")), full[at])
        at += 1 if option.is_flag else 2
    return full


def _named(ctx: click.Context, option: str) -> Sequence[str]:
    return cast("Sequence[str]", ctx.params.pop(option))


def _toggle(option: str, names: Iterator[str]) -> Toggle:
    return Toggle(on=option == _ON, name=next(names) or None)
