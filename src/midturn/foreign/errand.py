"""One call of somebody else's agent that waits for a person: a conversation of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hmac import compare_digest
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.foreign.words import Approved, Decided, DecidedElsewhere, Refused, RepliedTo, TurnStopped
from midturn.question.elicitation import Outgoing, heading
from midturn.question.form import Form
from midturn.question.question import Question
from midturn.record.asker import Asker
from midturn.record.events import (
    AnsweredBy,
    Approval,
    ChatRequest,
    ConfigDelta,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
    required_by,
)
from midturn.record.open_question import OpenQuestion, arguments_sha256
from midturn.routing.rules import Ruling
from midturn.tools.ask_user_call import read_arguments
from midturn.turn.view import TurnView, pairs
from midturn.values.json_value import Json, JsonObject, members, text


class Errand(Struct, frozen=True, kw_only=True):
    """What an agent asks: `id` is the call's own id there, `tool` and `arguments` are the call; `call` names it in our conversation."""

    conversation: str
    call: str
    id: str
    tool: str
    arguments: JsonObject
    asker: Asker

    @property
    def handle(self) -> str:
        """What finds it again, and is told to its asker alone: nobody else can guess it, since the id of the call is random."""
        return f"{self.conversation}-{self.call}"


def begin(errand: Errand, words: str) -> tuple[Event, ...]:
    """Return the first events of an errand's conversation, without their ids; `words` say what it is about."""
    return (
        TurnStart(metadata=errand.asker.metadata()),
        ChatRequest(content=words, author=errand.asker.name),
        ToolCallRequest(event_id=errand.call, id=errand.id, name=errand.tool, arguments=errand.arguments),
    )


def asked_by(turn: Sequence[Event], asker: Asker, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the event by which something else is known of who asks: another process waits for the answer now."""
    return () if is_over(turn) else (ConfigDelta(event_id=next(ids), metadata=asker.metadata()),)


def permission(errand: Errand, ruling: Ruling) -> Approval:
    """Return what waits for a person who allows the call, or what the rule has decided that holds for it."""
    asked = Approval(id=f"{errand.id}.__run__.1", call=errand.call, kind="run", state="waiting")
    by = AnsweredBy("configuration", origin=ruling.place)
    match ruling.run:
        case "unattended":
            digest = arguments_sha256(errand.arguments)
            return replace(asked, state="approved", answered_by=by, reason=ruling.reason, arguments_sha256=digest)
        case "skip":
            return replace(asked, state="skipped", answered_by=by, reason=ruling.reason)
        case _:
            people = ruling.people
            return replace(asked, reason=ruling.reason, rule=ruling.place, people=people, requires=required_by("", people))


def errand_of(conversation: str, turn: Sequence[Event]) -> Errand | None:
    """Find the errand that a turn is; None where it is a turn of ours."""
    view = TurnView.last(turn)
    asker, call = view.asker, next((request for request, _ in view.calls), None)
    if asker is None or call is None:
        return None
    arguments = members(call.arguments)
    return Errand(conversation=conversation, call=call.event_id, id=call.id, tool=call.name, arguments=arguments, asker=asker)


def is_called(errand: Errand, turn: Sequence[Event], name: str) -> bool:
    """Say whether this is the handle of an errand, or the id under which a person finds one of its questions in the inbox."""
    questions = (f"{errand.conversation}-{request.event_id}" for request, _ in TurnView.last(turn).inquiries)
    return any(compare_digest(known.encode(), name.encode("utf-8", "replace")) for known in (errand.handle, *questions))


def is_over(turn: Sequence[Event]) -> bool:
    """Say whether the agent has had what it asked for, or never will."""
    return TurnView.last(turn).record.ended is not None


def decided(turn: Sequence[Event]) -> Decided | None:
    """Return what a person decided; None while something waits, or answers are still to be collected."""
    view = TurnView.last(turn)
    ended = view.record.ended
    if ended and ended.status == "ended_by_user":
        return TurnStopped()
    if view.permissions:
        return _permitted(view.permissions[-1])
    reasons = {response.reason for _, response in view.inquiries if isinstance(response, InquiryCancelled)}
    if "reply" in reasons:
        return _reply(view)
    if "user" in reasons:
        return TurnStopped()
    return DecidedElsewhere() if reasons & {"superseded"} and ended else None


def is_told(turn: Sequence[Event]) -> bool:
    """Say whether the agent knows that it may make this call: it does so when it comes to it."""
    view = TurnView.last(turn)
    allowed = bool(view.permissions) and view.permissions[-1].state in {"approved", "edited"}
    return allowed and view.result is not None


def tell(turn: Sequence[Event], content: str, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the event by which an agent was told something before it is done with it."""
    errand = errand_of("", turn)
    if errand is None or is_over(turn) or TurnView.last(turn).result is not None:
        return ()
    return (ToolCallResponse(event_id=next(ids), id=errand.id, call=errand.call, content=content),)


def content_of(turn: Sequence[Event]) -> str | None:
    """Return what the agent was given in the end; None while it waits."""
    return TurnView.last(turn).result


def reasons_of(turn: Sequence[Event], answers: Mapping[str, Json]) -> Mapping[str, str]:
    """Return what a person said with each answer that counts: what was taken back or is not asked any more has none."""
    latest = {request.question_id: response for request, response in pairs(turn) if isinstance(response, InquiryAnswered)}
    return {key: response.reason for key, response in latest.items() if response.reason and answers.get(key) is not None}


def answers_of(turn: Sequence[Event]) -> dict[str, Json]:
    """Return the latest answer to each question."""
    return {request.question_id: response.answer for request, response in pairs(turn) if isinstance(response, InquiryAnswered)}


def asked(turn: Sequence[Event]) -> InquiryRequest | None:
    """Return the first question of an errand."""
    return next((request for request, _ in TurnView.last(turn).inquiries), None)


def _permitted(approval: Approval) -> Decided | None:
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
"""How what our server asks reaches the inbox."""


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
# What a dialog of somebody else's is shown of an open question, and how soon a person can have answered it


QUICKEST = 0.4  # seconds that a person needs at least to read a question and to say something


def questions_at_once(question: OpenQuestion, can_show: Callable[[Sequence[Question[Any]]], bool]) -> Sequence[Question[Any]]:
    """Return all questions of a form, unless one depends on another, or the dialog cannot show all of them: then the one that is open."""
    request = question.request
    asked = request.question.asked(request.question_id) if isinstance(request, InquiryRequest) else None
    if question.form is None:
        return [asked] if asked else []
    whole = Form.from_json(list(question.form.questions)).questions
    apart = any(one.when for one in whole) or not can_show(whole) or whole[0].id != (asked.id if asked else "")
    return [asked] if apart and asked else whole
