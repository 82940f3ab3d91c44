"""Secrets that a program was given, on their way to the turn that it goes on with: in this process's memory, and nowhere else."""

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
"""A secret; for a form with one, the answers by the ids of its questions."""


class SecretsAtHand(Prompter):
    """Answers the questions that secrets were given for, each as it was shown then. The rest is for `otherwise`."""

    concurrent = True
    via = "api"

    def __init__(self, given: Sequence[tuple[OpenQuestion, dict[str, Answered]]], user: str | None, otherwise: Prompter | None) -> None:
        self.user = user
        self._given = given
        self._otherwise = otherwise

    def speaker(self, prompt: Prompt) -> Prompter:
        """Return who answers: where nothing was given for a question, the other prompter.

        Args:
            prompt: What is asked.
        """
        if self._otherwise is None or self._reply(prompt) is not None:
            return self
        return self._otherwise.speaker(prompt)

    async def prompt(self, prompt: Prompt) -> Reply:
        """Answer what something was given for, once: what its tool does not take is open again.

        Args:
            prompt: What is asked.
        """
        reply = self._reply(prompt)
        for question, answers in self._given:
            if reply is not None and _is_about(prompt, question):
                answers.pop(prompt.question.id, None)
        return Unavailable() if reply is None else reply

    def _reply(self, prompt: Prompt) -> Reply | None:
        for question, answers in self._given:
            if _is_about(prompt, question):
                if prompt.kind == "review":
                    return None if answers else Submitted()
                return answers.get(prompt.question.id)
        return None


def _is_about(prompt: Prompt, question: OpenQuestion) -> bool:
    """Whether a prompt asks this question, or another one of its form."""
    if prompt.id == question.id:
        return True
    is_of_a_form = question.form is not None and prompt.kind in ("tool", "review")
    return is_of_a_form and _call_of(prompt) == _call_of(question)


def _call_of(asked: Prompt | OpenQuestion) -> tuple[str, str, Json]:
    return (asked.conversation, asked.tool, asked.arguments)


async def given_secrets(
    store: ConversationStore, conversation: str, secrets: Mapping[str, GivenSecret], user: str | None, otherwise: Prompter | None
) -> SecretsAtHand:
    """Find the questions that secrets are given for.

    Raises:
        AnswerError: One of them is no secret, or what is given for it is none.
        NotAllowed: This user may not answer it.
        AlreadyAnswered: Another answer was first.
        NotOpen: It is closed, or there is no such question.
    """
    open_now = {question.id: question for question in await store.pending(conversation)}
    given: list[tuple[OpenQuestion, dict[str, Answered]]] = []
    for address, secret in secrets.items():
        if address not in open_now:
            at = parse_address(address)
            raise no_question(address) if at is None else await too_late(store.port, at)
        question = open_now[address]
        turn = (await store.port.look(question.conversation)).turn.events
        await store.admission.check_giver(question, AnsweredBy("user", via=SecretsAtHand.via, user=user), turn)
        if question.form is not None and any(other.form and _call_of(other) == _call_of(question) for other, _ in given):
            raise AnswerError([Problem(f"/secrets/{address}", "is asked by two like calls: give one of them at a time.")])
        given.append((question, _answers(question, secret)))
    return SecretsAtHand(given, user, otherwise)


def _answers(question: OpenQuestion, secret: GivenSecret) -> dict[str, Answered]:
    where = f"/secrets/{question.id}"
    if question.form is not None and isinstance(secret, Mapping):
        return _answers_of_form(question.form, secret, where)
    if not isinstance(question.question.answer_type, SecretType):
        what = "is a form: give an answer for each of its questions by id." if question.form else "is no secret: `store.answer` takes it."
        raise AnswerError([Problem(where, what)])
    if isinstance(secret, Mapping):
        raise AnswerError([Problem(where, "is one question: give its secret as text.")])
    return {question.question_id: Answered(_secret(secret, where))}


def _answers_of_form(form: FormAuthored, answers: Mapping[str, Json | SecretValue], where: str) -> dict[str, Answered]:
    hidden = secrets_of_form(form)
    if hidden.isdisjoint(answers):
        raise AnswerError([Problem(where, "holds no secret: `store.answer` takes it.")])
    return {name: Answered(_secret(value, f"{where}/{name}") if name in hidden else value) for name, value in answers.items()}


def _secret(given: object, where: str) -> SecretValue:
    secret = given if isinstance(given, SecretValue) else SecretValue(given) if isinstance(given, str) else SecretValue("")
    if not secret.reveal():
        raise AnswerError([Problem(where, "must be text that is not empty.")])
    return secret
