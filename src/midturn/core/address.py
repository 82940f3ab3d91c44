"""The name of an open question outside the machine: `<conversation>-<event id of its request>`."""

from __future__ import annotations

from msgspec import Struct


class Address(Struct, frozen=True):
    """Where a question is: its conversation, and the `event_id` of its request there."""

    conversation: str
    event_id: str

    def __str__(self) -> str:
        """Return the address as everybody outside the machine writes it."""
        return address(self.conversation, self.event_id)


def address(conversation: str, event_id: str) -> str:
    """Return the address of a question."""
    return f"{conversation}-{event_id}"


def parse_beginning(prefix: str) -> tuple[str, bool]:
    """Return what the beginning of an address says of its conversation, and whether that is all of it."""
    conversation, dash, _ = prefix.partition("-")
    return conversation, bool(dash)


def parse_address(text: str) -> Address | None:
    """Return what an address says; None where the text is no whole address."""
    conversation, dash, event_id = text.partition("-")
    return Address(conversation, event_id) if dash and conversation.isdecimal() and conversation.isascii() and event_id else None
