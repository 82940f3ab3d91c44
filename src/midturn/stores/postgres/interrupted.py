"""Turns in PostgreSQL whose run ended in the middle of a model request or a call."""

from __future__ import annotations

from midturn.events.window import parent_of
from midturn.stores.decisions import is_due
from midturn.stores.port import LastTurn
from midturn.stores.postgres import statements
from midturn.stores.postgres.database import Database, Rows
from midturn.stores.postgres.transactions import ConversationRows
from midturn.turn.view import TurnView

_ALL = 1 << 62


async def ready_or_interrupted(database: Database, rows: ConversationRows, after: str) -> list[str]:
    """Return the conversations whose turn can continue after a decision, or was interrupted, oldest
    first. Only conversations whose ID comes after `after` are returned.
    """
    ready = await database.rows(statements.IDS["ready"], {"after": after, "limit": _ALL})
    left = _last_turns(await database.rows(statements.LEFT, {"after": after}), rows)
    known = dict(left)
    while missing := [id for turn in known.values() for id in _inside(turn) if id not in known]:  # noqa: A001  the common name of IDs
        inside = _last_turns(await database.rows(statements.LAST_TURN_OF, {"ids": missing}), rows)
        known |= {id: inside.get(id, LastTurn(())) for id in missing}  # noqa: A001  as above
    interrupted = {
        id
        for id, turn in left.items()  # noqa: A001  as above
        if parent_of(turn.events) is None and is_due(turn, known.get)
    }
    return sorted({row["id"] for row in ready} | interrupted)


def _last_turns(found: Rows, rows: ConversationRows) -> dict[str, LastTurn]:
    return {row["id"]: LastTurn(rows.events(row["id"], row["lines"])) for row in found}


def _inside(turn: LastTurn) -> list[str]:
    """Return the conversations that run inside the tools of a turn."""
    return [child.conversation for child in TurnView.last(turn.events).awaited_children]
