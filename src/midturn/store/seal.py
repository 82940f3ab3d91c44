"""Seals: what was begun and decided counts only where it was begun and decided.

Conversations lie in workspaces, and those are cloned and pulled. In a sealed store each batch that begins a turn, calls a tool or decides
something carries, on its last line, a message authentication code under a key of the user's: over the conversation, the place of the
store, the seal before it, and all bytes since that one. A turn that others have written, changed or moved has none that hold.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from midturn.files.seal_key import seal_key
from midturn.files.user_directories import user_data
from midturn.store.tail import mark

SealVerdict: TypeAlias = Literal["sealed", "unsealed", "changed"]
"""Of a turn: its seals hold; what needs one has none; or a seal does not fit what it stands under."""

SEALED_KINDS: Final = frozenset({"turn_start", "tool_call_request", "inquiry_response", "approval", "config_delta"})
_LENGTH: Final = 16  # bytes of a code: enough, and every batch carries it
_SEAL: Final = rb',"seal":"([A-Za-z0-9_-]{22})"\}$'


class Seals(Struct, frozen=True):
    """The seals of one store: the user's key, and the real path of its directory. Without a key nothing is sealed, and nothing holds."""

    key: bytes | None
    place: str

    @classmethod
    def of(cls, real: str, *, wanted: bool = False) -> Seals | None:
        """Return the seals of a store by its real path; None where it is not sealed.

        A workspace's and the user's own always are, another one where it is `wanted`.
        """
        own = _own(os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))
        if wanted or real.endswith("/.midturn/conversations") or f"{real}/".startswith(f"{own}/"):
            return cls(seal_key(), real)
        return None

    def chain(self, conversation: str) -> SealChain:
        """Begin to seal, or to check, a conversation."""
        return SealChain(self.key, f"midturn\0{conversation}\0{self.place}\0".encode(errors="surrogateescape"))


@cache
def _own(*_environment: str | None) -> str:
    """Return the real path of the user's data directory, once for each environment that says where it is."""
    return os.path.realpath(user_data())


class SealChain:
    """The seals of the last turn, one after the other; `verdict` says whether those that were followed hold."""

    def __init__(self, key: bytes | None, about: bytes) -> None:
        self._key = key
        self._about = about
        self.verdict: SealVerdict = "unsealed"
        self._is_empty = True
        self._begin(b"")

    def _begin(self, before: bytes) -> None:
        self._code = hmac.new(self._key or b"", self._about + before + b"\0", hashlib.sha256)

    def follow(self, lines: Iterable[bytes]) -> SealVerdict:
        """Check the lines of a turn, without their newlines. Whatever comes first needs a seal: a turn need not say that it begins."""
        needs, self.verdict, self._is_empty = False, "sealed" if self._key else "unsealed", True
        for line in lines:
            found = mark(line)
            if found.type == "turn_start":
                self._begin(b"")
            needs = needs or self._is_empty or found.type in SEALED_KINDS
            self._is_empty = False
            seal = re.search(_SEAL, line)
            if seal and self._fits(line[: seal.start()] + b"}\n", seal[1]):
                needs = False
                continue
            if seal:
                self.verdict = "changed"
            self._code.update(line + b"\n")
            if needs and found.more <= 0:
                self._fall("unsealed")
        if needs:
            self._fall("unsealed")
        return self.verdict

    def _fall(self, verdict: SealVerdict) -> None:
        if self.verdict == "sealed":
            self.verdict = verdict

    def _fits(self, bare: bytes, seal: bytes) -> bool:
        code = self._code.copy()
        code.update(bare)
        if self._key is None or not hmac.compare_digest(_text(code), seal):
            return False
        self._begin(seal)
        return True

    def sealed(self, lines: Sequence[bytes]) -> tuple[list[bytes], SealChain]:
        """Return a batch (lines with their newlines) with its seal, where it needs one, and the chain that goes on after it."""
        kinds = {mark(line).type for line in lines}
        after = SealChain(self._key, self._about)
        after.verdict = self.verdict
        after._is_empty = False
        if "turn_start" in kinds:
            after.verdict = "sealed" if self._key else "unsealed"
        else:
            after._code = self._code.copy()
        for line in lines:
            after._code.update(line)
        if self._key is None or not (self._is_empty or kinds & SEALED_KINDS):
            return list(lines), after
        seal = _text(after._code)
        after._begin(seal)
        return [*lines[:-1], lines[-1].rstrip(b"\n")[:-1] + b',"seal":"' + seal + b'"}\n'], after

    def vouch(self, text: bytes) -> bytes:
        """Return a single JSON object, which is not part of the file, with a seal of its own."""
        return text if self._key is None else text[:-1] + b',"seal":"' + self._single(text) + b'"}'

    def vouches(self, text: bytes) -> bool:
        """Say whether such an object was sealed here."""
        seal = re.search(_SEAL, text)
        return bool(seal and self._key and hmac.compare_digest(self._single(text[: seal.start()] + b"}"), seal[1]))

    def _single(self, text: bytes) -> bytes:
        return _text(hmac.new(self._key or b"", self._about + b"answer\0" + text, hashlib.sha256))


def turns_of(lines: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Return the lines of each turn, as they are checked one by one."""
    begins = [index for index, line in enumerate(lines) if mark(line).type == "turn_start"] or [0]
    return [lines[begin:end] for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True)]


def sealed_anew(chain: SealChain, lines: Sequence[bytes], verdicts: Sequence[SealVerdict]) -> list[bytes]:
    """Return lines that were written elsewhere, without newlines; turns whose seals held there, as `verdicts` say, are sealed here."""
    turns = turns_of(lines)
    written = list(lines[: len(lines) - sum(map(len, turns))])
    for turn, verdict in zip(turns, verdicts, strict=False):
        if verdict != "sealed":
            written += turn
            continue
        for batch in batches_of(turn):
            sealed, chain = chain.sealed([without_seal(line) + b"\n" for line in batch])
            written += [line.removesuffix(b"\n") for line in sealed]
    return written + [line for turn in turns[len(verdicts) :] for line in turn]


def batches_of(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lines that were written together."""
    batch: list[bytes] = []
    for line in lines:
        batch.append(line)
        if mark(line).more <= 0:
            yield batch
            batch = []
    if batch:
        yield batch


def without_seal(line: bytes) -> bytes:
    """Return a line as it was before it was sealed."""
    seal = re.search(_SEAL, line)
    return line[: seal.start()] + b"}" if seal else line


def _text(code: hmac.HMAC) -> bytes:
    return urlsafe_b64encode(code.digest()[:_LENGTH]).rstrip(b"=")
