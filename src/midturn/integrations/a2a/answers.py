"""Records the answers of clients. The store decides whether a question is open, who may answer it,
and whether an answer is valid.

A message that was sent twice must not answer two questions. The server therefore stores which
questions a message answers before it records the answers. If the same message arrives again, only
these questions are considered.
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
"""Maximum number of messages that are remembered for each task."""
_MAX_SHOWN: Final = 10_000
"""Maximum number of tasks for which the shown question is remembered."""


class AnswerRecorder:
    """Records the answers in the messages of clients."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store
        self._shown: OrderedDict[str, str] = OrderedDict()

    def note_shown(self, task: str, address: str) -> None:
        """Remember the question that a plain client is asked. A text does not say which question it
        answers.
        """
        self._shown[task] = address
        self._shown.move_to_end(task)
        if len(self._shown) > _MAX_SHOWN:
            self._shown.popitem(last=False)

    async def is_known(self, task: str, message: str) -> bool:
        """Return whether the answers in a message were recorded before.

        Raises:
            StoreError: The store cannot be read.
        """
        return message in await self._known(task)

    async def why_not_open(self, task: str, address: str) -> str:
        """Return why an answer to a question of a task is not recorded: who answered the question
        before, or why it was closed.

        Raises:
            StoreError: The store cannot be read.
        """
        conversation = task.partition("-")[0]
        return str(await why_not_open(self._store, conversation, address, owner="task"))

    async def record(
        self, task: str, message: GivenMessage, asked: Sequence[AskedQuestion], client: Client
    ) -> dict[str, str]:
        """Record the answers in a message. Return the reasons why answers were not recorded, by
        address.

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
        """Record one answer. Return the reason why it was not recorded; empty if it was."""
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
        """Return whether a plain client was asked a question that is closed now, and has not seen
        the next one.
        """
        shown, each = self._shown.get(task, ""), next_question(asked)
        was_question = parse_address(shown) is not None
        return was_question and each is not None and each.question.id != shown

    def _addressed(self, asked: Sequence[AskedQuestion]) -> list[str]:
        """Return the question that a text answers: the one that a plain client was asked."""
        each = next_question(asked)
        return [] if each is None else [each.question.id]

    async def _record_text(self, each: AskedQuestion, text: str, client: Client) -> None:
        """Record the answer in a text.

        Raises:
            AnswerError: The text is not an answer.
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
        """Record a structured answer. The valid answers of a form are recorded even if others are
        not.

        Raises:
            AnswerError: The answer is not valid, or not complete.
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
        """Store which questions a message answers, before it answers them."""
        latest = dict([*known.items(), (message, addresses)][-_MAX_REMEMBERED:])
        await self._store.port.beside.keep(f"{ANSWERED}{task}", msgspec.json.encode(latest))

    async def _known(self, task: str) -> dict[str, list[str]]:
        """Return the questions that the messages to a task have answered, by message."""
        name = f"{ANSWERED}{task}"
        return _decoded((await self._store.port.beside.kept(name)).get(name))


ANSWERED: Final = "a2a-answered/"
"""Prefix of the names under which the answered questions of messages are stored."""


def _decoded(content: bytes | None) -> dict[str, list[str]]:
    if content is None:
        return {}
    try:
        return msgspec.json.decode(content, type=dict[str, list[str]])
    except msgspec.DecodeError:
        return {}


def _read(each: AskedQuestion, answer: JsonObject) -> EnvelopeAnswer:
    """Return an answer to a question. For a form, the member `answer` is the answer to the open
    question, or an object with the answers by question ID.
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
    """Return a problem. The pointer says which part of the answer it is about."""
    name = problem.pointer.strip("/")
    return f"{name}: {problem.message}" if name and name != "answer" else problem.message
