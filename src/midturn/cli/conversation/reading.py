"""Reading a conversation for a person: what is wrong with its files is said, and the rest is shown."""

from __future__ import annotations

from midturn.cli.output import note
from midturn.cli.place import Place
from midturn.cli.shown import block, line
from midturn.store.conversation import Conversation


def read_for_a_person(place: Place, id: str | None) -> Conversation:
    """Read conversation `id`, or the current one."""
    conversation = place.store.read_sync(place.conversation(id))
    for problem in conversation.problems:
        note(line("midturn: {}", block(problem)))
    return conversation
