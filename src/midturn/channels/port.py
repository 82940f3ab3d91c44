"""The port of a channel: how a question reaches a person where they are, and how the answer comes back.

Theory of operation
===================

A channel (Telegram, e-mail, Matrix, …) is one file that speaks a platform's protocol and decides nothing. It sends a `Card`, changes a card
that it has sent, and yields each `Reply`. Everything else is written once, above it: which questions are sent, to whom, and what
becomes of a card when another person was faster (`channels/card_reconciler.py`), what a typed text means, and who may answer
(`channels/replies.py`).

**All connections go out from here.** A channel listens to nothing: it asks its platform for what is new.

**Nothing is lost, nothing counts twice.** `replies` is an iterator whose next step is the acknowledgement: when the runner asks for the
next reply, the one before is on record, and only then may the channel confirm it to its platform. A process that dies in between is told
again, and the first answer counts.

**A token is looked up, never decoded.** What a button brings back is a random text. What it stands for (which question, for whom, of which
text) is kept in the store, and is gone once the card has changed.

**Who is on the other side.** A channel names accounts as its platform does, by something that no user can choose or change. Which person an
account is says a pairing (`channels/state.py`). What comes from anybody else is counted and goes no further.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

from msgspec import Struct

from midturn.errors import MidturnError


class ChannelAway(MidturnError):  # noqa: N818
    """The platform cannot be reached, or wants us to wait: `after` says for how many seconds, where it says so."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        self.after = after
        super().__init__(message)


class ChannelRefused(MidturnError):  # noqa: N818
    """The platform refuses this for good: a token was taken back, a person has left, a message is gone."""


class Choice(Struct, frozen=True):
    """One button of a card. `token` comes back when it is pressed."""

    label: str
    token: str


class Card(Struct, frozen=True, kw_only=True):
    """What is sent of a question, for one person or room. All texts have passed the sink; a channel adds its platform's escaping.

    `heading` says who asks and where, `text` what. `lines` are shown exactly as they are, character by character: a call, a diff, a result.
    They are whole: what does not fit is in `file`, a name and its content, or the card offers no yes. `choices` are buttons, the first
    ones the answers. `hint` says how else to answer, `notice` what was wrong with the last reply, `left` how long there is left. A card
    that `is_over` has no buttons; `notice` says what became of it.

    Args:
        to: The account, or the room.
        token: Of the card itself, a new one whenever its text is new: what words bring back where nothing else says which text they answer,
            such as in the subject of a mail.
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
    """What came from the platform: a button (`token`), or a `text`.

    Args:
        account: Who, as the platform itself names them: nothing that a user can choose.
        handle: The message that it is about, where the platform says so: the one with the button, or the one replied to.
        token: Of the button, or, with words, of the card.
        text: What was typed.
        more: The rest of what was typed, if only the first line can be an answer: as in a mail, whose other lines may be a signature. A
            yes or a no decides nothing beside other words.
        place: The room; empty where they are alone with us.
        at: When it was written, by the clock of the platform that received it, in RFC 3339; empty where it does not say.
        problem: Why what was typed cannot be an answer, in words for its sender; empty if it can.
        spoken_for: Whether the platform vouches for the account. What it does not vouch for is no answer.
        id: What names it at the platform, each time that it is told; words without it may count twice when a process dies.
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
    """What a platform takes: characters of a message, buttons, whether files, and characters of a button's label.

    `has_names`: whether it says who presses. Where it does not (ntfy), nothing is asked that only certain people may answer. `confirms`:
    whether words are shown once more before they count, as where a quote can be taken for an answer (e-mail). `only`: the accounts that it
    reaches, where those are not all of its kind. `how` one answers in words.
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
    """How a channel is used. `asks` are the kinds of questions that are sent, `people` those who get them (empty: everyone who is paired).

    `rooms` are where they are sent instead; only those that are named, for others read there. `where` says where the questions come from.
    """

    name: str
    asks: tuple[str, ...] = ("tool", "run", "deliver", "review")
    people: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    where: str = ""


class Memory(Protocol):
    """A few texts of a channel's own that outlive its process, such as how far it has read."""

    def get(self, name: str) -> str:
        """Return what is kept under a name; empty where nothing is."""
        ...

    async def set(self, name: str, value: str) -> None:
        """Keep a text, durably."""
        ...


class Channel(Protocol):
    """A way to people and back."""

    @property
    def kind(self) -> str:
        """Its name on record, such as `telegram` or `email`."""
        ...

    @property
    def fits(self) -> Fits:
        """What the platform takes."""
        ...

    async def open(self, memory: Memory) -> None:
        """Connect.

        Raises:
            ChannelAway: It cannot be reached now.
            ChannelRefused: It does not let us in.
        """
        ...

    async def send(self, card: Card) -> str:
        """Send a card; return its handle, by which it can be changed and replied to.

        Raises:
            ChannelAway: Not now.
            ChannelRefused: Never.
        """
        ...

    async def update(self, handle: str, card: Card) -> None:
        """Change a card that was sent.

        Raises:
            ChannelAway: Not now.
            ChannelRefused: Never: it is gone, or too old.
        """
        ...

    def replies(self) -> AsyncGenerator[Reply]:
        """Yield what comes, in order, first what came while no one listened. To ask for the next one confirms the one before.

        Raises:
            ChannelAway: The connection broke; it is begun anew.
            ChannelRefused: It does not let us in any more.
        """
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


Made = Mapping[str, object]
"""What a configuration says of a channel, by key: what its own constructor takes."""
