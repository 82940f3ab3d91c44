"""What channels keep in the store: who an account is, which cards were sent and what their buttons stand for, how far a channel has read.

It lies in the store, so that whichever server runs a channel knows it (`StorePort.beside`). Each thing is kept by itself under a name:

    channel/<name>/lease             who runs the channel, and until when
    channel/<name>/memory/<what>     a text of the channel's own
    channel/<name>/card/<key>        a card: for whom, about which question, what its buttons mean
    channel/<name>/taking            the words that were taken last, and which card they are about
    pairing/<kind>/<account>         which person an account is
    code/<kind>/<hash of the code>   which person pairs with it, until when

A code is kept as its hash alone, and is good once, for five minutes. A card is kept before it is sent: a process that dies in between sends
it once more, with the same tokens, so that both cards work.
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
from midturn.stores.port import StorePort

CODE_SECONDS: Final = 300.0
_CODE: Final = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # no letter looks like a digit: people type it on a phone
_CODE_LENGTH: Final = 8
MAX_OLD_TOKENS: Final = 100
"""Buttons of earlier texts of a card that are still recognized: its update may be late, and its author is then told so."""
_LEASE: Final = 30.0  # seconds after which a server that says nothing has lost the channel
T = TypeVar("T")


class Pairing(Struct, frozen=True):
    """An account of a person. `at` is when they paired."""

    kind: str
    account: str
    person: str
    at: str = ""


class UnclearNote(Struct, frozen=True):
    """Words of `person` that begin with a yes or a no and say more. They wait for their author, who alone says what they decide.

    `digest` is that of the subject to which they were written.
    """

    words: str
    person: str
    digest: str = ""


class Sent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A card: about the open question `question`, sent to `to`, an account or room; `person` is whose account it is, empty in a room.

    `tokens` says what each button does, and which one is the card's own, `before` are the unused ones of its earlier texts, the newest
    first. `asked` is what the card was about, for its last words, `about` what is asked in it, `there` what was asked in what has arrived,
    and `at` since when. `steps` are the answers of a form so far, `pending` is what a person has written that they still have to confirm.
    `tries` counts how often it may have been sent. `note` are words that their author was asked about, and has not confirmed.

    `same` are the tokens of earlier texts that differ from this one in their heading only, such as before a vote: they still count.
    `subject` is the fingerprint of everything but the heading. `digest` is that of the subject in `about`, and `shown` that of the subject
    in what has arrived, which was another one until `changed`.
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
        """Return what a token does; empty where it is none of this card."""
        return next((act for known, act in (*self.tokens.items(), *self.same.items()) if _is_same(known, token)), "")

    def had(self, token: str) -> bool:
        """Return whether it is of a button that the card had before."""
        return any(_is_same(known, token) for known in self.before)

    def may_be(self, handle: str) -> bool:
        """Return whether a message can be this card: also while it is not known which one is, or where it may be there twice."""
        return handle in ("", self.handle) or not self.handle or self.tries > 1

    def moved_on(self, used: str) -> Sent:
        """Return the card when a reply has counted: no button of it does anything any more, until it is shown anew."""
        before = (*(token for token in (*self.tokens, *self.same) if token != used), *self.before)
        return replace(self, tokens={}, same={}, before=before[:MAX_OLD_TOKENS], there="", about="")


class Taking(Struct, frozen=True):
    """Words that are being taken: `reply` names them at the platform, `key` the card, `state` how far that was."""

    reply: str
    key: str
    state: str


class Lease(Struct, frozen=True):
    """Who runs a channel, and until when."""

    holder: str
    until: str


class Ledger:
    """What is kept in one store. `now` is the time in RFC 3339."""

    def __init__(self, port: StorePort, now: Callable[[], str]) -> None:
        self._port = port
        self._now = now

    # People and their accounts --------------------------------------------------------------------------------------------

    async def code_for(self, person: str, kind: str) -> str:
        """Return a code with which a person pairs an account of theirs, once, within five minutes."""
        code = "".join(secrets.choice(_CODE) for _ in range(_CODE_LENGTH))
        await self._keep(f"code/{kind}/{_hash(code)}", {"person": person, "until": after(self._now(), CODE_SECONDS)})
        return code

    async def paired(self, kind: str, account: str, typed: str) -> Pairing | None:
        """Pair the account with the person whose code was typed; None where it is no code, or is not good any more."""
        name = f"code/{kind}/{_hash(typed.strip().upper())}"
        async with self._port.alone(f"pairing {kind}"):
            found = await self._find(name, dict[str, str])
            if found is None:
                return None
            await self._port.beside.keep(name, None)  # it is good once, also where it came too late
            if found["until"] <= self._now():
                return None
            pairing = Pairing(kind, account, found["person"], self._now())
            for before in await self._pairings_of(kind, account):  # spelled in another way
                await self._port.beside.keep(f"pairing/{kind}/{before.account}", None)
            await self._keep(f"pairing/{kind}/{account}", pairing)
        return pairing

    async def pairings(self) -> list[Pairing]:
        """Return every pairing, by channel and person."""
        found = await self._all("pairing/", Pairing)
        return sorted(found.values(), key=lambda pairing: (pairing.kind, pairing.person, pairing.account))

    async def person(self, kind: str, account: str) -> str:
        """Return whose account it is; empty where it belongs to no person."""
        found = await self._pairings_of(kind, account)
        return found[0].person if found else ""

    async def _pairings_of(self, kind: str, account: str) -> list[Pairing]:
        """Return the pairings of an account, however it is spelled; an account that is no name has none."""
        try:
            key = canonical_name(account)
        except ValueError:
            return []
        found = await self._all(f"pairing/{kind}/", Pairing)
        return [pairing for pairing in found.values() if name_key(pairing.account) == key]

    async def part(self, person: str, kind: str = "") -> list[Pairing]:
        """Forget the accounts of a person, of one channel or of all; return them."""
        gone = [pairing for pairing in await self.pairings() if is_same_name(pairing.person, person) and kind in ("", pairing.kind)]
        for pairing in gone:
            await self._port.beside.keep(f"pairing/{pairing.kind}/{pairing.account}", None)
        return gone

    # Cards ----------------------------------------------------------------------------------------------------------------

    async def cards(self, channel: str) -> dict[str, Sent]:
        """Return the cards of a channel, by key."""
        found = await self._all(f"channel/{channel}/card/", Sent)
        return {sent.key: sent for sent in found.values()}

    async def put(self, channel: str, sent: Sent) -> Sent:
        """Keep a card as it is now."""
        await self._keep(f"channel/{channel}/card/{sent.key}", sent)
        return sent

    async def drop(self, channel: str, sent: Sent) -> None:
        """Forget a card: its question is over."""
        await self._port.beside.keep(f"channel/{channel}/card/{sent.key}", None)

    async def taking(self, channel: str) -> Taking | None:
        """Return the words that were taken last."""
        return await self._find(f"channel/{channel}/taking", Taking)

    async def take(self, channel: str, taking: Taking) -> None:
        """Keep which words are being taken."""
        await self._keep(f"channel/{channel}/taking", taking)

    # A channel ------------------------------------------------------------------------------------------------------------

    async def memory(self, channel: str) -> KeptMemory:
        """Return what a channel itself has kept."""
        beginning = f"channel/{channel}/memory/"
        kept = await self._port.beside.kept(beginning)
        return KeptMemory(self._port, beginning, {name.removeprefix(beginning): value.decode() for name, value in kept.items()})

    async def leased(self, channel: str, holder: str) -> bool:
        """Take or renew the lease of a channel; False where another server runs it."""
        name = f"channel/{channel}/lease"
        async with self._port.alone(name):
            found = await self._find(name, Lease)
            if found and found.holder != holder and found.until > self._now():
                return False
            await self._keep(name, Lease(holder, after(self._now(), _LEASE)))
        return True

    async def release(self, channel: str, holder: str) -> None:
        """Give the lease back."""
        name = f"channel/{channel}/lease"
        async with self._port.alone(name):
            found = await self._find(name, Lease)
            if found and found.holder == holder:
                await self._port.beside.keep(name, None)

    async def _keep(self, name: str, value: object) -> None:
        await self._port.beside.keep(name, msgspec.json.encode(value))

    async def _find(self, name: str, kind: type[T]) -> T | None:
        return (await self._all(name, kind)).get(name)

    async def _all(self, beginning: str, kind: type[T]) -> dict[str, T]:
        """Return what can be read; what another version or another program has written is left alone."""
        found: dict[str, T] = {}
        for name, content in (await self._port.beside.kept(beginning)).items():
            try:
                found[name] = msgspec.json.decode(content, type=kind)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
        return found


class KeptMemory:
    """`Memory` in a store."""

    def __init__(self, port: StorePort, beginning: str, values: dict[str, str]) -> None:
        self._port = port
        self._beginning = beginning
        self._values = values

    def get(self, name: str) -> str:
        """Return what is kept under a name; empty where nothing is."""
        return self._values.get(name, "")

    async def set(self, name: str, value: str) -> None:
        """Keep a text, durably."""
        await self._port.beside.keep(f"{self._beginning}{name}", value.encode())
        self._values[name] = value


def token_of(sent: Sent, act: str) -> str:
    """Return the token of an act; empty where it has none."""
    return next((token for token, known in sent.tokens.items() if known == act), "")


def with_tokens(sent: Sent, acts: Mapping[str, str], subject: str) -> tuple[Sent, tuple[Choice, ...]]:
    """Return a card with a new token of its own and for each act, and its buttons, which `acts` names: label by act.

    Old tokens end, unless `subject` is what they were about.
    """
    tokens = {act: secrets.token_urlsafe(16) for act in (*acts, REPLY)}
    choices = tuple(Choice(label, tokens[act]) for act, label in acts.items())
    old = {**sent.tokens, **sent.same}
    same = old if sent.subject == subject and len(old) <= MAX_OLD_TOKENS else {}
    before = sent.before if same else (*old, *sent.before)[:MAX_OLD_TOKENS]
    made = {token: act for act, token in tokens.items()}
    return replace(sent, tokens=made, same=same, before=before, subject=subject), choices


def _is_same(known: str, token: str) -> bool:
    return token.isascii() and hmac.compare_digest(known, token)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
