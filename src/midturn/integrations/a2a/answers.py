"""Records answers from clients. The store decides whether a question is open, who may answer it,
and whether an answer is valid.

A message that is sent twice must not answer two questions. Before the server records the answers
from a message, it therefore stores the IDs of the questions that the message answers. If the same
message arrives again, it can answer only these questions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from midturn.errors import (
    AlreadyAnswered,
    AnswerError,
    NotAllowed,
    NotOpen,
    PersonNeeded,
    Problem,
)
from midturn.events.open_question import parse_address
from midturn.inbox.closed_questions import why_not_open
from midturn.integrations.a2a.messages import GivenMessage
from midturn.integrations.a2a.questions import (
    VIA,
    WHERE,
    AskedQuestion,
    Client,
    next_question,
)
from midturn.protocol_envelopes import EnvelopeAnswer, QuestionEnvelope
from midturn.question.json_value import JsonObject, SecretValue
from midturn.stores.store import ConversationStore

_PEOPLE_ONLY: Final = f"Only a person may answer this question, in {WHERE}."
_CLOSED: Final = "Nothing was recorded, because the question that you were asked is closed. This is the next one."
_MAX_REMEMBERED: Final = 100
"""Maximum number of messages per task whose answered questions are stored."""
_MAX_SHOWN: Final = 10_000
"""Maximum number of tasks for which the last shown question is kept in memory."""


class AnswerRecorder:
    """Records the answers in messages from clients."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store
        self._shown: OrderedDict[str, str] = OrderedDict()

    def note_shown(self, task: str, address: str) -> None:
        """Remember the question that was shown to a plain client. A plain client answers with text,
        which does not name its question.
        """
        self._shown[task] = address
        self._shown.move_to_end(task)
        if len(self._shown) > _MAX_SHOWN:
            self._shown.popitem(last=False)

    async def is_known(self, task: str, message: str) -> bool:
        """Return whether the server has already processed the answers in a message.

        Raises:
            StoreError: The store cannot be read.
        """
        return message in await self._known(task)

    async def why_not_open(self, task: str, address: str) -> str:
        """Return why an answer to a question cannot be recorded: who answered the question first,
        why it was closed, or that the task has no such question.

        Raises:
            StoreError: The store cannot be read.
        """
        conversation = task.partition("-")[0]
        return str(await why_not_open(self._store, conversation, address, owner="task"))

    async def record(
        self, task: str, message: GivenMessage, asked: Sequence[AskedQuestion], client: Client
    ) -> dict[str, str]:
        """Record the answers in a message. If answers cannot be recorded, return the reasons by
        question address. A reason that concerns no single question has an empty address.

        Args:
            task: ID of the task.
            message: The message.
            asked: The open questions of the task.
            client: The client.

        Raises:
            StoreError: The store cannot be read or written.
        """
        answers = message.answers
        if answers is None and self._has_changed(task, asked):
            return {"": _CLOSED}
        addresses = self._addressed(asked) if answers is None else [*answers]
        open_questions = {each.question.id: each for each in asked}
        known = await self._known(task)
        is_repeated = message.id in known
        allowed = known.get(message.id, addresses)
        if not is_repeated:
            found = [address for address in addresses if address in open_questions]
            await self._remember(task, known, message.id, found)
        problems: dict[str, str] = {}
        for address in addresses:
            each = open_questions.get(address)
            if each is None or address not in allowed:
                if not is_repeated:
                    problems[address] = await self.why_not_open(task, address)
                continue
            problem = await self._recorded(each, message, client)
            if problem:
                problems[address] = problem
        if answers is None and not addresses and asked:
            problems[asked[0].question.id] = _PEOPLE_ONLY
        return problems

    async def _recorded(self, each: AskedQuestion, message: GivenMessage, client: Client) -> str:
        """Record one answer. Return the reason if it cannot be recorded, or an empty string."""
        try:
            if message.answers is None:
                await self._record_text(each, message.text, client)
            else:
                await self._record_structured(each, message.answers[each.question.id], client)
        except AnswerError as error:
            return " ".join(map(_shown, error.problems)) or str(error)
        except (NotAllowed, PersonNeeded):
            return _PEOPLE_ONLY
        except (AlreadyAnswered, NotOpen) as error:
            return str(error)
        return ""

    def _has_changed(self, task: str, asked: Sequence[AskedQuestion]) -> bool:
        """Return whether another question has replaced the one that was last shown to a plain
        client.
        """
        shown, each = self._shown.get(task, ""), next_question(asked)
        was_question = parse_address(shown) is not None
        return was_question and each is not None and each.question.id != shown

    def _addressed(self, asked: Sequence[AskedQuestion]) -> list[str]:
        """Return the address of the next question, which a text answers. Empty if there is none."""
        each = next_question(asked)
        return [] if each is None else [each.question.id]

    async def _record_text(self, each: AskedQuestion, text: str, client: Client) -> None:
        """Record an answer that was sent as text.

        Raises:
            AnswerError: The text is not a valid answer to the question.
        """
        value = each.question.question.parse(text)
        if isinstance(value, SecretValue):
            raise NotAllowed(_PEOPLE_ONLY)
        if each.question.kind == "tool":
            await self._answer(each, client, value=value)
        else:
            await self._answer(each, client, digest=each.question.digest, approve=value is True)

    async def _record_structured(
        self, each: AskedQuestion, answer: JsonObject, client: Client
    ) -> None:
        """Record a structured answer. In a form, valid answers are recorded even if other answers
        are invalid.

        Raises:
            AnswerError: The answer is invalid or incomplete.
        """
        if not each.is_answerable:
            raise NotAllowed(_PEOPLE_ONLY)
        digest = answer.get("digest")
        shown: dict[str, Any] = {"digest": digest} if isinstance(digest, str) else {}
        if isinstance(reply := answer.get("reply"), str):
            await self._answer(each, client, reply=reply)
            return
        if answer.get("back") is True and each.question.kind == "tool":
            await self._answer(each, client, back=True)
            return
        read = _read(each, answer)
        if keywords := read.keywords:
            await self._answer(each, client, **shown, **keywords)
        if read.problems:
            raise AnswerError(read.problems)

    async def _answer(self, each: AskedQuestion, client: Client, **how: Any) -> None:
        by_program = client.who.by == "agent"
        await self._store.answer(
            each.question,
            user=client.who.user,
            via=VIA,
            answered_by="agent" if by_program else "user",
            **how,
        )

    # Messages that are sent again
    # ----------------------------------------------------------------------------------------------

    async def _remember(
        self, task: str, known: dict[str, list[str]], message: str, addresses: list[str]
    ) -> None:
        """Store the IDs of the questions that a message answers.

        Called before the answers are recorded, so that a repeated message is detected.
        """
        latest = dict([*known.items(), (message, addresses)][-_MAX_REMEMBERED:])
        await self._store.port.beside.keep(f"{ANSWERED}{task}", msgspec.json.encode(latest))

    async def _known(self, task: str) -> dict[str, list[str]]:
        """Return the IDs of the questions that earlier messages answered, by message ID."""
        name = f"{ANSWERED}{task}"
        return _decoded((await self._store.port.beside.kept(name)).get(name))


ANSWERED: Final = "a2a-answered/"
"""Prefix of the names under which the questions that messages answer are stored."""


def _decoded(content: bytes | None) -> dict[str, list[str]]:
    if content is None:
        return {}
    try:
        return msgspec.json.decode(content, type=dict[str, list[str]])
    except msgspec.DecodeError:
        return {}


def _read(each: AskedQuestion, answer: JsonObject) -> EnvelopeAnswer:
    """Read an answer to a question. For a form, the member `answer` is either the answer to the
    open question, or an object with one answer for each question ID.
    """
    question = each.question
    if each.envelope is None:
        raise NotAllowed(_PEOPLE_ONLY)
    if question.form is None or question.kind != "tool":
        return each.envelope.read(answer)
    given, ids = answer.get("answer"), {str(asked.get("id")) for asked in question.form.questions}
    if isinstance(given, Mapping) and ids.issuperset(given):
        return each.envelope.read(given)
    return QuestionEnvelope(question.question.asked(question.question_id)).read(answer)


def _shown(problem: Problem) -> str:
    """Return the message of a problem, with the path of the part of the answer that is invalid."""
    name = problem.pointer.strip("/")
    return f"{name}: {problem.message}" if name and name != "answer" else problem.message
