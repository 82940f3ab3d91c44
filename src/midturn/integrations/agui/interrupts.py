"""Open questions as interrupts.

The ID of an interrupt is the address of its question. If an approval is valid only for the subject
that the user saw (`OpenQuestion.needs_digest`), the ID also contains the digest of that subject,
because front ends send back only the ID. The store then refuses an approval of an older version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from midturn.errors import MidturnError, NotAllowed
from midturn.events.open_question import (
    OpenQuestion,
    PromptKind,
    holds_secret,
)
from midturn.events.types import AnsweredBy
from midturn.protocol_envelopes import Envelope, envelope_of
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json
from midturn.question.text import single_line
from midturn.stores.batch import event_ids
from midturn.stores.store import ConversationStore
from midturn.turn.visit import Visit

VIA: Final = "agui"
_DIGEST: Final = "~"
_REASONS: Final[Mapping[PromptKind, str]] = {
    "run": "tool_call",
    "deliver": "midturn:deliver",
    "review": "midturn:review",
}
WHERE: Final = "the midturn inbox: `midturn answer`, the web page, or a terminal"
"""Places where a secret can be answered if front ends may not send secrets."""


def interrupt_id(question: OpenQuestion) -> str:
    """Return the ID of the interrupt of a question."""
    return f"{question.id}{_DIGEST}{question.digest}" if question.needs_digest else question.id


def parse_interrupt_id(id: str) -> tuple[str, str]:
    """Return the address of a question and the digest of the subject that the user saw. The digest
    is empty if the ID contains none.
    """
    address, _, digest = id.partition(_DIGEST)
    return address, digest


class AskedQuestion(Struct, frozen=True, kw_only=True):
    """An open question for one user.

    Args:
        question: The question.
        envelope: Schema and reader of the payload. None if a front end cannot answer.
        is_answerable: Whether this user may answer the question in the front end.
        waits_for_secret: Whether the question asks for a secret that front ends may not send.
    """

    question: OpenQuestion
    envelope: Envelope | None
    is_answerable: bool
    waits_for_secret: bool

    def interrupt(
        self, *, is_old: bool, calls: Collection[str], problem: str | None = None
    ) -> dict[str, Json]:
        """Return the interrupt.

        Args:
            is_old: Whether the front end speaks a version before 1.0. Such a front end would block
                the thread after `expiresAt`, so the member is left out.
            calls: The calls that the thread contains.
            problem: The reason why the last answer was not recorded.
        """
        question = self.question
        problem = problem or question.problem
        text = single_line(question.question.text)
        found: dict[str, Json] = {
            "id": interrupt_id(question),
            "reason": self._reason,
            "message": f"{text} ({single_line(problem)})" if problem else text,
        }
        if question.request.call in calls:
            found["toolCallId"] = question.request.call
        if self.envelope is not None:
            found["responseSchema"] = self.envelope.schema
        if question.deadline and not is_old:
            found["expiresAt"] = question.deadline
        return {**found, "metadata": {"midturn": self._details(problem)}}

    @property
    def _reason(self) -> str:
        question = self.question
        if question.kind != "tool":
            return _REASONS[question.kind]
        if holds_secret(question):
            return "midturn:secret"
        is_boolean = isinstance(question.question.answer_type, BooleanType)
        return "confirmation" if is_boolean and question.form is None else "input_required"

    def _details(self, problem: str | None) -> dict[str, Json]:
        """Return the properties of a question for which the protocol has no field."""
        shown = self.question.to_json()
        properties = self.envelope.schema.get("properties") if self.envelope else None
        optional: dict[str, Json] = {
            "form": shown["form"],
            "deadline": shown.get("deadline"),
            "people": shown.get("people"),
            "edit": shown.get("edit"),
            "refusedBefore": shown.get("refused_before"),
            "content": shown.get("content"),
            "digest": shown.get("digest"),
            "problem": problem,
            "where": WHERE if self.waits_for_secret else None,
        }
        return {
            "question": shown["question"],
            "questionId": shown["question_id"],
            "address": self.question.id,
            "kind": self.question.kind,
            "source": shown["source"],
            "tool": self.question.tool,
            "arguments": shown["arguments"],
            "askedAt": self.question.asked_at,
            "answerable": self.is_answerable,
            "remember": isinstance(properties, Mapping) and "remember" in properties,
            **{name: value for name, value in optional.items() if value is not None},
        }


async def asked_questions(
    store: ConversationStore, conversation: str, user: str, *, takes_secrets: bool
) -> list[AskedQuestion]:
    """Return the open questions of a conversation and of its nested conversations, oldest first.

    Args:
        store: The store, with its authorization rules.
        conversation: ID of the conversation.
        user: The user of the front end.
        takes_secrets: Whether front ends may send secrets.
    """
    questions = sorted(await store.pending(conversation), key=lambda each: each.asked_at)
    return [
        await _asked(store, question, user, takes_secrets=takes_secrets) for question in questions
    ]


async def _asked(
    store: ConversationStore, question: OpenQuestion, user: str, *, takes_secrets: bool
) -> AskedQuestion:
    turn = (await store.port.look(question.conversation)).turn.events
    answered: Mapping[str, Json] = {}
    if question.form is not None and question.kind == "tool":
        try:
            visit = Visit(turn, question.request.event_id, event_ids(), question.conversation)
            answered = visit.answers_so_far
        except MidturnError:  # the question was closed, or a newer version wrote the form
            answered = {}
    envelope = envelope_of(question, answered=answered, takes_secrets=takes_secrets)
    try:
        await store.admission.check_giver(question, AnsweredBy("user", via=VIA, user=user), turn)
    except NotAllowed:
        is_allowed = False
    else:
        is_allowed = True
    return AskedQuestion(
        question=question,
        envelope=envelope,
        is_answerable=is_allowed and envelope is not None,
        waits_for_secret=envelope is None and holds_secret(question),
    )


def interrupts(
    asked: Sequence[AskedQuestion],
    problems: Mapping[str, str],
    *,
    is_old: bool,
    calls: Collection[str],
) -> list[Json]:
    """Return the interrupts of a run.

    Args:
        asked: The open questions.
        problems: The reasons why answers in this run were not recorded, by address.
        is_old: Whether the front end speaks a version before 1.0.
        calls: The calls that the thread contains.
    """
    return [
        each.interrupt(is_old=is_old, calls=calls, problem=problems.get(each.question.id))
        for each in asked
    ]
