"""Web push: notifications that reach a browser whose page is closed, by way of its maker's push service, encrypted for it alone.

A browser belongs to the sign-in that it was subscribed under. While that holds, a notification says what is asked, and has buttons where
its text is the whole of what is approved; afterwards it says only that something waits. The push service's address comes from the browser:
nothing is sent but over TLS, and never to an address of this machine or of a private network.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
import py_vapid  # pyright: ignore[reportMissingTypeStubs]
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

from midturn.errors import AnswerError, Problem
from midturn.events.open_question import OpenQuestion
from midturn.inbox.deliveries import Sending, fingerprint
from midturn.inbox.notifications import time_left_of, wording
from midturn.inbox.open_questions import Board
from midturn.question.answer_type import BooleanType
from midturn.question.json_text import compact
from midturn.question.json_value import Json
from midturn.question.text import exact
from midturn.security.private_files import read_private, write_private
from midturn.stores.watching import StoreChange
from midturn.web.body import Fields
from midturn.web.gate import Access, CookieAccess, Visitor
from midturn.web.keyring import SIGN_IN_SECONDS

_MOST_SHOWN: Final = 120
"""The longest text of which every notification shows each character, on three lines: a longer one has no buttons."""
_MOST_LINES: Final = 3
_MOST_TEXT: Final = 600
_MOST_BROWSERS: Final = 40
_MOST_TOKENS: Final = 2_000
_LONGEST_ENDPOINT: Final = 1_000
_RECORD_SIZE: Final = 4_096  # the longest that a push service takes
_KEPT_SECONDS: Final = 24 * 60 * 60  # how long a push service keeps a notification for a browser that is off
_SECONDS: Final = 10.0
_WAITS: Final = (1.0, 5.0)
_LONGEST_WAIT: Final = 60.0
_GONE: Final = frozenset({404, 410})
_TOO_MANY, _OWN_FAULT, _TAKEN = 429, 500, range(200, 300)


class Subscribed(Struct, kw_only=True):
    """A browser that wants notifications. `sign_in` is the one under which it said so last, and `confirmed` when, since the epoch."""

    endpoint: str
    p256dh: str
    auth: str
    user: str | None
    sign_in: str = ""
    confirmed: float = 0.0

    def __repr__(self) -> str:
        return f"Subscribed({self.user!r}, …)"


class _Kept(Struct):
    """The file of a server, which its user alone can read: who may send, and to which browsers."""

    private_key: str
    address: str
    browsers: list[Subscribed]


class Pressed(Struct, frozen=True):
    """What a button stands for: an answer of one person to one question, as it was shown."""

    question: str
    user: str | None
    sign_in: str
    fields: Mapping[str, str]

    @property
    def sent(self) -> Fields:
        """What the page's form would send."""
        return Fields({name: (value,) for name, value in self.fields.items()})


class PushKeys:
    """Who may send, and to which browsers, in one private file. At another address than before no browser is left."""

    def __init__(self, file: Path, address: str, clock: Callable[[], float] = time.time) -> None:
        """Read the file, or make the keys."""
        make: Any = py_vapid.Vapid02
        self._file = file
        self._clock = clock
        kept = _read(file)
        self.vapid: Any = make.from_raw(kept.private_key.encode()) if kept else make()
        if kept is None:
            self.vapid.generate_keys()
        self.address = address
        self.browsers = kept.browsers if kept and kept.address == address else []
        if kept is None or kept.address != address:
            self.keep()

    @property
    def public(self) -> str:
        """The key that a browser subscribes with."""
        return _written(self.vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    def add(self, subscription: Mapping[str, Json], visitor: Visitor) -> None:
        """Keep a browser, in the name of who is signed in there; the oldest goes where there are too many.

        Raises:
            AnswerError: This is no subscription, or its push service is not one on the network.
        """
        keys = subscription.get("keys")
        endpoint = subscription.get("endpoint")
        fields: Mapping[str, Json] = keys if isinstance(keys, Mapping) else {}
        added = Subscribed(
            endpoint=_checked_endpoint(endpoint),
            p256dh=_checked_point(fields),
            auth=_checked_key(fields, "auth", 16),
            user=visitor.name,
            sign_in=visitor.sign_in.id if visitor.sign_in else "",
            confirmed=self._clock(),
        )
        others = [one for one in self.browsers if one.endpoint != added.endpoint]
        self.browsers = [*others[1 - _MOST_BROWSERS :], added]
        self.keep()

    def remove(self, *, endpoint: str | None = None, sign_in: str | None = None) -> None:
        """Forget a browser, or those of a sign-in that is over."""
        left = [one for one in self.browsers if one.endpoint != endpoint and (not sign_in or one.sign_in != sign_in)]
        if len(left) < len(self.browsers):
            self.browsers = left
            self.keep()

    def keep(self) -> None:
        """Write the file."""
        number = self.vapid.private_key.private_numbers().private_value.to_bytes(32, "big")
        write_private(self._file, msgspec.json.encode(_Kept(_written(number), self.address, self.browsers)))

    def holds(self, one: Subscribed, access: Access) -> bool:
        """Say whether the sign-in of a browser holds; a proxy's people are believed as long as a sign-in of ours lasts."""
        if isinstance(access, CookieAccess):
            return bool(one.sign_in) and access.keyring.holds(one.sign_in)
        return 0 <= self._clock() - one.confirmed < SIGN_IN_SECONDS


def encrypted(text: bytes, browser: Subscribed, *, key: ec.EllipticCurvePrivateKey | None = None, salt: bytes | None = None) -> bytes:
    """Encrypt a text of up to 3,993 bytes for one browser alone, as RFC 8291 says, in one record of RFC 8188.

    `key` and `salt` are made anew for each text; they are given where an example is compared.
    """

    def derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
        return HKDF(SHA256(), length, salt, info).derive(secret)

    key, salt = key or ec.generate_private_key(ec.SECP256R1()), salt or secrets.token_bytes(16)
    theirs, ours = _read_base64(browser.p256dh), key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    agreed = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
    secret = derived(agreed, _read_base64(browser.auth), b"WebPush: info\0" + theirs + ours, 32)
    content_key = derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    last_record = AESGCM(content_key).encrypt(nonce, text + b"\2", None)
    return salt + _RECORD_SIZE.to_bytes(4, "big") + bytes([len(ours)]) + ours + last_record


class PushService:
    """Sends encrypted texts to push services. `may` says to which addresses of the network; `tls` is whose certificates count."""

    def __init__(self, keys: PushKeys, may: Callable[[str], bool] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._keys = keys
        self._may = may or is_public
        self._tls = tls
        self._pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def send(self, one: Subscribed, text: bytes, topic: str) -> str:
        """Send a text; return what went wrong, or nothing. A browser that is gone is forgotten.

        A text with the topic of an earlier one takes its place where that was not fetched yet.
        """
        status, wait = await self._post(one, text, topic)
        for pause in _WAITS:
            if status and status != _TOO_MANY and status < _OWN_FAULT:
                break
            if wait > _LONGEST_WAIT:
                break
            await self._pause(wait or pause)
            status, wait = await self._post(one, text, topic)
        if status in _GONE:
            self._keys.remove(endpoint=one.endpoint)
            return ""
        return "" if status in _TAKEN else f"status {status}" if status else "it cannot be reached"

    async def _post(self, one: Subscribed, text: bytes, topic: str) -> tuple[int, float]:
        """Return the status of a push service, 0 where there was none, and how long it wants us to wait."""
        connector = aiohttp.TCPConnector(resolver=_PublicResolver(self._may), ssl=self._tls or True)
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        data, headers = encrypted(text, one), self._headers(one, topic)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.post(one.endpoint, data=data, headers=headers, allow_redirects=False) as response,
            ):
                return response.status, _seconds(response.headers.get("Retry-After", ""))
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
            return 0, 0.0

    def _headers(self, one: Subscribed, topic: str) -> dict[str, str]:
        at = urlsplit(one.endpoint)
        ours = urlsplit(self._keys.address)
        contact = f"https://{ours.hostname}" if ours.scheme == "https" and ours.hostname else "mailto:page@midturn.invalid"
        claims = {"aud": f"{at.scheme}://{at.netloc}", "sub": contact, "exp": int(time.time()) + _KEPT_SECONDS // 2}
        about = {"TTL": str(_KEPT_SECONDS), "Urgency": "high", "Topic": topic, "Content-Encoding": "aes128gcm"}
        return {**self._keys.vapid.sign(claims), **about, "Content-Type": "application/octet-stream"}


class Push:
    """Tells browsers of questions, and later that they are over; knows what the buttons that it gave out stand for."""

    def __init__(self, keys: PushKeys, access: Access, service: PushService | None = None) -> None:
        self.keys = keys
        self._access = access
        self._service = service or PushService(keys)
        self._tokens: dict[str, Pressed] = {}
        self._told: dict[str, list[Subscribed]] = {}

    async def run(self, board: Board) -> None:
        """Tell of what is over, until cancelled."""
        over: asyncio.Queue[StoreChange] = asyncio.Queue()

        def hear(change: StoreChange) -> None:
            if change.kind in ("answered", "withdrawn") and change.id in self._told:
                over.put_nowait(change)

        board.listeners.append(hear)
        try:
            while True:
                await self._tell_over(await over.get())
        finally:
            board.listeners.remove(hear)

    async def tell(self, question: OpenQuestion, address: str, accepted: Collection[str] = ()) -> Sending:
        """Notify the browsers of everyone whose question it is, except those that have accepted the notice before."""
        del address  # the browser knows it
        told = [one for one in self.keys.browsers if _is_for(question, one)]
        self._told[question.id] = told
        missing = [one for one in told if fingerprint(one.endpoint) not in accepted]
        errors = await self._send_all(question.id, missing, [self._text(question, one) for one in missing])
        failed = tuple(_failure(one, why) for one, why in zip(missing, errors, strict=True) if why)
        return Sending(tuple(fingerprint(one.endpoint) for one, why in zip(missing, errors, strict=True) if not why), failed)

    def pressed(self, token: str, visitor: Visitor) -> Pressed | None:
        """Return what a button stands for, once, and to its own person; the other buttons of its notification are then good no more."""
        found = self._tokens.get(token)
        if found is None or (found.user, found.sign_in) != (visitor.name, visitor.sign_in.id if visitor.sign_in else ""):
            return None
        same = (found.question, found.user, found.sign_in)
        self._tokens = {each: one for each, one in self._tokens.items() if (one.question, one.user, one.sign_in) != same}
        return found

    def forget(self, sign_in: str) -> None:
        """Send nothing more to the browser of a sign-in that is over, and take nothing from it."""
        self.keys.remove(sign_in=sign_in)
        self._tokens = {token: one for token, one in self._tokens.items() if one.sign_in != sign_in}

    async def _tell_over(self, change: StoreChange) -> None:
        told = self._told.pop(change.id, [])
        self._tokens = {token: one for token, one in self._tokens.items() if one.question != change.id}
        known = {one.endpoint for one in self.keys.browsers}
        there = [one for one in told if one.endpoint in known]
        texts = [_over(change) if self.keys.holds(one, self._access) else _unsaid(change.id) for one in there]
        await self._send_all(change.id, there, texts)

    async def _send_all(self, question: str, to: Sequence[Subscribed], texts: Sequence[dict[str, Json]]) -> list[str]:
        topic = _written(sha256(question.encode()).digest())[:32]
        encoded = [json.dumps(text, ensure_ascii=False).encode() for text in texts]
        return await asyncio.gather(*(self._service.send(one, text, topic) for one, text in zip(to, encoded, strict=True)))

    def _text(self, question: OpenQuestion, one: Subscribed) -> dict[str, Json]:
        if not self.keys.holds(one, self._access):
            return {**_unsaid(question.id), "body": "A question waits. Sign in to see it."}
        title, url = f"{exact(question.source.header)} asks", f"q/{question.id}"
        whole = whole_text(question)
        if whole is None:
            said = f"{wording(question)}{time_left_of(question)}"
            body = said if len(said) <= _MOST_TEXT else f"{said[:_MOST_TEXT]}…"
            return {"title": title, "body": body, "tag": question.id, "url": url}
        actions: list[Json] = [
            {"title": name, "action": self._token(Pressed(question.id, one.user, one.sign_in, fields))}
            for name, fields in buttons(question).items()
        ]
        return {"title": title, "body": whole, "tag": question.id, "url": url, "actions": actions}

    def _token(self, pressed: Pressed) -> str:
        token = secrets.token_urlsafe(16)
        self._tokens = dict([*self._tokens.items()][1 - _MOST_TOKENS :])
        self._tokens[token] = pressed
        return token


def _failure(one: Subscribed, why: str) -> str:
    return f"the push service {exact(urlsplit(one.endpoint).hostname or '')} ({why})"


# What a notification shows ------------------------------------------------------------------------------------------------------


def whole_text(question: OpenQuestion) -> str | None:
    """Return the whole of what a yes is to, where a notification shows every character of it; None where it does not."""
    asker = question.asker
    is_bare = not (question.question.context or question.problem or question.form or (asker and asker.said))
    if not is_bare or not buttons(question):
        return None
    where = f"\nin {exact(asker.cwd)}" if asker and asker.cwd else ""
    whose = f"\n{exact(question.whose.line)}" if question.whose and question.whose.line else ""
    asked = f"{exact(question.tool)} {exact(compact(question.arguments))}" if question.kind == "run" else exact(question.question.text)
    text = f"{asked}{where}{whose}{time_left_of(question)}"
    return text if len(text) <= _MOST_SHOWN and text.count("\n") < _MOST_LINES else None


def buttons(question: OpenQuestion) -> dict[str, dict[str, str]]:
    """Return the two buttons that a question can have, and what each of them sends; none where it takes more than a yes or a no."""
    if question.kind == "run":
        return {"Allow": {"act": "approve", "about": question.digest}, "Deny": {"act": "refuse"}}
    if question.kind == "tool" and isinstance(question.question.answer_type, BooleanType):
        return {"Yes": {"act": "answer", "answer": "yes"}, "No": {"act": "answer", "answer": "no"}}
    return {}


def _over(change: StoreChange) -> dict[str, Json]:
    """Say that a question is over, in place of what was said before; without a sound."""
    by = change.answered_by
    who = exact(by.user or by.model or by.via or "") if by else ""
    body = f"Answered by {who}." if who else "Answered." if change.kind == "answered" else "It is not asked any more."
    return {"title": "midturn", "body": body, "tag": change.id, "url": "", "silent": True}


def _unsaid(question: str) -> dict[str, Json]:
    """Say nothing about a question to a browser where no one is signed in."""
    return {"title": "midturn", "body": "A question is over.", "tag": question, "url": "", "silent": True}


def _is_for(question: OpenQuestion, one: Subscribed) -> bool:
    whose = question.whose
    if whose is None:
        return True
    return whose.is_for(one.user) if one.user else whose.eligible is None


# Where it is sent ---------------------------------------------------------------------------------------------------------------


def is_public(address: str) -> bool:
    """Say whether an address is one of the world's, and none of this machine or of a private network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = (ip.ipv4_mapped or ip.sixtofour) if isinstance(ip, ipaddress.IPv6Address) else None
    return ip.is_global and not ip.is_multicast and (inner is None or inner.is_global)


class _PublicResolver(AbstractResolver):
    """Looks names up, and keeps silent about addresses to which nothing is sent: what was looked at is what is connected to."""

    def __init__(self, may: Callable[[str], bool]) -> None:
        self._may = may
        self._names = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[ResolveResult]:
        found = [one for one in await self._names.resolve(host, port, family) if self._may(one["host"])]
        if not found:
            raise OSError(f"{host} is no push service of the world")
        return found

    async def close(self) -> None:
        await self._names.close()


def _checked_endpoint(endpoint: Json) -> str:
    text = endpoint if isinstance(endpoint, str) and len(endpoint) <= _LONGEST_ENDPOINT and endpoint.isascii() else ""
    with suppress(ValueError):
        at = urlsplit(text)
        host = (at.hostname or "").rstrip(".")
        is_name = "." in host and not host.rpartition(".")[2].isdecimal() and ":" not in host
        if at.scheme == "https" and is_name and not (at.username or at.password) and at.port != 0 and text.isprintable():
            return text
    raise AnswerError([Problem("/subscription/endpoint", "must be the https address of a push service, by its name.")])


def _checked_key(keys: Mapping[str, Json], name: str, length: int) -> str:
    given = keys.get(name)
    with suppress(ValueError):
        if isinstance(given, str) and len(_read_base64(given)) == length:
            return given
    raise AnswerError([Problem(f"/subscription/keys/{name}", f"must be {length} bytes in URL-safe Base64.")])


def _checked_point(keys: Mapping[str, Json]) -> str:
    given = _checked_key(keys, "p256dh", 65)
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _read_base64(given))
    except ValueError as error:
        raise AnswerError([Problem("/subscription/keys/p256dh", "must be a public key on the curve P-256.")]) from error
    return given


def _seconds(said: str) -> float:
    return float(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 0.0  # noqa: PLR2004  a date is not waited for


def _read_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _written(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read(file: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(read_private(file) or b"", type=_Kept)
    except msgspec.DecodeError:
        return None
