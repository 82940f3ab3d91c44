"""Single values from outside a file: `KEY=VALUE`, `TOOL.QUESTION=VALUE`, `MIDTURN_CFG_…`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from midturn.config.keys import KEYS
from midturn.config.nodes import Branch, Leaf, Node
from midturn.config.tree import KeyPath, dotted
from midturn.core.json_value import Json
from midturn.errors import ConfigError

PREFIX = "MIDTURN_CFG_"
ANSWER = "--answer"

_SEGMENT = r"""(?:[A-Za-z0-9_-]+|\*|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_BARE_KEY = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_KEY = rf"\s*{_SEGMENT}(?:\s*\.\s*{_SEGMENT})*\s*"
_TEXT_KINDS = {"string", "model", "cache"}


class Assignment(Struct, frozen=True, omit_defaults=True):
    """One value from a flag or a variable. `key` is a dotted TOML key (`""`: `value` is a whole document); `origin` names the flag.

    A relative `scripted:` file is looked for in `base`. A static answer whose origin is `--answer` is the words as typed: JSON
    where that fits the question, else the bare words.
    """

    key: str
    value: Json
    origin: str
    base: str = ""

    def document(self) -> Mapping[str, Any]:
        """Return the value inside the tables of its key."""
        if self.key:
            return nested(parse_key(self.key, self.origin), self.value)
        if isinstance(self.value, Mapping):
            return self.value
        raise ConfigError(f"{self.origin}: expected a table")


def nested(path: KeyPath, value: Json) -> dict[str, Json]:
    """Wrap `value` in one table for each name of `path`."""
    document: Json = value
    for name in reversed(path):
        document = {name: document}
    return document if isinstance(document, dict) else {}


def parse_key(text: str, origin: str) -> KeyPath:
    """Split a dotted TOML key; `*` needs no quotes.

    Raises:
        ConfigError: The text is not an assignment, or the key does not exist.
    """
    try:
        if re.fullmatch(_BARE_KEY, text):  # nearly every key, and at a fraction of what reading quotes takes
            return tuple(text.split("."))
        if re.fullmatch(_KEY, text):
            return tuple(_unquoted(segment) for segment in re.findall(_SEGMENT, text))
    except tomllib.TOMLDecodeError:
        pass  # an escape that TOML does not have: no key either
    raise ConfigError(f"{origin}: `{text}` is not a key; write one like `conversation.tools.'*'.run`")


def key_value(text: str, origin: str) -> Assignment | None:
    """Read `KEY=VALUE`; None where `text` does not begin with a key and `=`, so that it names a file."""
    match = re.match(_KEY, text)
    if match is None or not text.startswith("=", match.end()):
        return None
    path = parse_key(match.group(), origin)
    return Assignment(dotted(path), typed(path, text[match.end() + 1 :]), origin)


def static_answer(text: str) -> Assignment:
    """Read the `TOOL.QUESTION=VALUE` of `--answer`; the words stay as they are.

    Raises:
        ConfigError: A part is missing.
    """
    match = re.fullmatch(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+|\*)=(.*)", text, re.DOTALL)
    if match is None:
        raise ConfigError(f"{ANSWER} {text}: write TOOL.QUESTION=VALUE, such as deploy.confirm=yes")
    tool, question, words = match.groups()
    return Assignment(dotted(("conversation", "tools", tool, "questions", question, "answer")), words, ANSWER)


def environment_values(environment: Mapping[str, str]) -> list[Assignment]:
    """Read every `MIDTURN_CFG_A__B__C`; names in capitals mean small letters."""
    found: list[Assignment] = []
    for variable in sorted(environment):
        if variable.startswith(PREFIX):
            names = variable.removeprefix(PREFIX).split("__")
            path = tuple(name.lower() if name.isupper() else name for name in names)
            found.append(Assignment(dotted(path), typed(path, environment[variable]), variable))
    return found


def typed(path: KeyPath, text: str) -> Json:
    """Read a value as TOML, or else as a string; where the key takes text, only quotes make it TOML."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, a number with thousands of digits, or nested too deep
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
