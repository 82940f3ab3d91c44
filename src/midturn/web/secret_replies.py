"""Secrets that were typed on a page, on their way to the turn that asked for them: in this process's memory, and nowhere else."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping

from midturn.core.events import InquiryRequest
from midturn.core.form import Form
from midturn.core.prompt import Prompt
from midturn.core.question import Question
from midturn.core.reply import Answered, Reply, Submitted, Unavailable
from midturn.core.secret import SecretValue
from midturn.core.stream import OpenQuestion
from midturn.errors import QuestionError
from midturn.prompter import Prompter

_KEPT_SECONDS = 15 * 60  # while a form is filled in
_MOST = 100


class Vault:
    """Secrets of forms that are not done yet; what travels with the page is a handle, which says nothing."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, SecretValue]] = {}

    def keep(self, secret: SecretValue) -> str:
        """Keep one; return its handle."""
        now = time.monotonic()
        fresh = {handle: kept for handle, kept in self._kept.items() if now - kept[0] < _KEPT_SECONDS}
        self._kept = dict(list(fresh.items())[-_MOST + 1 :])
        handle = secrets.token_urlsafe(16)
        self._kept[handle] = (now, secret)
        return handle

    def find(self, handle: object) -> SecretValue | None:
        """Return the secret of a handle; None where it was kept too long ago, or by a server that is gone."""
        kept = self._kept.get(handle) if isinstance(handle, str) else None
        return kept[1] if kept and time.monotonic() - kept[0] < _KEPT_SECONDS else None


class SecretReplies(Prompter):
    """Answers what people saw on a page, and typed there, as long as this turn runs in this process; a secret would have to be asked anew.

    A prompter for one run of the turn. What others answer in the inbox reaches the turn, too: then the prompt is taken away.
    """

    concurrent = True
    via = "web"

    def __init__(self) -> None:
        self.user: str | None = None
        self._given: dict[str, tuple[bytes, Answered]] = {}
        self._waiting: dict[str, asyncio.Future[Answered]] = {}
        self._taken = asyncio.Event()

    def give(self, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None) -> None:
        """Take what was typed: the answers by the ids of a form's questions; that of a question of its own is under `""`."""
        self.user = user
        self._taken = asyncio.Event()
        shown = _shown(question)
        self._given = {name: (shown[name], answer) for name, answer in answers.items() if name in shown}
        waiting = self._waiting.get(question.id)
        if waiting and not waiting.done() and (answer := self._answer_to(_name_in(question), question.question.key)):
            waiting.set_result(answer)

    def waits_for(self, id: str) -> bool:
        """Say whether the turn waits here for the answer to a question."""
        return id in self._waiting

    async def taken(self) -> None:
        """Return when the turn has taken the first of what was given."""
        await self._taken.wait()

    @property
    def was_taken(self) -> bool:
        """Whether it has."""
        return self._taken.is_set()

    async def prompt(self, prompt: Prompt) -> Reply:
        """Answer, if this is what the person saw: a secret must not go to a question that has changed meanwhile."""
        if prompt.kind == "review" and self.was_taken and not self._given:
            return Submitted()
        if prompt.kind not in ("tool", "deliver"):
            return Unavailable()
        key = prompt.question.persisted().key
        answer = self._answer_to(prompt.question.id, key) or self._answer_to("", key)
        if answer is not None:
            return answer
        if not self.was_taken:  # nothing of what was typed fits: the turn has changed
            return Unavailable()
        self._waiting[prompt.id] = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting[prompt.id]
        finally:
            del self._waiting[prompt.id]

    def _answer_to(self, name: str, key: bytes) -> Answered | None:
        seen, answer = self._given.get(name, (b"", None))
        if answer is None or seen != key:
            return None
        del self._given[name]
        self._taken.set()
        return answer


def _name_in(question: OpenQuestion) -> str:
    request = question.request
    return request.question_id if question.form and isinstance(request, InquiryRequest) else ""


def _shown(question: OpenQuestion) -> dict[str, bytes]:
    if question.form is None:
        return {"": question.question.key}
    return {name: one.persisted().key for name, one in _of_form(question).items()}


def _of_form(question: OpenQuestion) -> dict[str, Question[object]]:
    """Return the questions of the form by id; none where a newer version wrote it."""
    try:
        form = Form.from_json(list(question.form.questions)) if question.form else None
    except QuestionError:
        return {}
    return {} if form is None else {one.id: one for one in form.questions}
