"""How far somebody has come in a form that is not sent yet: kept by the server, so that another page, or the next server, goes on there."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json
from midturn.files.private import ensure_private, read_private, write_private

_KEPT_SECONDS = 14 * 24 * 60 * 60
_MOST = 1_000
_LARGEST = 65_536  # bytes of one draft


class Drafts:
    """The steps of forms by question and person, in memory and, where there is a `directory`, in files that only its user can read.

    A step holds an answer, or the handle of a secret; a secret itself is in no draft.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def read(self, question: str, person: str | None) -> Sequence[Json]:
        """Return the steps of a form."""
        name = _name(question, person)
        kept = self._kept.get(name)
        if kept is None and self._directory:
            kept = read_private(self._directory / name)
        try:
            steps = read_json(kept.decode()) if kept else ()
        except (NotJson, UnicodeDecodeError):  # somebody else wrote there; nothing depends on it
            return ()
        return steps if isinstance(steps, Sequence) and not isinstance(steps, str) else ()

    def keep(self, question: str, person: str | None, steps: Sequence[Json]) -> None:
        """Keep the steps of a form, in place of those before."""
        written = msgspec.json.encode(list(steps))
        if not steps or len(written) > _LARGEST:
            self.drop(question, person)
            return
        name = _name(question, person)
        self._kept[name] = written
        self._kept.move_to_end(name)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        if self._directory:
            ensure_private(self._directory)
            self._forget_old(self._directory)
            write_private(self._directory / name, written)

    def drop(self, question: str, person: str | None) -> None:
        """Forget a form that was sent, or is not open any more."""
        name = _name(question, person)
        self._kept.pop(name, None)
        if self._directory:
            (self._directory / name).unlink(missing_ok=True)

    def _forget_old(self, directory: Path) -> None:
        found: list[tuple[float, Path]] = []
        for file in directory.iterdir():
            with suppress(FileNotFoundError):  # another server was faster
                found.append((file.stat().st_mtime, file))
        found.sort()
        oldest = time.time() - _KEPT_SECONDS
        for place, (changed, file) in enumerate(found):
            if changed < oldest or len(found) - place >= _MOST:
                file.unlink(missing_ok=True)


def _name(question: str, person: str | None) -> str:
    return hashlib.sha256(f"{question}\n{person or ''}".encode("utf-8", "surrogatepass")).hexdigest()
