"""Open questions for an A2A client: which of them the client may answer, and how they are sent.

A client is a program. It may answer only the questions that midturn allows programs to answer,
unless the application declares that the client answers for a person. People answer all other
questions in midturn's own interfaces.

The protocol does not define structured questions. A plain client gets one question at a time, as
text. A client that requests the extension `EXTENSION` gets all questions as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from a2a.types.a2a_pb2 import Part
from msgspec import Struct

from midturn.errors import MidturnError, NotAllowed, QuestionError
from midturn.events.open_question import OpenQuestion, holds_secret
from midturn.events.types import AnsweredBy
from midturn.integrations.a2a.wire import data_part, text_part
from midturn.protocol_envelopes import Envelope, envelope_of
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SelectType,
)
from midturn.question.json_value import Json
from midturn.question.text import single_line
from midturn.stores.batch import event_ids
from midturn.stores.store import ConversationStore
from midturn.turn.visit import Visit

EXTENSION: Final = "urn:midturn:a2a:questions:1"
"""URI of the extension for structured questions and answers."""
VIA: Final = "a2a"
WHERE: Final = "the midturn inbox: `midturn answer`, the web page, a channel or a terminal"
"""Where people answer the questions that a client may not answer."""
_SCHEMA_HINTS: Final[Mapping[str, Sequence[str]]] = {
    "string": (),
    "number": ("a number",),
    "integer": ("a number",),
}
OutOfBand: TypeAlias = Literal["auth_required", "input_required"]


class Client(Struct, frozen=True):
    """The sender of a request.

    Args:
        name: Name of the principal, to whom the tasks belong.
        who: The responder that is recorded with answers.
        has_extension: Whether the client supports structured questions.
    """

    name: str
    who: AnsweredBy
    has_extension: bool = False

    @classmethod
    def of(cls, name: str, person: str | None, *, has_extension: bool = False) -> Client:
        """Return the client of a principal.

        Args:
            name: Name of the principal.
            person: The person for whom the client answers; None if it answers on its own behalf.
            has_extension: Whether the client supports structured questions.
        """
        who = (
            AnsweredBy("agent", via=VIA, user=name)
            if person is None
            else AnsweredBy("user", via=VIA, user=person)
        )
        return cls(name, who, has_extension)


class AskedQuestion(Struct, frozen=True, kw_only=True):
    """An open question, as one client can see it.

    Args:
        question: The question.
        envelope: Schema and reader of structured answers. None for a secret, and for a question
            that a newer version of midturn asked.
        is_answerable: Whether this client may answer the question.
    """

    question: OpenQuestion
    envelope: Envelope | None
    is_answerable: bool


async def asked_questions(
    store: ConversationStore, conversation: str, client: Client
) -> list[AskedQuestion]:
    """Return the open questions of a conversation and of its nested conversations, oldest first.

    Args:
        store: The store, with its authorization rules.
        conversation: ID of the conversation.
        client: The client.
    """
    questions = sorted(await store.pending(conversation), key=lambda each: each.asked_at)
    return [await _asked(store, question, client) for question in questions]


async def _asked(store: ConversationStore, question: OpenQuestion, client: Client) -> AskedQuestion:
    turn = (await store.port.look(question.conversation)).turn.events
    answered: Mapping[str, Json] = {}
    try:
        visit = Visit(turn, question.request.event_id, event_ids(), question.conversation)
        answered, barred = visit.answers_so_far, visit.barred_for_programs
        await store.admission.check_giver(question, client.who, turn)
    except NotAllowed:
        is_allowed = False
    except MidturnError:  # the question was closed, or a newer version of midturn wrote it
        is_allowed = False
    else:
        is_allowed = client.who.by == "user" or not barred
    return AskedQuestion(
        question=question,
        envelope=envelope_of(question, answered=answered),
        is_answerable=is_allowed and _is_readable(question),
    )


def _is_readable(question: OpenQuestion) -> bool:
    """Return whether a text can answer the question. Secrets are never accepted from clients."""
    if holds_secret(question):
        return False
    try:
        question.question.asked(question.question_id)
    except QuestionError:
        return question.kind != "tool"
    return True


# Status messages
# --------------------------------------------------------------------------------------------------


def next_question(asked: Sequence[AskedQuestion]) -> AskedQuestion | None:
    """Return the question to show to a plain client: the oldest one that it may answer, if any."""
    return next((each for each in asked if each.is_answerable), None)


def status_parts(
    asked: Sequence[AskedQuestion], problems: Mapping[str, str], *, has_extension: bool
) -> list[Part]:
    """Return the parts of the status message that contains the questions.

    Args:
        asked: The open questions.
        problems: The reasons why answers in this request were not recorded, by address. A reason
            that belongs to no question has an empty address.
        has_extension: Whether the client supports structured questions.
    """
    open_ids = {each.question.id for each in asked}
    parts = [text_part(text) for address, text in problems.items() if address not in open_ids]
    if has_extension:
        for each in asked:
            parts += _structured_parts(each, problems.get(each.question.id))
        return parts
    first = next_question(asked)
    if first is None:
        refused = [problems[each.question.id] for each in asked if each.question.id in problems]
        return [*parts, *map(text_part, refused), text_part(waiting_text(asked))]
    problem = problems.get(first.question.id) or first.question.problem
    if problem:
        parts.append(text_part(problem))
    return [*parts, text_part(question_text(first.question))]


def _structured_parts(each: AskedQuestion, problem: str | None) -> Iterator[Part]:
    problem = problem or each.question.problem
    text = question_text(each.question)
    yield text_part(f"{problem}\n\n{text}" if problem else text)
    data: dict[str, Json] = {
        "midturn": "question",
        "answerable": each.is_answerable,
        **each.question.to_json(),
    }
    if each.envelope is not None:
        data["payload_schema"] = each.envelope.schema
    if problem:
        data["problem"] = problem
    part = data_part(data)
    if part is not None:
        yield part


def waiting_text(asked: Sequence[AskedQuestion]) -> str:
    """Return the text for a task that waits for people, because the client may not answer any of
    its questions.
    """
    listed = "\n".join(f"- {single_line(each.question.question.text)}" for each in asked)
    return (
        f"This task waits for a person:\n{listed}\n\nPeople answer in {WHERE}. The task continues"
        " by itself."
    )


def question_text(question: OpenQuestion) -> str:
    """Return a question as text, with its context, the call or content to approve, and the format
    of the answer.
    """
    paragraphs = [question.question.context or "", *_subject(question)]
    hint = _hint(question)
    text = question.question.text
    paragraphs.append(f"{text} {hint}" if hint else text)
    paragraphs += _options(question)
    if question.deadline:
        paragraphs.append(f"Answer before {question.deadline}.")
    return "\n\n".join(filter(None, paragraphs))


def _subject(question: OpenQuestion) -> Iterator[str]:
    if question.kind == "run":
        yield f"{question.tool} {_json(question.arguments)}"
    if question.content is not None:
        yield question.content


def _hint(question: OpenQuestion) -> str:
    kind = question.question.answer_type
    hints: list[str] = []
    if question.kind != "tool" or isinstance(kind, BooleanType):
        hints.append("yes or no")
    elif isinstance(kind, SchemaType):
        hints += _SCHEMA_HINTS.get(str((question.answer_schema or {}).get("type")), ("as JSON",))
    if question.question.optional:
        hints.append("or: null, to skip")
    return f"({', '.join(hints)})" if hints else ""


def _options(question: OpenQuestion) -> Iterator[str]:
    kind = question.question.answer_type
    if not isinstance(kind, SelectType | MultiSelectType):
        return
    lines = [
        f"{number}. {option.label}"
        + (f": {single_line(option.description)}" if option.description else "")
        for number, option in enumerate(kind.options, 1)
    ]
    how = (
        "Answer with numbers or names, separated by commas."
        if isinstance(kind, MultiSelectType)
        else "Answer with a number or a name."
    )
    if isinstance(kind, SelectType) and kind.allow_other:
        how += ' For an answer in your own words, write {"other": "…"}.'
    yield "\n".join(lines)
    yield how


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()
