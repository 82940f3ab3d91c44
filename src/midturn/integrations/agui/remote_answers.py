"""Asks people about the interrupts of a remote agent, and converts their answers.

The JSON Schema of an interrupt describes the expected answer: an approval, one value, or an object.
The answer that is sent back matches that schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.integrations.agui.remote_interrupts import Interrupt
from midturn.integrations.remote_asking import (
    Answers,
    NoAnswers,
    ask_people,
    done_question,
    recorded_question,
    text_question,
    with_warning,
)
from midturn.protocol_fields import ElicitedField, field_of
from midturn.protocol_forms import Elicited, form_of
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import (
    DEFAULT_LIMITS,
    Json,
    JsonObject,
    canonical,
    items,
    json_equal,
    members,
    objects,
    text,
)
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.schema import check_schema
from midturn.question.text import single_line
from midturn.tools.asking import ToolContext
from midturn.tools.returned import Rejected

_ENVELOPE: Final = frozenset({"answer", "reason", "remember"})
_REFUSE: Final = "refuse"
_APPROVE: Final = "approve"
_EDIT: Final = "approve with other arguments"
_MAX_SCHEMA_LENGTH: Final = 4_000
"""Maximum length of a schema that is shown with a question, in characters."""


class AskedAgent(Struct, frozen=True):
    """Asks people the questions in the interrupts of one remote agent.

    Args:
        ctx: The call in which the questions are asked.
        name: Name of the agent.
    """

    ctx: ToolContext
    name: str

    async def entry(self, interrupt: Interrupt, prefix: str) -> Json:
        """Ask the questions of an interrupt and return the entry for `resume`.

        Args:
            interrupt: The interrupt.
            prefix: Beginning of the question IDs.

        Raises:
            Rejected: The remote agent waits for a person, who has not answered there yet.
        """
        if interrupt.waits_for_person:
            return await self._confirm(interrupt, prefix)
        if "approved" in members(members(interrupt.schema).get("properties")):
            return await self._approve(interrupt, prefix)
        asked = _asked(interrupt, prefix)
        try:
            answers = await self._ask(asked.form, interrupt)
        except QuestionError:  # the form is too large or not valid in midturn
            asked = _as_text(interrupt, prefix)
            answers = await self._ask(asked.form, interrupt)
        if isinstance(answers, NoAnswers):
            return _unanswered(interrupt, answers)
        return _resolved(interrupt, asked.payload(answers))

    async def _ask(self, form: Form, interrupt: Interrupt) -> Answers | NoAnswers:
        questions = form.questions
        if interrupt.deadline:
            questions = [replace(each, deadline=interrupt.deadline) for each in questions]
        return await ask_people(self.ctx, replace(form, questions=tuple(questions)), self.name)

    async def _confirm(self, interrupt: Interrupt, prefix: str) -> Json:
        """Ask whether a person has answered at the remote agent, and return an entry that asks the
        agent for its current state.
        """
        context = "\n\n".join(filter(None, (interrupt.text, interrupt.context)))
        question = done_question(prefix, self.name, context)
        answers = await ask_people(self.ctx, Form((question,)), self.name)
        if not isinstance(answers, Answers) or answers.values[prefix] is not True:
            raise Rejected(f"Nobody has done what {self.name} waits for: {interrupt.text}")
        refresh: dict[str, Json] = {"midturn": {"refresh": True}}
        return {"interruptId": interrupt.id, "status": "cancelled", "metadata": refresh}

    async def _approve(self, interrupt: Interrupt, prefix: str) -> Json:
        properties = members(members(interrupt.schema).get("properties"))
        can_edit = "editedArgs" in properties and isinstance(interrupt.arguments, Mapping)
        answers = await self._ask(Form((_approval(interrupt, prefix, can_edit),)), interrupt)
        if isinstance(answers, NoAnswers):
            return _unanswered(interrupt, answers)
        decision, reason = answers.values[prefix], answers.reason
        payload: dict[str, Json] = {"approved": decision in (_APPROVE, _EDIT, True)}
        if decision == _EDIT:
            schema = members(properties["editedArgs"])
            edited = await self._ask(Form((_edit(interrupt, prefix, schema),)), interrupt)
            if isinstance(edited, NoAnswers):
                return _unanswered(interrupt, edited)
            arguments, reason = edited.values[f"{prefix}_arguments"], edited.reason or reason
            if not json_equal(arguments, interrupt.arguments):
                payload["editedArgs"] = arguments
        if reason is not None and "reason" in properties:
            payload["reason"] = reason
        return _resolved(interrupt, payload)


def _resolved(interrupt: Interrupt, payload: Json) -> Json:
    return {"interruptId": interrupt.id, "status": "resolved", "payload": payload}


def _unanswered(interrupt: Interrupt, answers: NoAnswers) -> Json:
    entry: dict[str, Json] = {"interruptId": interrupt.id, "status": "cancelled"}
    if answers.reason != "reply":
        return entry
    reply: dict[str, Json] = {"midturn": {"reply": answers.reply or ""}}
    return {**entry, "metadata": reply}


# Questions
# --------------------------------------------------------------------------------------------------


class _Asked(Struct, frozen=True):
    """The questions of an interrupt, and the format in which the answers are sent.

    Args:
        fields: The properties to ask for. The name is empty if the answer is a single value.
        form: The questions.
        elicited: The converted form if the answer is an object, or None.
        is_envelope: Whether the answer is sent as `{"answer", "reason"}`.
        parses: Whether to send an answer as JSON if it is valid JSON text.
    """

    fields: tuple[ElicitedField, ...]
    form: Form
    elicited: Elicited | None = None
    is_envelope: bool = False
    parses: bool = False

    def payload(self, answers: Answers) -> Json:
        """Return the payload for the answers."""
        if self.elicited is not None:
            return self.elicited.values(answers.values)
        (field,) = self.fields
        found = field.value(answers.values.get(field.question.id))
        value = None if isinstance(found, UnsetType) else found
        if self.parses and isinstance(value, str):
            value = _parsed(value)
        if not self.is_envelope:
            return value
        reason: dict[str, Json] = {} if answers.reason is None else {"reason": answers.reason}
        return {"answer": value, **reason}


def _parsed(answer: str) -> Json:
    try:
        return read_json(answer)
    except (NotJson, RecursionError):
        return answer


def _asked(interrupt: Interrupt, id: str) -> _Asked:
    """Return the questions of an interrupt."""
    try:
        return (
            _as_recorded(interrupt, id)
            or _by_schema(interrupt, id)
            or _without_schema(interrupt, id)
        )
    except QuestionError:
        return _as_text(interrupt, id)


def _as_recorded(interrupt: Interrupt, id: str) -> _Asked | None:
    """Return the question if the interrupt comes from another midturn, or None."""
    if interrupt.question is None:
        return None
    try:
        given = PersistedQuestion.from_json(interrupt.question)
    except msgspec.ValidationError:
        return None
    question = recorded_question(given, id, *interrupt.details)
    if question is None:  # interrupts that ask for secrets were refused
        return None
    return _single(ElicitedField("", question), is_envelope=True)


def _by_schema(interrupt: Interrupt, id: str) -> _Asked | None:
    schema = interrupt.schema
    if not schema:
        return None
    properties = members(schema.get("properties"))
    if "answer" in properties and set(properties) <= _ENVELOPE:
        is_required = "answer" in items(schema.get("required"))
        field = _field(interrupt, id, members(properties["answer"]), is_required=is_required)
        return _single(field, is_envelope=True)
    if schema.get("type") == "object" and properties:
        return _as_form(interrupt, id, schema)
    return _single(_field(interrupt, id, schema, is_required=True))


def _field(interrupt: Interrupt, id: str, asked: JsonObject, *, is_required: bool) -> ElicitedField:
    """Return a question that asks for one value. Its text is the agent's message."""
    titles = [text(asked.get(name)) for name in ("title", "description")]
    above = "\n\n".join(
        part for part in (interrupt.context, *titles) if part and part != interrupt.text
    )
    bare = {name: asked[name] for name in asked if name not in ("title", "description")}
    root = members(interrupt.schema)
    titled = {**bare, "title": interrupt.text}
    field = field_of(id, "", titled, root, is_required=is_required, above=above)
    return replace(field, question=_warned(field.question))


def _warned(question: Question[Any]) -> Question[Any]:
    context = with_warning(question.context or "")
    return replace(question, context=context, exclusive=True, persistence="none")


def _as_form(interrupt: Interrupt, id: str, schema: JsonObject) -> _Asked:
    above = "\n\n".join(filter(None, (interrupt.text, interrupt.context)))
    elicited = form_of(schema, above)
    ids = {field.question.id: f"{id}_{n}" for n, field in enumerate(elicited.fields, 1)}
    names = {field.name: ids[field.question.id] for field in elicited.fields}
    conditions = dict(_conditions(schema, names))
    fields: list[ElicitedField] = []
    for field in elicited.fields:
        question = replace(field.question, id=ids[field.question.id])
        if not fields:
            question = _warned(question)
        when = conditions.get(question.id)
        if when is not None and any(each.question.id == when.question_id for each in fields):
            question = replace(question, when=when, optional=False)
        fields.append(replace(field, question=question))
    questions = tuple(field.question for field in fields)
    form = Form(questions, review=len(fields) > 1, limit=elicited.form.limit)
    return _Asked(tuple(fields), form, replace(elicited, form=form, fields=tuple(fields)))


def _conditions(schema: JsonObject, ids: Mapping[str, str]) -> Iterator[tuple[str, When]]:
    """Yield the conditions for properties that are required only if another one has a value."""
    for rule in objects(schema.get("allOf")):
        tested = members(members(rule.get("if")).get("properties"))
        for name in items(members(rule.get("then")).get("required")):
            if len(tested) == 1 and isinstance(name, str) and name in ids:
                ((other, value),) = tested.items()
                if other in ids and "const" in members(value):
                    yield ids[name], When(ids[other], members(value)["const"])


def _without_schema(interrupt: Interrupt, id: str) -> _Asked:
    if not interrupt.is_confirmation:
        return _single(ElicitedField("", text_question(id, interrupt.text, interrupt.context)))
    question = Question.boolean(
        id,
        interrupt.text,
        context=with_warning(interrupt.context),
        exclusive=True,
        persistence="none",
    )
    return _single(ElicitedField("", question))


def _as_text(interrupt: Interrupt, id: str) -> _Asked:
    """Return a question that is answered with JSON, for a schema that cannot be shown as a form.
    The remote agent checks the answer.
    """
    schema = canonical(interrupt.schema).decode()
    hint = (
        f"Answer with JSON for this schema:\n\n    {schema[:_MAX_SCHEMA_LENGTH]}"
        if interrupt.schema
        else ""
    )
    context = "\n\n".join(filter(None, (interrupt.context, hint)))
    asked = _single(ElicitedField("", text_question(id, interrupt.text, context)))
    return replace(asked, parses=True)


def _single(field: ElicitedField, *, is_envelope: bool = False) -> _Asked:
    return _Asked((field,), Form((field.question,)), is_envelope=is_envelope)


# Approvals
# --------------------------------------------------------------------------------------------------


def _approval(interrupt: Interrupt, id: str, can_edit: bool) -> Question[Any]:  # noqa: FBT001
    context = with_warning(interrupt.context)
    if not can_edit:
        return Question.boolean(
            id, interrupt.text, context=context, exclusive=True, persistence="none"
        )
    return Question.select(
        id,
        interrupt.text,
        [_APPROVE, _REFUSE, _EDIT],
        context=context,
        exclusive=True,
        persistence="none",
    )


def _edit(interrupt: Interrupt, id: str, schema: JsonObject) -> Question[Any]:
    """Return the question that asks for edited arguments. Its default is the original arguments."""
    usable: JsonObject = {"type": "object"}
    if not check_schema(schema) and schema.get("type") == "object":
        usable = schema
    question: dict[str, Json] = {
        "id": f"{id}_arguments",
        "text": single_line(f"Arguments of {interrupt.tool}"),
        "answer_type": {"type": "schema", "schema": usable},
        "default": interrupt.arguments,
        "context": with_warning(""),
        "exclusive": True,
        "persistence": "none",
    }
    try:
        return Question.from_json(question, DEFAULT_LIMITS)
    except QuestionError:  # the original arguments do not match the agent's schema
        answer_type: Json = {"type": "schema", "schema": {"type": "object"}}
        return Question.from_json({**question, "answer_type": answer_type}, DEFAULT_LIMITS)
