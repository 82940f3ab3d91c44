"""State of channels in the store: pairings, sent cards with their tokens, leases, read positions.

The state is in the store, so that any server can run the channel. Keys:

    channel/<name>/lease             the server that runs the channel, and until when
    channel/<name>/memory/<key>      a value that the channel stores
    channel/<name>/card/<key>        a sent card: recipient, question, meaning of its buttons
    channel/<name>/taking            the typed reply that was handled last, and its card
    pairing/<kind>/<account>         the person an account belongs to
    code/<kind>/<hash of the code>   the person that a pairing code is for, and its expiry

Only the hash of a pairing code is stored. A code works once, for five minutes. A card is stored
before it is sent. If the process dies in between, the card is sent again with the same tokens, so
that both copies work.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.channels.card import REPLY
from midturn.channels.port import Choice
from midturn.question.json_value import Json
from midturn.question.people import after
from midturn.question.text import canonical_name, is_same_name, name_key
from midturn.stores.lease import acquire_lease, release_lease
from midturn.stores.port import StorePort

CODE_SECONDS: Final = 300.0
# no letters that look like digits, because people type codes on phones
_CODE_ALPHABET: Final = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
_CODE_LENGTH: Final = 8
MAX_OLD_TOKENS: Final = 100
"""Maximum number of outdated buttons of a card that are recognized. A person who presses such a
button is told that the card has changed.
"""
T = TypeVar("T")


class Pairing(Struct, frozen=True):
    """An account that belongs to a person. `at` is the time of pairing in RFC 3339."""

    kind: str
    account: str
    person: str
    at: str = ""


class UnclearNote(Struct, frozen=True):
    """An unclear reply, which starts with yes or no and contains more text. Its author is asked
    what it means. `digest` is the digest of the subject that the card displayed.
    """

    words: str
    person: str
    digest: str = ""


class SentCard(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A card that was sent, or is about to be sent.

    A card has two versions: the version that was prepared last, and the version that was delivered.
    They differ until the platform confirms an update.

    Args:
        key: Key of the card in the state of its channel.
        question: ID of the open question.
        to: The account or room that received the card.
        person: Owner of the account. Empty for a room.
        handle: Handle of the message at the platform. Empty until it is sent.
        tokens: Act of each token. One of the tokens belongs to the card itself.
        same: Act of each token of earlier versions that differ only in the heading, for example
            before a vote. These tokens still count.
        before: Unused tokens of earlier versions, newest first. These tokens no longer count.
        subject: Fingerprint of the content without the heading.
        about: Fingerprint of the prepared version.
        there: Fingerprint of the delivered version.
        at: Time since which the delivered version is displayed.
        asked: Text of the question, for the final notice.
        tries: Number of times that the card may have been sent.
        steps: Answers of a form so far.
        pending: A typed answer that its author still has to confirm.
        note: An unclear reply whose author was asked what it means.
        digest: Digest of the subject in the prepared version.
        shown: Digest of the subject in the delivered version.
        changed: Time of the last change of `shown`.
    """

    key: str
    question: str
    to: str
    person: str = ""
    handle: str = ""
    tokens: Mapping[str, str] = {}
    same: Mapping[str, str] = {}
    before: tuple[str, ...] = ()
    subject: str = ""
    about: str = ""
    there: str = ""
    at: str = ""
    asked: str = ""
    tries: int = 0
    steps: tuple[Any, ...] = ()
    pending: Json = None
    note: UnclearNote | None = None
    digest: str = ""
    shown: str = ""
    changed: str = ""

    def act(self, token: str) -> str:
        """Return the act of a token, or an empty string if it is not a token of this card."""
        return next(
            (
                act
                for known, act in (*self.tokens.items(), *self.same.items())
                if _is_same(known, token)
            ),
            "",
        )

    def had(self, token: str) -> bool:
        """Return whether the token belongs to an earlier version of the card."""
        return any(_is_same(known, token) for known in self.before)

    def may_be(self, handle: str) -> bool:
        """Return whether a message can be this card. Return True if the handle is unknown, or if
        the card may have been sent twice.
        """
        return handle in ("", self.handle) or not self.handle or self.tries > 1

    def without_buttons(self, used: str) -> SentCard:
        """Return the card after a reply was accepted.

        Its buttons have no effect until the card is shown again.
        """
        before = (*(token for token in (*self.tokens, *self.same) if token != used), *self.before)
        return replace(self, tokens={}, same={}, before=before[:MAX_OLD_TOKENS], there="", about="")


class ReplyInProgress(Struct, frozen=True):
    """The typed reply that is being handled.

    Args:
        reply: Identifier of the reply at the platform.
        key: Key of the card to which the reply belongs.
        state: Fingerprint of the answers on the card before the reply.
    """

    reply: str
    key: str
    state: str


class ChannelState:
    """The state of all channels in one store. `now` returns the time in RFC 3339."""

    def __init__(self, port: StorePort, now: Callable[[], str]) -> None:
        self._port = port
        self._now = now

    # People and their accounts
    # ----------------------------------------------------------------------------------------------

    async def create_code(self, person: str, kind: str) -> str:
        """Return a one-time code that pairs an account with a person, valid for five minutes."""
        code = "".join(secrets.choice(_CODE_ALPHABET) for _ in range(_CODE_LENGTH))
        await self._store(
            f"code/{kind}/{_hash(code)}",
            {"person": person, "until": after(self._now(), CODE_SECONDS)},
        )
        return code

    async def redeem_code(self, kind: str, account: str, typed: str) -> Pairing | None:
        """Pair an account with the person to whom the typed code belongs.

        Return None if the code is unknown or has expired.
        """
        name = f"code/{kind}/{_hash(typed.strip().upper())}"
        async with self._port.alone(f"pairing {kind}"):
            found = await self._load(name, dict[str, str])
            if found is None:
                return None
            # deleted first, because a code works only once
            await self._port.beside.keep(name, None)
            if found["until"] <= self._now():
                return None
            pairing = Pairing(kind, account, found["person"], self._now())
            # delete earlier pairings of the account, including other spellings of its name
            for before in await self._pairings_of(kind, account):
                await self._port.beside.keep(f"pairing/{kind}/{before.account}", None)
            await self._store(f"pairing/{kind}/{account}", pairing)
        return pairing

    async def pairings(self) -> list[Pairing]:
        """Return all pairings, sorted by channel and person."""
        found = await self._load_all("pairing/", Pairing)
        return sorted(
            found.values(), key=lambda pairing: (pairing.kind, pairing.person, pairing.account)
        )

    async def person_of(self, kind: str, account: str) -> str:
        """Return the person to whom an account belongs, or an empty string if it is not paired."""
        found = await self._pairings_of(kind, account)
        return found[0].person if found else ""

    async def _pairings_of(self, kind: str, account: str) -> list[Pairing]:
        """Return the pairings of an account in any spelling. If the account is not a valid name,
        return an empty list.
        """
        try:
            key = canonical_name(account)
        except ValueError:
            return []
        found = await self._load_all(f"pairing/{kind}/", Pairing)
        return [pairing for pairing in found.values() if name_key(pairing.account) == key]

    async def unpair(self, person: str, kind: str = "") -> list[Pairing]:
        """Delete the pairings of a person, on one channel or on all channels, and return them."""
        gone = [
            pairing
            for pairing in await self.pairings()
            if is_same_name(pairing.person, person) and kind in ("", pairing.kind)
        ]
        for pairing in gone:
            await self._port.beside.keep(f"pairing/{pairing.kind}/{pairing.account}", None)
        return gone

    # Cards
    # ----------------------------------------------------------------------------------------------

    async def cards(self, channel: str) -> dict[str, SentCard]:
        """Return the cards of a channel by key."""
        found = await self._load_all(f"channel/{channel}/card/", SentCard)
        return {sent.key: sent for sent in found.values()}

    async def save_card(self, channel: str, sent: SentCard) -> SentCard:
        """Store a card and return it."""
        await self._store(f"channel/{channel}/card/{sent.key}", sent)
        return sent

    async def delete_card(self, channel: str, sent: SentCard) -> None:
        """Delete a card after its question was closed."""
        await self._port.beside.keep(f"channel/{channel}/card/{sent.key}", None)

    async def reply_in_progress(self, channel: str) -> ReplyInProgress | None:
        """Return the typed reply that was handled last."""
        return await self._load(f"channel/{channel}/taking", ReplyInProgress)

    async def save_reply_in_progress(self, channel: str, taking: ReplyInProgress) -> None:
        """Store the typed reply that is being handled."""
        await self._store(f"channel/{channel}/taking", taking)

    # A channel
    # ----------------------------------------------------------------------------------------------

    async def memory(self, channel: str) -> StoredMemory:
        """Return the key-value store of a channel."""
        beginning = f"channel/{channel}/memory/"
        kept = await self._port.beside.kept(beginning)
        return StoredMemory(
            self._port,
            beginning,
            {name.removeprefix(beginning): value.decode() for name, value in kept.items()},
        )

    async def acquire_lease(self, channel: str, holder: str) -> bool:
        """Acquire or renew the lease of a channel.

        Return False if another server holds the lease.
        """
        return await acquire_lease(self._port, _lease(channel), holder, self._now)

    async def release_lease(self, channel: str, holder: str) -> None:
        """Release the lease of a channel, if `holder` holds it."""
        await release_lease(self._port, _lease(channel), holder)

    async def _store(self, name: str, value: object) -> None:
        await self._port.beside.keep(name, msgspec.json.encode(value))

    async def _load(self, name: str, kind: type[T]) -> T | None:
        return (await self._load_all(name, kind)).get(name)

    async def _load_all(self, beginning: str, kind: type[T]) -> dict[str, T]:
        """Return the values that can be decoded. Values from other versions or programs are
        skipped.
        """
        found: dict[str, T] = {}
        for name, content in (await self._port.beside.kept(beginning)).items():
            try:
                found[name] = msgspec.json.decode(content, type=kind)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
        return found


class StoredMemory:
    """`Memory` that is kept in a store."""

    def __init__(self, port: StorePort, beginning: str, values: dict[str, str]) -> None:
        self._port = port
        self._beginning = beginning
        self._values = values

    def get(self, name: str) -> str:
        """Return the value of a key, or an empty string if there is none."""
        return self._values.get(name, "")

    async def set(self, name: str, value: str) -> None:
        """Store a value durably."""
        await self._port.beside.keep(f"{self._beginning}{name}", value.encode())
        self._values[name] = value


def token_of(sent: SentCard, act: str) -> str:
    """Return the token of an act, or an empty string if there is none."""
    return next((token for token, known in sent.tokens.items() if known == act), "")


def renew_tokens(
    sent: SentCard, acts: Mapping[str, str], subject: str
) -> tuple[SentCard, tuple[Choice, ...]]:
    """Return a card with new tokens, and its buttons. Tokens of earlier versions stop working,
    unless `subject` is unchanged.

    Args:
        sent: The card.
        acts: Label of each button, by act.
        subject: Fingerprint of the new content without the heading.
    """
    tokens = {act: secrets.token_urlsafe(16) for act in (*acts, REPLY)}
    choices = tuple(Choice(label, tokens[act]) for act, label in acts.items())
    old = {**sent.tokens, **sent.same}
    same = old if sent.subject == subject and len(old) <= MAX_OLD_TOKENS else {}
    before = sent.before if same else (*old, *sent.before)[:MAX_OLD_TOKENS]
    made = {token: act for act, token in tokens.items()}
    return replace(sent, tokens=made, same=same, before=before, subject=subject), choices


def _lease(channel: str) -> str:
    return f"channel/{channel}/lease"


def _is_same(known: str, token: str) -> bool:
    return token.isascii() and hmac.compare_digest(known, token)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
