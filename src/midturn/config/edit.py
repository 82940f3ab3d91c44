"""Explains the origin of a configuration value, and changes single values in a file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

import tomlkit
from msgspec import Struct
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Table

from midturn.config.approvals import Approvals, sha256
from midturn.config.assign import nested, parse_key, typed
from midturn.config.check import Checker, known_child
from midturn.config.keys import KEYS, Branch, Leaf, Node
from midturn.config.load import Layer, Loaded
from midturn.config.places import parse, read_bytes
from midturn.config.resolve import effective_tree, spellings
from midturn.config.tree import KeyPath, Origin, Tree, TreeEntry, branch, dotted, entries, entry
from midturn.errors import ConfigError
from midturn.question.json_value import Json
from midturn.security.private_files import ensure_private, write_private

TomlTable: TypeAlias = MutableMapping[str, Any]
Change: TypeAlias = Callable[[TomlTable], None]
"""Function that changes the table that contains the key.

It is applied to the parsed values and to the formatted document.
"""
CheckModel: TypeAlias = Callable[[KeyPath, str], None]
"""Function that raises `ConfigError` if the model ID for this key is invalid."""


class SetValue(Struct, frozen=True):
    """The value that was set, and the hash of the file after the change."""

    value: Json
    sha256: str


def set_value(
    file: Path, name: str, key: str, words: str, check: CheckModel | None = None
) -> SetValue:
    """Set `key` to `words` (TOML, or else a string) in `file`. Messages call the file `name`.

    A missing file is created. A symbolic link is rejected: pass its target.

    Raises:
        ConfigError: The key or value is invalid, or the file cannot be read, written, or edited
            without changing other values.
    """
    path = parse_key(key, "config set")
    value = typed(path, words)
    checker = Checker(Origin("config set"))
    checker.read(nested(path, value))
    if checker.problems:
        raise ConfigError("\n".join(checker.problems))
    if check is not None:
        for place, id in _models(KEYS, nested(path, value), ()):  # noqa: A001  the name of the key
            check(place, id)
    before = read_bytes(file, name, follow=False) or b""
    after = _edited(before.decode(), name, path, lambda table: table.update({path[-1]: value}))
    if (read_bytes(file, name, follow=False) or b"") != before:
        raise ConfigError(
            f"{name}: changed by another program at the same time; nothing was written. Try again"
        )
    _write(file, name, after.encode())
    return SetValue(value, sha256(after.encode()))


def add_rule(file: Path, name: str, path: KeyPath, rule: Json) -> None:
    """Append a rule to the list at `path` in `file`, unless the list contains the rule.

    A missing file is created. Messages call the file `name`.

    Raises:
        ConfigError: The rule is invalid, or the file cannot be read, written, or edited without
            changing other values.
    """
    checker = Checker(Origin("rule"))
    checker.read(nested(path, [rule]))
    if checker.problems:
        raise ConfigError("\n".join(checker.problems))
    _change(file, name, path, lambda table: _appended(table, path[-1], rule))


def remove_rule(file: Path, name: str, path: KeyPath, number: int) -> None:
    """Remove the rule with this number (from 1) from the list at `path`.

    Raises:
        ConfigError: There is no such rule, or the file cannot be read, written, or edited without
            changing other values.
    """

    def without(table: TomlTable) -> None:
        rules = cast("list[Any]", table.get(path[-1], []))
        if not 1 <= number <= len(rules):
            raise ConfigError(f"{name}: `{dotted(path)}` has no rule {number}")
        del rules[number - 1]
        if not rules:
            del table[path[-1]]

    _change(file, name, path, without)


def _appended(table: TomlTable, key: str, rule: Json) -> None:
    rules: Any = table.get(key)
    if rules is not None and rule in rules:
        return
    if rules is not None:
        rules.append(_headed(rule) if isinstance(rules, AoT) else rule)
    elif isinstance(table, Table):
        table[key] = tomlkit.aot()
        table[key].append(_headed(rule))
    else:
        table[key] = [rule]


def _headed(rule: Json) -> Table:
    """Return a rule as a table with its own header and one key per line."""
    found = tomlkit.table()
    for name, value in cast("Mapping[str, Json]", rule).items():
        found[name] = _inline(value)
    return found


def _inline(value: Json) -> Any:
    if not isinstance(value, Mapping):
        return value
    found = tomlkit.inline_table()
    for name, item in value.items():
        found[name] = _inline(item)
    return found


def _change(file: Path, name: str, path: KeyPath, change: Change) -> None:
    """Apply a change to a file, unless another program changes the file at the same time."""
    before = read_bytes(file, name, follow=False) or b""
    after = _edited(before.decode(), name, path, change)
    if (read_bytes(file, name, follow=False) or b"") != before:
        raise ConfigError(
            f"{name}: changed by another program at the same time; nothing was written. Try again"
        )
    _write(file, name, after.encode())


def _models(node: Node, value: Json, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield every model ID in a value, with its key."""
    if isinstance(node, Leaf):
        if node.kind == "model" and isinstance(value, str):
            yield path, value
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from _models(node.child(name), below, (*path, name))


def keep_trust(before: Loaded, after: Loaded, edited: SetValue, approvals: Approvals) -> bool:
    """Approve a workspace file that the user has just edited with midturn.

    The file is not approved if other parts of it were not approved `before`. Only the content that
    midturn wrote is approved. Return whether it was approved.
    """
    written = next(
        (
            file
            for file in after.files
            if file.subject.sha256 == edited.sha256 and not file.approved
        ),
        None,
    )
    if written is None or not all(
        known.approved for known in before.files if known.subject.path == written.subject.path
    ):
        return False
    approvals.approve(written.subject)
    return True


def _edited(text: str, name: str, path: KeyPath, change: Change) -> str:
    """Return the edited text.

    The edit is accepted only if it changes the values at `path` and no others.
    """
    expected = parse(text, name)
    change(_table_of(expected, path, lambda _: {}))
    _drop_empty(expected, path)
    for make in (_sections, _inline_tables):
        with suppress(TOMLKitError, tomllib.TOMLDecodeError, TypeError, ValueError, KeyError):
            after = _with(text, path, change, make)
            if tomllib.loads(after) == expected:
                return after
    raise ConfigError(
        f"{name}: `{dotted(path)}` cannot be changed without changing other values; edit the file"
        " by hand"
    )


def _with(text: str, path: KeyPath, change: Change, make: Callable[[object], TomlTable]) -> str:
    document = tomlkit.parse(text)
    change(_table_of(document, path, make))
    _drop_empty(document, path)
    return tomlkit.dumps(document)


def _table_of(table: TomlTable, path: KeyPath, make: Callable[[object], TomlTable]) -> TomlTable:
    """Return the table that contains the last key of a path.

    Shorthands in the path (`detached = "deny"`) are expanded to tables.
    """
    node: Node = KEYS
    for name in path[:-1]:
        node = node.child(name) if isinstance(node, Branch) else node
        if not isinstance(table.get(name), MutableMapping):
            meant = _spelled_out(table.get(name), node)
            table[name] = make(table)
            table[name].update(meant)
        table = table[name]
    return table


def _drop_empty(table: TomlTable, path: KeyPath) -> None:
    """Remove the tables of the path that are empty after a change."""
    if len(path) > 1 and path[0] in table:
        _drop_empty(table[path[0]], path[1:])
        if not table[path[0]]:
            del table[path[0]]


def _sections(parent: object) -> TomlTable:
    """Create a table with its own header. Inside an inline table, create an inline table."""
    return (
        tomlkit.inline_table()
        if isinstance(parent, InlineTable)
        else tomlkit.table(is_super_table=True)
    )


def _inline_tables(_: object) -> TomlTable:
    """Create an inline table, because a header cannot follow dotted keys."""
    return tomlkit.inline_table()


def _spelled_out(value: Any, node: Node) -> dict[str, Any]:
    if value is None or not isinstance(node, Branch) or node.shorthand is None:
        return {}
    plain = value.unwrap() if hasattr(value, "unwrap") else value
    return {name: meant for name, meant in node.shorthand.expand(plain).items() if name}


def _write(file: Path, name: str, data: bytes) -> None:
    try:
        ensure_private(file.parent)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        write_private(file, data)
        file.chmod(mode)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be written: {error.strerror}") from error


HIDDEN = "(hidden)"


class Setting(Struct, frozen=True):
    """A value in one layer.

    `key` is the key as written in the layer, which may contain `'*'`. `place` is the file and line,
    the flag or the variable.
    """

    layer: str
    key: str
    value: Json
    place: str


class Explanation(Struct, frozen=True):
    """The value of a key, and every setting of it in the layers.

    The settings are sorted by precedence; the first one applies.
    """

    key: str
    value: Json
    settings: tuple[Setting, ...]
    help: str = ""


def show(loaded: Loaded) -> dict[str, Json]:
    """Return the effective values as nested tables. Private values (headers, variables) are
    hidden.
    """
    return _table(effective_tree(loaded.merged), KEYS)


def known_keys(loaded: Loaded) -> Iterator[tuple[str, Leaf]]:
    """Yield every key that can be set, with its leaf.

    User-defined names are limited to the names in the configuration.
    """
    yield from _below(KEYS, show(loaded), ())


def _below(node: Node, values: Json, path: KeyPath) -> Iterator[tuple[str, Leaf]]:
    if isinstance(node, Leaf):
        yield dotted(path), node
        return
    table = values if isinstance(values, dict) else {}
    for name in [*node.keys, *(name for name in table if name not in node.keys and node.names)]:
        yield from _below(node.child(name), table.get(name), (*path, name))


def get(loaded: Loaded, key: str) -> Json:
    """Return the effective value of `key`, or its table.

    Raises:
        ConfigError: The key is unknown, or has no value.
    """
    path, node = _known(key)
    found = _find(loaded.merged, path)
    if found is None:
        raise ConfigError(f"`{dotted(path)}` has no value.")
    return found.value if isinstance(found, TreeEntry) else _readable(found, node)


def explain(loaded: Loaded, key: str) -> tuple[Explanation, ...]:
    """Return the origin of the value of `key`, or of each key in a table.

    Private values are hidden, as in `show`.

    Raises:
        ConfigError: The key is unknown.
    """
    path, node = _known(key)
    found = _find(loaded.merged, path)
    if found is None:
        return (Explanation(dotted(path), None, (), node.help if isinstance(node, Leaf) else ""),)
    leaves = [(path, found)] if isinstance(found, TreeEntry) else list(_leaves(found, path))
    return tuple(_explained(loaded, at, below) for at, below in leaves)


def _leaves(tree: Tree, path: KeyPath) -> Iterator[tuple[KeyPath, TreeEntry]]:
    """Yield the values as written. A shorthand is yielded instead of the values that it sets."""
    for at, found in entries(tree, path):
        if at[-1] != "escalation" or found.at == at:
            yield at, found


def _explained(loaded: Loaded, path: KeyPath, holding: TreeEntry) -> Explanation:
    written = [
        (layer, found, word)
        for layer in reversed(loaded.layers)
        for found, word in _in_layer(layer, path)
    ]
    first = [setting for setting in written if setting[1] is holding]
    others = [setting for setting in written if setting[1] is not holding]
    shown = tuple(name for name in path if name)
    node = _known(dotted(shown))[1]
    settings = tuple(
        Setting(layer.name, dotted(found.at), word, found.place)
        for layer, found, word in (*first, *others)
    )
    value = _value(effective_tree(loaded.merged), path, holding)
    return Explanation(dotted(shown), value, settings, node.help if isinstance(node, Leaf) else "")


def _in_layer(layer: Layer, path: KeyPath) -> Iterator[tuple[TreeEntry, Json]]:
    for spelled in spellings(path):
        found = entry(layer.tree, *spelled)
        if found is not None:
            yield found, _value(layer.tree, spelled, found)


def _value(tree: Tree, path: KeyPath, found: TreeEntry) -> Json:
    """Return a value as written: the shorthand, if it was used instead of a table."""
    if path[-1]:
        return _readable(found, _known(dotted(path))[1])
    if found.value == "user":
        return "user"
    escalates = entry(tree, *path[:-1], "escalation")
    return "assistant_with_escalation" if escalates and escalates.value is True else "assistant"


def _known(key: str) -> tuple[KeyPath, Node]:
    path = parse_key(key, "config")
    node: Node = KEYS
    for length in range(1, len(path) + 1):
        node = known_child(node, path[:length])
    return path, node


def _find(merged: Tree, path: KeyPath) -> TreeEntry | Tree | None:
    effective = effective_tree(merged)
    found = (
        entry(effective, *spelled) or branch(effective, *spelled) for spelled in spellings(path)
    )
    return next(filter(None, found), None)


def _table(tree: Tree, node: Node) -> dict[str, Json]:
    return {
        name: _readable(found, node.child(name) if isinstance(node, Branch) else node)
        for name, found in tree.items()
        if name
    }


def _readable(found: TreeEntry | Tree, node: Node) -> Json:
    if isinstance(found, TreeEntry):
        return (
            HIDDEN
            if isinstance(node, Leaf) and node.private and isinstance(found.value, str)
            else found.value
        )
    who = entry(found, "")
    if who is None:
        return _table(found, node)
    if who.value == "user":
        return "user"
    table = _table(found, node)
    words = {False: "assistant", True: "assistant_with_escalation"}
    return table if table.keys() - {"escalation"} else words[table.get("escalation") is True]
