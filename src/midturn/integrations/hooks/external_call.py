"""One call of another program's agent that waits for a person: a conversation of its own, found, opened and written to in a store.

How much other agents may ask is limited here, too: one that asks without end buries no inbox and fills no disk.

**Guarantee.** Every change is decided inside `StorePort.settle`, on the turn as it is at that moment: what was looked at before is only
a hint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hmac import compare_digest
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import MidturnError, QuestionError, StoreError
from midturn.events import types as ev
from midturn.events.open_question import Asker, OpenQuestion, arguments_sha256
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere, Refused, RepliedTo, TurnStopped, tool_name
from midturn.ports import Clock
from midturn.protocol_forms import Outgoing, heading
from midturn.question.form import Form
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, canonical, json_problem, members, text
from midturn.question.question import Question
from midturn.routing.rules import Ruling
from midturn.stores.batch import event_ids, stamped
from midturn.stores.port import Settled
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import read_arguments
from midturn.turn.pending import pending
from midturn.turn.view import TurnView
from midturn.turn.visit import Visit


class Errand(Struct, frozen=True, kw_only=True):
    """One call of an agent that asks: its `id` there, its `tool` and `arguments`; `call` names it in our conversation."""

    conversation: str
    call: str
    id: str
    tool: str
    arguments: JsonObject
    asker: Asker

    @property
    def handle(self) -> str:
        """The name by which its asker, and no one else, finds it again: the id of the call is random, so it cannot be guessed."""
        return f"{self.conversation}-{self.call}"


def begin(errand: Errand, words: str) -> tuple[ev.Event, ...]:
    """Return the first events of an errand's conversation, without their ids; `words` say what it is about."""
    return (
        ev.TurnStart(metadata=errand.asker.metadata()),
        ev.ChatRequest(content=words, author=errand.asker.name),
        ev.ToolCallRequest(event_id=errand.call, id=errand.id, name=errand.tool, arguments=errand.arguments),
    )


def asked_by(turn: Sequence[ev.Event], asker: Asker, ids: Iterator[str]) -> tuple[ev.Event, ...]:
    """Return the event by which something else is known of who asks: another process waits for the answer now."""
    return () if is_over(turn) else (ev.ConfigDelta(event_id=next(ids), metadata=asker.metadata()),)


def permission(errand: Errand, ruling: Ruling, *, any_arguments: bool = False) -> ev.Approval:
    """Return what waits for a person who allows the call, or what the rule has decided that holds for it.

    `any_arguments` says that the rules depend on no arguments: see `Approval`.
    """
    asked = ev.Approval(id=f"{errand.id}.__run__.1", call=errand.call, kind="run", state="waiting")
    by = ev.AnsweredBy("configuration", origin=ruling.place)
    match ruling.run:
        case "unattended":
            digest = arguments_sha256(errand.arguments)
            return replace(asked, state="approved", answered_by=by, reason=ruling.reason, arguments_sha256=digest)
        case "skip":
            return replace(asked, state="skipped", answered_by=by, reason=ruling.reason)
        case _:
            people = ruling.people
            return replace(
                asked,
                reason=ruling.reason,
                rule=ruling.place,
                people=people,
                configured=people is not None,
                any_arguments=any_arguments,
                requires=ev.required_by("", people),
            )


def errand_of(conversation: str, turn: Sequence[ev.Event]) -> Errand | None:
    """Find the errand that a turn is; None where it is a turn of ours."""
    view = TurnView.last(turn)
    asker, call = view.asker, next((request for request, _ in view.calls), None)
    if asker is None or call is None:
        return None
    arguments = members(call.arguments)
    return Errand(conversation=conversation, call=call.event_id, id=call.id, tool=call.name, arguments=arguments, asker=asker)


def is_called(errand: Errand, turn: Sequence[ev.Event], name: str) -> bool:
    """Say whether this is the handle of an errand, or the id under which a person finds one of its questions in the inbox."""
    questions = (f"{errand.conversation}-{request.event_id}" for request, _ in TurnView.last(turn).inquiries)
    return any(compare_digest(known.encode(), name.encode("utf-8", "replace")) for known in (errand.handle, *questions))


def is_over(turn: Sequence[ev.Event]) -> bool:
    """Say whether the agent has had what it asked for, or never will."""
    return TurnView.last(turn).record.ended is not None


def decided(turn: Sequence[ev.Event]) -> Decided | None:
    """Return what a person decided; None while something waits, or answers are still to be collected."""
    view = TurnView.last(turn)
    ended = view.record.ended
    if ended and ended.status == "ended_by_user":
        return TurnStopped()
    if view.permissions:
        return _permitted(view.permissions[-1])
    reasons = view.cancel_reasons
    if "reply" in reasons:
        return _reply(view)
    if "user" in reasons:
        return TurnStopped()
    return DecidedElsewhere() if reasons & {"superseded"} and ended else None


def check_edit(conversation: str, turn: Sequence[ev.Event], rules: Callable[[Json], Ruling], ids: Iterator[str]) -> tuple[ev.Event, ...]:
    """Return the events that an edit leads to which another process recorded unchecked; none if there is no such edit."""
    edited = (question for question in pending(turn, conversation) if question.edit is not None and not question.edit.is_checked)
    question = next(edited, None)
    return () if question is None else Visit(turn, question.request.event_id, ids, conversation, rules=rules).checked()


def is_told(turn: Sequence[ev.Event]) -> bool:
    """Say whether the agent knows that it may make this call: it does so when it comes to it."""
    view = TurnView.last(turn)
    allowed = bool(view.permissions) and view.permissions[-1].state in {"approved", "edited"}
    return allowed and view.result is not None


def tell(turn: Sequence[ev.Event], content: str, ids: Iterator[str]) -> tuple[ev.Event, ...]:
    """Return the event by which an agent was told something before it is done with it."""
    errand = errand_of("", turn)
    if errand is None or is_over(turn) or TurnView.last(turn).result is not None:
        return ()
    return (ev.ToolCallResponse(event_id=next(ids), id=errand.id, call=errand.call, content=content),)


def content_of(turn: Sequence[ev.Event]) -> str | None:
    """Return what the agent was given in the end; None while it waits."""
    return TurnView.last(turn).result


def reasons_of(turn: Sequence[ev.Event], answers: Mapping[str, Json]) -> Mapping[str, str]:
    """Return what a person said with each answer that counts: what was taken back or is not asked any more has none."""
    latest = {request.question_id: response for request, response in TurnView.last(turn).answered}
    return {key: response.reason for key, response in latest.items() if response.reason and answers.get(key) is not None}


def answers_of(turn: Sequence[ev.Event]) -> dict[str, Json]:
    """Return the latest answer to each question."""
    return {request.question_id: response.answer for request, response in TurnView.last(turn).answered}


def asked(turn: Sequence[ev.Event]) -> ev.InquiryRequest | None:
    """Return the first question of an errand."""
    return next((request for request, _ in TurnView.last(turn).inquiries), None)


def _permitted(approval: ev.Approval) -> Decided | None:
    by = approval.answered_by
    rule = (by.origin or "") if by and by.by == "configuration" else ""
    match approval.state:
        case "approved":
            return Approved(always=approval.kept, rule=rule)
        case "edited":
            return Approved(members(approval.arguments))
        case "skipped":
            return Refused(approval.reason, rule)
        case "superseded":
            return DecidedElsewhere()
        case _:
            return None


def _reply(turn: TurnView) -> RepliedTo:
    """Return what a person said instead of answering, and what they had answered before: it stands in the call's result."""
    try:
        marker = members(msgspec.json.decode(turn.result or "{}"))
    except msgspec.DecodeError:
        return RepliedTo()
    texts = {request.question_id: request.question.text for request, _ in turn.inquiries}
    answers = {texts.get(key, key): value for key, value in members(marker.get("answered")).items()}
    return RepliedTo(text(marker.get("reply")), answers)


# ----------------------------------------------------------------------------------------------------------------------
# Dialogs about questions of ours that our server has an agent open: they are told by what they show, for a server has any name there


VIA: Final = "mcp"
"""The `via` of questions that come through our server."""


def shows(dialog: JsonObject, errand: Errand) -> bool:
    """Say whether a dialog (`message`, `requested_schema`) is about an errand of our server: about all of its questions, or one of them."""
    if errand.asker.via != VIA:
        return False
    try:
        asked = read_arguments(errand.arguments).form.questions
    except QuestionError:  # a permission that was asked through our server
        return False
    properties = members(members(dialog.get("requested_schema")).get("properties")).keys()
    return any(
        text(dialog.get("message")) == heading(shown) and properties == Outgoing.of(shown).schema["properties"].keys()
        for shown in (asked, *([one] for one in asked))
    )


# ----------------------------------------------------------------------------------------------------------------------
# What another program's dialog is shown of an open question, and how soon a person can have answered it


QUICKEST = 0.4  # seconds that a person needs at least to read a question and to say something


def questions_at_once(question: OpenQuestion, can_show: Callable[[Sequence[Question[Any]]], bool]) -> Sequence[Question[Any]]:
    """Return all questions of a form, unless one depends on another, or the dialog cannot show all of them: then the one that is open."""
    asked = question.question.asked(question.question_id) if question.kind == "tool" else None
    if question.form is None:
        return [asked] if asked else []
    whole = Form.from_record(list(question.form.questions)).questions
    apart = any(one.when for one in whole) or not can_show(whole) or whole[0].id != (asked.id if asked else "")
    return [asked] if apart and asked else whole


MOST: Final = 50
"""Questions of one session that wait at the same time."""
MOST_OF_ALL: Final = 500
"""Questions of all other agents, whatever they call themselves."""
LARGEST: Final = 1024 * 1024
"""Bytes of what one question is about."""
IN_AN_HOUR: Final = 600
"""Questions of all other agents in an hour, also where each is withdrawn before the next: what is withdrawn stays recorded."""
SESSION: Final = "session:"
"""Prefix of the label of another agent's conversation; the agent's own name for its session follows."""
_HOUR = 3_600_000_000  # microseconds, as ids of conversations count them
_LOOKED_AT = 4 * IN_AN_HOUR  # of the newest conversations of that hour, so that a caller waits no longer where turns of ours are many
_ID = 16  # digits
_AGAIN = 1.0  # seconds for which an agent that was refused is refused again without another look


class NoRoom(MidturnError):  # noqa: N818  it says what is the case
    """A question is not taken; `oldest` is the one of this agent that waits longest."""

    def __init__(self, message: str, oldest: str = "") -> None:
        super().__init__(message)
        self.oldest = oldest


class Room:
    """Whatever asks in one process shares one of these, so that questions at the same time are counted one after the other.

    What is counted is what the store holds, for each run of a hook is a process of its own. Processes that ask at the same moment may each
    find the last place free.
    """

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._refused: dict[tuple[str, str], tuple[float, NoRoom]] = {}

    @asynccontextmanager
    async def taken(self, store: ConversationStore, asker: Asker, call: JsonObject, clock: Clock) -> AsyncGenerator[None]:
        """Let the block ask about one more call; `call` is all that the agent says about it.

        Raises:
            NoRoom: It is too large, or could not be shown as it is, or too many wait.
        """
        problem = json_problem(call, DEFAULT_LIMITS.json_depth)
        if problem is not None:
            raise NoRoom(f"What {asker.name} asks about could not be shown as it is: {problem.message} It was not asked.")
        size = len(canonical(call)) + len(canonical(asker.metadata()))
        if size > LARGEST:
            raise NoRoom(f"What {asker.name} asks about has {size:,} bytes; no question may have more than {LARGEST:,}. It was not asked.")
        async with self._one_at_a_time:
            who = (asker.name, asker.session)
            before, refused = self._refused.get(who, (0.0, None))
            if refused and clock.monotonic() - before < _AGAIN:
                raise refused
            try:
                await _check_pace(store, asker, clock)
                await _check(store, asker)
            except NoRoom as full:
                self._refused[who] = (clock.monotonic(), full)
                raise
            yield


async def _check_pace(store: ConversationStore, asker: Asker, clock: Clock) -> None:
    """Count what was begun in the last hour by its ids, which are times; only where that is much, look whose it is."""
    now = int(clock.now().timestamp() * 1_000_000)
    since, until = f"{now - _HOUR:0{_ID}}", f"{now:0{_ID}}"
    ids = await store.port.ids(after=since)
    begun = [since, *(id for id in ids if id <= until)]  # noqa: A001  what a clock that was set back has left in the future is not recent
    if len(begun) <= IN_AN_HOUR:
        return
    named = await store.port.described(after=begun[-_LOOKED_AT - 1 :][0], limit=_LOOKED_AT)
    count = sum(any(label.startswith(SESSION) for label in metadata.labels) for _, metadata in named)
    if count >= IN_AN_HOUR:
        oldest = next((question.conversation for question in await _waiting(store) if _who(question)[0] == asker.name), "")
        raise NoRoom(f"Other agents have asked {count} times in the last hour, and no more is taken for now. This was not asked.", oldest)


async def _check(store: ConversationStore, asker: Asker) -> None:
    if len(await store.port.ids(which="open")) < MOST:
        return
    foreign = await _waiting(store)
    own = [question for question in foreign if _who(question) == (asker.name, asker.session)]
    advice = "no more are taken until some of them are answered. This one was not asked."
    if len(own) >= MOST:
        raise NoRoom(f"{len(own)} questions of this session of {asker.name} wait for the user already, and {advice}", own[0].conversation)
    if len(foreign) >= MOST_OF_ALL:
        oldest = next((question for question in foreign if _who(question)[0] == asker.name), foreign[0])
        raise NoRoom(f"{len(foreign)} questions of other agents wait for the user already, and {advice}", oldest.conversation)


async def _waiting(store: ConversationStore) -> list[OpenQuestion]:
    """Return the open questions of other agents, the oldest first."""
    return [question for question in await store.pending() if question.asker]


def _who(question: OpenQuestion) -> tuple[str, str]:
    return (question.asker.name, question.asker.session) if question.asker else ("", "")


_LOG = logging.getLogger(__name__)
_LOCKED_TRIES = 100
_UNNAMED = "unnamed"
PAUSE = 0.1
"""Seconds before another try to write."""
Decide: TypeAlias = Callable[[Sequence[ev.Event]], Sequence[ev.Event]]
"""Says what to write, from the turn as it is while nothing else writes."""


class ErrandLog:
    """The conversations of other agents' calls, in one store."""

    def __init__(self, store: ConversationStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.ids = event_ids()

    async def turn(self, conversation: str) -> tuple[ev.Event, ...]:
        """Return the events of an errand."""
        return tuple((await self.store.port.look(conversation)).turn.events)

    async def find(self, conversation: str) -> Errand | None:
        """Find an errand by its conversation, whichever process opened it."""
        try:
            return errand_of(conversation, await self.turn(conversation))
        except StoreError:
            return None

    async def is_unreadable(self, conversation: str) -> bool:
        """Say whether a conversation is there, and cannot be read just now."""
        try:
            await self.turn(conversation)
        except StoreError:
            return conversation in await self.store.port.ids()
        return False

    async def open_turns(self) -> list[tuple[str, tuple[ev.Event, ...]]]:
        """Return the open turns, oldest first. A conversation that is gone by now, or damaged, is passed over: others can still ask."""
        found: list[tuple[str, tuple[ev.Event, ...]]] = []
        for conversation in await self.store.port.ids(which="open"):
            try:
                found.append((conversation, await self.turn(conversation)))
            except StoreError as error:
                _LOG.warning("%s", error)
        return found

    async def open(self, asking: Errand, words: str, *asks: Callable[[Errand], ev.Event]) -> Errand:
        """Record a new errand, with the questions that a person is asked at once."""
        async with await self.store.create(f"{asking.asker.name}: {words}") as journal:
            call = next(self.ids)
            errand = replace(asking, conversation=journal.conversation, call=call, id=asking.id or call, tool=tool_name(asking.tool))
            events = [*begin(errand, words), *(ask(errand) for ask in asks)]
            named = [event if event.event_id else replace(event, event_id=next(self.ids)) for event in events]
            await journal.append(stamped(named, self.clock))
        await self.store.port.describe(errand.conversation, labels=_labels(asking.asker))
        return errand

    async def note(self, errand: Errand, asker: Asker) -> None:
        """Record what is now known of its asker, unless the errand is over."""
        await self.write(errand, lambda turn: asked_by(turn, asker, self.ids))

    async def write(self, errand: Errand, decide: Decide) -> None:
        """Write what `decide` says.

        Raises:
            StoreError: Another process does not let go of the conversation.
        """
        for _ in range(_LOCKED_TRIES):
            settled = await self.store.port.settle(errand.conversation, lambda last: stamped(decide(last.events), self.clock))
            if isinstance(settled, Settled):
                return
            await asyncio.sleep(PAUSE)
        raise StoreError(f"Another process holds conversation {errand.conversation}; what {errand.asker.name} was told is not recorded.")


def _labels(asker: Asker) -> tuple[str, ...]:
    return asker.agent or asker.name, f"{SESSION}{asker.session or _UNNAMED}"
