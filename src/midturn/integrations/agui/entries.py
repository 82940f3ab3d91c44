"""Records the entries of `resume` as answers.

The entries are recorded one by one, in order. If an entry cannot be recorded, an event
`midturn.not_taken` reports it, its question is asked again, and the next entry is processed. The
store alone decides whether a question is open and who may answer it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from midturn.agent.given_secrets import GivenSecrets
from midturn.errors import (
    AlreadyAnswered,
    AnswerError,
    DeadlinePassed,
    DigestMismatch,
    MidturnError,
    NoSuchQuestion,
    NotAllowed,
    NotOpen,
    PersonNeeded,
    Problem,
)
from midturn.inbox.closed_questions import why_not_open
from midturn.integrations.agui.interrupts import VIA, AskedQuestion, parse_interrupt_id
from midturn.integrations.agui.run_input import ResumeEntry
from midturn.protocol_envelopes import Envelope
from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.stores.store import ConversationStore

_REASONS: Final[Sequence[tuple[type[MidturnError], str]]] = (
    (AlreadyAnswered, "already_answered"),
    (DeadlinePassed, "expired"),
    (NoSuchQuestion, "unknown"),
    (NotOpen, "closed"),
    (DigestMismatch, "changed"),
    (AnswerError, "invalid"),
    (NotAllowed, "not_allowed"),
    (PersonNeeded, "not_allowed"),
)
"""The value of `why` for each error from the store. The first match is used."""

_NO_SECRETS: Final = (
    "A secret is not accepted in a chat. Answer the question in the midturn inbox instead."
)
_UNREADABLE: Final = "This version of the server cannot show the question."
_MISSING: Final = "The payload is missing."


class EntryResults(Struct):
    """Results of the entries of a run.

    Args:
        not_taken: For each entry that was not recorded, the value of its event `midturn.not_taken`.
        problems: The reasons why open questions are asked again, by address.
        secrets: Secrets to pass to the turn, by address.
    """

    not_taken: list[dict[str, Json]] = []
    problems: dict[str, str] = {}
    secrets: GivenSecrets = {}

    def refuse(self, entry_id: str, error: MidturnError) -> None:
        """Report an entry that the store refuses."""
        address, _ = parse_interrupt_id(entry_id)
        problems = error.problems if isinstance(error, AnswerError) else ()
        self.not_taken.append(_not_taken(entry_id, error))
        if isinstance(error, AnswerError | NotAllowed | PersonNeeded):
            self.problems[address] = " ".join(map(_shown, problems)) or str(error)


class EntryTaker:
    """Records the entries of one run.

    Args:
        store: The store, with its authorization rules.
        conversation: The conversation of the thread.
        user: The user of the front end.
        asked: The open questions when the run began.
    """

    def __init__(
        self,
        store: ConversationStore,
        conversation: str | None,
        user: str,
        asked: Sequence[AskedQuestion],
    ) -> None:
        self._store = store
        self._conversation = conversation
        self._user = user
        self._asked = {each.question.id: each for each in asked}
        self._entries = 0
        self.results = EntryResults()

    async def take(self, entries: Sequence[ResumeEntry]) -> EntryResults:
        """Record the entries and return their results.

        Raises:
            StoreError: The store cannot be read or written.
        """
        self._entries = len(entries)
        for entry in entries:
            try:
                await self._take(entry)
            except (AnswerError, NotAllowed, NotOpen, AlreadyAnswered, PersonNeeded) as error:
                self.results.refuse(entry.id, error)
        return self.results

    async def _take(self, entry: ResumeEntry) -> None:
        address, digest = parse_interrupt_id(entry.id)
        asked = self._asked.get(address)
        if asked is None:
            raise await why_not_open(self._store, self._conversation, address, owner="thread")
        if entry.refresh:
            return
        if entry.end_turn:
            await self._answer(asked, cancel=True)
        elif entry.status == "resolved":
            await self._resolve(asked, entry, digest)
        elif self._is_refusal(asked, entry):
            await self._answer(asked, **_refusal(asked, entry))

    async def _resolve(self, asked: AskedQuestion, entry: ResumeEntry, digest: str) -> None:
        """Record the payload of an entry. The valid answers of a form are recorded even if other
        answers are invalid.

        Raises:
            AnswerError: The payload is not a complete answer.
        """
        envelope = _envelope(asked)
        if entry.payload is UNSET:
            raise AnswerError([Problem("", _MISSING)])
        answer = envelope.read(entry.payload)
        if answer.secrets:
            self._give_secrets(asked, answer.value, answer.secrets)
        elif keywords := answer.keywords:
            await self._answer(asked, digest=digest, **keywords)
        if answer.problems:
            raise AnswerError(answer.problems)

    def _give_secrets(
        self, asked: AskedQuestion, value: Json | UnsetType, secrets: Mapping[str, SecretValue]
    ) -> None:
        """Store secrets in memory until the turn runs, together with the other answers in their
        form.
        """
        question = asked.question
        if question.form is None:
            (secret,) = secrets.values()
            self.results.secrets[question.id] = secret
        else:
            others: JsonObject = value if isinstance(value, Mapping) else {}
            self.results.secrets[question.id] = {**others, **secrets}

    async def _answer(self, asked: AskedQuestion, **how: Any) -> None:
        await self._store.answer(asked.question, user=self._user, via=VIA, **how)

    def _is_refusal(self, asked: AskedQuestion, entry: ResumeEntry) -> bool:
        """Return whether an entry with the status `cancelled` is a refusal.

        A front end must send an entry for every interrupt, even if its user answered only one.
        `cancelled` is therefore a refusal only if the entry contains `decline`, or if the front end
        showed only this question and it is still the only one. If the front end showed two
        questions, the other one may have been answered in another interface in the meantime.
        """
        is_only_one = self._entries == len(self._asked) == 1
        return entry.decline or (is_only_one and asked.is_answerable)


def _envelope(asked: AskedQuestion) -> Envelope:
    """Return the envelope of a question.

    Raises:
        AnswerError: The question cannot be answered in a front end. The payload is not read.
    """
    if asked.envelope is None:
        text = _NO_SECRETS if asked.waits_for_secret else _UNREADABLE
        raise AnswerError([Problem("", text)])
    return asked.envelope


def _refusal(asked: AskedQuestion, entry: ResumeEntry) -> dict[str, Any]:
    """Return the arguments of `store.answer` for a refusal. An approval is denied. Another question
    gets a reply instead of an answer.
    """
    if asked.question.kind in ("run", "deliver"):
        return {"approve": False, **({"reason": entry.reply} if entry.reply else {})}
    return {"reply": entry.reply}


def _not_taken(entry_id: str, error: MidturnError) -> dict[str, Json]:
    why = next(why for kind, why in _REASONS if isinstance(error, kind))
    found: dict[str, Json] = {"interruptId": entry_id, "why": why, "text": str(error)}
    if isinstance(error, AlreadyAnswered) and error.answered_by is not None:
        by, via, when = error.answered_by
        optional = {"by": by, "via": via, "when": when}
        found |= {name: value for name, value in optional.items() if value}
    if isinstance(error, AnswerError):
        found["problems"] = [
            {"pointer": problem.pointer, "message": problem.message} for problem in error.problems
        ]
    return found


def _shown(problem: Problem) -> str:
    """Return a problem as text for the user. In a form, the text begins with the question that the
    pointer names.
    """
    name = problem.pointer.strip("/")
    return f"{name}: {problem.message}" if name and name != "answer" else problem.message
