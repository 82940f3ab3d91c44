"""A form on the web page, one question at a time.

The turn's state machine runs in memory, and nothing is recorded until the form is submitted.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from midturn.errors import AnswerError, NotOpen
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import FormSubject, Prompt, reviewed_places
from midturn.events.types import AnsweredBy, Event
from midturn.inbox.resuming import SecretCache
from midturn.inbox.store_access import Port
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply, Submitted, WentBack
from midturn.stores.batch import event_ids
from midturn.turn.visit import Visit

_BACK = "back"
_MAX_STEPS = 500
_WEB_USER = AnsweredBy("user", via="web")


class FormWalk:
    """Steps through the form of an open question, starting after its recorded answers.

    Unsubmitted steps are stored in the page.
    """

    def __init__(
        self,
        question: OpenQuestion,
        turn: Sequence[Event],
        vault: SecretCache,
        steps: Sequence[Json] = (),
    ) -> None:
        """Replay the steps of the earlier pages.

        Args:
            question: An open question of a form.
            turn: Events of the turn that asks the question.
            vault: Cache of the secrets that were entered on earlier pages.
            steps: The `steps` of the previous page. They are replayed up to the first invalid step.

        Raises:
            NotOpen: The question is not open.
            AlreadyAnswered: The question was answered before.
            QuestionError: The form was written by a newer version.
        """
        self._visit = Visit(turn, question.request.event_id, event_ids(), question.conversation)
        self._vault = vault
        self._answer_count = 0
        self._typed: dict[str, Json | SecretValue] = {}
        self._drafts: dict[str, Json] = {}
        self.steps: list[Json] = []
        for step in steps[:_MAX_STEPS]:
            if not self._replay(step):
                break

    @property
    def prompt(self) -> Prompt | None:
        """The next question or the review, or None when the form is complete.

        An answer in a form cannot be remembered for later calls.
        """
        prompt = self._visit.prompt()
        return None if prompt is None else replace(prompt, may_remember=False)

    @property
    def is_at_its_beginning(self) -> bool:
        """Whether Back would withdraw a recorded answer, which only the store can do."""
        return self._answer_count == 0

    @property
    def carried(self) -> str:
        """The steps as JSON, to be stored in the page."""
        return msgspec.json.encode(self.steps).decode()

    def start(self, prompt: Prompt) -> Json | UnsetType:
        """Return the initial value of the question's control."""
        draft = self._drafts.get(prompt.question.id, UNSET)
        return next(
            (value for value in (prompt.prefill, draft) if value is not UNSET),
            prompt.question.default,
        )

    def answer(self, value: Json) -> None:
        """Answer the current question.

        Raises:
            AnswerError: The answer is invalid.
        """
        self._take(Answered(value), value)
        self.steps.append({"value": value})

    def answer_secret(self, secret: SecretValue) -> None:
        """Answer the current question, which asks for a secret.

        The secret is stored only in the memory of this process.
        """
        self._take(Answered(secret), secret)
        self.steps.append({"secret": self._vault.keep(secret)})

    def back(self) -> None:
        """Go back one question, if its answer was not submitted yet."""
        if self._answer_count:
            self._visit.take(WentBack(), _WEB_USER)
            self._answer_count -= 1
            self.steps.append(_BACK)

    def send(self) -> None:
        """Submit the answers shown in the review."""
        prompt = self._visit.prompt()
        self._visit.take(Submitted(), _WEB_USER, prompt.digest if prompt else "")

    def answers(self) -> dict[str, Json | SecretValue]:
        """Return the answers to record, including secrets.

        Questions that are skipped because of a `when` condition are left out.
        """
        optional = {question.id for question in self._questions if question.optional}
        plain = {
            key: value
            for key, value in self._visit.answers.items()
            if value is not None or key in optional
        }
        return {
            **plain,
            **{
                key: value
                for key in self._visit.secrets
                if isinstance(value := self._typed.get(key), SecretValue)
            },
        }

    @property
    def given(self) -> list[Json]:
        """The answers so far in question order.

        The list ends before the first secret, because secrets are not recorded.
        """
        answered: list[Json] = []
        for step in self.steps:
            answered = answered[:-1] if step == _BACK else [*answered, step]
        plain = takewhile(lambda step: isinstance(step, dict) and "value" in step, answered)
        return [step["value"] for step in plain if isinstance(step, dict)]

    def reviewed(self, subject: FormSubject) -> list[tuple[Question[Any], Json | SecretValue]]:
        """Return the questions and answers of the review, including secrets.

        The page shows secrets masked.
        """
        secrets = {name: self._typed[name] for name in self._visit.secrets & self._typed.keys()}
        return rows_of_review(subject, secrets)

    @property
    def _questions(self) -> Sequence[Question[Any]]:
        form = self._visit.form
        return form.questions if form else ()

    def _take(self, reply: Reply, value: Json | SecretValue) -> None:
        prompt = self._visit.prompt()
        if prompt is None or prompt.kind != "tool":
            raise NotOpen(
                "This form has no further question. Reload the page to see its current state."
            )
        self._visit.take(reply, _WEB_USER)
        self._answer_count += 1
        self._typed[prompt.question.id] = value
        if not isinstance(value, SecretValue | bool) and value is not None:
            self._drafts[prompt.question.id] = value

    def _replay(self, step: Json) -> bool:
        """Replay a step of an earlier page.

        Return False if the step no longer fits, because the form or the page changed.
        """
        try:
            match step:
                case "back":
                    self.back()
                case {"value": value}:
                    self.answer(value)
                case {"secret": handle} if (secret := self._vault.find(handle)) is not None:
                    self._take(Answered(secret), secret)
                    self.steps.append(step)
                case _:
                    return False
        except (AnswerError, NotOpen):
            return False
        return True


def rows_of_review(
    subject: FormSubject, secrets: Mapping[str, Json | SecretValue]
) -> list[tuple[Question[Any], Json | SecretValue]]:
    """Return the questions that were asked, each with its answer."""
    plain = {subject.questions[place].id for place in reviewed_places(subject)}
    known = {**secrets, **subject.answers}
    return [
        (question, known[question.id])
        for question in subject.questions
        if question.id in plain or question.id in secrets
    ]


def read_steps(carried: str) -> Sequence[Json]:
    """Parse the steps that a page submits in its hidden field.

    Return no steps if the input is not a list, because input from pages is untrusted.
    """
    try:
        steps = read_json(carried) if carried else None
    except NotJson:
        return ()
    return steps if isinstance(steps, Sequence) and not isinstance(steps, str) else ()


# --------------------------------------------------------------------------------------------------
# Drafts: the server stores the steps of an unsubmitted form, so that another page or a later server
# can continue the form


_DRAFT_LIFETIME = 14 * 24 * 60 * 60
_MAX_DRAFTS = 1_000
_MAX_DRAFT_SIZE = 65_536  # maximum size of a stored draft, in bytes
_KEY_PREFIX = "draft/"


class _Draft(msgspec.Struct):
    """The time and the steps of an unsubmitted form.

    A step contains an answer or the handle of a secret, never the secret itself.
    """

    at: float
    steps: list[Any]


class Drafts:
    """One person's unsubmitted steps in the form that contains a question.

    The steps are stored, so that every server of the store can read them.
    """

    def __init__(self, port: Port, question: str, person: str | None) -> None:
        self._port = port
        named = f"{question}\n{person or ''}".encode("utf-8", "surrogatepass")
        hashed = hashlib.sha256(named).hexdigest()
        self._name = f"{_KEY_PREFIX}{question}/{hashed[:32]}"
        self._earlier_name = f"{_KEY_PREFIX}{hashed}"  # key that versions up to 0.2 used

    async def read(self) -> Sequence[Json]:
        """Return the stored steps of the form."""
        for name in (self._name, self._earlier_name):
            if kept := _read((await self._port.kept(name)).get(name)):
                return kept.steps
        return ()

    async def keep(self, steps: Sequence[Json]) -> None:
        """Replace the stored steps of the form."""
        written = msgspec.json.encode(_Draft(time.time(), list(steps)))
        if not steps or len(written) > _MAX_DRAFT_SIZE:
            await self.drop()
            return
        if len(steps) == 1:  # old drafts are deleted whenever a form is started
            await self._delete_old_drafts()
        await self._port.keep(self._name, written)
        await self._delete_earlier_key()

    async def drop(self) -> None:
        """Delete the draft, because the form was submitted or is no longer open."""
        await self._port.keep(self._name, None)
        await self._delete_earlier_key()

    async def _delete_earlier_key(self) -> None:
        if await self._port.kept(self._earlier_name):
            await self._port.keep(self._earlier_name, None)

    async def _delete_old_drafts(self) -> None:
        every = {
            name: _read(content) for name, content in (await self._port.kept(_KEY_PREFIX)).items()
        }
        newest = sorted(
            every, key=lambda name: kept.at if (kept := every[name]) else 0.0, reverse=True
        )
        oldest = time.time() - _DRAFT_LIFETIME
        for place, name in enumerate(newest):
            kept = every[name]
            if kept is None or kept.at < oldest or place >= _MAX_DRAFTS - 1:
                await self._port.keep(name, None)


def _read(content: bytes | None) -> _Draft | None:
    try:
        return msgspec.json.decode(content, type=_Draft) if content else None
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
    ):  # written by another program; losing a draft does no harm
        return None
