"""`midturn answer` without a VALUE: the person at the terminal is asked as the turn would ask, question by question."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from msgspec import UNSET, structs

from midturn.cli.answer.submitting import Decision, Edit, Ended, Submitted, Submitting, Value
from midturn.cli.asking import terminal
from midturn.config.settings import Settings
from midturn.core.events import Approval, Event, InquiryAnswered, InquiryRequest
from midturn.core.form import Form
from midturn.core.form.steps import Ask, Cancelled, Completed, FormEnded, Review
from midturn.core.form.walker import FormWalker
from midturn.core.json_value import Json
from midturn.core.prompt import AnswersSubject, CallSubject, Prompt, ResultSubject, Subject, ToolCall
from midturn.core.question import Question
from midturn.core.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted as Sent, Unavailable, WentBack
from midturn.core.stream import OpenQuestion, approval_text, pairs, reviewed_answers
from midturn.errors import AnswerError, Problem
from midturn.runtime.prompter import Prompter, ask_once
from midturn.store.file_store import FileStore

Outcome: TypeAlias = "Submitted | Replied | Ended | WentBack"

_SEND = Question.boolean("review", approval_text("review", ""))


def answer_here(store: FileStore, question: OpenQuestion, settings: Settings, reason: str | None) -> Outcome:
    """Ask, and hand what was answered to the store.

    Raises:
        AnswerError: Nobody could be asked, or the answer came too late to fit.
    """
    asking = _Asking(terminal(settings), question, store.last_turn(question.conversation))
    outcome = asyncio.run(asking.outcome())
    submitting = Submitting(store, question.id, asking.reason or reason)
    match outcome:
        case Replied(text):
            submitting.reply(text or "")
        case Ended():
            submitting.cancel()
        case WentBack():  # from a review: only the turn itself can ask again what was answered
            pass
        case submitted:
            submitting.value(submitted)
    return outcome


class _Asking:
    """One open question at the terminal; `reason` is what was typed with a "no"."""

    def __init__(self, prompter: Prompter, question: OpenQuestion, turn: Sequence[Event]) -> None:
        self._prompter = prompter
        self._question = question
        self._turn = turn
        self.reason: str | None = None

    async def outcome(self) -> Outcome:
        """Ask what there is to ask."""
        if self._question.kind != "tool":
            return await self._approval()
        if self._question.form is not None:
            return await self._form(self._question.form.questions)
        reply = await self._ask(Prompt(question=self._question.question.asked(self._question.id)))
        match reply:
            case Answered(value, reason=reason):
                self.reason = reason
                return Value(cast("Json", value))
            case _:
                return _left(reply)

    async def _approval(self) -> Outcome:
        question = self._question.question.asked(f"__{self._question.kind}__")
        reply = await self._ask(
            Prompt(
                question=structs.replace(question, context=None),  # the subject shows it
                kind=self._question.kind,
                subject=self._subject(),
                can_reply=self._question.kind == "review",
            )
        )
        match reply:
            case Answered(value, reason=reason):
                self.reason = reason
                return Decision(value is True)
            case Sent():
                return Decision(approve=True)
            case Edited(value):
                return Edit(value)
            case WentBack() if self._question.kind == "review":
                return reply
            case _:
                return _left(reply)

    def _subject(self) -> Subject:
        """Return what an approval is about."""
        call = ToolCall(self._question.request.call, "", self._question.tool, self._question.arguments)
        request = self._question.request
        match self._question.kind:
            case "deliver" if isinstance(request, Approval):
                return ResultSubject(call, request.content or "", bool(request.is_error))
            case "review":
                return reviewed_answers(self._question.request.call, self._turn)
            case _:
                return CallSubject(call)

    async def _form(self, questions: Sequence[Mapping[str, Json]]) -> Outcome:
        """Walk the form from the open question on; what was answered before stays answered, and Back does not go there."""
        form = Form.from_json(list(questions), review=True)
        recorded = _recorded(self._turn, self._question.request.call)
        walker = _walker(form, recorded, self._question_id)
        error: str | None = None
        while True:
            match walker.step():
                case Ask() as ask:
                    reply = await self._ask(_prompt(ask, error, recorded))
                case Review(answers):
                    plain = {key: cast("Json", value) for key, value in answers.items() if value is not None}
                    subject = AnswersSubject(form.questions, plain)
                    reply = await self._ask(Prompt(question=_SEND, kind="review", subject=subject, can_go_back=True))
                case Completed(answers):
                    optional = {question.id for question in form.questions if question.optional}
                    return Value({key: cast("Json", value) for key, value in answers.items() if value is not None or key in optional})
                case Cancelled(reply=text):
                    return Replied(text)
                case FormEnded():
                    return Ended()
            error = _feed(walker, reply)

    @property
    def _question_id(self) -> str:
        request = self._question.request
        return request.question_id if isinstance(request, InquiryRequest) else ""

    async def _ask(self, prompt: Prompt) -> Reply:
        """Show a prompt as the turn would."""
        question = self._question
        return await ask_once(
            self._prompter,
            structs.replace(
                prompt,
                asked_by=question.source.header,
                id=question.request.id,
                event=question.id,
                conversation=question.conversation,
                tool=question.tool,
                arguments=question.arguments,
            ),
        )


def _prompt(ask: Ask, error: str | None, recorded: Mapping[str, Json]) -> Prompt:
    """Return the prompt of a question; where Back opened it again before we came, its old answer is filled in."""
    prefill = recorded.get(ask.question.id, UNSET) if ask.prefill is UNSET else ask.prefill
    return Prompt(question=ask.question, index=ask.index, total=ask.total, prefill=prefill, can_go_back=ask.can_go_back, error=error)


def _feed(walker: FormWalker, reply: Reply) -> str | None:
    """Move the walk; return why the reply does not fit."""
    match reply:
        case Answered(value=True) if isinstance(walker.step(), Review):
            walker.feed(Sent())
        case Answered() | WentBack() | Replied() | EndedTurn() | Sent():
            try:
                walker.feed(reply)
            except AnswerError as error:
                return str(error)
        case Edited() | Unavailable():
            _left(reply)
    return None


def _walker(form: Form, recorded: Mapping[str, Json], open_id: str) -> FormWalker:
    """Walk up to the question that is open: it may have an answer on record that Back has taken back."""
    walker = FormWalker(form)
    while isinstance(ask := walker.step(), Ask) and ask.question.id != open_id and ask.question.id in recorded:
        walker.feed(Answered(recorded[ask.question.id], automatic=True))
    return walker


def _recorded(turn: Sequence[Event], call: str) -> dict[str, Json]:
    """Return the latest recorded answer to each question of a call."""
    return {
        request.question_id: response.answer
        for request, response in pairs(turn)
        if request.call == call and isinstance(response, InquiryAnswered)
    }


def _left(reply: Reply) -> Outcome:
    """Return how the person left without an answer."""
    match reply:
        case Replied():
            return reply
        case EndedTurn():
            return Ended()
        case _:
            raise AnswerError([Problem("", "Nobody could be asked: name a VALUE, or answer at a terminal.")])
