"""Asks people the questions of remote agents, for every protocol.

Only a person may answer such a question, and the answer is not remembered. A remote agent cannot
ask for secrets, because midturn never passes a secret to another agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.protocol_fields import clipped
from midturn.question.answer_type import SecretType
from midturn.question.form import Form
from midturn.question.json_value import DEFAULT_LIMITS, Json
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.text import cut_to_bytes, sha256, single_line
from midturn.tools.asking import ToolContext
from midturn.turn.inputs import Answer, NoAnswer

MAX_QUESTIONS: Final = 20
"""Maximum number of questions that a remote agent may ask at once."""
MAX_ROUNDS: Final = 50
"""Maximum number of times that a remote agent may ask in one call."""
NEEDS_INPUT: Final = "The remote agent needs input."
_NO_SECRETS: Final = "This question comes from another agent. Do not enter passwords or keys."


class Answers(Struct, frozen=True):
    """People's answers to the questions of a remote agent.

    Args:
        values: The answers by question ID; None for a skipped question.
        reason: The reason that the person gave with the last answer.
    """

    values: Mapping[str, Json]
    reason: str | None = None


class NoAnswers(Struct, frozen=True):
    """People gave no answers. `reason` is one of the values in docs/reference/events.md. `reply` is
    the message that a person gave instead of an answer.
    """

    reason: str
    reply: str | None = None


async def ask_people(ctx: ToolContext, form: Form, agent: str) -> Answers | NoAnswers:
    """Ask people the questions of a remote agent.

    Args:
        ctx: The call.
        form: The questions.
        agent: Name of the remote agent.

    Raises:
        QuestionError: The questions cannot be shown.
    """
    given = await ctx.given_by_people(form, on_behalf_of=agent)
    values: dict[str, Json] = {}
    reason: str | None = None
    for question in form.questions:
        match given.get(question.id):
            case Answer(value, why):
                values[question.id] = value  # type: ignore[assignment]  # remote agents ask for no secrets
                reason = why or reason
            case NoAnswer(why_not, reply):
                return NoAnswers(why_not, reply)
            case None:  # the question was skipped because of a condition in the form
                values[question.id] = None
    return Answers(values, reason)


def text_question(id: str, text: str, context: str = "") -> Question[Any]:
    """Return a question that is answered with text."""
    return Question.text(
        id,
        single_line(text) or NEEDS_INPUT,
        context=with_warning(context),
        exclusive=True,
        persistence="none",
    )


def recorded_question(given: PersistedQuestion, id: str, *context: str) -> Question[Any] | None:
    """Convert a question from another midturn to a question to ask. Return None if it asks for a
    secret. If this version does not support its answer type, the answer is text.

    Args:
        given: The question.
        id: The question ID to use.
        context: Texts to show with the context of the question.
    """
    if isinstance(given.answer_type, SecretType):
        return None
    whole = "\n\n".join(filter(None, (given.context, *context)))
    shown = replace(
        given,
        text=single_line(given.text) or NEEDS_INPUT,
        context=with_warning(whole),
        exclusive=True,
        persistence="none",
    )
    try:
        return shown.asked(id)
    except QuestionError:
        return text_question(id, shown.text, whole)


def done_question(id: str, agent: str, context: str) -> Question[Any]:
    """Return a question that asks whether a person has completed the step that a remote agent is
    waiting for.
    """
    return Question.boolean(
        id,
        f"{single_line(agent)} waits for a person. Is it done there?",
        context=clipped(context),
        exclusive=True,
        persistence="none",
    )


def with_warning(context: str) -> str:
    """Return a context with the warning not to enter secrets. Long contexts are truncated before
    the warning.
    """
    shown = cut_to_bytes(context, DEFAULT_LIMITS.context - len(_NO_SECRETS) - 2)
    return "\n\n".join(filter(None, (shown, _NO_SECRETS)))


def short_id(address: Json) -> str:
    """Return a short part of a question ID. The same `address` always has the same result."""
    return sha256(str(address).encode())[:10]
