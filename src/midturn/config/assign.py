"""Single values from outside a file: `KEY=VALUE`, `TOOL.QUESTION=VALUE`, `MIDTURN_CFG_…`."""

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


# ----------------------------------------------------------------------------------------------------------------------
# Flags of a conversation, as its `config_delta` records them


_SHAPE: Final = {"cfg", "flags", "toggles", "seal"}
_CLOSED: Final = b'{"sealed":'
"""Start of a value that earlier versions sealed with a key."""


class Delta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of `--cfg`, those of other flags, and the `-t`/`-T`, each in order. `closed`: an earlier version closed some of them."""

    cfg: tuple[Assignment, ...] = ()
    flags: tuple[Assignment, ...] = ()
    toggles: tuple[Toggle, ...] = ()
    closed: bool = False

    def to_record(self) -> dict[str, Json] | None:
        """Return the value of `config_delta.delta`, None where nothing was set."""
        if not (self.cfg or self.flags or self.toggles):
            return None
        return cast("dict[str, Json]", msgspec.to_builtins(replace(self, cfg=_lean(self.cfg), flags=_lean(self.flags))))


def read_delta(value: Json) -> Delta | None:
    """Read a recorded delta; None for those of other programs (legacy streams have their own shapes). What is closed is left out."""
    if not isinstance(value, dict) or not value.keys() <= _SHAPE:
        return None
    given = cast("JsonObject", value)
    try:
        delta = msgspec.convert({name: part for name, part in given.items() if name != "seal"}, Delta)
    except msgspec.ValidationError:
        return None
    return _opened(delta) if "seal" in given else delta


def unreadable(recorded: Iterable[Json]) -> bool:
    """Say whether anything that flags set is not known any more: a turn that began under it cannot go on as it began."""
    return any(delta is None or delta.closed for delta in map(read_delta, recorded))


def _opened(delta: Delta) -> Delta:
    cfg, flags = _legible(delta.cfg), _legible(delta.flags)
    return replace(delta, cfg=cfg, flags=flags, closed=(cfg, flags) != (delta.cfg, delta.flags))


def _legible(assignments: Sequence[Assignment]) -> tuple[Assignment, ...]:
    return tuple(one for one in assignments if _CLOSED not in canonical(one.value))


def _lean(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """Leave out directories that nothing is relative to."""
    return tuple(one if b"scripted:" in canonical(one.value) else replace(one, base="") for one in assignments)
