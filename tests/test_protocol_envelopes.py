"""Open questions as JSON Schemas for front ends, and the payloads that front ends send back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

import midturn as mt
from midturn.events.open_question import OpenQuestion
from midturn.protocol_envelopes import (
    ApprovalEnvelope,
    Envelope,
    EnvelopeAnswer,
    FormEnvelope,
    QuestionEnvelope,
    envelope_of,
)
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SelectType,
    TextType,
)
from support.asked_questions import IDS, authored_questions
from support.json_values import JSON, TEXTS

SHIP = mt.Question.boolean("ship", "Ship it?")
ENV = mt.Question.select("env", "Where?", ["staging", "prod"], when=mt.When("ship", equals=True))
NOTE = mt.Question.text("note", "A note?", optional=True)
TOKEN = mt.Question.secret("token", "The token?")


def fits(envelope: Envelope, payload: object) -> bool:
    return jsonschema_rs.is_valid(dict(envelope.schema), payload)


def pointers(answer: EnvelopeAnswer) -> list[str]:
    return [problem.pointer for problem in answer.problems]


# Every valid answer fits the schema and is read back
# --------------------------------------------------------------------------------------------------


_VALUES: Mapping[str, Any] = {
    "{}": JSON,
    "integer": st.integers(-9, 9),
    "array": st.lists(TEXTS, max_size=3),
    "object": st.fixed_dictionaries({"a": JSON}),
}


def answers_to(question: mt.Question[Any]) -> st.SearchStrategy[Any]:
    """Valid answers in canonical form."""
    other = TEXTS.filter(str.strip).map(lambda words: {"other": words})
    match question.answer_type:
        case BooleanType():
            values: st.SearchStrategy[Any] = st.booleans()
        case SelectType(options, allow_other):
            values = st.sampled_from([option.value for option in options])
            values = values | other if allow_other else values
        case MultiSelectType(options, least, most):
            values = st.lists(
                st.sampled_from([option.value for option in options]),
                min_size=least,
                max_size=most,
                unique_by=repr,
            )
        case TextType():
            values = TEXTS
        case SchemaType(schema):
            values = _VALUES[str(schema.get("type", "{}"))]
        case _:
            values = TEXTS
    return (values | st.none() if question.optional else values).map(question.check)


def plain_questions() -> st.SearchStrategy[mt.Question[Any]]:
    authored = authored_questions().filter(lambda asked: asked["answer_type"]["type"] != "secret")
    return authored.map(mt.Question.from_json)


@given(
    data=st.data(),
    question=plain_questions(),
    reason=st.none() | TEXTS,
    remember=st.none() | st.booleans(),
)
def test_answer_to_a_question_fits_and_is_read_back(
    data: st.DataObject,
    question: mt.Question[Any],
    reason: str | None,
    *,
    remember: bool | None,
) -> None:
    value = data.draw(answers_to(question))
    envelope = QuestionEnvelope(question, can_remember=True)
    payload: dict[str, Any] = {"answer": value}
    payload |= {} if reason is None else {"reason": reason}
    payload |= {} if remember is None else {"remember": remember}

    assert fits(envelope, payload)
    assert envelope.read(payload) == EnvelopeAnswer(
        value=value, reason=(reason or "").strip() or None, remember=bool(remember)
    )


@st.composite
def answered_forms(draw: st.DrawFn) -> tuple[mt.Form, dict[str, Any]]:
    """A form with conditions, and valid answers to the questions that are asked."""
    questions: list[mt.Question[Any]] = []
    answers: dict[str, Any] = {}
    for name in draw(st.lists(IDS, min_size=1, max_size=5, unique=True)):
        question = draw(plain_questions())
        when = None
        if questions and draw(st.booleans()):
            named = draw(st.sampled_from(questions))
            when = mt.When(named.id, draw(answers_to(named)))
        question = mt.Question.from_json(
            {
                **question.to_json(),
                "id": name,
                **(
                    {}
                    if when is None
                    else {"when": {"question_id": when.question_id, "equals": when.equals}}
                ),
            }
        )
        questions.append(question)
    form = mt.Form(questions)
    walker = mt.FormWalker(form)
    while isinstance(step := walker.step(), mt.Ask):
        answers[step.question.id] = draw(answers_to(step.question))
        walker.feed(mt.Answered(answers[step.question.id]))
    return form, answers


@given(answered_forms())
def test_answers_to_a_form_fit_and_are_read_back(drawn: tuple[mt.Form, dict[str, Any]]) -> None:
    form, answers = drawn
    envelope = FormEnvelope.of(form)
    read = envelope.read(answers)

    assert fits(envelope, answers)
    assert not read.problems
    first = form.questions[0]
    assert read.value in (answers, answers[first.id])  # the map may be an answer to the first


@given(st.data(), answered_forms())
def test_partly_recorded_forms_are_read_back(
    data: st.DataObject, drawn: tuple[mt.Form, dict[str, Any]]
) -> None:
    form, answers = drawn
    count = data.draw(st.integers(0, len(answers)))
    recorded = dict(list(answers.items())[:count])
    rest = {key: value for key, value in answers.items() if key not in recorded}
    envelope = FormEnvelope.of(form, recorded)

    assert {question.id for question in envelope.questions}.isdisjoint(recorded)
    assert fits(envelope, rest)
    assert not envelope.read(rest).problems


@given(answered_forms(), JSON)
def test_other_payloads_of_a_form_are_problems_or_answers(
    drawn: tuple[mt.Form, dict[str, Any]], payload: Any
) -> None:
    read = FormEnvelope.of(drawn[0]).read(payload)

    assert read.problems or isinstance(payload, Mapping)


@given(
    kind=st.sampled_from(["run", "deliver", "review"]),
    approved=st.booleans(),
    reason=st.none() | TEXTS,
    arguments=st.dictionaries(TEXTS, JSON, max_size=2),
)
def test_decisions_fit_and_are_read_back(
    kind: Any, *, approved: bool, reason: str | None, arguments: dict[str, Any]
) -> None:
    envelope = ApprovalEnvelope(kind, subject={"never": "equal"})
    payload: dict[str, Any] = {"approved": approved}
    payload |= {} if reason is None else {"reason": reason}
    payload |= {"editedArgs": arguments} if kind == "run" else {}
    read = envelope.read(payload)

    assert fits(envelope, payload)
    assert read.problems == ()
    assert read.reason == ((reason or "").strip() or None)
    if approved and kind == "run":
        assert (read.approve, read.arguments) == (None, arguments)
    else:
        assert (read.approve, read.arguments) == (approved, mt.UNSET)


@given(JSON, JSON)
def test_no_payload_raises(payload: Any, answer: Any) -> None:
    for envelope in (
        QuestionEnvelope(SHIP),
        QuestionEnvelope(NOTE, can_remember=True),
        FormEnvelope.of(mt.Form([SHIP, ENV, NOTE])),
        ApprovalEnvelope("run", can_remember=True),
        ApprovalEnvelope("deliver"),
        ApprovalEnvelope("review"),
    ):
        for sent in (payload, {"answer": answer}, {"approved": True, "editedArgs": answer}):
            read = envelope.read(sent)
            assert read.problems or read.keywords


# One question
# --------------------------------------------------------------------------------------------------


def test_schema_of_a_question() -> None:
    assert QuestionEnvelope(SHIP, can_remember=True).schema == {
        "type": "object",
        "properties": {
            "answer": {"type": "boolean", "title": "Ship it?"},
            "reason": {"type": "string", "title": "Reason"},
            "remember": {"type": "boolean", "title": "Remember for this turn"},
        },
        "required": ["answer"],
    }


def test_an_optional_question_may_be_left_out() -> None:
    envelope = QuestionEnvelope(NOTE)

    assert envelope.schema["required"] == []
    assert envelope.read({}) == EnvelopeAnswer(value=None)
    assert envelope.read({"reason": "None."}) == EnvelopeAnswer(value=None, reason="None.")
    assert envelope.read(None) == EnvelopeAnswer(value=None)


def test_a_payload_without_an_envelope_is_the_answer() -> None:
    ports = mt.Question.schema("ports", "Ports?", {"type": "object", "required": ["http"]})

    assert QuestionEnvelope(SHIP).read(True) == EnvelopeAnswer(value=True)
    assert QuestionEnvelope(NOTE).read("Hi.") == EnvelopeAnswer(value="Hi.")
    assert QuestionEnvelope(ports).read({"http": 80}) == EnvelopeAnswer(value={"http": 80})


def test_unknown_members_of_an_envelope_are_ignored() -> None:
    assert QuestionEnvelope(SHIP).read({"answer": True, "id": 7}) == EnvelopeAnswer(value=True)


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"answer": "yes"}, ["/answer"]),
        ({"answer": 1, "id": 7}, ["/answer"]),
        ("yes", [""]),
        ({}, [""]),
        ({"answer": True, "reason": 7}, ["/reason"]),
        ({"answer": True, "reason": "\ud800"}, ["/reason"]),
        ({"answer": "yes", "remember": "always"}, ["/answer", "/remember"]),
    ],
)
def test_problems_of_a_question(payload: Any, where: list[str]) -> None:
    read = QuestionEnvelope(SHIP, can_remember=True).read(payload)

    assert pointers(read) == where
    assert read.keywords == {}


def test_remember_is_ignored_where_it_is_not_offered() -> None:
    assert QuestionEnvelope(SHIP).read({"answer": True, "remember": True}).keywords == {
        "value": True
    }


def test_doubles_without_a_fraction_are_whole_numbers() -> None:
    count = mt.Question.schema("count", "How many?", {"type": "integer"})
    value = QuestionEnvelope(count).read({"answer": 7.0}).value

    assert (value, type(value)) == (7, int)


def test_a_secret_is_refused_unless_the_front_end_may_send_it() -> None:
    refused = QuestionEnvelope(TOKEN).read({"answer": "s3cret"})
    taken = QuestionEnvelope(TOKEN, takes_secrets=True)
    read = taken.read({"answer": "s3cret"})

    assert pointers(refused) == ["/answer"]
    assert "s3cret" not in repr(refused)
    assert taken.schema["properties"]["answer"] == {  # type: ignore[index, call-overload]
        "type": "string",
        "writeOnly": True,
        "title": "The token?",
    }
    assert (read.secrets["token"].reveal(), read.keywords) == ("s3cret", {})
    assert "s3cret" not in repr(read)


# Forms
# --------------------------------------------------------------------------------------------------


FORM = FormEnvelope.of(mt.Form([SHIP, ENV, NOTE]))


@pytest.mark.parametrize(
    ("payload", "value", "where"),
    [
        ({"ship": True, "env": "prod"}, {"ship": True, "env": "prod", "note": None}, []),
        ({"ship": False}, {"ship": False, "note": None}, []),
        ({"ship": False, "env": "prod", "x": 1}, {"ship": False, "note": None}, []),
        ({"ship": True, "note": "Hi."}, {"ship": True}, ["/env"]),
        ({"ship": True, "env": "moon", "note": 7}, {"ship": True}, ["/env", "/note"]),
        ({"env": "prod"}, mt.UNSET, ["/ship"]),
        ({}, mt.UNSET, ["/ship"]),
        ([True], mt.UNSET, [""]),
    ],
)
def test_payloads_of_a_form(payload: Any, value: Any, where: list[str]) -> None:
    read = FORM.read(payload)

    assert (read.value, pointers(read)) == (value, where)


def test_a_map_that_answers_the_first_question_alone_is_not_sent_as_a_map() -> None:
    """`store.answer` would record the whole map as the answer to the open question."""
    anything = mt.Question.schema("any", "Anything?", {})
    read = FormEnvelope.of(mt.Form([anything, SHIP])).read({"any": [1], "ship": True})

    assert read.value == [1]


def test_secrets_of_a_form_are_apart_from_its_answers() -> None:
    envelope = FormEnvelope.of(mt.Form([TOKEN, SHIP]), takes_secrets=True)
    read = envelope.read({"token": "s3cret", "ship": True})

    assert {key: secret.reveal() for key, secret in read.secrets.items()} == {"token": "s3cret"}
    assert read.problems == ()
    refused = FormEnvelope.of(mt.Form([TOKEN, SHIP])).read({"token": "s3cret", "ship": True})
    assert pointers(refused) == ["/token"]


# Approvals
# --------------------------------------------------------------------------------------------------


AMOUNT = {
    "type": "object",
    "properties": {"amount": {"$ref": "#/$defs/amount"}},
    "$defs": {"amount": {"type": "integer", "maximum": 9}},
}
PAY = ApprovalEnvelope("run", {"amount": 7}, AMOUNT, can_remember=True)


@pytest.mark.parametrize(
    ("payload", "keywords"),
    [
        (True, {"approve": True}),
        ({"approved": True, "reason": " Fine. "}, {"approve": True, "reason": "Fine."}),
        ({"approved": False, "remember": True}, {"approve": False, "remember": True}),
        ({"approved": True, "editedArgs": {"amount": 7.0}}, {"approve": True}),
        (
            {"approved": True, "editedArgs": {"amount": 8}, "remember": True},
            {"arguments": {"amount": 8}},
        ),
        ({"approved": False, "editedArgs": {"amount": 8}}, {"approve": False}),
        ({"approved": True, "editedArgs": None}, {"approve": True}),
    ],
)
def test_payloads_of_a_call(payload: Any, keywords: Any) -> None:
    read = PAY.read(payload)

    assert (read.keywords, read.problems) == (keywords, ())


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({}, ["/approved"]),
        ({"approved": "yes"}, ["/approved"]),
        ({"approved": 1}, ["/approved"]),
        ("yes", [""]),
        ({"approved": True, "editedArgs": {"amount": 10}}, ["/editedArgs/amount"]),
        ({"approved": True, "editedArgs": [1]}, ["/editedArgs"]),
        ({"approved": True, "reason": []}, ["/reason"]),
        ({"approved": True, "remember": 1}, ["/remember"]),
    ],
)
def test_problems_of_a_decision(payload: Any, where: list[str]) -> None:
    read = PAY.read(payload)

    assert pointers(read) == where
    assert read.keywords == {}


def test_schema_of_edited_arguments_is_embedded() -> None:
    assert fits(PAY, {"approved": True, "editedArgs": {"amount": 9}})
    assert not fits(PAY, {"approved": True, "editedArgs": {"amount": 10}})


def test_schema_outside_the_subset_is_not_embedded() -> None:
    envelope = ApprovalEnvelope("run", arguments_schema={"$ref": "https://example.org/schema"})

    assert envelope.schema["properties"]["editedArgs"] == {"type": "object"}  # type: ignore[index, call-overload]
    assert envelope.read({"approved": True, "editedArgs": {"a": 1}}).arguments == {"a": 1}


@pytest.mark.parametrize(
    ("payload", "keywords", "where"),
    [
        ({"approved": True}, {"approve": True}, []),
        ({"approved": True, "editedContent": "same"}, {"approve": True}, []),
        ({"approved": True, "editedContent": "other"}, {"content": "other"}, []),
        ({"approved": False, "editedContent": "other"}, {"approve": False}, []),
        ({"approved": True, "editedContent": 7}, {}, ["/editedContent"]),
    ],
)
def test_payloads_of_a_result(payload: Any, keywords: Any, where: list[str]) -> None:
    read = ApprovalEnvelope("deliver", "same").read(payload)

    assert (read.keywords, pointers(read)) == (keywords, where)


@pytest.mark.parametrize(
    ("payload", "keywords", "where"),
    [
        ({"approved": True, "back": False}, {"approve": True}, []),
        ({"approved": False, "reason": "No."}, {"approve": False, "reason": "No."}, []),
        ({"back": True}, {"back": True}, []),
        ({"approved": False, "back": True}, {"back": True}, []),
        ({"approved": True, "back": True}, {}, ["/back"]),
        ({"approved": True, "back": "yes"}, {}, ["/back"]),
    ],
)
def test_payloads_of_a_review(payload: Any, keywords: Any, where: list[str]) -> None:
    read = ApprovalEnvelope("review").read(payload)

    assert (read.keywords, pointers(read)) == (keywords, where)


# Open questions of a store
# --------------------------------------------------------------------------------------------------


@mt.tool(run="ask")
async def ship(ctx: mt.ToolContext, amount: int) -> str:
    """Ship."""
    answers = await ctx.ask_form(mt.Form([SHIP, ENV, NOTE]))
    return f"{amount} {answers.to_json()} {await ctx.ask(mt.Question.boolean('sure', 'Sure?'))}"


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_payloads_answer_the_questions_of_a_store(kind: str, tmp_path: Path) -> None:
    memory = mt.MemoryStore()

    def store() -> mt.ConversationStore:
        return memory if kind == "memory" else mt.open_store(tmp_path / "conversations")

    def agent() -> mt.Agent:
        model = [{"calls": [{"name": "ship", "arguments": {"amount": 1}}]}, {"text": "Done."}]
        return mt.Agent(mt.ScriptedModel(model), tools=[ship], store=store())

    conversation = agent().run_sync("Ship.").conversation
    for payload in (
        {"approved": True, "editedArgs": {"amount": 2}},
        {"ship": True, "env": "prod"},
        {"answer": True, "reason": "Sure."},
    ):
        (question,) = store().pending_sync()
        envelope = envelope_of(question)
        assert envelope is not None
        assert fits(envelope, payload)
        store().answer_sync(question.id, **envelope.read(payload).keywords)
        result = agent().resume_sync(conversation)

    assert result.status == "completed"
    (content,) = [
        event.content
        for event in store().read_sync(conversation).events
        if isinstance(event, mt.events.ToolCallResponse)
    ]
    assert "2 {'ship': True, 'env': 'prod', 'note': None} True" in content


def pending(tool: mt.Tool) -> OpenQuestion:
    model = mt.ScriptedModel([{"calls": [{"name": tool.definition.name}]}])
    agent = mt.Agent(model, tools=[tool], store=mt.MemoryStore())
    (question,) = agent.run_sync("Go.").pending
    return question


@pytest.mark.parametrize("questions", [[TOKEN], [SHIP, TOKEN]])
def test_secrets_have_an_envelope_only_where_they_are_taken(
    questions: list[mt.Question[Any]],
) -> None:
    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        return repr(await ctx.ask_form(mt.Form(questions)))

    question = pending(asks)

    assert envelope_of(question) is None
    assert envelope_of(question, takes_secrets=True) is not None


def test_a_question_for_people_cannot_be_remembered() -> None:
    ops = mt.People(ask=["ops"])

    @mt.tool
    async def anyone(ctx: mt.ToolContext) -> str:
        """Ask."""
        return str(await ctx.ask(SHIP))

    @mt.tool
    async def people(ctx: mt.ToolContext) -> str:
        """Ask."""
        return str(await ctx.ask(mt.Question.boolean("ship", "Ship it?", people=ops)))

    assert [envelope_of(pending(tool)) for tool in (anyone, people)] == [
        QuestionEnvelope(SHIP, can_remember=True),
        QuestionEnvelope(SHIP, can_remember=False),
    ]
