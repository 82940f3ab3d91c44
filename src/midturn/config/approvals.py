"""Which files their user has approved: one small file each in the user's state directory, outside every workspace."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from midturn.errors import ConfigError

VARIABLE = "MIDTURN_TRUST"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256(data: bytes) -> str:
    """Hash the content of a file, as `sha256sum` prints it."""
    import hashlib  # costs more than the rest of this module; only a file that needs approval needs it

    return hashlib.sha256(data).hexdigest()


class Approvals(Struct, frozen=True):
    """What was approved: per path the hash of the content, and what `MIDTURN_TRUST` names for this process."""

    directory: Path
    named: frozenset[str] = frozenset()

    @classmethod
    def of(cls, directory: Path, environment: Mapping[str, str]) -> Approvals:
        """Read `MIDTURN_TRUST` (one hash, or several separated by spaces or commas).

        Raises:
            ConfigError: It is no SHA-256 hash.
        """
        words = environment.get(VARIABLE, "").replace(",", " ").lower().split()
        wrong = next((word for word in words if not _SHA256.fullmatch(word)), None)
        if wrong is not None:
            raise ConfigError(f"{VARIABLE}: `{wrong}` is no SHA-256 hash; `sha256sum` of the configuration file prints one")
        return cls(directory / "trust", frozenset(words))

    def approved(self, path: Path, digest: str) -> bool:
        """Say whether this content of this file was approved. A record that others could have written counts as none."""
        return digest in self.named or _recorded(self._record(path)) == f"{digest}  {path}"

    def approve(self, path: Path, digest: str) -> None:
        """Remember the approval; the former one of this file is forgotten.

        Raises:
            ConfigError: It cannot be written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._record(path), f"{digest}  {path}".encode(errors="surrogateescape"))
        except OSError as error:
            raise ConfigError(f"{self.directory}: the approval cannot be written: {error.strerror}") from error

    def _record(self, path: Path) -> Path:
        return self.directory / sha256(os.fsencode(path))


def _recorded(record: Path) -> str | None:
    data = read_private(record)
    return None if data is None else data.decode(errors="surrogateescape")


def read_private(path: Path) -> bytes | None:
    """Read a small file that only its user can have written; None if there is none, or if others could have."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # absent, a link, or not ours to read: nothing that was approved by this user
    with open(descriptor, "rb") as file:  # noqa: PTH123 (opened without following links, above)
        status = os.fstat(descriptor)
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
        return file.read(65_536) if ours else None


def write_private(path: Path, data: bytes) -> None:
    """Write a file (0600) whole or not at all, in place of the former one."""
    new = _temporary(path.parent, data)
    try:
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def create_private(path: Path, data: bytes) -> None:
    """Write a file (0600) whole; one that is already there stays."""
    new = _temporary(path.parent, data)
    try:
        path.hardlink_to(new)
    except FileExistsError:
        pass  # another process was first
    finally:
        new.unlink(missing_ok=True)


def _temporary(directory: Path, data: bytes) -> Path:
    import tempfile  # only an approval needs it

    descriptor, name = tempfile.mkstemp(dir=directory, prefix=".new-")
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (`mkstemp` opened it)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
