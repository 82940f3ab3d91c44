"""Who holds a key to a server: one-time codes, and the sign-ins that they become. Both are in its memory, and end with it.

No file makes a sign-in, and none says what one is. A sign-in is a cookie; at an address that other servers of this machine share, which
are sent the same cookie, it is a key besides, and the cookie alone opens nothing.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

from msgspec import Struct

CODE_SECONDS = 5 * 60
SIGN_IN_SECONDS = 12 * 60 * 60  # since the page was last used
_MOST_CODES = 100
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # none that is mistaken for another when it is typed
_LENGTH, _GROUP = 16, 4


class SignIn(Struct, kw_only=True):
    """A person who is signed in. `needs_key`: the cookie alone opens nothing."""

    id: str
    device: str
    needs_key: bool
    begun: float
    used: float


class Entered(Struct, frozen=True):
    """What a code became: the token of the cookie, and the key of the page's script."""

    token: str
    key: str

    def __repr__(self) -> str:
        return "Entered(…)"


class Keyring:
    """The codes and sign-ins of one server. `clock` says the time, in seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._codes: dict[str, float] = {}
        self._sign_ins: dict[str, SignIn] = {}
        self._ids: dict[str, str] = {}  # of sign-ins, by what tokens and keys hash to

    def new_code(self) -> str:
        """Return a code that is good once, for five minutes."""
        letters = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        self._codes = dict([*self._codes.items()][1 - _MOST_CODES :])
        self._codes[_hashed(letters)] = self._clock()
        return "-".join(letters[start : start + _GROUP] for start in range(0, _LENGTH, _GROUP))

    def knows(self, code: str) -> bool:
        """Return whether `redeem` would take a code now."""
        made_at = self._codes.get(_typed(code))
        return made_at is not None and self._holds(made_at, CODE_SECONDS)

    def redeem(self, code: str, device: str = "", *, needs_key: bool = False) -> Entered | None:
        """Turn a code into a sign-in; None where the code is unknown, used or too old."""
        made_at = self._codes.pop(_typed(code), None)
        if made_at is None or not self._holds(made_at, CODE_SECONDS):
            return None
        entered, id, now = Entered(secrets.token_urlsafe(32), secrets.token_urlsafe(32)), secrets.token_hex(8), self._clock()  # noqa: A001
        self._sign_ins[id] = SignIn(id=id, device=device, needs_key=needs_key, begun=now, used=now)
        self._ids |= {_hashed(f"token {entered.token}"): id, _hashed(f"key {entered.key}"): id}
        return entered

    def by_token(self, token: str) -> SignIn | None:
        """Return the sign-in of a cookie. Where it needs a key, it opens nothing by itself."""
        return self._found(f"token {token}")

    def by_key(self, key: str) -> SignIn | None:
        """Return the sign-in of a key."""
        return self._found(f"key {key}")

    def holds(self, id: str) -> bool:
        """Say whether a sign-in still is one."""
        found = self._sign_ins.get(id)
        return found is not None and self._holds(found.used, SIGN_IN_SECONDS)

    def sign_ins(self) -> list[SignIn]:
        """Return who is signed in, the last used first."""
        return sorted((one for one in self._sign_ins.values() if self.holds(one.id)), key=lambda one: -one.used)

    def forget(self, id: str) -> None:
        """Sign out."""
        self._sign_ins.pop(id, None)
        self._ids = {hashed: kept for hashed, kept in self._ids.items() if kept in self._sign_ins}

    def _found(self, secret: str) -> SignIn | None:
        """Return a sign-in that holds; one that is used lasts."""
        id = self._ids.get(_hashed(secret), "")  # noqa: A001  as above
        if not self.holds(id):
            self.forget(id)
            return None
        self._sign_ins[id].used = self._clock()
        return self._sign_ins[id]

    def _holds(self, since: float, seconds: float) -> bool:
        return -seconds < self._clock() - since < seconds  # a clock that was set back must not make a code good for years


def _typed(code: str) -> str:
    """Return the hash of a code, however it was typed."""
    return _hashed("".join(code.split()).replace("-", "").upper())


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
