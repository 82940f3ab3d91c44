"""What flags set for a conversation, as its `config_delta` records it, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.config.assign import Assignment
from midturn.core.enabling import Toggle
from midturn.core.json_value import Json, JsonObject, canonical

_SHAPE: Final = {"cfg", "flags", "toggles", "seal"}
_CLOSED: Final = b'{"sealed":'
"""How a value begins that earlier versions closed with a key, in the deltas that they sealed with it."""


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
