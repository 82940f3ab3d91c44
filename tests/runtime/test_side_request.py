from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from midturn.events.types import (
    ASSISTANT,
    AnsweredBy,
    ChatRequest,
    ChatResponse,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.exchange import ModelRequest, StructuredPart, TextPart, ToolCallPart
from midturn.question.answer_type import MultiSelectType, SelectOption, SelectType
from midturn.runtime.side_request import ChosenAssistant, second_request, side_request
from support.conversations import REQUEST, asked_events, main_request

SETTINGS = ChosenAssistant(
    model="anthropic/claude-haiku-4-5", cache="long", parameters={"temperature": 0}
)


def text_of(request: ModelRequest) -> str:
    last = request.events[-1]
    assert isinstance(last, ChatRequest)
    return last.content


def asking(asked: InquiryRequest, main: ModelRequest | None = None) -> ModelRequest:
    return side_request(
        main or main_request(asked_events(asked)),
        asked,
        "fs_modify_file",
        SETTINGS,
        {"type": "object"},
    )


def question(**changed: Any) -> InquiryRequest:
    persisted = replace(REQUEST.question, **{"text": "Which region?", "context": None, **changed})
    return InquiryRequest(
        id="i",
        source=REQUEST.source,
        question=persisted,
        call="c1",
        tool_call_id="call_1",
        question_id="region",
    )


def test_the_text_of_a_yes_no_question() -> None:
    assert (
        text_of(asking(REQUEST))
        == "The tool `fs_modify_file` requires additional input.\n\n--- a/plan.md\n+++"
        " b/plan.md\n\nApply the changes to plan.md?\n\nProvide your answer based on the"
        " conversation context. In the `reason` field, briefly explain why you chose your"
        " answer."
    )


def test_options_are_listed_with_their_descriptions() -> None:
    options = (SelectOption("eu-1", "close to the users"), SelectOption(3), SelectOption(True))

    text = text_of(asking(question(answer_type=SelectType(options, allow_other=True))))

    assert (
        'Choose one of these options:\n- "eu-1": close to the users\n- 3\n- true\n- or, in your own'
        ' words: {"other": "<text>"}\n\nProvide' in text
    )


def test_the_number_of_choices_is_stated() -> None:
    kind = MultiSelectType((SelectOption("a"), SelectOption("b"), SelectOption("c")), min=1)

    assert "Choose 1 to 3 of these options:" in text_of(asking(question(answer_type=kind)))


def test_an_optional_question_is_marked() -> None:
    assert "The question may be skipped: the answer is then `null`." in text_of(
        asking(question(optional=True))
    )


def test_a_question_written_by_a_model_is_marked() -> None:
    by_model = InquiryRequest(
        id="i", source=ASSISTANT, question=REQUEST.question, call="c1", question_id="q"
    )

    assert "\n\nThe following question was written by a model, not by the user.\n\n" in text_of(
        asking(by_model)
    )
    assert "written by a model" not in text_of(asking(REQUEST))


def test_answers_of_the_user_in_this_turn_are_included() -> None:
    """Answers of a model or of the configuration are left out, and secrets always are."""
    events = asked_events(REQUEST)
    earlier = [
        (question(text="Which region?"), "user", "eu-1", "closest"),
        (question(text="Which size?"), "static", "big", None),
        (question(text="Which colour?"), "assistant", "red", None),
    ]
    before: list[Any] = []
    for number, (request, by, answer, reason) in enumerate(earlier):
        before += [
            InquiryRequest(
                id=f"e{number}", source=request.source, question=request.question, call="c2"
            ),
            InquiryAnswered(
                id=f"e{number}", answer=answer, reason=reason, answered_by=AnsweredBy(by)
            ),
        ]
    secret = [
        InquiryRequest(id="s", source=REQUEST.source, question=REQUEST.question),
        InquiryRedacted(id="s", answered_by=AnsweredBy("user")),
    ]

    text = text_of(asking(REQUEST, main_request([*events[:-1], *before, *secret, events[-1]])))

    assert (
        'Earlier in this turn the user answered:\n- Which region? "eu-1" (reason:'
        ' "closest")\n\nProvide' in text
    )
    assert "size" not in text
    assert "colour" not in text


def test_answers_discarded_with_back_are_not_included() -> None:
    """The user goes back twice.

    First from the last question to the size, then to the region.
    """
    user = AnsweredBy("user")
    region, size = question(text="Which region?").question, question(text="Which size?").question
    before = [
        InquiryRequest(id="r1", source=REQUEST.source, question=region, call="c2"),
        InquiryAnswered(id="r1", answer="eu-1", answered_by=user),
        InquiryRequest(id="s1", source=REQUEST.source, question=size, call="c2"),
        InquiryAnswered(id="s1", answer="big", answered_by=user),
        InquiryRequest(id="s2", source=REQUEST.source, question=size, call="c2", revises="s1"),
        InquiryCancelled(id="s2", reason="back"),
        InquiryRequest(id="r2", source=REQUEST.source, question=region, call="c2", revises="r1"),
        InquiryAnswered(id="r2", answer="us-2", answered_by=user),
        InquiryRequest(id="s3", source=REQUEST.source, question=size, call="c2"),
        InquiryAnswered(id="s3", answer="small", answered_by=user),
    ]
    *events, last = asked_events(REQUEST)

    text = text_of(asking(REQUEST, main_request([*events, *before, last])))

    assert (
        'Earlier in this turn the user answered:\n- Which region? "us-2"\n- Which size?'
        ' "small"\n\nProvide' in text
    )


def test_the_copy_pauses_the_asking_call_and_other_calls_run() -> None:
    main = main_request(asked_events(REQUEST))

    copied = asking(REQUEST, main).events

    assert [event for event in copied if isinstance(event, ToolCallResponse)] == [
        ToolCallResponse(event_id="r0", id="call_0", content="the plan", call="c0"),
        ToolCallResponse(
            id="call_1", content="Tool paused: Apply the changes to plan.md?", call="c1"
        ),
        ToolCallResponse(id="call_2", content="Tool call still running.", call="c2"),
    ]


def test_the_main_request_is_a_prefix_of_the_copy() -> None:
    events = asked_events(REQUEST)
    cycle = next(
        place
        for place, event in enumerate(events)
        if isinstance(event, ToolCallRequest) and event.event_id == "c1"
    )
    last_main = main_request(events[:cycle])

    assert asking(REQUEST, main_request(events)).events[: len(last_main.events)] == last_main.events


def test_the_main_request_is_unchanged() -> None:
    main, again = main_request(asked_events(REQUEST)), main_request(asked_events(REQUEST))

    asking(REQUEST, main)

    assert main == again


def test_the_answering_assistant_uses_its_own_settings() -> None:
    main = main_request(asked_events(REQUEST))

    same = asking(REQUEST, main)
    other = side_request(
        main,
        REQUEST,
        "t",
        ChosenAssistant(model="m", system_prompt="Be strict.", shares_cache=True),
        {},
    )

    assert (same.system, same.tools, same.cache, same.parameters) == (
        main.system,
        main.tools,
        "long",
        {"temperature": 0},
    )
    assert (other.system, other.tools) == ("Be strict.", main.tools)
    assert other.inquiry is not None
    assert other.inquiry.shares_cache
    assert same.inquiry is not None
    assert (same.inquiry.tool, same.inquiry.question_id, same.inquiry.trial) == (
        "fs_modify_file",
        "apply_changes",
        1,
    )


def test_a_wrong_answer_is_sent_back_with_the_problem() -> None:
    first = asking(REQUEST)

    second = second_request(
        first,
        [TextPart("Sure!"), StructuredPart({"answer": 1})],
        "`answer`: it must be true or false.",
    )

    assert second.events[: len(first.events)] == first.events
    assert second.events[len(first.events) : -1] == [
        ChatResponse(message="Sure!"),
        ChatResponse(structured={"answer": 1}),
    ]
    assert text_of(second).startswith(
        "Your answer could not be used: `answer`: it must be true or false.\n\nAnswer the question"
        " again."
    )
    assert second.inquiry is not None
    assert second.inquiry.trial == 2


def test_a_call_in_the_answer_gets_a_result_that_it_was_not_run() -> None:
    first = asking(REQUEST)

    second = second_request(
        first, [ToolCallPart("x", "deploy", {"env": "prod"})], "it called a tool"
    )

    call, result = second.events[len(first.events) : -1]
    assert isinstance(call, ToolCallRequest)
    assert isinstance(result, ToolCallResponse)
    assert (call.name, call.arguments, result.call, result.is_error) == (
        "deploy",
        {"env": "prod"},
        call.event_id,
        True,
    )


def test_messages_do_not_use_internal_terms() -> None:
    first = asking(question(optional=True))
    second = second_request(first, [ToolCallPart("x", "deploy", {})], "it called a tool")

    said = [
        event.content
        for event in second.events
        if isinstance(event, ChatRequest | ToolCallResponse)
    ]
    assert not [text for text in said if "inquiry" in text.lower()]
