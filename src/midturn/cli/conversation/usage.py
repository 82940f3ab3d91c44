"""`conversation show --usage`: the tokens that were spent, turn by turn (spec 1.4: `metadata.usage`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from midturn.cli.layout import table
from midturn.cli.output import say, say_json
from midturn.cli.shown import Shown, line
from midturn.core.events import ChatRequest, Event
from midturn.core.exchange import Usage
from midturn.core.json_value import Json
from midturn.store.conversation import Conversation


def print_usage(conversation: Conversation) -> None:
    """Print a row a turn, and their sum."""
    turns = [(_asked(window.events), _spent(window.events)) for window in conversation.turns]
    total = sum((spent for _, spent in turns), Usage())
    heading = [line("input"), line("cached"), line("output"), line("turn")]
    for row in table([heading, *(_row(spent, asked) for asked, spent in turns), _row(total, "all turns")]):
        say(row)


def print_usage_json(conversation: Conversation) -> None:
    """Print the same as JSON."""
    turns = [_spent(window.events) for window in conversation.turns]
    say_json({"turns": [_json(spent) for spent in turns], "total": _json(sum(turns, Usage()))})


def _row(spent: Usage, what: str) -> list[Shown]:
    numbers = (spent.input_tokens, spent.cache_read_tokens, spent.output_tokens)
    return [*(line("{}", f"{number:,}") for number in numbers), line("{}", what)]


def _json(spent: Usage) -> Json:
    return {field: getattr(spent, field) for field in Usage.__struct_fields__}


def _asked(turn: Sequence[Event]) -> str:
    contents = (event.content for event in turn if isinstance(event, ChatRequest))
    return next((line for content in contents for line in content.splitlines() if line.strip()), "")


def _spent(turn: Sequence[Event]) -> Usage:
    return sum(map(_of, turn), Usage())


def _of(event: Event) -> Usage:
    """Return what one event says; numbers that make no sense count as nothing."""
    try:
        return msgspec.convert((event.metadata or {}).get("usage", {}), Usage)
    except msgspec.ValidationError:
        return Usage()
