"""Complete turns in which the assistant asks the user."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import midturn as mt
from midturn.events.types import Event, InquiryRequest, ToolCallResponse
from midturn.question.json_value import Json, JsonObject
from midturn.question.walker import Cancelled
from midturn.stores.sync_forms import drive
from midturn.testing.tool_run import RecordedPair, recorded_pairs
from midturn.tools.ask_user_call import AskUserTool

MIGRATION: JsonObject = {
    "questions": [
        {"id": "apply", "text": "Apply the migration?", "answer_type": "boolean"},
        {
            "id": "env",
            "text": "Which environment?",
            "answer_type": "select",
            "options": ["staging", "production"],
            "when": {"question_id": "apply", "equals": True},
        },
        {
            "id": "why",
            "text": "Why not?",
            "answer_type": "text",
            "when": {"question_id": "apply", "equals": False},
        },
    ]
}


def agent_that_calls(*calls: JsonObject, detached: mt.DetachedPolicy = "defer") -> mt.Agent:
    """Return an agent whose model makes these calls of `ask_user`, one per reply, and then
    ends.
    """
    replies: list[Mapping[str, Json]] = [
        {"calls": [{"name": "ask_user", "arguments": arguments}]} for arguments in calls
    ]
    return mt.Agent(
        mt.ScriptedModel([*replies, {"text": "Done."}]), tools=[AskUserTool()], detached=detached
    )


def events_of(agent: mt.Agent, result: mt.RunResult) -> Sequence[Event]:
    """Return the recorded events."""
    return drive(agent.store.read(result.conversation)).events


def results(agent: mt.Agent, result: mt.RunResult) -> list[tuple[str, bool]]:
    """Return what the model read as the results of its calls, and whether they were errors."""
    return [
        (event.content, event.is_error)
        for event in events_of(agent, result)
        if isinstance(event, ToolCallResponse)
    ]


def answered(id: str, answer: Json, by: str = "user") -> RecordedPair:
    """Return the recorded question and its answer."""
    return RecordedPair(f"ask_user.{id}", "answered", answer, by)


def test_form_is_one_call_with_a_pair_for_each_question() -> None:
    agent = agent_that_calls(MIGRATION)
    prompter = mt.ScriptedPrompter({"ask_user.apply": True, "ask_user.env": "staging"})

    result = agent.run_sync("Migrate.", prompter=prompter)

    assert (result.status, result.text) == ("completed", "Done.")
    assert results(agent, result) == [('{"apply": true, "env": "staging", "why": null}', False)]
    assert recorded_pairs(events_of(agent, result)) == [
        answered("apply", True),
        answered("env", "staging"),
    ]
    assert [
        (prompt.kind, prompt.index, prompt.total, prompt.asked_by)
        for prompt in prompter.prompts[:2]
    ] == [
        ("tool", 1, 3, "Assistant"),
        ("tool", 2, 3, "Assistant"),
    ]
    assert prompter.prompts[2].kind == "review"


def test_ask_user_questions_are_recorded_as_exclusive() -> None:
    agent = agent_that_calls(MIGRATION)
    result = agent.run_sync(
        "Migrate.",
        prompter=mt.ScriptedPrompter({"ask_user.apply": False, "ask_user.why": "Too late."}),
    )

    requests = [event for event in events_of(agent, result) if isinstance(event, InquiryRequest)]

    assert [request.source.source for request in requests] == ["assistant", "assistant"]
    assert all(
        request.question.exclusive and request.question.persistence == "none"
        for request in requests
    )
    assert requests[0].form is not None
    assert requests[0].form.total == 3
    assert requests[1].form is None


def test_calls_in_the_format_of_other_agents_are_asked() -> None:
    listed = (
        '[{"question": "Which?", "header": "Database", "multiSelect": false, "options": [{"label":'
        ' "main"}, {"label": "backup"}]}]'
    )
    agent = agent_that_calls({"questions": listed})

    result = agent.run_sync("Go.", prompter=mt.ScriptedPrompter({"ask_user.q1": "backup"}))

    assert results(agent, result) == [('{"q1": "backup"}', False)]


def test_a_refused_ask_is_a_failed_call_of_the_stream() -> None:
    agent = agent_that_calls({"question": "One\ntwo"})

    async def seen() -> list[mt.Streamed]:
        async with agent.stream("Go.", prompter=mt.ScriptedPrompter({})) as events:
            return [event async for event in events]

    started, finished = (
        event
        for event in asyncio.run(seen())
        if isinstance(event, mt.ToolStarted | mt.ToolFinished)
    )
    assert isinstance(started, mt.ToolStarted)
    assert isinstance(finished, mt.ToolFinished)
    assert (finished.call.name, finished.is_error) == ("ask_user", True)
    assert finished.content.startswith("ask_user: nothing was asked")


def test_back_changes_dependent_questions() -> None:
    agent = agent_that_calls(MIGRATION)
    prompter = mt.ScriptedPrompter(
        {
            "ask_user.apply": [True, False],
            "ask_user.env": mt.WentBack(),
            "ask_user.why": "Too late.",
            "ask_user.__review__": mt.Submitted(),
        }
    )

    result = agent.run_sync("Migrate.", prompter=prompter)

    assert results(agent, result) == [('{"apply": false, "env": null, "why": "Too late."}', False)]
    assert [
        (prompt.question.id, prompt.prefill, prompt.can_go_back) for prompt in prompter.prompts[2:3]
    ] == [("apply", True, False)]


def test_reply_contains_earlier_answers_and_the_turn_continues() -> None:
    agent = agent_that_calls(MIGRATION)
    prompter = mt.ScriptedPrompter(
        {"ask_user.apply": True, "ask_user.env": mt.Replied("What is the difference?")}
    )

    result = agent.run_sync("Migrate.", prompter=prompter)

    assert result.status == "completed"
    assert results(agent, result) == [
        (
            '{"cancelled": true, "answered": {"apply": true}, "reply": "What is the difference?"}',
            False,
        )
    ]


def test_reason_of_a_no_reaches_the_model_once() -> None:
    """In the result of a single question, and below the result of a list."""
    single: JsonObject = {"question": "Deploy?", "answer_type": "boolean"}
    several: JsonObject = {
        "questions": [{"id": "deploy", "text": "Deploy?", "answer_type": "boolean"}]
    }
    no = mt.Answered(value=False, reason='The "freeze".')
    agent = agent_that_calls(single, several)

    result = agent.run_sync(
        "Go.", prompter=mt.ScriptedPrompter({"ask_user.answer": no, "ask_user.deploy": no})
    )

    assert results(agent, result) == [
        ('{"answer_type": "boolean", "answer": false, "reason": "The \\"freeze\\"."}', False),
        ('{"deploy": false}\nThe user added: "The "freeze"."', False),
    ]


STAGING: JsonObject = {"id": "staging", "text": "Migrate staging?", "answer_type": "boolean"}
LIVE: JsonObject = {"id": "live", "text": "Migrate live?", "answer_type": "boolean"}
TOO_LATE = mt.Answered(value=False, reason="It is too late today.")


def test_reason_of_a_no_reaches_the_model_if_the_form_ends_with_a_reply() -> None:
    agent = agent_that_calls({"questions": [STAGING, LIVE]})
    prompter = mt.ScriptedPrompter(
        {"ask_user.staging": TOO_LATE, "ask_user.live": mt.Replied("Ask Ada.")}
    )

    result = agent.run_sync("Go.", prompter=prompter)

    marker = '{"cancelled": true, "answered": {"staging": false}, "reply": "Ask Ada."}'
    ((content, is_error),) = results(agent, result)
    assert (content, is_error) == (f'{marker}\nThe user added: "It is too late today."', False)
    assert Cancelled.read(content) == Cancelled({"staging": False}, "Ask Ada.")


def test_reason_of_a_no_is_dropped_if_it_becomes_a_yes() -> None:
    agent = agent_that_calls({"questions": [STAGING, LIVE]})
    prompter = mt.ScriptedPrompter(
        {"ask_user.staging": [TOO_LATE, True], "ask_user.live": [mt.WentBack(), True]}
    )

    result = agent.run_sync("Go.", prompter=prompter)

    assert results(agent, result) == [('{"staging": true, "live": true}', False)]


def test_reason_is_dropped_with_an_answer_that_back_discards() -> None:
    live: JsonObject = {**LIVE, "when": {"question_id": "staging", "equals": True}}
    agent = agent_that_calls(
        {"questions": [STAGING, live, {"id": "note", "text": "A note?", "answer_type": "text"}]}
    )
    prompter = mt.ScriptedPrompter(
        {
            "ask_user.staging": [True, False],
            "ask_user.live": [TOO_LATE, mt.WentBack()],
            "ask_user.note": [mt.WentBack(), "None."],
        }
    )

    result = agent.run_sync("Go.", prompter=prompter)

    assert results(agent, result) == [('{"staging": false, "live": null, "note": "None."}', False)]


def test_invalid_arguments_ask_nothing_and_can_be_corrected() -> None:
    agent = agent_that_calls({"question": "Where\nto?"}, {"question": "Where to?"})

    result = agent.run_sync("Go.", prompter=mt.ScriptedPrompter({"ask_user.answer": "/tmp"}))

    (first, is_error), second = results(agent, result)
    assert is_error
    assert first.endswith(
        "- /question: the text has 2 lines, but must have one. Put multi-line text in `context`."
    )
    assert second == ('{"answer_type": "text", "answer": "/tmp"}', False)
    assert recorded_pairs(events_of(agent, result)) == [answered("answer", "/tmp")]


def test_equal_questions_are_asked_each_time() -> None:
    """Answers to the assistant's own questions are not reused."""
    again: JsonObject = {"question": "Go on?", "answer_type": "boolean"}
    agent = agent_that_calls(again, again)
    prompter = mt.ScriptedPrompter(
        {"ask_user.answer": [mt.Answered(value=True, remember=True), False]}
    )

    result = agent.run_sync("Go.", prompter=prompter)

    assert [prompt.may_remember for prompt in prompter.prompts] == [False, False]
    assert [content for content, _ in results(agent, result)] == [
        '{"answer_type": "boolean", "answer": true}',
        '{"answer_type": "boolean", "answer": false}',
    ]


def test_detached_form_continues_with_each_answer() -> None:
    """A person who answers later can still go back to earlier detached answers."""

    async def story() -> None:
        agent = agent_that_calls(MIGRATION)
        result = await agent.run("Migrate.")
        assert result.status == "suspended"
        (waiting,) = result.pending
        assert waiting.question.text == "Apply the migration?"
        await agent.store.answer(waiting.id, True)

        prompter = mt.ScriptedPrompter(
            {
                "ask_user.env": mt.WentBack(),
                "ask_user.apply": False,
                "ask_user.why": "Too late.",
                "ask_user.__review__": mt.Submitted(),
            }
        )
        result = await agent.resume(result.conversation, prompter=prompter)

        assert results(agent, result) == [
            ('{"apply": false, "env": null, "why": "Too late."}', False)
        ]
        assert prompter.prompts[1].prefill is True
        ids = [event.id for event in events_of(agent, result) if isinstance(event, InquiryRequest)]
        assert ids == ["call_1.apply.1", "call_1.env.1", "call_1.apply.2", "call_1.why.1"]

    asyncio.run(story())


def test_no_model_answers_ask_user_questions() -> None:
    agent = agent_that_calls({"question": "Where to?"}, detached="auto")

    result = agent.run_sync("Go.")

    ((content, is_error),) = results(agent, result)
    assert is_error
    assert content.startswith("ask_user cannot run because no interactive terminal is available.")
    assert recorded_pairs(events_of(agent, result)) == [
        RecordedPair("ask_user.answer", "cancelled", reason="no_prompt_backend")
    ]
