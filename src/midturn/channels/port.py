"""The interface of a channel, which sends questions to people and receives their answers.

Theory of operation
===================

A channel (Telegram, e-mail, Matrix, …) is one module that implements the protocol of a platform. It
sends a `Card`, changes a sent card, and yields each `Reply`. It makes no decisions.
`channels/card_reconciler.py` decides which questions are sent, to whom, and how a card changes.
`channels/replies.py` decides the meaning of a typed reply, and whether its sender may answer.

**All connections are outgoing.** A channel does not open a port. It polls its platform or keeps a
connection to it open.

**No reply is lost, and none counts twice.** `replies` is an iterator. By requesting the next reply,
the caller acknowledges that the previous reply was recorded. Only then may the channel confirm the
previous reply to its platform. If the process dies before that, the platform delivers the reply
again, and the first answer counts.

**Tokens contain no information.** A button sends back a random token. The store maps the token to
the question, the recipient and the displayed text. The mapping is deleted when the card changes.

**Accounts are authenticated by the platform.** A channel identifies an account by an identifier
that users cannot choose or change. A pairing (`channels/state.py`) maps an account to a person.
Messages from unpaired accounts are counted and dropped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from midturn.errors import MidturnError


class ChannelAway(MidturnError):  # noqa: N818
    """The platform is unreachable or is limiting the request rate.

    `after` is the number of seconds to wait, if the platform reports it.
    """

    def __init__(self, message: str, *, after: float | None = None) -> None:
        self.after = after
        super().__init__(message)


class ChannelRefused(MidturnError):  # noqa: N818
    """The platform rejects the request permanently.

    For example, a token was revoked or a message was deleted.
    """


class Choice(Struct, frozen=True):
    """One button of a card. The platform sends `token` back when the button is pressed."""

    label: str
    token: str


class Card(Struct, frozen=True, kw_only=True):
    """A question, as sent to one person or room.

    All text is sanitized. A channel only adds the escaping of its platform. If `is_over` is true,
    the card has no buttons.

    Args:
        to: The account or room that receives the card.
        token: Token of the card, renewed whenever its text changes. Channels without message
            references use the token to match a reply, for example in the subject of a mail.
        heading: The asker, the number of the question in its form (`2 of 3`), the workspace, and
            the people who may answer.
        text: The question.
        lines: A call, diff or result. Shown exactly, character by character, and never truncated.
        file: Name and content of an attachment, if `lines` do not fit.
        choices: The buttons. Answers come first.
        hint: How to answer without buttons.
        notice: What was wrong with the last reply, or the outcome if the question is closed.
        left: The time left to answer.
        is_over: Whether the question is closed.
    """

    to: str
    token: str = ""
    heading: str
    text: str
    lines: tuple[str, ...] = ()
    file: tuple[str, bytes] | None = None
    choices: tuple[Choice, ...] = ()
    hint: str = ""
    notice: str = ""
    left: str = ""
    is_over: bool = False


class Reply(Struct, frozen=True, kw_only=True):
    """A pressed button (`token`) or a typed `text`, received from the platform.

    Args:
        account: The platform's identifier of the sender. Users cannot choose it.
        id: Identifier of the reply, the same on every delivery. Without it, a typed reply may count
            twice after a crash.
        handle: Handle of the card to which the reply belongs, if the platform reports it.
        token: Token of the button or, for typed text, of the card.
        text: The typed text, or its first line if only the first line can be an answer.
        more: The other lines, such as the signature of a mail. If there are any, a `text` of "yes"
            or "no" does not count as an answer.
        place: The room. Empty in a private conversation.
        at: Time when the platform received the reply, in RFC 3339. Empty if unknown.
        spoken_for: Whether the platform authenticated the account. Replies from unauthenticated
            accounts are ignored.
        problem: Reason why the text cannot be an answer, as a sentence for the sender. Empty if the
            text can be an answer.
    """

    account: str
    id: str = ""
    handle: str = ""
    token: str = ""
    text: str = ""
    more: str = ""
    place: str = ""
    at: str = ""
    spoken_for: bool = True
    problem: str = ""


class Fits(Struct, frozen=True, kw_only=True):
    """Limits and features of a platform.

    Args:
        text: Maximum length of a message, in characters.
        buttons: Maximum number of buttons. 0 if the platform has none.
        files: Whether a message can have a file.
        label: Maximum length of a button label, in characters.
        has_names: Whether the platform reports the person who pressed a button. If it does not
            (ntfy), questions that only named people may answer are not sent.
        confirms: Whether a person has to confirm a typed answer before it counts, because a quote
            could be mistaken for an answer (e-mail).
        only: The accounts that this channel reaches. Empty: all accounts of its kind.
        how: How to answer with text, such as `reply to this message`.
    """

    text: int
    buttons: int
    files: bool = False
    label: int = 64
    has_names: bool = True
    confirms: bool = False
    only: tuple[str, ...] = ()
    how: str = "reply to this message"


class ChannelSettings(Struct, frozen=True, kw_only=True):
    """The questions that a channel sends, and their recipients.

    Args:
        name: Name of the channel in the configuration.
        asks: Kinds of questions that are sent.
        people: Names of the recipients. Empty: all paired people.
        rooms: Rooms that receive the questions instead of people. Questions that are assigned to
            named people are never sent to rooms.
        where: The workspace or program that asks, as shown on cards.
    """

    name: str
    asks: tuple[str, ...] = ("tool", "run", "deliver", "review")
    people: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    where: str = ""


class Memory(Protocol):
    """A small durable key-value store for a channel, for example for its read position."""

    def get(self, name: str) -> str:
        """Return the value of a key. Empty if there is none."""
        ...

    async def set(self, name: str, value: str) -> None:
        """Store a value durably."""
        ...


class Channel(Protocol):
    """The interface that every platform implements."""

    @property
    def kind(self) -> str:
        """Name of the platform in records, such as `telegram` or `email`."""
        ...

    @property
    def fits(self) -> Fits:
        """Limits and features of the platform."""
        ...

    async def open(self, memory: Memory) -> None:
        """Connect to the platform.

        Raises:
            ChannelAway: The platform is unreachable now.
            ChannelRefused: The platform rejects the credentials.
        """
        ...

    async def send(self, card: Card) -> str:
        """Send a card and return its handle, which identifies the message in updates and replies.

        Raises:
            ChannelAway: The platform is unreachable now.
            ChannelRefused: The platform rejects the card.
        """
        ...

    async def update(self, handle: str, card: Card) -> None:
        """Change a sent card.

        Raises:
            ChannelAway: The platform is unreachable now.
            ChannelRefused: The message was deleted or is too old to change.
        """
        ...

    def replies(self) -> AsyncGenerator[Reply]:
        """Yield replies in order, starting with those that arrived while the channel was not
        connected.

        Requesting the next reply acknowledges the previous reply.

        Raises:
            ChannelAway: The connection was lost. The caller opens a new connection.
            ChannelRefused: The platform no longer accepts the credentials.
        """
        ...

    async def close(self) -> None:
        """Disconnect from the platform."""
        ...
