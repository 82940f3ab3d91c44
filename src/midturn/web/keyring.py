"""One-time codes, and the sign-ins that they create. Both are stored only in memory and are lost
when the server stops.

The browser stores a sign-in as a cookie. If other servers on the machine have the same host name,
they also receive the cookie. In this case the sign-in also has a key, and the cookie alone gives no
access.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

from msgspec import Struct

CODE_SECONDS = 5 * 60
SIGN_IN_SECONDS = 12 * 60 * 60  # seconds without use after which a sign-in expires
MAX_CODES = 100
_CODE_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # without letters and digits that look alike
CODE_LENGTH, GROUP_LENGTH = 16, 4


class SignIn(Struct, kw_only=True):
    """A signed-in browser. If `needs_key` is true, the cookie alone does not give access."""

    id: str
    device: str
    needs_key: bool
    begun: float
    used: float


class SignInSecrets(Struct, frozen=True):
    """The secrets of a new sign-in: the cookie token, and the key for the script of the page."""

    token: str
    key: str

    def __repr__(self) -> str:
        return "SignInSecrets(…)"


class Keyring:
    """The codes and sign-ins of one server. `clock` returns the time in seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._codes: dict[str, float] = {}
        self._sign_ins: dict[str, SignIn] = {}
        self._ids: dict[str, str] = {}  # IDs of sign-ins, by the hashes of their token and key

    def new_code(self) -> str:
        """Return a code that works once, for five minutes."""
        letters = "".join(secrets.choice(_CODE_ALPHABET) for _ in range(CODE_LENGTH))
        self._codes = dict([*self._codes.items()][1 - MAX_CODES :])
        self._codes[_hash(letters)] = self._clock()
        return "-".join(
            letters[start : start + GROUP_LENGTH] for start in range(0, CODE_LENGTH, GROUP_LENGTH)
        )

    def knows(self, code: str) -> bool:
        """Return whether a code can be redeemed now."""
        made_at = self._codes.get(_code_hash(code))
        return made_at is not None and self._is_valid_since(made_at, CODE_SECONDS)

    def redeem(
        self, code: str, device: str = "", *, needs_key: bool = False
    ) -> SignInSecrets | None:
        """Exchange a code for a sign-in. Return None if the code is unknown, used or expired."""
        made_at = self._codes.pop(_code_hash(code), None)
        if made_at is None or not self._is_valid_since(made_at, CODE_SECONDS):
            return None
        entered, id, now = (  # noqa: A001
            SignInSecrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32)),
            secrets.token_hex(8),
            self._clock(),
        )
        self._sign_ins[id] = SignIn(id=id, device=device, needs_key=needs_key, begun=now, used=now)
        self._ids |= {_hash(f"token {entered.token}"): id, _hash(f"key {entered.key}"): id}
        return entered

    def by_token(self, token: str) -> SignIn | None:
        """Return the sign-in that a cookie's token identifies, or None. If the sign-in needs a key,
        the cookie alone does not give access.
        """
        return self._lookup(f"token {token}")

    def by_key(self, key: str) -> SignIn | None:
        """Return the sign-in that a key identifies, or None."""
        return self._lookup(f"key {key}")

    def holds(self, id: str) -> bool:
        """Return whether a sign-in is still valid."""
        found = self._sign_ins.get(id)
        return found is not None and self._is_valid_since(found.used, SIGN_IN_SECONDS)

    def sign_ins(self) -> list[SignIn]:
        """Return the valid sign-ins, the most recently used first."""
        return sorted(
            (one for one in self._sign_ins.values() if self.holds(one.id)),
            key=lambda one: -one.used,
        )

    def forget(self, id: str) -> None:
        """Sign a browser out."""
        self._sign_ins.pop(id, None)
        self._ids = {hashed: kept for hashed, kept in self._ids.items() if kept in self._sign_ins}

    def _lookup(self, secret: str) -> SignIn | None:
        """Return a valid sign-in, and extend its validity."""
        id = self._ids.get(_hash(secret), "")  # noqa: A001
        if not self.holds(id):
            self.forget(id)
            return None
        self._sign_ins[id].used = self._clock()
        return self._sign_ins[id]

    def _is_valid_since(self, since: float, seconds: float) -> bool:
        # if the clock was set back, codes must not stay valid for years
        return -seconds < self._clock() - since < seconds


def _code_hash(code: str) -> str:
    """Return the hash of a typed code. Case, spaces and hyphens are ignored."""
    return _hash("".join(code.split()).replace("-", "").upper())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
