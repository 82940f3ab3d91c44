"""Split a conversation into turns; pair requests with responses; find nested turns.

Requests and responses are paired only within one turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from midturn.events import types as ev
from midturn.question.json_value import Json

MAY_START: Final = frozenset({ev.TurnStart, ev.OpaqueEvent})
"""Event classes that may start a turn. Checking the class first is fast."""
_BETWEEN_TURNS: Final = frozenset({ev.ConfigDelta, ev.OpaqueEvent})
_AFTER_LAST_OUTPUT: Final = _BETWEEN_TURNS | {
    ev.InquiryAnswered,
    ev.InquiryCancelled,
    ev.InquiryRedacted,
}
"""Events that may follow the last model output of a legacy turn. A response after these events
does not answer an open question.
"""


class Window(Struct, frozen=True):
    """The events of one turn. Only the last turn of a stream can be `open`."""

    events: tuple[ev.Event, ...]
    open: bool = False


class TurnByTurn:
    """Base class of event sequences that answer these queries without scanning all events."""

    def last_turn(self) -> Window | None:
        """Return the result of `last_turn` for these events."""
        raise NotImplementedError

    def provider_view(self) -> list[ev.VisibleEvent]:
        """Return the result of `provider_view` for these events."""
        raise NotImplementedError

    def config_deltas(self) -> list[Json]:
        """Return the result of `config_deltas` for these events."""
        raise NotImplementedError

    def standing_decisions(self) -> tuple[ev.Standing, ...]:
        """Return the result of `standing_decisions` for these events."""
        raise NotImplementedError


def standing_decisions(events: Iterable[ev.Event]) -> tuple[ev.Standing, ...]:
    """Return the standing decisions of a conversation, oldest first."""
    if isinstance(events, TurnByTurn):
        return events.standing_decisions()
    return tuple(event for event in events if isinstance(event, ev.Standing))


def config_deltas(events: Iterable[ev.Event]) -> list[Json]:
    """Return the values set by flags."""
    if isinstance(events, TurnByTurn):
        return events.config_deltas()
    return [
        event.delta
        for event in events
        if isinstance(event, ev.ConfigDelta) and event.delta is not None
    ]


def turns(events: Iterable[ev.Event]) -> list[Window]:
    """Split events into turns.

    Each turn starts with a `turn_start`. Events before the first `turn_start` belong to the first
    turn, or form a turn of their own if they contain more than settings. Returns an empty list if
    there are no turns.
    """
    parts: list[list[ev.Event]] = [[]]
    for event in events:
        if starts_turn(event) and _has_begun(parts[-1]):
            parts.append([])
        parts[-1].append(event)
    if not _has_begun(parts[-1]):
        return []
    last = parts.pop()
    return [*(Window(tuple(part)) for part in parts), Window(tuple(last), not _is_finished(last))]


def last_turn(events: Sequence[ev.Event]) -> Window | None:
    """Return the last turn, searching from the end. `events` may start anywhere before that
    turn.
    """
    if isinstance(events, TurnByTurn):
        return events.last_turn()
    return turn_from(events, _last_start(events))


def turn_from(events: Sequence[ev.Event], start: int) -> Window | None:
    """Return the last turn, which starts at index `start`. Earlier events are included if they
    contain only settings.
    """
    has_begun = start > 0 and any(begins(event) for event in itertools.islice(events, start))
    part = events[start:] if has_begun else events
    return Window(tuple(part), not _is_finished(part)) if _has_begun(part) else None


def _last_start(events: Sequence[ev.Event]) -> int:
    """Return the index of the last start of a turn, or 0."""
    for place in range(len(events) - 1, 0, -1):
        event = events[place]
        if event.__class__ in MAY_START and starts_turn(event):
            return place
    return 0


def open_turn(events: Sequence[ev.Event]) -> Window | None:
    """Return the open turn, if there is one. `events` may start anywhere before its
    `turn_start`.
    """
    window = last_turn(events)
    return window if window and window.open else None


def starts_turn(event: ev.Event) -> bool:
    """Return whether the event starts a turn, even if the rest of the event is unreadable."""
    kind = event.__class__
    return kind is ev.TurnStart or (kind is ev.OpaqueEvent and event.type == "turn_start")


def ends_turn(event: ev.Event) -> bool:
    """Return whether the event ends a turn, even if the rest of the event is unreadable."""
    kind = event.__class__
    return kind is ev.TurnEnd or (isinstance(event, ev.OpaqueEvent) and event.kind == "turn_end")


def _has_begun(part: Sequence[ev.Event]) -> bool:
    return any(map(begins, part))


def begins(event: ev.Event) -> bool:
    """Return whether this event belongs to a turn. Settings between turns do not."""
    return event.__class__ not in _BETWEEN_TURNS or starts_turn(event)


def _is_finished(part: Sequence[ev.Event]) -> bool:
    """Return whether the last turn has ended: it has a `turn_end`, or it is a legacy turn that ends
    with model output.
    """
    kinds = {event.__class__ for event in part}
    if ev.TurnEnd in kinds or (ev.OpaqueEvent in kinds and any(map(ends_turn, part))):
        return True
    if ev.ChatResponse not in kinds:
        return False
    last = next(
        (event for event in reversed(part) if event.__class__ not in _AFTER_LAST_OUTPUT), None
    )
    if not isinstance(last, ev.ChatResponse) or last.reasoning is not None or not is_legacy(last):
        return False
    return not any(event.more for event in part if event.__class__ not in _AFTER_LAST_OUTPUT)


def is_legacy(event: ev.Event) -> bool:
    """Return whether the event was written by a legacy version, which did not write `turn_end`: it
    has no id, or a timestamp in the old format.
    """
    return not event.event_id or event.event_id.startswith("line:") or " " in event.timestamp


# Nested turns: agents inside tools
# --------------------------------------------------------------------------------------------------


def parent_of(turn: Iterable[ev.Event]) -> ev.Parent | None:
    """Return the call that a turn runs in, or None."""
    return next((event.parent for event in turn if isinstance(event, ev.TurnStart)), None)


def children_of(events: Iterable[ev.Event]) -> list[ev.Child]:
    """Return the first event of each child turn that a tool started."""
    return [event for event in events if isinstance(event, ev.Child) and not event.of]


def turn_of_child(events: Sequence[ev.Event], child: str) -> Window | None:
    """Return the turn that the outer turn's event `child` refers to."""
    found = ((window, parent_of(window.events)) for window in reversed(turns(events)))
    return next((window for window, parent in found if parent and parent.child == child), None)


# Pairs of request and response: calls match by `call`, questions by `id`; repeated ids match in
# order
# ----------------------------


class RequestPairs:
    """Pairs of requests and responses, as indexes into a list of events.

    `responses` maps requests to responses. `orphans` are responses without a request.
    """

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.responses: dict[int, int] = {}
        self.orphans: list[int] = []
        self._waiting: dict[str | tuple[str, ...], list[int]] = {}

    @property
    def unanswered(self) -> set[int]:
        """The requests without a response."""
        return {place for place in self.requests if place not in self.responses}

    def begin_turn(self) -> None:
        """Drop the unanswered requests, because pairs never span two turns."""
        self._waiting = {}

    def ask(self, index: int, request: ev.InquiryRequest | ev.ToolCallRequest) -> None:
        """Add a request, under every key by which a response may refer to it."""
        self.requests.append(index)
        for key in (request.id,) if isinstance(request, ev.InquiryRequest) else _call_keys(request):
            if key in self._waiting:
                self._waiting[key].append(index)
            else:
                self._waiting[key] = [index]

    def respond(self, index: int, response: ev.InquiryResponse | ev.ToolCallResponse) -> int | None:
        """Pair a response with the first waiting request under its most specific matching key.
        Return the request's index.
        """
        for key in (
            _result_keys(response) if type(response) is ev.ToolCallResponse else (response.id,)
        ):
            waiting = self._waiting.get(key)
            while waiting and waiting[0] in self.responses:
                del waiting[0]
            if waiting:
                self.responses[waiting[0]] = index
                return waiting[0]
        self.orphans.append(index)
        return None


def asking_call(
    request: ev.InquiryRequest, open_calls: Sequence[ev.ToolCallRequest]
) -> ev.ToolCallRequest | None:
    """Return the call that asks a question which another program recorded without naming its call.
    The tool that asks must have exactly one open call.
    """
    of_tool = [call for call in open_calls if call.name == request.source.name]
    return of_tool[0] if len(of_tool) == 1 else None


def pair_inquiries(events: Sequence[ev.Event]) -> RequestPairs:
    """Pair questions with responses within each turn. A response belongs to the first earlier
    request that has the same id and no response yet.
    """
    return _paired(
        events, ev.InquiryRequest, (ev.InquiryAnswered, ev.InquiryRedacted, ev.InquiryCancelled)
    )


def pair_calls(events: Sequence[ev.Event]) -> RequestPairs:
    """Pair calls with results within each turn: by `call`, or by `id` and order if `call` is
    missing (legacy).
    """
    return _paired(events, ev.ToolCallRequest, (ev.ToolCallResponse,))


def _paired(
    events: Sequence[ev.Event],
    request: type[ev.InquiryRequest | ev.ToolCallRequest],
    responses: tuple[type[ev.InquiryResponse | ev.ToolCallResponse], ...],
) -> RequestPairs:
    pairing = RequestPairs()
    for place, event in enumerate(events):
        if starts_turn(event):
            pairing.begin_turn()
        elif isinstance(event, request):
            pairing.ask(place, event)
        elif isinstance(event, responses):
            pairing.respond(place, event)
    return pairing


def _call_keys(request: ev.ToolCallRequest) -> tuple[tuple[str, ...], ...]:
    """Return the keys under which a result may refer to a call."""
    return (request.event_id, request.id), (request.event_id,), ("", request.id)


def _result_keys(response: ev.ToolCallResponse) -> tuple[tuple[str, ...], ...]:
    """Return the keys by which a result refers to its call, most specific first."""
    return (
        ((response.call, response.id), (response.call,)) if response.call else (("", response.id),)
    )


def was_previewed(decided: ev.Approval, request: ev.InquiryRequest) -> bool:
    """Return whether the approval prompt of the call showed this question, because the tool
    previewed it.
    """
    previewed = decided.question
    return previewed is not None and (decided.question_id, previewed.key) == (
        request.question_id,
        request.question.key,
    )


# Calls refused because no human was there
# --------------------------------------------------------------------------------------------------


_REFUSAL_EVENTS: Final = frozenset({ev.InquiryCancelled, ev.Approval})
"""Event classes that record such a refusal."""


class UnreadRefusal(Struct, frozen=True):
    """A call that was refused. `closed` contains the decisions and responses that refused it."""

    call: ev.ToolCall
    response: ev.ToolCallResponse
    closed: tuple[ev.InquiryCancelled | ev.Approval, ...]


def unread_refusals(turn: Sequence[ev.Event]) -> Iterator[UnreadRefusal]:
    """Yield the calls that people refused, replied to, or ended together with the turn, if the
    model has not read their results yet.
    """
    calls = {request.event_id: request for request in ev.call_requests(turn)}
    positions = range(len(turn), 0, -1)
    first_unread = next(
        (
            place
            for place in positions
            if isinstance(turn[place - 1], ev.ToolCallRequest | ev.ChatResponse)
        ),
        0,
    )
    is_refused, closed = False, list[ev.InquiryCancelled | ev.Approval]()
    for event in turn[first_unread:]:
        match event:
            case ev.InquiryCancelled() | ev.Approval(state="skipped" | "expired"):
                is_refused = True
                closed.append(event)
            case ev.ToolCallResponse() if is_refused and event.call in calls:
                request = calls[event.call]
                yield UnreadRefusal(
                    ev.ToolCall(request.event_id, request.id, request.name, request.arguments),
                    event,
                    tuple(closed),
                )
                closed = []
            case _:
                pass
        if event.more == 0:  # events of one batch belong together
            is_refused, closed = False, []


def refused(turn: Iterable[ev.Event]) -> list[str]:
    """Return the names of the tools whose calls failed because no person was attached, in order,
    once per call.

    Tools that succeeded without the answer are not included.
    """
    turn = tuple(turn)
    if _REFUSAL_EVENTS.isdisjoint(map(type, turn)):  # fast path: no event can be a refusal
        return []
    names: dict[str, str] = {}
    asked: dict[str, str] = {}
    found: dict[str, str] = {}
    for event in turn:
        match event:
            case ev.ToolCallRequest():
                names[event.event_id] = event.name
            case ev.InquiryRequest():
                asked[event.id] = event.call
            case ev.InquiryCancelled(reason=reason, metadata=metadata) if (
                reason in ev.DETACHED_REASONS and metadata != ev.MODEL_ANSWER_IS_FINAL
            ):
                call = asked.get(event.id, "")
                found[call] = names.get(call, "")
            case ev.Approval(state="skipped", answered_by=decider) if (
                decider and decider.by == "default"
            ):
                found[event.call] = names.get(event.call, "")
            case ev.ToolCallResponse(is_error=False):
                found.pop(event.call, None)
            case _:
                pass  # the call was not refused for this reason
    return list(found.values())
