"""The tables of commands in `docs/reference/command-line.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from midturn.cli.main import midturn


def command_tables() -> str:
    """Return a section for each command, in the order of `midturn --help`, with its help,
    arguments and options.
    """
    return "\n".join(_commands(click.Context(midturn, info_name="midturn")))


def _commands(context: click.Context) -> Iterator[str]:
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command, name
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield _section(below)
            yield from _commands(below)
        else:
            yield _section(below)


def _section(context: click.Context) -> str:
    usage = " ".join(context.command.collect_usage_pieces(context))
    head = (
        f"### `{context.command_path}"
        f" {usage.removeprefix('[OPTIONS]').removesuffix('[COMMAND] [ARGS]...').strip()}".rstrip()
        + "`\n\n"
    )
    return head + _prose(context.command.help or "") + _options(context)


def _prose(help: str) -> str:
    paragraphs = inspect.cleandoc(help).split("\n\n")
    return "".join(f"{' '.join(paragraph.split())}\n\n" for paragraph in paragraphs)


def options_of(command: click.Command) -> Iterator[click.Option]:
    """Yield the documented options of a command. `--help`, which every command has, is left out."""
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and "--help" not in option.opts:
            yield option


def _options(context: click.Context) -> str:
    options = list(options_of(context.command))
    if not options:
        return ""
    rows = "".join(f"| {_names(option, context)} | {option.help} |\n" for option in options)
    return f"| option | |\n| --- | --- |\n{rows}"


def _names(option: click.Option, context: click.Context) -> str:
    takes = "" if option.is_flag else f" {option.make_metavar(context)}".replace("|", "\\|")
    return ", ".join(f"`{name}{takes}`" for name in (*option.opts, *option.secondary_opts))


def assert_accepted(arguments: list[str], place: str) -> None:
    """Fail if `midturn` does not have this command or option."""
    context = click.Context(midturn, info_name="midturn")
    command: click.Command = midturn
    rest = list(arguments)
    while (
        isinstance(command, click.Group)
        and rest
        and (found := command.get_command(context, rest[0])) is not None
    ):
        command, context = found, click.Context(found, info_name=rest.pop(0), parent=context)
    assert command is not midturn, f"{place}: midturn {' '.join(arguments)}"
    command.make_parser(context).parse_args(rest)  # an unknown option is a usage error
