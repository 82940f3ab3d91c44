"""Which files their user has approved: one small file each in the user's state directory, outside every workspace."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.errors import ConfigError
from midturn.files.private import ensure_private, read_private, write_private

if TYPE_CHECKING:
    from midturn.config.scripts import BoundScript


VARIABLE = "MIDTURN_TRUST"
_SHA256 = r"[0-9a-f]{64}"


def sha256(data: bytes) -> str:
    """Hash the content of a file, as `sha256sum` prints it."""
    import hashlib  # costs more than the rest of this module; only a file that needs approval needs it

    return hashlib.sha256(data).hexdigest()


class FileSubject(Struct, frozen=True, kw_only=True):
    """What is approved: a file of a workspace with this content, for this `root`, with these scripts behind its commands."""

    path: Path
    root: Path
    sha256: str
    scripts: tuple[BoundScript, ...] = ()

    @property
    def digest(self) -> str:
        """Hash everything that the approval is bound to."""
        parts = (str(self.path), str(self.root), self.sha256, *(f"{one.name} {one.state}" for one in self.scripts))
        return sha256("\0".join(parts).encode(errors="surrogateescape"))


class Approvals(Struct, frozen=True):
    """What was approved: a record for each path, and the contents that `MIDTURN_TRUST` names for this process."""

    directory: Path
    named: frozenset[str] = frozenset()

    @classmethod
    def of(cls, directory: Path, environment: Mapping[str, str]) -> Approvals:
        """Read `MIDTURN_TRUST` (one hash, or several separated by spaces or commas).

        Raises:
            ConfigError: It is not a SHA-256 hash.
        """
        words = environment.get(VARIABLE, "").replace(",", " ").lower().split()
        wrong = next((word for word in words if not re.fullmatch(_SHA256, word)), None)
        if wrong is not None:
            raise ConfigError(f"{VARIABLE}: `{wrong}` is not a SHA-256 hash; `sha256sum` of the configuration file prints one")
        return cls(directory / "trust", frozenset(words))

    def approved(self, subject: FileSubject) -> bool:
        """Say whether exactly this was approved. A record that others could have written counts as none."""
        return subject.sha256 in self.named or read_private(self._record(subject.path)) == _written(subject)

    def approve(self, subject: FileSubject) -> None:
        """Remember the approval; the former one of this file is forgotten.

        Raises:
            ConfigError: It cannot be written.
        """
        try:
            ensure_private(self.directory)
            write_private(self._record(subject.path), _written(subject))
        except OSError as error:
            raise ConfigError(f"{self.directory}: the approval cannot be written: {error.strerror}") from error

    def _record(self, path: Path) -> Path:
        return self.directory / sha256(os.fsencode(path))


def _written(subject: FileSubject) -> bytes:
    return f"{subject.digest}  {subject.path}".encode(errors="surrogateescape")
