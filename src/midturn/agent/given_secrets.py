"""Secrets that a program passes when it resumes a turn. They are kept only in the memory of this
process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from midturn.errors import AnswerError, Problem
from midturn.events.open_question import OpenQuestion, parse_address, secrets_of_form
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, FormAuthored
from midturn.prompter import Prompter
from midturn.question.answer_type import SecretType
from midturn.question.json_value import Json, SecretValue
from midturn.question.reply import Answered, Reply, Submitted, Unavailable
from midturn.stores.answer_service import too_late
from midturn.stores.store import ConversationStore
from midturn.turn.view import no_question

GivenSecret: TypeAlias = "str | SecretValue | Mapping[str, Json | SecretValue]"
"""A secret, or the answers to a form that contains a secret, by question id."""
GivenSecrets: TypeAlias = "dict[str, GivenSecret]"
"""Secrets for a resumed turn, by the id of their question."""


class SecretPrompter(Prompter):
    """Answers the questions for which secrets were passed, if the questions have not changed. The
    fallback prompter answers all other prompts.
    """

    concurrent = True
    via = "api"

    def __init__(
        self,
        given: Sequence[tuple[OpenQuestion, dict[str, Answered]]],
        user: str | None,
        fallback: Prompter | None,
    ) -> None:
        self.user = user
        self._given = given
        self._fallback = fallback

    def speaker(self, prompt: Prompt) -> Prompter:
        """Return the prompter that answers: this prompter if it has a secret for the prompt, or the
        fallback prompter.

        Args:
            prompt: The prompt.
        """
        if self._fallback is None or self._reply(prompt) is not None:
            return self
        return self._fallback.speaker(prompt)

    async def prompt(self, prompt: Prompt) -> Reply:
        """Answer a question with its secret. Each secret is used only once: if the tool rejects
        the secret, the question is open again.

        Args:
            prompt: The prompt.
        """
        reply = self._reply(prompt)
        for question, answers in self._given:
            if reply is not None and _asks_question(prompt, question):
                answers.pop(prompt.question.id, None)
        return Unavailable() if reply is None else reply

    def _reply(self, prompt: Prompt) -> Reply | None:
        for question, answers in self._given:
            if _asks_question(prompt, question):
                if prompt.kind == "review":
                    return None if answers else Submitted()
                return answers.get(prompt.question.id)
        return None


def _asks_question(prompt: Prompt, question: OpenQuestion) -> bool:
    """Return whether a prompt asks this question, or another question of the same form."""
    if prompt.id == question.id:
        return True
    is_form_prompt = question.form is not None and prompt.kind in ("tool", "review")
    return is_form_prompt and _call_key(prompt) == _call_key(question)


def _call_key(asked: Prompt | OpenQuestion) -> tuple[str, str, Json]:
    return (asked.conversation, asked.tool, asked.arguments)


async def create_secret_prompter(
    store: ConversationStore,
    conversation: str,
    secrets: Mapping[str, GivenSecret],
    user: str | None,
    fallback: Prompter | None,
) -> SecretPrompter:
    """Find the questions for which secrets were passed, and return a prompter that answers these
    questions.

    Raises:
        AnswerError: A value is neither a string nor the answers to a form, or its question does not
            ask for a secret.
        NotAllowed: `user` may not answer a question.
        AlreadyAnswered: A question was already answered.
        NotOpen: A question is closed or does not exist.
    """
    open_questions = {question.id: question for question in await store.pending(conversation)}
    given: list[tuple[OpenQuestion, dict[str, Answered]]] = []
    for address, secret in secrets.items():
        if address not in open_questions:
            at = parse_address(address)
            raise no_question(address) if at is None else await too_late(store.port, at)
        question = open_questions[address]
        turn = (await store.port.look(question.conversation)).turn.events
        await store.admission.check_giver(
            question, AnsweredBy("user", via=SecretPrompter.via, user=user), turn
        )
        if question.form is not None and any(
            other.form and _call_key(other) == _call_key(question) for other, _ in given
        ):
            raise AnswerError(
                [
                    Problem(
                        f"/secrets/{address}",
                        "is asked by two identical calls; pass the secret for only one of them at a"
                        " time.",
                    )
                ]
            )
        given.append((question, _answers(question, secret)))
    return SecretPrompter(given, user, fallback)


def _answers(question: OpenQuestion, secret: GivenSecret) -> dict[str, Answered]:
    where = f"/secrets/{question.id}"
    if question.form is not None and isinstance(secret, Mapping):
        return _answers_of_form(question.form, secret, where)
    if not isinstance(question.question.answer_type, SecretType):
        what = (
            "is a form; pass an answer for each of its questions by id."
            if question.form
            else "is not a secret; use `store.answer`."
        )
        raise AnswerError([Problem(where, what)])
    if isinstance(secret, Mapping):
        raise AnswerError([Problem(where, "is a single question; pass its secret as a string.")])
    return {question.question_id: Answered(_secret(secret, where))}


def _answers_of_form(
    form: FormAuthored, answers: Mapping[str, Json | SecretValue], where: str
) -> dict[str, Answered]:
    hidden = secrets_of_form(form)
    if hidden.isdisjoint(answers):
        raise AnswerError([Problem(where, "contains no secret; use `store.answer`.")])
    return {
        name: Answered(_secret(value, f"{where}/{name}") if name in hidden else value)
        for name, value in answers.items()
    }


def _secret(given: object, where: str) -> SecretValue:
    secret = (
        given
        if isinstance(given, SecretValue)
        else SecretValue(given)
        if isinstance(given, str)
        else SecretValue("")
    )
    if not secret.reveal():
        raise AnswerError([Problem(where, "must be a string that is not empty.")])
    return secret
