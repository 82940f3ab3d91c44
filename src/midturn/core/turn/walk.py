"""One ask of a tool on its way through its form."""

from __future__ import annotations

from collections.abc import Mapping

from midturn.core.form.steps import Cancelled, Completed, Step
from midturn.core.form.walker import FormWalker
from midturn.core.json_value import Json
from midturn.core.reply import Answered, Replied, WentBack
from midturn.core.secret import SecretValue
from midturn.core.turn.effects import GivenAnswer
from midturn.core.turn.inputs import Asking

PLACEHOLDER = SecretValue("")  # stands for a secret that was answered before the process died; never reaches a tool


class Walk:
    """The walker of one ask, and what belongs to its answers: which inquiry each came from, who gave it, and why.

    `waiting` is the id of the decision that the walk waits for, `places` say which attempts of its call it has come by.
    """

    def __init__(self, ask: int, asking: Asking, drafts: Mapping[str, Json]) -> None:
        self.ask = ask
        self.asking = asking
        self.walker = FormWalker(asking.form, drafts=drafts)
        self.waiting: str | None = None
        self.emitted: set[str] = set()
        self.inquiries: dict[str, str] = {}
        self.placeholders: set[str] = set()
        self.goes_back = False
        self.places: list[int] = []
        self.form_is_recorded = len(asking.form.questions) == 1
        self._replied: Cancelled | None = None
        self._given: dict[str, GivenAnswer] = {}

    def step(self) -> Step:
        """Say what comes now."""
        return self._replied or self.walker.step()

    def reply(self, replied: Replied) -> None:
        """Cancel the form; a secret that is asked again after its walk has ended is part of the walk here."""
        match self.walker.step():
            case Completed(answers):
                plain: dict[str, Json] = {key: v for key, v in answers.items() if v is not None and not isinstance(v, SecretValue)}
                self._replied = Cancelled(plain, replied.text)
            case _:
                self.walker.feed(replied)

    def answer(self, question_id: str, answered: Answered, inquiry: str, by: str) -> None:
        """Feed an answer; after the walk has ended, it is a secret that had to be asked again."""
        self._given[question_id] = GivenAnswer(answered.value, by, answered.reason)
        self.inquiries[question_id] = inquiry
        if answered.value is PLACEHOLDER:
            self.placeholders.add(question_id)
        else:
            self.placeholders.discard(question_id)
        match self.walker.step():
            case Completed():
                self.walker.replace(question_id, answered.value)
            case _:
                self.walker.feed(answered)

    def back(self) -> None:
        """Go back to the previous answered question."""
        self.goes_back = True
        self.walker.feed(WentBack())

    def given(self, answers: dict[str, Json | SecretValue]) -> dict[str, GivenAnswer]:
        """Return the answers with who gave each; a question that was skipped was answered by nobody."""
        return {question_id: self._attributed(question_id, value) for question_id, value in answers.items()}

    def _attributed(self, question_id: str, value: Json | SecretValue) -> GivenAnswer:
        given = self._given.get(question_id)
        if given is None or (value is None and given.value is not None):
            return GivenAnswer(None, "skipped")
        return GivenAnswer(value, given.by, given.reason)
