"""What flags set for a conversation, as its `config_delta` records it, and back."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.config.assign import Assignment
from midturn.config.sealed_values import close_values, leave_out_values, open_values, stay_closed
from midturn.core.enabling import Toggle
from midturn.core.json_value import Json, JsonObject, canonical
from midturn.files.seal_key import known_seal_key, seal_key

_SHAPE = {"cfg", "flags", "toggles", "seal"}


class Delta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of `--cfg`, those of other flags, and the `-t`/`-T`, each in order.

    `seal` proves that this user set it: conversations lie in workspaces, and those come with cloned repositories.
    """

    cfg: tuple[Assignment, ...] = ()
    flags: tuple[Assignment, ...] = ()
    toggles: tuple[Toggle, ...] = ()
    seal: str = ""

    def to_record(self, state: Path, conversation: str = "") -> dict[str, Json] | None:
        """Return the value of `config_delta.delta`, None where nothing was set. The key of the seal is made in `state` once.

        It is sealed for this `conversation` (its directory): in another one it says nothing.

        Answers and private values are closed with it, or left out where there is no key.
        """
        if not (self.cfg or self.flags or self.toggles):
            return None
        lean = replace(self, cfg=_lean(self.cfg), flags=_lean(self.flags), seal="")
        key = seal_key(state)
        if key is None:  # `resume` says which flags do not hold without a seal
            return _json(replace(lean, cfg=leave_out_values(lean.cfg), flags=leave_out_values(lean.flags)))
        closed = replace(lean, cfg=close_values(lean.cfg, key), flags=close_values(lean.flags, key))
        return _json(replace(closed, seal=_seal(closed, key, conversation)))

    def is_sealed(self, state: Path, conversation: str = "") -> bool:
        """Say whether this user set it, for this conversation."""
        key = known_seal_key(state)
        if not key or not self.seal:
            return False
        return hmac.compare_digest(_seal(self, key, conversation), self.seal)

    def opened(self, state: Path, conversation: str = "") -> Delta:
        """Return what was given, for the user whose seal it has; for others, what of it is not closed."""
        key = known_seal_key(state) if self.is_sealed(state, conversation) else None
        if key:
            return replace(self, cfg=open_values(self.cfg, key), flags=open_values(self.flags, key))
        return replace(self, cfg=stay_closed(self.cfg), flags=stay_closed(self.flags))


def read_delta(value: Json) -> Delta | None:
    """Read a recorded delta; None for those of other programs (legacy streams have their own shapes)."""
    if not isinstance(value, dict) or not value.keys() <= _SHAPE:
        return None
    try:
        return msgspec.convert(cast("JsonObject", value), Delta)
    except msgspec.ValidationError:
        return None


def _lean(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """Leave out directories that nothing is relative to."""
    return tuple(one if b"scripted:" in canonical(one.value) else replace(one, base="") for one in assignments)


def _json(delta: Delta) -> dict[str, Json]:
    return cast("dict[str, Json]", msgspec.json.decode(msgspec.json.encode(delta)))


def _seal(delta: Delta, key: bytes, conversation: str) -> str:
    about = f"midturn: flags\0{conversation}\0".encode(errors="surrogateescape")
    return hmac.digest(key, about + canonical(_json(replace(delta, seal=""))), "sha256").hex()
