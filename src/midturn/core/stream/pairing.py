"""Which response belongs to which request: calls by `call`, inquiries by `id`, in order where ids repeat."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

from midturn.core.events import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.core.stream.window import starts_turn

InquiryPair: TypeAlias = tuple[InquiryRequest, InquiryResponse | None]
CallPair: TypeAlias = tuple[ToolCallRequest, ToolCallResponse | None]


class Pairing:
    """Requests and responses as places in a list of events: `responses` by the place of their request, `orphans` of no request."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.responses: dict[int, int] = {}
        self.orphans: list[int] = []
        self._waiting: dict[tuple[str, ...], deque[int]] = {}

    @property
    def unanswered(self) -> set[int]:
        """The requests without a response."""
        return {place for place in self.requests if place not in self.responses}

    def begin_turn(self) -> None:
        """Forget who waits: pairs never span two turns."""
        self._waiting = {}

    def ask(self, place: int, *names: tuple[str, ...]) -> None:
        """Note a request, which a response may call by any of `names`."""
        self.requests.append(place)
        for name in names:
            self._waiting.setdefault(name, deque()).append(place)

    def respond(self, place: int, *names: tuple[str, ...]) -> None:
        """Give a response to the first request that still waits under the first of `names` that fits."""
        request = next((found for name in names if (found := self._first(name)) is not None), None)
        if request is None:
            self.orphans.append(place)
        else:
            self.responses[request] = place

    def _first(self, name: tuple[str, ...]) -> int | None:
        queue = self._waiting.get(name, deque())
        while queue and queue[0] in self.responses:
            queue.popleft()
        return queue[0] if queue else None


def pairs(events: Iterable[Event]) -> list[InquiryPair]:
    """Return every inquiry of a turn, or of a whole stream, with its response (`None` where it has none)."""
    events = list(events)
    pairing = pair_inquiries(events)
    return [(cast("InquiryRequest", events[place]), _response(events, pairing, place)) for place in pairing.requests]


def calls(events: Iterable[Event]) -> list[CallPair]:
    """Return every tool call of a turn, or of a whole stream, with its response (`None` where it has none)."""
    events = list(events)
    pairing = pair_calls(events)
    return [
        (cast("ToolCallRequest", events[place]), cast("ToolCallResponse | None", _response(events, pairing, place)))
        for place in pairing.requests
    ]


def asking_call(request: InquiryRequest, open_calls: Sequence[ToolCallRequest]) -> ToolCallRequest | None:
    """Return the call that a question of another program belongs to, which does not say so: the only open one of the tool that asks."""
    of_tool = [call for call in open_calls if call.name == request.source.name]
    return of_tool[0] if len(of_tool) == 1 else None


def pair_inquiries(events: Sequence[Event]) -> Pairing:
    """Pair inquiries inside each turn: a response takes the first request before it that has its id and no response yet."""
    pairing = Pairing()
    for place, event in enumerate(events):
        if starts_turn(event):
            pairing.begin_turn()
        elif isinstance(event, InquiryRequest):
            pairing.ask(place, (event.id,))
        elif isinstance(event, (InquiryAnswered, InquiryRedacted, InquiryCancelled)):
            pairing.respond(place, (event.id,))
    return pairing


def pair_calls(events: Sequence[Event]) -> Pairing:
    """Pair tool calls inside each turn: by `call`, and where that is absent (legacy) by `id`, in order."""
    pairing = Pairing()
    for place, event in enumerate(events):
        if starts_turn(event):
            pairing.begin_turn()
        elif isinstance(event, ToolCallRequest):
            pairing.ask(place, (event.event_id, event.id), (event.event_id,), ("", event.id))
        elif isinstance(event, ToolCallResponse):
            pairing.respond(place, *(((event.call, event.id), (event.call,)) if event.call else (("", event.id),)))
    return pairing


def _response(events: Sequence[Event], pairing: Pairing, request: int) -> InquiryResponse | None:
    place = pairing.responses.get(request)
    return None if place is None else cast("InquiryResponse", events[place])


def is_foretold(decided: Approval, request: InquiryRequest) -> bool:
    """Say whether whoever decided about a call has seen this very question: its tool had foretold it."""
    foretold = decided.question
    return foretold is not None and (decided.question_id, foretold.key) == (request.question_id, request.question.key)


def agreed_before(events: Iterable[Event]) -> frozenset[str]:
    """Return the `event_id`s of the requests that were answered when their call was permitted: one question for one thing."""
    agreed: dict[str, Approval] = {}
    found: set[str] = set()
    for event in events:
        match event:
            case Approval(kind="run", state="approved") if event.question is not None:
                agreed[event.call] = event
            case InquiryRequest() if (given := agreed.get(event.call)) is not None and is_foretold(given, event):
                del agreed[event.call]
                found.add(event.event_id)
            case _:
                pass
    return frozenset(found)
