"""Escaping and layout of printed text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TextIO

import click
import pytest

from midturn.cli import output
from midturn.cli.lazy import LazyGroup
from midturn.cli.main import midturn as midturn_command
from midturn.cli.output import Shown, block, indented, joined, line, moment, spoken, table, wrapped


def test_field_is_one_line_with_visible_characters() -> None:
    assert line("{} asks: {}", "a\x1b", "b\nc") == "a⟨U+001B⟩ asks: b⟨U+000A⟩c"


def test_escaping_is_idempotent() -> None:
    assert line("[{}]", line("{}", "\x07")) == "[⟨U+0007⟩]"
    assert joined(", ", [line("{}", "\x07"), "\x08"]) == "⟨U+0007⟩, ⟨U+0008⟩"


def test_blocks_keep_lines_and_messages_keep_emoji() -> None:
    assert block("a\nb\t\x1b") == "a\nb⟨U+0009⟩⟨U+001B⟩"
    assert spoken("👩‍💻\x1b") == "👩‍💻⟨U+001B⟩"


def test_braces_in_a_field_are_not_formatted() -> None:
    assert line("{}", "{x} {}") == "{x} {}"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the terminal width to 40 columns."""

    def forty(stream: TextIO | None) -> int:
        del stream
        return 40

    monkeypatch.setattr(output, "columns", forty)


ROWS = [
    (line("one"), line("a rather long text that does not fit beside it")),
    (line("three"), line("短い文字列も幅を測らなければならない、端末では")),
]


def test_output_to_a_pipe_is_not_wrapped() -> None:
    assert table(ROWS) == [
        "one    a rather long text that does not fit beside it",
        "three  短い文字列も幅を測らなければならない、端末では",
    ]
    assert wrapped(Shown("x" * 500), None) == ["x" * 500]


@pytest.mark.usefixtures("narrow")
def test_last_column_wraps_with_a_hanging_indent() -> None:
    assert table(ROWS) == [
        "one    a rather long text that does not",
        "       fit beside it",
        "three  短い文字列も幅を測らなければなら",
        "       ない、端末では",
    ]


@pytest.mark.usefixtures("narrow")
def test_last_column_moves_below_on_narrow_terminals() -> None:
    assert table([(line("a name that is long"), line("and what it means, at some length"))]) == [
        "a name that is long",
        "  and what it means, at some length",
    ]


@pytest.mark.usefixtures("narrow")
def test_keys_wrap_after_dots_and_indentation_is_kept() -> None:
    assert wrapped(
        line("    conversation.tools.deploy.parameters.environment.enum = {}", '["staging"]'), None
    ) == [
        "    conversation.tools.deploy.",
        "      parameters.environment.enum =",
        '      ["staging"]',
    ]
    assert wrapped(line("see {} there", "x" * 50), None) == ["see", "x" * 40, "x" * 10 + " there"]


@pytest.mark.usefixtures("narrow")
def test_wrapped_quoted_lines_keep_their_marker() -> None:
    assert table([(line("a name that is long"), line("| +{}", "x  " * 12 + "-y"))]) == [
        "a name that is long",
        "  | +x  x  x  x  x  x  x  x  x  x  x  x",
        "  | …  -y",
    ]


@pytest.mark.usefixtures("narrow")
def test_every_row_of_a_block_has_its_gutter() -> None:
    assert indented(block("x" * 40 + "\n\ny\n\n"), line("| ")) == [
        "| " + "x" * 38,
        "| xx",
        "|",
        "| y",
    ]


def test_empty_table_prints_nothing() -> None:
    assert table([]) == []
    assert output.columns(None) is None


def test_time_has_its_date_unless_it_is_today() -> None:
    now = datetime(2026, 11, 21, 12, 0).astimezone()

    assert moment((now - timedelta(minutes=3)).isoformat(), now) == "11:57"
    assert moment((now - timedelta(days=1)).isoformat(), now) == "2026-11-20 12:00"
    assert moment("once\x1b", now) == "once⟨U+001B⟩"


def test_help_is_plain_ascii() -> None:
    texts = [text for command in _commands(midturn_command) for text in _texts(command)]

    assert len(texts) > 60
    assert [text for text in texts if not text.isascii()] == []


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found)


def _texts(command: click.Command) -> Iterator[str]:
    yield command.help or ""
    yield command.epilog or ""
    if isinstance(command, LazyGroup):
        yield from (entry.help for entry in command.entries.values())
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield parameter.help or ""
            assert parameter.help, (command.name, parameter.name)
