"""What a server does for people as time passes, once: for tests, whose clock is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from midturn.inbox.notifications import NotifyWhen, Reminding
from midturn.inbox.open_questions import Board
from midturn.inbox.store_access import Port
from midturn.question.people import Directory, Person
from midturn.stores.store import ConversationStore


async def tell_people(store: ConversationStore, notify: Mapping[str, Sequence[str]] = {}) -> None:
    """Tell people once what is due now: what is put to them, reminders, escalations. `midturn serve` does it all the time.

    Each is on record as a note on its question, as a server leaves it there (docs/guides/people.md).

    Args:
        store: The conversations.
        notify: Addresses of services by the name of a person; who has none is not reached, which is on record, too.
    """
    directory = Directory(people={name: Person(notify=tuple(addresses)) for name, addresses in notify.items()})
    board = Board(Port(store))
    server = Reminding(board, directory, NotifyWhen(after=0.0, address="", warn=lambda _: None))
    try:
        await server.begin()
        await server.look()
    finally:
        await board.stop()


def tell_people_sync(store: ConversationStore, notify: Mapping[str, Sequence[str]] = {}) -> None:
    """Tell people once what is due now, in a program without an event loop; otherwise like `tell_people`.

    Args:
        store: The conversations.
        notify: As of `tell_people`.
    """
    asyncio.run(tell_people(store, notify))
