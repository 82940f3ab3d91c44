"""Earlier messages, with which a conversation begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, cast

from midturn.core.events import ChatRequest, ChatResponse, Event, TurnEnd, TurnStart
from midturn.errors import ConfigError
from midturn.journal import Journal
from midturn.store.ids import event_id


class HistoryMessage(TypedDict):
    """One earlier message: what the user said, or what the assistant answered."""

    role: Literal["user", "assistant"]
    content: str


async def begin_with(journal: Journal, history: Sequence[HistoryMessage]) -> None:
    """Record earlier messages as turns that are over; each message of the user begins one.

    Raises:
        ConfigError: The conversation has begun already; or something in it is not a message, or the first one is not the user's.
        StoreError: It cannot be recorded.
    """
    if history and journal.events:
        raise ConfigError(f"`history` begins a conversation; {journal.conversation} has begun already.")
    batch: list[Event] = []
    for place, message in enumerate(history):
        role, content = _read(place, message)
        if role == "user":
            batch += [*_ended(batch), TurnStart(event_id=event_id()), ChatRequest(event_id=event_id(), content=content)]
        elif not batch:
            raise ConfigError("history[0]: the first message is the user's (`role` is `user`).")
        else:
            batch.append(ChatResponse(event_id=event_id(), message=content))
    if batch:
        await journal.append([*batch, *_ended(batch)])


def _ended(batch: Sequence[Event]) -> list[Event]:
    return [TurnEnd(event_id=event_id(), status="completed")] if batch else []


def _read(place: int, message: object) -> tuple[str, str]:
    said = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    role, content = said.get("role"), said.get("content")
    if role not in ("user", "assistant") or not isinstance(content, str):
        raise ConfigError(f'history[{place}]: a message is {{"role": "user", "content": "…"}}, or one with the role `assistant`.')
    return str(role), content
