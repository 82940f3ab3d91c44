"""Envelopes of open questions for front ends that use other protocols.

An envelope is a JSON Schema of an object that a front end fills in, and the conversion of the
filled object, the payload, to the arguments of `store.answer`. The schema is always an object,
because simple front ends render a control for each of its properties:

- One question: `{"answer", "reason", "remember"}`.
- A form: one property for each question.
- An approval of a call (`run`): `{"approved", "editedArgs", "reason", "remember"}`.
- An approval of a result (`deliver`): `{"approved", "editedContent", "reason"}`.
- A review of a form (`review`): `{"approved", "back", "reason"}`.

Payloads come from other programs. Every value is checked, and errors are reported with JSON
Pointers into the payload. Unknown members are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.events.open_question import OpenQuestion, PromptKind, recorded_form
from midturn.question.answer import DEPTH_LIMIT
from midturn.question.answer_type import SecretType
from midturn.question.form import Form
from midturn.question.json_value import (
    Json,
    JsonObject,
    SecretValue,
    json_equal,
    json_problem,
    shown,
)
from midturn.question.question import Question
from midturn.question.reader_schema import embedded, form_schema, property_schema
from midturn.question.reply import Answered
from midturn.question.schema import check_schema
from midturn.question.schema_check import foreign_schema_problems
from midturn.question.walker import Ask, FormWalker
from midturn.turn.memory import may_be_remembered

_REASON: Final[JsonObject] = {"type": "string", "title": "Reason"}
_BOOLEAN: Final[JsonObject] = {"type": "boolean"}
_REMEMBER: Final[JsonObject] = {**_BOOLEAN, "title": "Remember for this turn"}
_NO_SECRETS: Final = "a secret is not accepted here. Enter it on midturn's page or in its terminal."


class EnvelopeAnswer(Struct, frozen=True, kw_only=True):
    """The answer that a payload contains.

    The payload for a form can contain both valid and invalid answers. The valid answers can be
    recorded, and the other questions are asked again.

    Args:
        value: The answer to a question, or the answers to a form by question id. Without secrets.
        secrets: The secrets by question id.
        approve: The decision about a call, a result or the answers of a form.
        arguments: Edited arguments of an approved call.
        content: Edited content of an approved result.
        back: Whether to go back from the review of a form to its last question.
        reason: The reason, if one was given.
        remember: Whether to remember the decision for the rest of the turn.
        problems: The validation errors in the payload.
    """

    value: Json | UnsetType = UNSET
    secrets: Mapping[str, SecretValue] = {}
    approve: bool | None = None
    arguments: Json | UnsetType = UNSET
    content: str | UnsetType = UNSET
    back: bool = False
    reason: str | None = None
    remember: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments for `store.answer`. Empty if there is nothing to record."""
        found: dict[str, Any] = {
            name: value
            for name in ("value", "arguments", "content")
            if (value := getattr(self, name)) is not UNSET
        }
        if self.approve is not None:
            found["approve"] = self.approve
        if self.back:
            found["back"] = True
        if found and self.reason is not None:
            found["reason"] = self.reason
        if found and self.remember:
            found["remember"] = True
        return found


class Envelope(Protocol):
    """The JSON Schema of the payload for an open question, and the conversion of a payload."""

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the payload."""
        ...

    def read(self, payload: Json) -> EnvelopeAnswer:
        """Return the answer in a payload from a front end."""
        ...


def envelope_of(
    question: OpenQuestion, *, answered: Mapping[str, Json] = {}, takes_secrets: bool = False
) -> Envelope | None:
    """Return the envelope of an open question. Return None if a front end cannot answer the
    question: it asks for a secret, is part of a form with a secret, or was written by a newer
    version.

    Args:
        question: The open question.
        answered: The recorded answers to earlier questions of the form. The front end is not asked
            for them again.
        takes_secrets: Whether the front end may send secrets.
    """
    is_for_anyone = question.whose is None
    if question.kind != "tool":
        asker = question.asker
        return ApprovalEnvelope(
            question.kind,
            subject=question.content if question.kind == "deliver" else question.arguments,
            arguments_schema=question.arguments_schema,
            can_remember=question.kind == "run"
            and (is_for_anyone if asker is None else len(asker.always) == 1),
        )
    try:
        asked = question.question.asked(question.question_id)
    except QuestionError:
        return None
    form = recorded_form(question)
    if form is None and question.form is not None:
        return None
    questions = form.questions if form else (asked,)
    if not takes_secrets and any(isinstance(each.answer_type, SecretType) for each in questions):
        return None
    if form:
        return FormEnvelope.of(form, answered, takes_secrets=takes_secrets)
    can_remember = is_for_anyone and may_be_remembered(asked)
    return QuestionEnvelope(asked, can_remember=can_remember, takes_secrets=takes_secrets)


# One question
# --------------------------------------------------------------------------------------------------


_DETAILS: Final = frozenset({"reason", "remember"})


class QuestionEnvelope(Struct, frozen=True):
    """The envelope of one question.

    Args:
        question: The question.
        can_remember: Whether the answer may be remembered for the turn.
        takes_secrets: Whether the front end may send a secret.
    """

    question: Question[Any]
    can_remember: bool = False
    takes_secrets: bool = False

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the payload."""
        properties: dict[str, Json] = {
            "answer": property_schema(self.question, "/properties/answer"),
            "reason": _REASON,
        }
        if self.can_remember:
            properties["remember"] = _REMEMBER
        required = [] if self.question.optional else ["answer"]
        return {"type": "object", "properties": properties, "required": required}

    def read(self, payload: Json) -> EnvelopeAnswer:
        """Return the answer in a payload. A payload that is not an envelope is read as the answer
        itself.

        Args:
            payload: The envelope, or the answer.
        """
        if not isinstance(payload, Mapping) or not self._is_envelope(payload):
            bare = self._answered(payload, "")
            if not bare.problems or not isinstance(payload, Mapping) or "answer" not in payload:
                return bare
        is_skipped = "answer" not in payload
        answer = self._answered(None if is_skipped else payload["answer"], "/answer")
        return _with_details(answer, payload, can_remember=self.can_remember)

    def _is_envelope(self, payload: JsonObject) -> bool:
        """Return whether all members of a payload are members of an envelope."""
        needed = set[str]() if self.question.optional else {"answer"}
        return needed <= set(payload) <= _DETAILS | {"answer"}

    def _answered(self, value: Json, pointer: str) -> EnvelopeAnswer:
        try:
            answer = _checked(self.question, value, takes_secrets=self.takes_secrets)
        except AnswerError as error:
            return EnvelopeAnswer(problems=tuple(_under(pointer, error)))
        if isinstance(answer, SecretValue):
            return EnvelopeAnswer(secrets={self.question.id: answer})
        return EnvelopeAnswer(value=answer)


# A form
# --------------------------------------------------------------------------------------------------


class FormEnvelope(Struct, frozen=True):
    """The envelope of a form. Create it with `of`.

    Args:
        questions: The questions that have no answer yet.
        takes_secrets: Whether the front end may send secrets.
    """

    questions: Sequence[Question[Any]]
    takes_secrets: bool = False

    @classmethod
    def of(
        cls, form: Form, answered: Mapping[str, Json] = {}, *, takes_secrets: bool = False
    ) -> FormEnvelope:
        """Create the envelope of a form.

        Args:
            form: The form.
            answered: The recorded answers, by question id. These questions are left out, as are
                questions whose condition on these answers is not met.
            takes_secrets: Whether the front end may send secrets.
        """
        known: dict[str, Json] = {}
        remaining: list[Question[Any]] = []
        for question in form.questions:
            when = question.when
            if question.id in answered:
                known[question.id] = answered[question.id]
            elif when is None or when.question_id not in known:
                remaining.append(question)
            elif json_equal(known[when.question_id], when.equals):
                remaining.append(replace(question, when=None))
            else:
                known[question.id] = None  # not asked
        return cls(tuple(remaining), takes_secrets)

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the payload."""
        return form_schema(self.questions)

    def read(self, payload: Json) -> EnvelopeAnswer:
        """Return the answers in a payload, up to the first question without a valid answer.

        A missing optional question is skipped. Answers to questions that are not asked, because of
        a condition, are ignored.

        Args:
            payload: The answers by question id.
        """
        if not isinstance(payload, Mapping):
            return _problem("", f"must be an object with the answers, not {shown(payload)}.")
        if not self.questions:
            return EnvelopeAnswer()
        walker = FormWalker(Form(self.questions, limit=len(self.questions)))
        problems: list[Problem] = []
        while not problems and isinstance(step := walker.step(), Ask):
            try:
                walker.feed(Answered(self._given(step.question, payload)))
            except AnswerError as error:
                problems += _under(f"/{step.question.id}", error)
                problems += self._later_problems(step, payload)
        collected = walker.collected
        secrets = {id: each for id, each in collected.items() if isinstance(each, SecretValue)}  # noqa: A001  the name in JSON
        values = {id: cast("Json", collected[id]) for id in collected if id not in secrets}  # noqa: A001  the name in JSON
        return EnvelopeAnswer(
            value=self._submitted(values), secrets=secrets, problems=tuple(problems)
        )

    def _submitted(self, values: dict[str, Json]) -> Json | UnsetType:
        """Return the value for `store.answer`, which reads a map as the answers to a form only if
        the map is not itself an answer to the open question.
        """
        first = self.questions[0]
        if not values or first.id not in values:
            return UNSET
        try:
            first.check(values)
        except AnswerError:
            return values
        return values[first.id]

    def _given(self, question: Question[Any], payload: JsonObject) -> Json | SecretValue:
        if question.id in payload:
            return _checked(question, payload[question.id], takes_secrets=self.takes_secrets)
        if question.optional:
            return None
        raise AnswerError([Problem("", "the answer is missing.")])

    def _later_problems(self, step: Ask, payload: JsonObject) -> Iterator[Problem]:
        """Yield the errors in the answers after the first invalid answer, so that a front end can
        show all errors together.
        """
        for question in self.questions[step.index :]:
            if payload.get(question.id) is None:
                continue
            try:
                self._given(question, payload)
            except AnswerError as error:
                yield from _under(f"/{question.id}", error)


# Approvals
# --------------------------------------------------------------------------------------------------


class ApprovalEnvelope(Struct, frozen=True):
    """The envelope of an approval.

    Args:
        kind: `run`, `deliver` or `review`.
        subject: The arguments of the call, or the content of the result. An edit that is equal to
            it is a plain approval.
        arguments_schema: JSON Schema of edited arguments (kind `run`), or None.
        can_remember: Whether the decision may be remembered for the turn (kind `run`).
    """

    kind: PromptKind
    subject: Json = None
    arguments_schema: JsonObject | None = None
    can_remember: bool = False

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the payload."""
        properties: dict[str, Json] = {"approved": _BOOLEAN}
        match self.kind:
            case "run":
                properties["editedArgs"] = self._edited_schema
            case "deliver":
                properties["editedContent"] = {"type": "string"}
            case _:
                properties["back"] = _BOOLEAN
        properties["reason"] = _REASON
        if self.can_remember:
            properties["remember"] = _REMEMBER
        return {"type": "object", "properties": properties, "required": ["approved"]}

    @property
    def _edited_schema(self) -> JsonObject:
        """The schema of edited arguments. A schema outside the supported subset is not embedded,
        because its references might not be local.
        """
        if self.arguments_schema is None or check_schema(self.arguments_schema):
            return {"type": "object"}
        return embedded(self.arguments_schema, "#/properties/editedArgs")

    def read(self, payload: Json) -> EnvelopeAnswer:
        """Return the decision in a payload.

        Args:
            payload: The envelope, or just true or false.
        """
        if isinstance(payload, bool):
            return EnvelopeAnswer(approve=payload)
        if not isinstance(payload, Mapping):
            return _problem("", f"must be an object with `approved`, not {shown(payload)}.")
        answer = self._decision(payload)
        can_remember = self.can_remember and answer.approve is not None
        return _with_details(answer, payload, can_remember=can_remember)

    def _decision(self, payload: JsonObject) -> EnvelopeAnswer:
        back = payload.get("back") if self.kind == "review" else None
        if back is not None and back is not False:
            return _back(back, approved=payload.get("approved"))
        approved = payload.get("approved")
        if not isinstance(approved, bool):
            is_missing = "approved" not in payload
            found = "it is missing" if is_missing else f"not {shown(approved)}"
            return _problem("/approved", f"must be true or false; {found}.")
        if approved and self.kind == "run" and payload.get("editedArgs") is not None:
            return self._with_arguments(payload["editedArgs"])
        if approved and self.kind == "deliver" and payload.get("editedContent") is not None:
            return self._with_content(payload["editedContent"])
        return EnvelopeAnswer(approve=approved)

    def _with_arguments(self, arguments: Json) -> EnvelopeAnswer:
        if not isinstance(arguments, Mapping):
            return _problem("/editedArgs", f"must be an object, not {shown(arguments)}.")
        if (problem := json_problem(arguments, DEPTH_LIMIT)) is not None:
            return EnvelopeAnswer(problems=(_below("/editedArgs", problem),))
        if json_equal(arguments, self.subject):
            return EnvelopeAnswer(approve=True)
        schema = self.arguments_schema
        problems = foreign_schema_problems(schema, arguments) if schema is not None else ()
        if problems:
            return EnvelopeAnswer(
                problems=tuple(_below("/editedArgs", problem) for problem in problems)
            )
        return EnvelopeAnswer(arguments=arguments)

    def _with_content(self, content: Json) -> EnvelopeAnswer:
        if not isinstance(content, str):
            return _problem("/editedContent", f"must be a string, not {shown(content)}.")
        if (problem := json_problem(content, 0)) is not None:
            return EnvelopeAnswer(problems=(_below("/editedContent", problem),))
        if content == self.subject:
            return EnvelopeAnswer(approve=True)
        return EnvelopeAnswer(content=content)


def _back(back: Json, *, approved: Json) -> EnvelopeAnswer:
    if back is not True:
        return _problem("/back", f"must be true or false, not {shown(back)}.")
    if approved is True:
        return _problem("/back", "the answers cannot be approved and changed at the same time.")
    return EnvelopeAnswer(back=True)


# Parts of envelopes
# --------------------------------------------------------------------------------------------------


def _with_details(
    answer: EnvelopeAnswer, payload: JsonObject, *, can_remember: bool
) -> EnvelopeAnswer:
    """Add the members `reason` and `remember` of a payload to an answer. If one of them is invalid,
    return only the errors.
    """
    reason, remember = payload.get("reason"), payload.get("remember")
    problems = [*answer.problems]
    if reason is not None and not isinstance(reason, str):
        problems.append(Problem("/reason", f"must be a string, not {shown(reason)}."))
    elif reason is not None and (problem := json_problem(reason, 0)) is not None:
        problems.append(_below("/reason", problem))
    if can_remember and not isinstance(remember, bool | None):
        problems.append(Problem("/remember", f"must be true or false, not {shown(remember)}."))
    if problems:
        return EnvelopeAnswer(problems=tuple(problems))
    return replace(
        answer,
        reason=(cast("str | None", reason) or "").strip() or None,
        remember=can_remember and remember is True,
    )


def _checked(question: Question[Any], value: Json, *, takes_secrets: bool) -> Json | SecretValue:
    """Validate an answer.

    Raises:
        AnswerError: The answer is not valid, or it is a secret that is not accepted.
    """
    if isinstance(question.answer_type, SecretType) and not takes_secrets:
        raise AnswerError([Problem("", _NO_SECRETS)])
    return question.check(value)


def _problem(pointer: str, message: str) -> EnvelopeAnswer:
    return EnvelopeAnswer(problems=(Problem(pointer, message),))


def _under(pointer: str, error: AnswerError) -> Iterator[Problem]:
    return (_below(pointer, problem) for problem in error.problems)


def _below(pointer: str, problem: Problem) -> Problem:
    return Problem(f"{pointer}{problem.pointer}", problem.message)
