"""A form on the page, question by question. What was answered so far travels with the page, so that a server may be restarted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from midturn.core.events import Event, InquiryAnswered, InquiryRequest
from midturn.core.form import Ask, Completed, Form, FormWalker, MisplacedReplyError, Review
from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json
from midturn.core.question import Question
from midturn.core.reply import Answered, WentBack
from midturn.core.secret import SecretValue
from midturn.core.stream import OpenQuestion, pairs
from midturn.errors import AnswerError
from midturn.web.secret_replies import Vault

_BACK = "back"
_MOST_STEPS = 500


class FormWalk:
    """The walk through the form of an open question, begun at that question: what was answered before it stays answered."""

    def __init__(self, question: OpenQuestion, turn: Sequence[Event], vault: Vault, carried: str = "") -> None:
        """Walk as far as the page has come.

        Args:
            question: One of a form.
            turn: The events of its turn.
            vault: Where secrets are that were typed on the pages before.
            carried: What `carried` was on the page before; what does not fit any more is left out.
        """
        asked = question.form
        self.form = Form.from_json(list(asked.questions) if asked else [], review=True)
        recorded = _recorded(turn, question.request.call)
        self._walker = FormWalker(self.form)
        self._first = question.request.question_id if isinstance(question.request, InquiryRequest) else ""
        while isinstance(ask := self._walker.step(), Ask) and ask.question.id != self._first and ask.question.id in recorded:
            self._walker.feed(Answered(recorded[ask.question.id], automatic=True))
        self._recorded = recorded
        self._steps: list[Json] = []
        self._vault = vault
        for step in _read(carried):
            if not self._again(step):
                break

    @property
    def step(self) -> Ask | Review | Completed:
        """What comes now."""
        return cast("Ask | Review | Completed", self._walker.step())  # nothing else is fed here

    @property
    def carried(self) -> str:
        """What the page carries along."""
        return msgspec.json.encode(self._steps).decode()

    def start(self, ask: Ask) -> Json | UnsetType:
        """Return what the control of a question holds when it is shown."""
        known = self._recorded.get(ask.question.id, UNSET) if ask.question.id == self._first else UNSET
        for value in (ask.prefill, self._walker.draft, known):
            if value is not UNSET:
                return value
        return ask.question.default

    def answer(self, value: Json) -> None:
        """Answer the question that is asked.

        Raises:
            AnswerError: It does not fit.
        """
        self._walker.feed(Answered(value))
        self._steps.append({"value": value})

    def answer_secret(self, secret: SecretValue) -> None:
        """Answer the secret that is asked; it stays in this process."""
        self._walker.feed(Answered(secret))
        self._steps.append({"secret": self._vault.keep(secret)})

    def back(self) -> None:
        """Go to the question before, if there is one that was answered on this page."""
        step = self._walker.step()
        if isinstance(step, Review) or (isinstance(step, Ask) and step.can_go_back):
            self._walker.feed(WentBack())
            self._steps.append(_BACK)

    def answers(self, given: Mapping[str, Any]) -> dict[str, Json]:
        """Return the map that `store.answer` takes: without what was skipped because of a `when`."""
        optional = {question.id for question in self.form.questions if question.optional}
        return {key: cast("Json", value) for key, value in given.items() if value is not None or key in optional}

    def shown(self, given: Mapping[str, Any]) -> list[tuple[Question[Any], Json]]:
        """Return the answers for the review."""
        answers = self.answers(given)
        return [(question, answers[question.id]) for question in self.form.questions if question.id in answers]

    def _again(self, step: Json) -> bool:
        """Take a step that was taken before; False where it cannot be taken any more: the form or the page is another."""
        try:
            match step:
                case "back":
                    self.back()
                case {"value": value}:
                    self.answer(value)
                case {"secret": handle} if (secret := self._vault.find(handle)) is not None:
                    self._walker.feed(Answered(secret))
                    self._steps.append(step)
                case _:
                    return False
        except (AnswerError, MisplacedReplyError):
            return False
        return True


def _read(carried: str) -> list[Json]:
    try:
        steps = read_json(carried) if carried else None
    except NotJson:
        return []
    return [*steps][:_MOST_STEPS] if isinstance(steps, Sequence) and not isinstance(steps, str) else []


def _recorded(turn: Sequence[Event], call: str) -> dict[str, Json]:
    """Return the latest recorded answer to each question of a call."""
    return {
        request.question_id: response.answer
        for request, response in pairs(turn)
        if request.call == call and isinstance(response, InquiryAnswered)
    }
