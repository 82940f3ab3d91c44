"""A conversation, turn by turn: windows, pairs of request and response, answers of calls, turns of nested agents.

No lookup reaches beyond one turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from midturn.events import types as ev
from midturn.question.json_value import Json

MAY_START: Final = frozenset({ev.TurnStart, ev.OpaqueEvent})
"""The classes of events that may start a turn: a look at many events checks for these first."""
_BETWEEN_TURNS: Final = frozenset({ev.ConfigDelta, ev.OpaqueEvent})
_AFTERTHOUGHTS: Final = _BETWEEN_TURNS | {ev.InquiryAnswered, ev.InquiryCancelled, ev.InquiryRedacted}
"""Events that may follow the last words of a legacy turn: a response there answers nothing that is still open."""


class Window(Struct, frozen=True):
    """The events of one turn. Only the last turn of a stream can be `open`."""

    events: tuple[ev.Event, ...]
    open: bool = False


class TurnByTurn:
    """Events that are kept turn by turn: they know what the functions of this package would have to find out."""

    def last_turn(self) -> Window | None:
        """Return what `last_turn` of this module returns for all of these events."""
        raise NotImplementedError

    def provider_view(self) -> list[ev.VisibleEvent]:
        """Return what `provider_view` returns for all of these events."""
        raise NotImplementedError

    def config_deltas(self) -> list[Json]:
        """Return what `config_deltas` returns for all of these events."""
        raise NotImplementedError

    def standing_decisions(self) -> tuple[ev.Standing, ...]:
        """Return what `standing_decisions` of this module returns for all of these events."""
        raise NotImplementedError


def standing_decisions(events: Iterable[ev.Event]) -> tuple[ev.Standing, ...]:
    """Return the decisions that hold for the rest of a conversation, the oldest first."""
    if isinstance(events, TurnByTurn):
        return events.standing_decisions()
    return tuple(event for event in events if isinstance(event, ev.Standing))


def config_deltas(events: Iterable[ev.Event]) -> list[Json]:
    """Return what flags set."""
    if isinstance(events, TurnByTurn):
        return events.config_deltas()
    return [event.delta for event in events if isinstance(event, ev.ConfigDelta) and event.delta is not None]


def turns(events: Iterable[ev.Event]) -> list[Window]:
    """Split a stream into its turns.

    Each begins with a `turn_start`; what stands before the first one belongs to the first turn, or is a turn of its own where
    something is said there already. A stream without any turn has none.
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
    """Return the last turn, found from the end: what came before it costs nothing. The events may begin anywhere before its start."""
    if isinstance(events, TurnByTurn):
        return events.last_turn()
    return turn_from(events, _last_start(events))


def turn_from(events: Sequence[ev.Event], start: int) -> Window | None:
    """Return the last turn, which starts at a place: what stands before it belongs to it where nothing was said there."""
    has_begun = start > 0 and any(begins(event) for event in itertools.islice(events, start))
    part = events[start:] if has_begun else events
    return Window(tuple(part), not _is_finished(part)) if _has_begun(part) else None


def _last_start(events: Sequence[ev.Event]) -> int:
    """Return the place at which the last turn starts; 0 where none does."""
    for place in range(len(events) - 1, 0, -1):
        event = events[place]
        if event.__class__ in MAY_START and starts_turn(event):
            return place
    return 0


def open_turn(events: Sequence[ev.Event]) -> Window | None:
    """Return the turn that waits to be continued. The events may begin anywhere before its `turn_start`."""
    window = last_turn(events)
    return window if window and window.open else None


def starts_turn(event: ev.Event) -> bool:
    """Say whether a turn begins here (also where the rest of the event cannot be read)."""
    kind = event.__class__
    return kind is ev.TurnStart or (kind is ev.OpaqueEvent and event.type == "turn_start")


def ends_turn(event: ev.Event) -> bool:
    """Say whether a turn ends here (also where the rest of the event cannot be read)."""
    kind = event.__class__
    return kind is ev.TurnEnd or (isinstance(event, ev.OpaqueEvent) and event.kind == "turn_end")


def _has_begun(part: Sequence[ev.Event]) -> bool:
    return any(map(begins, part))


def begins(event: ev.Event) -> bool:
    """Say whether something is said or done here, so that a turn has begun."""
    return event.__class__ not in _BETWEEN_TURNS or starts_turn(event)


def _is_finished(part: Sequence[ev.Event]) -> bool:
    """Say whether a last turn is over: it says so, or it is a legacy one that ends in what the model said."""
    kinds = {event.__class__ for event in part}
    if ev.TurnEnd in kinds or (ev.OpaqueEvent in kinds and any(map(ends_turn, part))):
        return True
    if ev.ChatResponse not in kinds:
        return False
    last = next((event for event in reversed(part) if event.__class__ not in _AFTERTHOUGHTS), None)
    if not isinstance(last, ev.ChatResponse) or last.reasoning is not None or not is_legacy(last):
        return False
    return not any(event.more for event in part if event.__class__ not in _AFTERTHOUGHTS)


def is_legacy(event: ev.Event) -> bool:
    """Say whether the event is from a stream whose turns do not say that they end: without ids, or with times of the older form."""
    return not event.event_id or event.event_id.startswith("line:") or " " in event.timestamp


# Nested turns: agents inside tools ------------------------------------------------------------------------------------


def parent_of(turn: Iterable[ev.Event]) -> ev.Parent | None:
    """Return the call that a turn runs in; None for one that stands alone."""
    return next((event.parent for event in turn if isinstance(event, ev.TurnStart)), None)


def children_of(events: Iterable[ev.Event]) -> list[ev.Child]:
    """Return the turns that tools have started, each as it was first recorded."""
    return [event for event in events if isinstance(event, ev.Child) and not event.of]


def turn_of_child(events: Sequence[ev.Event], child: str) -> Window | None:
    """Return the turn that an event `child` of the turn around has named."""
    found = ((window, parent_of(window.events)) for window in reversed(turns(events)))
    return next((window for window, parent in found if parent and parent.child == child), None)


# Pairs of request and response: calls by `call`, inquiries by `id`, in order where ids repeat -------------------------


class Pairing:
    """Requests and responses as places in a list of events: `responses` by the place of their request, `orphans` of no request."""

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
        """Forget who waits: pairs never span two turns."""
        self._waiting = {}

    def ask(self, place: int, request: ev.InquiryRequest | ev.ToolCallRequest) -> None:
        """Note a request, which a response may call by any of its names."""
        self.requests.append(place)
        for name in (request.id,) if isinstance(request, ev.InquiryRequest) else _names_of_call(request):
            if name in self._waiting:
                self._waiting[name].append(place)
            else:
                self._waiting[name] = [place]

    def respond(self, place: int, response: ev.InquiryResponse | ev.ToolCallResponse) -> int | None:
        """Give a response to the first request that still waits under the first of its names that fits; return its place."""
        for name in _names_of_result(response) if type(response) is ev.ToolCallResponse else (response.id,):
            waiting = self._waiting.get(name)
            while waiting and waiting[0] in self.responses:
                del waiting[0]
            if waiting:
                self.responses[waiting[0]] = place
                return waiting[0]
        self.orphans.append(place)
        return None


def asking_call(request: ev.InquiryRequest, open_calls: Sequence[ev.ToolCallRequest]) -> ev.ToolCallRequest | None:
    """Return the call that a question of another program belongs to, which does not say so: the only open one of the tool that asks."""
    of_tool = [call for call in open_calls if call.name == request.source.name]
    return of_tool[0] if len(of_tool) == 1 else None


def pair_inquiries(events: Sequence[ev.Event]) -> Pairing:
    """Pair inquiries inside each turn: a response takes the first request before it that has its id and no response yet."""
    return _paired(events, ev.InquiryRequest, (ev.InquiryAnswered, ev.InquiryRedacted, ev.InquiryCancelled))


def pair_calls(events: Sequence[ev.Event]) -> Pairing:
    """Pair tool calls inside each turn: by `call`, and where that is absent (legacy) by `id`, in order."""
    return _paired(events, ev.ToolCallRequest, (ev.ToolCallResponse,))


def _paired(
    events: Sequence[ev.Event],
    request: type[ev.InquiryRequest | ev.ToolCallRequest],
    responses: tuple[type[ev.InquiryResponse | ev.ToolCallResponse], ...],
) -> Pairing:
    pairing = Pairing()
    for place, event in enumerate(events):
        if starts_turn(event):
            pairing.begin_turn()
        elif isinstance(event, request):
            pairing.ask(place, event)
        elif isinstance(event, responses):
            pairing.respond(place, event)
    return pairing


def _names_of_call(request: ev.ToolCallRequest) -> tuple[tuple[str, ...], ...]:
    """Return how a result may name a call."""
    return (request.event_id, request.id), (request.event_id,), ("", request.id)


def _names_of_result(response: ev.ToolCallResponse) -> tuple[tuple[str, ...], ...]:
    """Return how a result names its call, the surest name first."""
    return ((response.call, response.id), (response.call,)) if response.call else (("", response.id),)


def is_foretold(decided: ev.Approval, request: ev.InquiryRequest) -> bool:
    """Say whether the person who decided about a call has seen this very question: its tool had foretold it."""
    foretold = decided.question
    return foretold is not None and (decided.question_id, foretold.key) == (request.question_id, request.question.key)


# Answers of a call: what its pairs add up to ---------------------------------------------------------------------------


class CallSoFar:
    """What was answered in a call, by question id, in the order of the answers; no secrets, nothing skipped.

    `at_reply` is what it was when a person said something else instead, by the `event_id` that says so: a call that is replayed has the
    later answers on record, too.
    """

    def __init__(self) -> None:
        self.now: dict[str, Json] = {}
        self.at_reply: dict[str, dict[str, Json]] = {}
        self._after: dict[str, tuple[str, ...]] = {}

    def ask(self, request: ev.InquiryRequest) -> None:
        """Forget what is asked anew: an older answer says nothing of it."""
        if request.form:
            ids = [str(asked.get("id")) for asked in request.form.questions]
            self._after |= {key: tuple(ids[place:]) for place, key in enumerate(ids, 1)}
            self._forget(ids)
        if request.question_id in self.now:
            del self.now[request.question_id]

    def close(self, request: ev.InquiryRequest, response: ev.InquiryResponse) -> None:
        """Take in an answer. One that was revised discards those that came after it in its form."""
        if response.outcome == "cancelled":
            if response.reason == "reply":
                self.reply(response.event_id)
            return
        if request.revises:
            self._forget(self._after.get(request.question_id, ()))
        if response.outcome == "answered" and response.answer is not None and request.question_id:
            self.now[request.question_id] = response.answer

    def _forget(self, ids: Iterable[str]) -> None:
        for key in ids:
            self.now.pop(key, None)

    def reply(self, event_id: str) -> None:
        """Keep what had been answered by now."""
        self.at_reply[event_id] = dict(self.now)


# Calls refused because no human was there -----------------------------------------------------------------------------


_MISSING: Final = frozenset({ev.InquiryCancelled, ev.Approval})
"""Recorded where no one was there."""


def unread_refusals(turn: Sequence[ev.Event]) -> Iterator[tuple[ev.ToolCall, ev.ToolCallResponse]]:
    """Yield the calls that people have ended with a no, a reply or the end of the turn, and whose results the model has not read yet."""
    calls = {request.event_id: request for request in ev.call_requests(turn)}
    places = range(len(turn), 0, -1)
    unread = next((place for place in places if isinstance(turn[place - 1], ev.ToolCallRequest | ev.ChatResponse)), 0)
    is_refused = False
    for event in turn[unread:]:
        match event:
            case ev.InquiryCancelled() | ev.Approval(state="skipped" | "expired"):
                is_refused = True
            case ev.ToolCallResponse() if is_refused and event.call in calls:
                request = calls[event.call]
                yield ev.ToolCall(request.event_id, request.id, request.name, request.arguments), event
            case _:
                pass
        is_refused = is_refused and event.more > 0  # what is recorded at once belongs together


def refused(turn: Iterable[ev.Event]) -> list[str]:
    """Return the names of the tools whose calls ended in an error for want of a human, in order, once a call.

    A tool that goes on without the answer, and succeeds, is not among them.
    """
    turn = tuple(turn)
    if _MISSING.isdisjoint(map(type, turn)):  # as usual: no one was missed
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
            case ev.InquiryCancelled(reason=reason, metadata=metadata) if reason in ev.NO_ONE_THERE and metadata != ev.STANDS:
                call = asked.get(event.id, "")
                found[call] = names.get(call, "")
            case ev.Approval(state="skipped", answered_by=who) if who and who.by == "default":
                found[event.call] = names.get(event.call, "")
            case ev.ToolCallResponse(is_error=False):
                found.pop(event.call, None)
            case _:
                pass  # no one was missed here
    return list(found.values())
