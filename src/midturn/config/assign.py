"""Parses single values from flags and environment variables.

The formats are `KEY=VALUE`, `TOOL.QUESTION=VALUE`, and `MIDTURN_CFG_…`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.config.keys import KEYS, Branch, Leaf, Node
from midturn.config.settings import Toggle
from midturn.config.tree import KeyPath, dotted
from midturn.errors import ConfigError
from midturn.question.json_value import Json, JsonObject, canonical

PREFIX = "MIDTURN_CFG_"
ANSWER = "--answer"

_SEGMENT = r"""(?:[A-Za-z0-9_-]+|\*|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_BARE_KEY = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_KEY = rf"\s*{_SEGMENT}(?:\s*\.\s*{_SEGMENT})*\s*"
_TEXT_KINDS = {"string", "model", "cache"}


class Assignment(Struct, frozen=True, omit_defaults=True):
    """One value from a flag or an environment variable.

    The value of `--answer` is stored as a string. It is parsed as JSON if the result is a valid
    answer. Otherwise, the string is the answer.

    Args:
        key: Dotted TOML key; empty if `value` is a whole document.
        value: The value.
        origin: The flag or variable, for messages.
        base: Directory against which a relative `scripted:` file is resolved.
    """

    key: str
    value: Json
    origin: str
    base: str = ""

    def document(self) -> Mapping[str, Any]:
        """Return the value nested in the tables of its key."""
        if self.key:
            return nested(parse_key(self.key, self.origin), self.value)
        if isinstance(self.value, Mapping):
            return self.value
        raise ConfigError(f"{self.origin}: expected a table")


def nested(path: KeyPath, value: Json) -> dict[str, Json]:
    """Return `value` nested in one table per name of `path`."""
    document: Json = value
    for name in reversed(path):
        document = {name: document}
    return document if isinstance(document, dict) else {}


def parse_key(text: str, origin: str) -> KeyPath:
    """Split a dotted TOML key. `*` needs no quotes.

    Raises:
        ConfigError: The text is not a dotted key.
    """
    try:
        # keys without quotes are split directly, which is much faster
        if re.fullmatch(_BARE_KEY, text):
            return tuple(text.split("."))
        if re.fullmatch(_KEY, text):
            return tuple(_unquoted(segment) for segment in re.findall(_SEGMENT, text))
    except tomllib.TOMLDecodeError:
        pass  # an invalid escape sequence
    raise ConfigError(
        f"{origin}: `{text}` is not a valid key; expected a dotted key such as"
        " `conversation.tools.'*'.run`"
    )


def key_value(text: str, origin: str) -> Assignment | None:
    """Parse `KEY=VALUE`.

    Return None if `text` does not start with a key and `=`. It is a file name in this case.
    """
    match = re.match(_KEY, text)
    if match is None or not text.startswith("=", match.end()):
        return None
    path = parse_key(match.group(), origin)
    return Assignment(dotted(path), typed(path, text[match.end() + 1 :]), origin)


def static_answer(text: str) -> Assignment:
    """Parse the `TOOL.QUESTION=VALUE` of `--answer`. The value is returned as a string, unparsed.

    Raises:
        ConfigError: The text has another format.
    """
    match = re.fullmatch(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+|\*)=(.*)", text, re.DOTALL)
    if match is None:
        raise ConfigError(
            f"{ANSWER} {text}: expected TOOL.QUESTION=VALUE, for example deploy.confirm=yes"
        )
    tool, question, words = match.groups()
    return Assignment(
        dotted(("conversation", "tools", tool, "questions", question, "answer")), words, ANSWER
    )


def environment_values(environment: Mapping[str, str]) -> list[Assignment]:
    """Parse all variables `MIDTURN_CFG_A__B__C`. Upper-case names are converted to lower case."""
    found: list[Assignment] = []
    for variable in sorted(environment):
        if variable.startswith(PREFIX):
            names = variable.removeprefix(PREFIX).split("__")
            path = tuple(name.lower() if name.isupper() else name for name in names)
            found.append(Assignment(dotted(path), typed(path, environment[variable]), variable))
    return found


def typed(path: KeyPath, text: str) -> Json:
    """Parse a value as TOML, or else return it as a string.

    If the values of the key are strings, only a quoted value is parsed: `1` stays a string.
    """
    try:
        document = tomllib.loads(f"value = {text}")
    except (
        ValueError,
        RecursionError,
    ):  # not TOML, a number with thousands of digits, or nested too deeply
        return text
    value = document.pop("value")
    meant_as_text = _takes_text(path) and not isinstance(value, str)
    return text if document or meant_as_text or not _is_json(value) else value


def _takes_text(path: KeyPath) -> bool:
    node: Node = KEYS
    for name in path:
        if not isinstance(node, Branch):
            return False
        node = node.child(name)
    return isinstance(node, Leaf) and node.kind in _TEXT_KINDS


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)


def _unquoted(segment: str) -> str:
    return str(tomllib.loads(f"key = {segment}")["key"]) if segment[0] in "\"'" else segment


# --------------------------------------------------------------------------------------------------
# Flags of a conversation, as recorded in its `config_delta` events


_FIELDS: Final = {"cfg", "flags", "toggles", "seal"}
_SEALED_PREFIX: Final = b'{"sealed":'
"""Start of a value that an earlier version encrypted."""


class Delta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of `--cfg`, the values of other flags, and the `-t` and `-T` flags, each in order.

    `closed` is true if an earlier version encrypted some of them.
    """

    cfg: tuple[Assignment, ...] = ()
    flags: tuple[Assignment, ...] = ()
    toggles: tuple[Toggle, ...] = ()
    closed: bool = False

    def to_record(self) -> dict[str, Json] | None:
        """Return the value of `config_delta.delta`, or None if no flag was set."""
        if not (self.cfg or self.flags or self.toggles):
            return None
        return cast(
            "dict[str, Json]",
            msgspec.to_builtins(
                replace(
                    self,
                    cfg=_without_unused_bases(self.cfg),
                    flags=_without_unused_bases(self.flags),
                )
            ),
        )


def read_delta(value: Json) -> Delta | None:
    """Parse a recorded delta. Encrypted values are omitted.

    Return None for a delta that another program wrote.
    """
    if not isinstance(value, dict) or not value.keys() <= _FIELDS:
        return None
    given = cast("JsonObject", value)
    try:
        delta = msgspec.convert(
            {name: part for name, part in given.items() if name != "seal"}, Delta
        )
    except msgspec.ValidationError:
        return None
    return _without_sealed(delta) if "seal" in given else delta


def unreadable(recorded: Iterable[Json]) -> bool:
    """Return whether any recorded flags cannot be read.

    A turn that started with such flags cannot continue with the same settings.
    """
    return any(delta is None or delta.closed for delta in map(read_delta, recorded))


def _without_sealed(delta: Delta) -> Delta:
    cfg, flags = _readable(delta.cfg), _readable(delta.flags)
    return replace(delta, cfg=cfg, flags=flags, closed=(cfg, flags) != (delta.cfg, delta.flags))


def _readable(assignments: Sequence[Assignment]) -> tuple[Assignment, ...]:
    return tuple(
        assignment
        for assignment in assignments
        if _SEALED_PREFIX not in canonical(assignment.value)
    )


def _without_unused_bases(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """Remove base directories that no relative path depends on."""
    return tuple(
        given if b"scripted:" in canonical(given.value) else replace(given, base="")
        for given in assignments
    )
