"""Sends the notifications that are due, once. `midturn serve` does this continuously. For tests
that advance a clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from midturn.inbox.notifications import NotifyWhen, Reminding
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.question.people import Directory, Person
from midturn.stores.store import ConversationStore


async def tell_people(store: ConversationStore, notify: Mapping[str, Sequence[str]] = {}) -> None:
    """Send the notifications that are due now: new questions, reminders and escalations.

    Each notification is recorded as a note on its question, as `midturn serve` does
    (docs/howto/people.md).

    Args:
        store: Store with the conversations.
        notify: Notification addresses by person. For a person without an address, an error is
            recorded.
    """
    directory = Directory(
        people={name: Person(notify=tuple(addresses)) for name, addresses in notify.items()}
    )
    board = OpenQuestionList(Port(store))
    server = Reminding(board, directory, NotifyWhen(after=0.0, address="", warn=lambda _: None))
    try:
        await server.begin()
        await server.look()
    finally:
        await board.stop()


def tell_people_sync(store: ConversationStore, notify: Mapping[str, Sequence[str]] = {}) -> None:
    """Send the notifications that are due now. Synchronous version of `tell_people`.

    Args:
        store: Store with the conversations.
        notify: Notification addresses by person.
    """
    asyncio.run(tell_people(store, notify))
