"""A form on the page, question by question: the machine of the turn walks it in memory, and nothing is recorded until all of it is sent."""

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
from midturn.inbox.resuming import Vault
from midturn.inbox.store_access import Port
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply, Submitted, WentBack
from midturn.stores.batch import event_ids
from midturn.turn.visit import Visit

_BACK = "back"
_MOST_STEPS = 500
_WHO = AnsweredBy("user", via="web")


class FormWalk:
    """The walk through the form of an open question, from where its record ends. The steps that were taken travel with the page."""

    def __init__(self, question: OpenQuestion, turn: Sequence[Event], vault: Vault, steps: Sequence[Json] = ()) -> None:
        """Walk as far as the page has come.

        Args:
            question: One of a form.
            turn: The events of its turn.
            vault: Where secrets are that were typed on the pages before.
            steps: What `steps` was on the page before; what does not fit any more is left out.

        Raises:
            NotOpen: No such question waits.
            AlreadyAnswered: Another answer came first.
            QuestionError: A newer version wrote the form.
        """
        self._visit = Visit(turn, question.request.event_id, event_ids(), question.conversation)
        self._vault = vault
        self._given = 0
        self._typed: dict[str, Json | SecretValue] = {}
        self._drafts: dict[str, Json] = {}
        self.steps: list[Json] = []
        for step in steps[:_MOST_STEPS]:
            if not self._again(step):
                break

    @property
    def prompt(self) -> Prompt | None:
        """What comes now: a question, or the review; None at the end. Nothing is remembered of an answer that is given with others."""
        prompt = self._visit.prompt()
        return None if prompt is None else replace(prompt, may_remember=False)

    @property
    def is_at_its_beginning(self) -> bool:
        """Whether Back leads to what is on record: that is for the store to take back."""
        return self._given == 0

    @property
    def carried(self) -> str:
        """What the page carries along."""
        return msgspec.json.encode(self.steps).decode()

    def start(self, prompt: Prompt) -> Json | UnsetType:
        """Return what the control of a question holds when it is shown."""
        draft = self._drafts.get(prompt.question.id, UNSET)
        return next((value for value in (prompt.prefill, draft) if value is not UNSET), prompt.question.default)

    def answer(self, value: Json) -> None:
        """Answer the question that is asked.

        Raises:
            AnswerError: It does not fit.
        """
        self._take(Answered(value), value)
        self.steps.append({"value": value})

    def answer_secret(self, secret: SecretValue) -> None:
        """Answer the secret that is asked; it stays in this process."""
        self._take(Answered(secret), secret)
        self.steps.append({"secret": self._vault.keep(secret)})

    def back(self) -> None:
        """Go to the question before, if there is one that was answered on this page."""
        if self._given:
            self._visit.take(WentBack(), _WHO)
            self._given -= 1
            self.steps.append(_BACK)

    def send(self) -> None:
        """Send the answers that the review shows."""
        prompt = self._visit.prompt()
        self._visit.take(Submitted(), _WHO, prompt.digest if prompt else "")

    def answers(self) -> dict[str, Json | SecretValue]:
        """Return the map that the store takes: without what was skipped because of a `when`, and with the secrets that were typed here."""
        optional = {question.id for question in self._questions if question.optional}
        plain = {key: value for key, value in self._visit.answers.items() if value is not None or key in optional}
        return {**plain, **{key: value for key in self._visit.secrets if isinstance(value := self._typed.get(key), SecretValue)}}

    @property
    def given(self) -> list[Json]:
        """The answers that hold so far, in the order of their questions, up to the first secret: that one is not recorded."""
        held: list[Json] = []
        for step in self.steps:
            held = held[:-1] if step == _BACK else [*held, step]
        plain = takewhile(lambda step: isinstance(step, dict) and "value" in step, held)
        return [step["value"] for step in plain if isinstance(step, dict)]

    def reviewed(self, subject: FormSubject) -> list[tuple[Question[Any], Json | SecretValue]]:
        """Return the answers for the review, secrets among them (they show as such)."""
        secrets = {name: self._typed[name] for name in self._visit.secrets & self._typed.keys()}
        return rows_of_review(subject, secrets)

    @property
    def _questions(self) -> Sequence[Question[Any]]:
        form = self._visit.form
        return form.questions if form else ()

    def _take(self, reply: Reply, value: Json | SecretValue) -> None:
        prompt = self._visit.prompt()
        if prompt is None or prompt.kind != "tool":
            raise NotOpen("The form asks nothing more.")
        self._visit.take(reply, _WHO)
        self._given += 1
        self._typed[prompt.question.id] = value
        if not isinstance(value, SecretValue | bool) and value is not None:
            self._drafts[prompt.question.id] = value

    def _again(self, step: Json) -> bool:
        """Take a step that was taken before; False where it cannot be taken any more: the form or the page is another."""
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


def rows_of_review(subject: FormSubject, secrets: Mapping[str, Json | SecretValue]) -> list[tuple[Question[Any], Json | SecretValue]]:
    """Return each question that was asked, with its answer."""
    plain = {subject.questions[place].id for place in reviewed_places(subject)}
    known = {**secrets, **subject.answers}
    return [(question, known[question.id]) for question in subject.questions if question.id in plain or question.id in secrets]


def read_steps(carried: str) -> Sequence[Json]:
    """Read what a page carried along; pages are not believed, so anything but a list counts as no steps."""
    try:
        steps = read_json(carried) if carried else None
    except NotJson:
        return ()
    return steps if isinstance(steps, Sequence) and not isinstance(steps, str) else ()


# ----------------------------------------------------------------------------------------------------------------------
# How far a visitor has come in a form that is not sent yet: kept by the server, so that another page, or the next server, goes on there


_KEPT_SECONDS = 14 * 24 * 60 * 60
_MOST = 1_000
_LARGEST = 65_536  # bytes of one draft
_BEGINNING = "draft/"


class _Draft(msgspec.Struct):
    """What is kept of a form: when, and its steps. A step holds an answer, or the handle of a secret; a secret itself is in no draft."""

    at: float
    steps: list[Any]


class Drafts:
    """How far one person has come in the form of one question, kept in the store: the next server knows it, and so does another one."""

    def __init__(self, port: Port, question: str, person: str | None) -> None:
        self._port = port
        named = f"{question}\n{person or ''}".encode("utf-8", "surrogatepass")
        hashed = hashlib.sha256(named).hexdigest()
        self._name = f"{_BEGINNING}{question}/{hashed[:32]}"
        self._earlier_name = f"{_BEGINNING}{hashed}"  # up to 0.2

    async def read(self) -> Sequence[Json]:
        """Return the steps of the form."""
        for name in (self._name, self._earlier_name):
            if kept := _read((await self._port.kept(name)).get(name)):
                return kept.steps
        return ()

    async def keep(self, steps: Sequence[Json]) -> None:
        """Keep the steps of the form, in place of those before."""
        written = msgspec.json.encode(_Draft(time.time(), list(steps)))
        if not steps or len(written) > _LARGEST:
            await self.drop()
            return
        if len(steps) == 1:  # it has just begun
            await self._forget_old()
        await self._port.keep(self._name, written)
        await self._remove_earlier()

    async def drop(self) -> None:
        """Forget the form: it was sent, or is not open any more."""
        await self._port.keep(self._name, None)
        await self._remove_earlier()

    async def _remove_earlier(self) -> None:
        if await self._port.kept(self._earlier_name):
            await self._port.keep(self._earlier_name, None)

    async def _forget_old(self) -> None:
        every = {name: _read(content) for name, content in (await self._port.kept(_BEGINNING)).items()}
        newest = sorted(every, key=lambda name: kept.at if (kept := every[name]) else 0.0, reverse=True)
        oldest = time.time() - _KEPT_SECONDS
        for place, name in enumerate(newest):
            kept = every[name]
            if kept is None or kept.at < oldest or place >= _MOST - 1:
                await self._port.keep(name, None)


def _read(content: bytes | None) -> _Draft | None:
    try:
        return msgspec.json.decode(content, type=_Draft) if content else None
    except (msgspec.DecodeError, UnicodeDecodeError):  # another program wrote there; nothing depends on it
        return None
