"""The open questions and approvals of an open turn, read from its events alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, cast

from midturn.errors import MidturnError
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion
from midturn.record.asker import address, asker_of
from midturn.record.events import Approval, AskedForm, Event, InquiryAnswered, InquiryRequest, Source, ToolCallRequest, ToolCallResponse
from midturn.record.open_question import OpenQuestion, PromptKind, fenced, recorded_at, shown
from midturn.record.subject import AnswersSubject, asked_text, reviewed_places
from midturn.record.window import Window, asking_call, calls, open_turn, pair_inquiries, pairs
from midturn.values.json_value import Json
from midturn.values.limits import DEFAULT_LIMITS

_CUT: Final = "\n[…]"


def pending(events: Sequence[Event], conversation: str) -> list[OpenQuestion]:
    """Return the requests and approvals of the open turn without an answer, in the order in which they were asked.

    The events may begin anywhere before the last `turn_start`. A call that has its response waits for nothing any more.
    """
    window = open_turn(events)
    return pending_in(window, conversation) if window else []


def pending_in(window: Window, conversation: str) -> list[OpenQuestion]:
    """Return what `pending` does, of an open turn."""
    return _Turn(window.events, conversation).waiting()


class _Turn:
    """One open turn, looked up by call."""

    def __init__(self, events: Sequence[Event], conversation: str) -> None:
        self._events = events
        self._conversation = conversation
        self._asker = asker_of(events)
        self._approvals = [event for event in events if isinstance(event, Approval)]
        self._decided = {approval.id for approval in self._approvals if approval.state != "waiting"}
        self._edits = {a.call: a.arguments for a in self._approvals if a.kind == "run" and a.state == "edited"}
        self._calls = {event.event_id: event for event in events if isinstance(event, ToolCallRequest)}
        self._done = {event.call for event in events if isinstance(event, ToolCallResponse)}
        if "" in self._done:  # another program has not said which call it responds to
            self._done |= {call.event_id for call, response in calls(events) if response}

    def waiting(self) -> list[OpenQuestion]:
        unanswered = pair_inquiries(self._events).unanswered
        asking = {cast("InquiryRequest", self._events[place]).call for place in unanswered}
        found: list[OpenQuestion] = []
        for place, event in enumerate(self._events):
            match event:
                case InquiryRequest() if place in unanswered and self._is_asked(event):
                    found.append(self._asked(event, place))
                case Approval(state="waiting") if self._is_undecided(event, asking):
                    found.append(self._to_approve(event))
                case _:
                    pass
        return found

    def _is_asked(self, request: InquiryRequest) -> bool:
        """Whether there is a call that still needs the answer. Another program may not have said which call asks."""
        if request.call:
            return request.call in self._calls and request.call not in self._done
        return asking_call(request, [call for event_id, call in self._calls.items() if event_id not in self._done]) is not None

    def _is_undecided(self, approval: Approval, asking: set[str]) -> bool:
        """A review of answers waits only once all of them are there: Back may have opened a question again."""
        if approval.id in self._decided or approval.call in self._done:
            return False
        return approval.kind != "review" or approval.call not in asking or (approval.form is not None and not self._asks_again(approval))

    def _asks_again(self, approval: Approval) -> bool:
        """Whether Back has opened a question again of the very form that a review is about."""
        asked = [event for event in self._events if isinstance(event, InquiryRequest) and event.call == approval.call]
        first = next((place for place, request in enumerate(asked) if request.id == approval.form), 0)
        form = asked[first].form if asked else None
        ids = {str(question.get("id")) for question in form.questions} if form else set[object]()
        open_now = {self._events[place].event_id for place in pair_inquiries(self._events).unanswered}
        return any(request.revises and request.question_id in ids and request.event_id in open_now for request in asked[first:])

    def _asked(self, request: InquiryRequest, place: int) -> OpenQuestion:
        return OpenQuestion(
            id=address(self._conversation, request.event_id),
            conversation=self._conversation,
            kind="tool",
            source=request.source,
            question=request.question,
            form=self._form(request, place),
            tool=self._tool(request.call) or request.source.name or "",
            arguments=self._arguments(request.call),
            asked_at=recorded_at(request),
            request=request,
            asker=self._asker,
        )

    def _to_approve(self, approval: Approval) -> OpenQuestion:
        tool = self._tool(approval.call)
        return OpenQuestion(
            id=address(self._conversation, approval.event_id),
            conversation=self._conversation,
            kind=cast("PromptKind", approval.kind),
            source=self._source(approval, tool),
            question=self._question(approval, tool),
            form=None,
            tool=tool,
            arguments=self._arguments(approval.call),
            asked_at=recorded_at(approval),
            request=approval,
            asker=self._asker,
        )

    def _question(self, approval: Approval, tool: str) -> PersistedQuestion:
        """An approval as the yes/no question that it is.

        Its context shows what the call's arguments do not: the result that would be delivered, the answers that would be sent. It is cut
        at the limit of a context; the whole stands in the approval and in the answers.
        """
        match approval.kind:
            case "deliver":
                context = fenced(approval.content or "")
            case "review":
                context = _listed(self._reviewed(approval))
            case _:
                context = (approval.question and approval.question.context) or approval.reason or ""
        return PersistedQuestion(text=asked_text(approval, tool), answer_type=BooleanType(), context=_cut(context) or None)

    def _reviewed(self, approval: Approval) -> AnswersSubject:
        """The questions of a review and the answers that would be sent, as a visitor of the turn sees them.

        Where no visit is possible, because another program or another version asked, they are listed as they were recorded.
        """
        from midturn.turn.visit import Visit  # the machine: lists of other questions do without it

        try:
            prompt = Visit(self._events, approval.event_id, map(str, count()), self._conversation).prompt()
        except MidturnError:
            prompt = None
        if prompt and isinstance(prompt.subject, AnswersSubject):
            return prompt.subject
        asked = [(request, response) for request, response in pairs(self._events) if request.call == approval.call]
        answers = {request.question_id: response.answer for request, response in asked if isinstance(response, InquiryAnswered)}
        questions = {request.question_id: request.question.asked(request.question_id) for request, _ in asked}
        return AnswersSubject(tuple(questions.values()), answers)

    def _source(self, approval: Approval, tool: str) -> Source:
        """Who asks: a review belongs to the asker of the form."""
        if self._asker:
            return self._asker.source
        asked = [e.source for e in self._events if isinstance(e, InquiryRequest) and e.call == approval.call]
        return asked[-1] if asked and approval.kind == "review" else Source.tool(tool)

    def _tool(self, call: str) -> str:
        return self._calls[call].name if call in self._calls else ""

    def _arguments(self, call: str) -> Json:
        """The arguments that run: the model's, or a person's edit of them."""
        if call in self._edits:
            return cast("Json", self._edits[call])
        return self._calls[call].arguments if call in self._calls else None

    def _form(self, request: InquiryRequest, place: int) -> AskedForm | None:
        """The form of several questions that the question belongs to: it stands on the first request of the form.

        It is the last one that has the question, or else its id: forms that were asked at once may have equal ids.
        """
        asked = [event for event in self._events[: place + 1] if isinstance(event, InquiryRequest) and event.call == request.call]
        forms = [
            event.form for event in reversed(asked) if event.form and event.form.total > 1 and request.question_id in _texts(event.form)
        ]
        whole = [form for form in forms if _texts(form)[request.question_id] == request.question.text]
        return next(iter(whole or forms), None)


def _texts(form: AskedForm) -> dict[str, Json]:
    """Return what a form asks, by question id."""
    return {str(question.get("id")): question.get("text") for question in form.questions}


def _listed(reviewed: AnswersSubject) -> str:
    """List answers below each other; secrets are not among them."""
    questions = [reviewed.questions[place] for place in reviewed_places(reviewed)]
    return "\n".join(f"- {question.text}: {shown(reviewed.answers[question.id])}" for question in questions)


def _cut(context: str) -> str:
    encoded = context.encode("utf-8", "replace")
    if len(encoded) <= DEFAULT_LIMITS.context:
        return context
    return encoded[: DEFAULT_LIMITS.context - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT
