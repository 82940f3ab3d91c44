"""Web push: notifications that reach a browser while the page is closed.

Notifications are encrypted for the browser and sent through the push service of the browser's
vendor. A subscription belongs to the sign-in under which it was created. While the sign-in is
valid, a notification contains the text of the question, and also buttons if the text is the whole
subject. After that, it only says that a question is open. The browser chooses the URL of the push
service, so the URL is checked: notifications are sent only over TLS, and never to this machine or a
private network.
"""

from __future__ import annotations

import asyncio
import base64
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
from midturn.inbox.open_questions import OpenQuestionList
from midturn.question.answer_type import BooleanType
from midturn.question.json_text import compact
from midturn.question.json_value import Json
from midturn.question.text import exact
from midturn.security.private_files import read_private, write_private
from midturn.security.public_address import is_public
from midturn.stores.watching import StoreChange
from midturn.web.body import Fields
from midturn.web.keyring import SIGN_IN_SECONDS
from midturn.web.request_checks import Access, CookieAccess, Visitor

MAX_VISIBLE_CHARS: Final = 120
"""Maximum length of a text that every browser shows completely, on three lines. A notification with
a longer text has no buttons.
"""
MAX_VISIBLE_LINES: Final = 3
MAX_BODY_CHARS: Final = 600
MAX_BROWSERS: Final = 40
MAX_TOKENS: Final = 2_000
MAX_ENDPOINT_CHARS: Final = 1_000
# maximum size of an encrypted record that push services accept, in bytes
_RECORD_SIZE: Final = 4_096
# seconds that a push service stores a notification for an offline browser
TTL_SECONDS: Final = 24 * 60 * 60
TIMEOUT: Final = 10.0
RETRY_DELAYS: Final = (1.0, 5.0)
MAX_RETRY_DELAY: Final = 60.0
_GONE: Final = frozenset({404, 410})
_TOO_MANY, _SERVER_ERROR, _ACCEPTED = 429, 500, range(200, 300)


class Subscription(Struct, kw_only=True):
    """A browser that receives notifications. `sign_in` is the sign-in of its last request, and
    `confirmed` the time of that request in seconds since the epoch.
    """

    endpoint: str
    p256dh: str
    auth: str
    user: str | None
    sign_in: str = ""
    confirmed: float = 0.0

    def __repr__(self) -> str:
        return f"Subscription({self.user!r}, …)"


class _PushFile(Struct):
    """The private file of a server: its signing key and the subscribed browsers."""

    private_key: str
    address: str
    browsers: list[Subscription]


class ButtonAction(Struct, frozen=True):
    """What a button does: it gives a person's answer to a question, as the question was shown."""

    question: str
    user: str | None
    sign_in: str
    fields: Mapping[str, str]

    @property
    def sent(self) -> Fields:
        """The form fields that the page would submit for this answer."""
        return Fields({name: (value,) for name, value in self.fields.items()})


class PushKeys:
    """The signing key and the subscribed browsers, in one private file. If the address of the page
    changes, all browsers are removed.
    """

    def __init__(self, file: Path, address: str, clock: Callable[[], float] = time.time) -> None:
        """Read the file, or create the keys."""
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
        """The public key that browsers use to subscribe."""
        return _base64(
            self.vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        )

    def add(self, subscription: Mapping[str, Json], visitor: Visitor) -> None:
        """Add a browser for the signed-in visitor. If there are too many browsers, the oldest one
        is removed.

        Raises:
            AnswerError: The subscription is invalid, or its push service is not on a public
                network.
        """
        keys = subscription.get("keys")
        endpoint = subscription.get("endpoint")
        fields: Mapping[str, Json] = keys if isinstance(keys, Mapping) else {}
        added = Subscription(
            endpoint=_checked_endpoint(endpoint),
            p256dh=_checked_point(fields),
            auth=_checked_key(fields, "auth", 16),
            user=visitor.name,
            sign_in=visitor.sign_in.id if visitor.sign_in else "",
            confirmed=self._clock(),
        )
        others = [one for one in self.browsers if one.endpoint != added.endpoint]
        self.browsers = [*others[1 - MAX_BROWSERS :], added]
        self.keep()

    def remove(self, *, endpoint: str | None = None, sign_in: str | None = None) -> None:
        """Remove a browser, or all browsers of a sign-in."""
        left = [
            one
            for one in self.browsers
            if one.endpoint != endpoint and (not sign_in or one.sign_in != sign_in)
        ]
        if len(left) < len(self.browsers):
            self.browsers = left
            self.keep()

    def keep(self) -> None:
        """Write the file."""
        number = self.vapid.private_key.private_numbers().private_value.to_bytes(32, "big")
        write_private(
            self._file, msgspec.json.encode(_PushFile(_base64(number), self.address, self.browsers))
        )

    def holds(self, one: Subscription, access: Access) -> bool:
        """Return whether the sign-in of a browser is valid. Behind a proxy, a subscription is valid
        for as long as a sign-in would be.
        """
        if isinstance(access, CookieAccess):
            return bool(one.sign_in) and access.keyring.holds(one.sign_in)
        return 0 <= self._clock() - one.confirmed < SIGN_IN_SECONDS


def encrypted(
    text: bytes,
    browser: Subscription,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """Encrypt text for one browser (RFC 8291), in one record (RFC 8188).

    Args:
        text: At most 3,993 bytes.
        browser: The recipient.
        key: Private key. Default: a new key. Set in tests only.
        salt: Salt. Default: a new salt. Set in tests only.
    """

    def derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
        return HKDF(SHA256(), length, salt, info).derive(secret)

    key, salt = key or ec.generate_private_key(ec.SECP256R1()), salt or secrets.token_bytes(16)
    theirs, ours = (
        _read_base64(browser.p256dh),
        key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
    )
    agreed = key.exchange(
        ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs)
    )
    secret = derived(agreed, _read_base64(browser.auth), b"WebPush: info\0" + theirs + ours, 32)
    content_key = derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    last_record = AESGCM(content_key).encrypt(nonce, text + b"\2", None)
    return salt + _RECORD_SIZE.to_bytes(4, "big") + bytes([len(ours)]) + ours + last_record


class PushService:
    """Sends encrypted texts to push services.

    Args:
        keys: The signing key and the browsers.
        may: Returns whether an IP address may be contacted. Default: only public addresses.
        tls: TLS context. Default: the system's certificates.
    """

    def __init__(
        self,
        keys: PushKeys,
        may: Callable[[str], bool] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._keys = keys
        self._is_allowed = may or is_public
        self._tls = tls
        self._pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def send(self, one: Subscription, text: bytes, topic: str) -> str:
        """Send text. Return an error message, or an empty string.

        Browsers that no longer exist are removed. The text replaces an undelivered text with the
        same topic.
        """
        status, wait = await self._post(one, text, topic)
        for pause in RETRY_DELAYS:
            if status and status != _TOO_MANY and status < _SERVER_ERROR:
                break
            if wait > MAX_RETRY_DELAY:
                break
            await self._pause(wait or pause)
            status, wait = await self._post(one, text, topic)
        if status in _GONE:
            self._keys.remove(endpoint=one.endpoint)
            return ""
        return "" if status in _ACCEPTED else f"status {status}" if status else "unreachable"

    async def _post(self, one: Subscription, text: bytes, topic: str) -> tuple[int, float]:
        """Return the status from the push service (0 without a response), and the seconds to wait
        before a retry.
        """
        connector = aiohttp.TCPConnector(
            resolver=_PublicResolver(self._is_allowed), ssl=self._tls or True
        )
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        data, headers = encrypted(text, one), self._headers(one, topic)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.post(
                    one.endpoint, data=data, headers=headers, allow_redirects=False
                ) as response,
            ):
                return response.status, _seconds(response.headers.get("Retry-After", ""))
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
            return 0, 0.0

    def _headers(self, one: Subscription, topic: str) -> dict[str, str]:
        at = urlsplit(one.endpoint)
        ours = urlsplit(self._keys.address)
        contact = (
            f"https://{ours.hostname}"
            if ours.scheme == "https" and ours.hostname
            else "mailto:page@midturn.invalid"
        )
        claims = {
            "aud": f"{at.scheme}://{at.netloc}",
            "sub": contact,
            "exp": int(time.time()) + TTL_SECONDS // 2,
        }
        about = {
            "TTL": str(TTL_SECONDS),
            "Urgency": "high",
            "Topic": topic,
            "Content-Encoding": "aes128gcm",
        }
        return {
            **self._keys.vapid.sign(claims),
            **about,
            "Content-Type": "application/octet-stream",
        }


class Push:
    """Notifies browsers of new and closed questions, and handles the buttons of notifications."""

    def __init__(self, keys: PushKeys, access: Access, service: PushService | None = None) -> None:
        self.keys = keys
        self._access = access
        self._service = service or PushService(keys)
        self._tokens: dict[str, ButtonAction] = {}
        self._notified: dict[str, list[Subscription]] = {}

    async def run(self, board: OpenQuestionList) -> None:
        """Notify browsers of closed questions until cancelled."""
        closed: asyncio.Queue[StoreChange] = asyncio.Queue()

        def on_change(change: StoreChange) -> None:
            if change.kind in ("answered", "withdrawn") and change.id in self._notified:
                closed.put_nowait(change)

        board.listeners.append(on_change)
        try:
            while True:
                await self._notify_closed(await closed.get())
        finally:
            board.listeners.remove(on_change)

    async def tell(
        self, question: OpenQuestion, address: str, accepted: Collection[str] = ()
    ) -> Sending:
        """Notify the browsers of all people to whom the question is assigned. The browsers in
        `accepted` are skipped, because they already received the notification.
        """
        del address  # browsers already know the address of the page
        notified = [one for one in self.keys.browsers if _is_for(question, one)]
        self._notified[question.id] = notified
        missing = [one for one in notified if fingerprint(one.endpoint) not in accepted]
        errors = await self._send_all(
            question.id, missing, [self._text(question, one) for one in missing]
        )
        failed = tuple(_failure(one, why) for one, why in zip(missing, errors, strict=True) if why)
        return Sending(
            tuple(
                fingerprint(one.endpoint)
                for one, why in zip(missing, errors, strict=True)
                if not why
            ),
            failed,
        )

    def pressed(self, token: str, visitor: Visitor) -> ButtonAction | None:
        """Return the action of a button, if the visitor received the notification and did not press
        one of its buttons before. All buttons of the notification then stop working.
        """
        found = self._tokens.get(token)
        if found is None or (found.user, found.sign_in) != (
            visitor.name,
            visitor.sign_in.id if visitor.sign_in else "",
        ):
            return None
        same = (found.question, found.user, found.sign_in)
        self._tokens = {
            each: one
            for each, one in self._tokens.items()
            if (one.question, one.user, one.sign_in) != same
        }
        return found

    def forget(self, sign_in: str) -> None:
        """Remove the browsers of a sign-in and their buttons."""
        self.keys.remove(sign_in=sign_in)
        self._tokens = {token: one for token, one in self._tokens.items() if one.sign_in != sign_in}

    async def _notify_closed(self, change: StoreChange) -> None:
        notified = self._notified.pop(change.id, [])
        self._tokens = {
            token: one for token, one in self._tokens.items() if one.question != change.id
        }
        known = {one.endpoint for one in self.keys.browsers}
        there = [one for one in notified if one.endpoint in known]
        texts = [
            (
                _closed_text(change)
                if self.keys.holds(one, self._access)
                else _anonymous_text(change.id)
            )
            for one in there
        ]
        await self._send_all(change.id, there, texts)

    async def _send_all(
        self, question: str, to: Sequence[Subscription], texts: Sequence[dict[str, Json]]
    ) -> list[str]:
        topic = _base64(sha256(question.encode()).digest())[:32]
        encoded = [json.dumps(text, ensure_ascii=False).encode() for text in texts]
        return await asyncio.gather(
            *(self._service.send(one, text, topic) for one, text in zip(to, encoded, strict=True))
        )

    def _text(self, question: OpenQuestion, one: Subscription) -> dict[str, Json]:
        if not self.keys.holds(one, self._access):
            return {
                **_anonymous_text(question.id),
                "body": "A question is open. Sign in to see it.",
            }
        title, url = f"{exact(question.source.header)} asks", f"q/{question.id}"
        whole = whole_text(question)
        if whole is None:
            said = f"{wording(question)}{time_left_of(question)}"
            body = said if len(said) <= MAX_BODY_CHARS else f"{said[:MAX_BODY_CHARS]}…"
            return {"title": title, "body": body, "tag": question.id, "url": url}
        actions: list[Json] = [
            {
                "title": name,
                "action": self._token(ButtonAction(question.id, one.user, one.sign_in, fields)),
            }
            for name, fields in buttons(question).items()
        ]
        return {"title": title, "body": whole, "tag": question.id, "url": url, "actions": actions}

    def _token(self, pressed: ButtonAction) -> str:
        token = secrets.token_urlsafe(16)
        self._tokens = dict([*self._tokens.items()][1 - MAX_TOKENS :])
        self._tokens[token] = pressed
        return token


def _failure(one: Subscription, why: str) -> str:
    return f"the push service {exact(urlsplit(one.endpoint).hostname or '')} ({why})"


# Texts of notifications
# --------------------------------------------------------------------------------------------------


def whole_text(question: OpenQuestion) -> str | None:
    """Return the complete subject of an approval if a notification can show every character of it,
    otherwise None.
    """
    asker = question.asker
    is_bare = not (
        question.question.context or question.problem or question.form or (asker and asker.said)
    )
    if not is_bare or not buttons(question):
        return None
    where = f"\nin {exact(asker.cwd)}" if asker and asker.cwd else ""
    whose = f"\n{exact(question.whose.line)}" if question.whose and question.whose.line else ""
    asked = (
        f"{exact(question.tool)} {exact(compact(question.arguments))}"
        if question.kind == "run"
        else exact(question.question.text)
    )
    text = f"{asked}{where}{whose}{time_left_of(question)}"
    return text if len(text) <= MAX_VISIBLE_CHARS and text.count("\n") < MAX_VISIBLE_LINES else None


def buttons(question: OpenQuestion) -> dict[str, dict[str, str]]:
    """Return the two buttons of a question with their form fields. The result is empty if the
    question needs more than yes or no.
    """
    if question.kind == "run":
        return {"Allow": {"act": "approve", "about": question.digest}, "Deny": {"act": "refuse"}}
    if question.kind == "tool" and isinstance(question.question.answer_type, BooleanType):
        return {"Yes": {"act": "answer", "answer": "yes"}, "No": {"act": "answer", "answer": "no"}}
    return {}


def _closed_text(change: StoreChange) -> dict[str, Json]:
    """Return a silent notification that replaces the notification about a closed question."""
    by = change.answered_by
    who = exact(by.user or by.model or by.via or "") if by else ""
    body = (
        f"Answered by {who}."
        if who
        else "Answered."
        if change.kind == "answered"
        else "No longer asked."
    )
    return {"title": "midturn", "body": body, "tag": change.id, "url": "", "silent": True}


def _anonymous_text(question: str) -> dict[str, Json]:
    """Return a notification without details, for a browser whose sign-in has expired."""
    return {
        "title": "midturn",
        "body": "A question is closed.",
        "tag": question,
        "url": "",
        "silent": True,
    }


def _is_for(question: OpenQuestion, one: Subscription) -> bool:
    whose = question.whose
    if whose is None:
        return True
    return whose.is_for(one.user) if one.user else whose.eligible is None


# Push services
# --------------------------------------------------------------------------------------------------


class _PublicResolver(AbstractResolver):
    """Resolves host names to allowed addresses only. Connections use only the addresses that were
    checked.
    """

    def __init__(self, may: Callable[[str], bool]) -> None:
        self._is_allowed = may
        self._names = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = [
            one
            for one in await self._names.resolve(host, port, family)
            if self._is_allowed(one["host"])
        ]
        if not found:
            raise OSError(f"{host} has no public address, so notifications are not sent to it")
        return found

    async def close(self) -> None:
        await self._names.close()


def _checked_endpoint(endpoint: Json) -> str:
    text = (
        endpoint
        if isinstance(endpoint, str) and len(endpoint) <= MAX_ENDPOINT_CHARS and endpoint.isascii()
        else ""
    )
    with suppress(ValueError):
        at = urlsplit(text)
        host = (at.hostname or "").rstrip(".")
        is_name = "." in host and not host.rpartition(".")[2].isdecimal() and ":" not in host
        if (
            at.scheme == "https"
            and is_name
            and not (at.username or at.password)
            and at.port != 0
            and text.isprintable()
        ):
            return text
    raise AnswerError(
        [
            Problem(
                "/subscription/endpoint",
                "must be the https URL of a push service with a host name.",
            )
        ]
    )


def _checked_key(keys: Mapping[str, Json], name: str, length: int) -> str:
    given = keys.get(name)
    with suppress(ValueError):
        if isinstance(given, str) and len(_read_base64(given)) == length:
            return given
    raise AnswerError(
        [Problem(f"/subscription/keys/{name}", f"must be {length} bytes in URL-safe Base64.")]
    )


def _checked_point(keys: Mapping[str, Json]) -> str:
    given = _checked_key(keys, "p256dh", 65)
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _read_base64(given))
    except ValueError as error:
        raise AnswerError(
            [Problem("/subscription/keys/p256dh", "must be a public key on the curve P-256.")]
        ) from error
    return given


def _seconds(said: str) -> float:
    return float(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 0.0  # noqa: PLR2004  dates are ignored


def _read_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read(file: Path) -> _PushFile | None:
    try:
        return msgspec.json.decode(read_private(file) or b"", type=_PushFile)
    except msgspec.DecodeError:
        return None
