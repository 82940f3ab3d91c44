"""Who holds a key to a server: one-time codes, and the sign-ins that they become.

Both are files in a directory that only its user can read. A file is named for the SHA-256 of what it stands for, so that nothing in the
directory opens a door; its time of change says until when it holds.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from midturn.files.private import ensure_private

CODE_SECONDS = 5 * 60
SIGN_IN_SECONDS = 12 * 60 * 60  # since the page was last used
_TOUCHED_EVERY = 60  # seconds; a page that is open all day need not write all day
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # none that is mistaken for another when it is typed
_LENGTH, _GROUP = 16, 4


class Keyring:
    """The codes and sign-ins of one server. `clock` says the time, in seconds since the epoch."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._codes = directory / "codes"
        self._sign_ins = directory / "sign-ins"
        self._clock = clock
        for folder in (self._codes, self._sign_ins):
            ensure_private(folder)

    def new_code(self) -> str:
        """Return a code that is good once, for five minutes. Any process of the same user may make one for a server that runs."""
        letters = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        self._forget_old(self._codes, CODE_SECONDS)
        self._write(self._codes / _hashed(letters))
        return "-".join(letters[start : start + _GROUP] for start in range(0, _LENGTH, _GROUP))

    def redeem(self, code: str) -> str | None:
        """Turn a code into the token of a sign-in; None where the code is unknown, used or too old."""
        file = self._codes / _hashed("".join(code.split()).replace("-", "").upper())
        try:
            made_at = file.stat().st_mtime
            file.unlink()  # whoever takes the file away has used the code; a second one finds nothing
        except FileNotFoundError:
            return None
        if not self._holds(made_at, CODE_SECONDS):
            return None
        token = secrets.token_urlsafe(32)
        self._forget_old(self._sign_ins, SIGN_IN_SECONDS)
        self._write(self._sign_ins / _hashed(token))
        return token

    def knows(self, token: str) -> bool:
        """Say whether somebody is signed in with this token; a sign-in that is used lasts."""
        file = self._sign_ins / _hashed(token)
        try:
            used_at = file.stat().st_mtime
            if not self._holds(used_at, SIGN_IN_SECONDS):
                return False
            if self._clock() - used_at > _TOUCHED_EVERY:
                os.utime(file, (self._clock(), self._clock()))
        except FileNotFoundError:
            return False
        return True

    def forget(self, token: str) -> None:
        """Sign out."""
        (self._sign_ins / _hashed(token)).unlink(missing_ok=True)

    def _holds(self, since: float, seconds: float) -> bool:
        return -seconds < self._clock() - since < seconds  # a clock that was set back must not make a code good for years

    def _write(self, file: Path) -> None:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        os.utime(file, (self._clock(), self._clock()))

    def _forget_old(self, folder: Path, seconds: float) -> None:
        for file in folder.iterdir():
            try:
                if not self._holds(file.stat().st_mtime, seconds):
                    file.unlink()
            except FileNotFoundError:  # somebody else was faster
                continue


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
