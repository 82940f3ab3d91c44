"""Files that are installed next to the package: man page, shell completions, and the JSON Schema
of the configuration.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from midturn.cli.completing import completion_script
from midturn.cli.main import midturn
from midturn.config.keys import KEYS, Leaf, Node
from midturn.question.answer_schema import KEYWORDS
from midturn.question.json_value import Json
from support.command_tables import options_of
from support.documents import ROOT

SHARE = ROOT / "share"
_SHELLS: Mapping[str, str] = {
    "bash-completion/completions/midturn": "bash",
    "zsh/site-functions/_midturn": "zsh",
    "fish/vendor_completions.d/midturn.fish": "fish",
}
_TYPES: Mapping[str, Json] = {
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "seconds": {"type": ["number", "string"]},
    "argv": {"type": ["string", "array"], "items": {"type": "string"}},
    "string": {"type": "string"},
    "model": {"type": "string"},
    "cache": {"type": "string"},
    "variable": {"type": ["string", "boolean"]},
    "paths": {"type": ["string", "array"], "items": {"type": "string"}},
    "json": {},
    "keyword": {},
    "json_type": {"type": ["string", "array"]},
    "required": {"type": ["boolean", "array"]},
    "rules": {"type": "array", "items": {"type": "object"}},
    "people": {"type": "object"},
    "names": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
}


def shared_files() -> dict[Path, str]:
    """Return the content of each file."""
    shells = {SHARE / name: completion_script(midturn, shell) for name, shell in _SHELLS.items()}
    schema = json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n"
    return {
        SHARE / "man/man1/midturn.1": man_page(),
        SHARE / "midturn/config.schema.json": schema,
        **shells,
    }


def configuration_schema() -> Mapping[str, Json]:
    """Return the JSON Schema of a configuration file, generated from the table of keys."""
    head: dict[str, Json] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "midturn configuration",
    }
    return {**head, **_schema(KEYS)}


def _schema(node: Node) -> dict[str, Json]:
    if isinstance(node, Leaf):
        return _leaf(node)
    table: dict[str, Json] = {
        "type": "object",
        "properties": {name: _schema(child) for name, child in node.keys.items()},
    }
    table["additionalProperties"] = False
    if node.names is not None:
        names = "|".join(map(re.escape, KEYWORDS)) if node.names.refusal else node.names.pattern
        table["patternProperties"] = {f"^({names})$": _schema(node.names.node)}
        if node.names.star is not None:
            table["properties"] = {**_properties(table), "*": _schema(node.names.star)}
    return {"anyOf": [_leaf(node.shorthand.leaf), table]} if node.shorthand else table


def _properties(table: Mapping[str, Json]) -> Mapping[str, Json]:
    found = table["properties"]
    assert isinstance(found, Mapping)
    return found


def _leaf(leaf: Leaf) -> dict[str, Json]:
    found = _TYPES[leaf.kind]
    assert isinstance(found, Mapping)
    bounds = {"minimum": leaf.minimum, "maximum": leaf.maximum}
    written: dict[str, Json] = {
        **found,
        **{name: bound for name, bound in bounds.items() if bound is not None},
    }
    if leaf.allowed:
        written = {"enum": [*leaf.allowed, *leaf.aliases]}
    return {"description": leaf.help, **written} if leaf.help else written


def man_page() -> str:
    """Return the manual page of the command and all its subcommands."""
    context = click.Context(midturn, info_name="midturn")
    rows = [
        '.TH MIDTURN 1 "" "midturn" "User Commands"',
        ".SH NAME",
        "midturn \\- the question layer for AI agents",
    ]
    rows += [
        ".SH SYNOPSIS",
        ".B midturn",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        *_prose(midturn.help),
    ]
    rows += [
        ".SH COMMANDS",
        *_commands(context),
        ".SH FILES",
        ".TP",
        ".I .midturn/config.toml",
        "the configuration of a workspace",
    ]
    return "\n".join(rows) + "\n"


def _commands(context: click.Context) -> Iterator[str]:
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(below)
            continue
        usage = " ".join(command.collect_usage_pieces(below))
        yield from (".SS " + _roff(f"{below.command_path} {usage}"), *_prose(command.help))
        for option in options_of(command):
            yield from (
                ".TP",
                f".B {_roff(', '.join([*option.opts, *option.secondary_opts]))}",
                _roff(option.help or ""),
            )


def _prose(text: str | None) -> list[str]:
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return [
        _roff(" ".join(one.split())) if not number else ".PP\n" + _roff(" ".join(one.split()))
        for number, one in enumerate(paragraphs)
    ]


def _roff(text: str) -> str:
    """Escape text for roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
