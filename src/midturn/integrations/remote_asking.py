"""Questions of remote agents, whatever protocol they speak.

Only a person may answer them, the answers are not remembered, and a secret is never asked: midturn
gives no secret to another agent.
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
_NO_SECRETS: Final = "Another agent asks this. Do not enter passwords or keys."


class Answers(Struct, frozen=True):
    """The answers of people to the questions of a remote agent.

    Args:
        values: The answers by question ID; None for a skipped question.
        reason: The reason that the person gave with the last answer.
    """

    values: Mapping[str, Json]
    reason: str | None = None


class NoAnswers(Struct, frozen=True):
    """There are no answers. `reason` is one of the values in docs/reference/events.md; `reply` is
    the message of a person instead of an answer.
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
            case None:  # a condition of the form does not hold
                values[question.id] = None
    return Answers(values, reason)


def text_question(id: str, text: str, context: str = "") -> Question[Any]:
    """Return a question with a text as answer."""
    return Question.text(
        id,
        single_line(text) or NEEDS_INPUT,
        context=with_warning(context),
        exclusive=True,
        persistence="none",
    )


def recorded_question(given: PersistedQuestion, id: str, *context: str) -> Question[Any] | None:
    """Return a question of another midturn, to ask it here. None if it asks for a secret.

    If its answer type is not known here, it is asked for as text.

    Args:
        given: The question.
        id: The question ID here.
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
    """Return the question whether a person has done what a remote agent waits for."""
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
    """Return a part of a question ID that is the same whenever the remote question is read."""
    return sha256(str(address).encode())[:10]
