"""OpenTelemetry spans, read from its in-memory exporter."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import midturn as mt
from midturn import otel

WORDS = "What nobody but the person should read"
TALK = {"input_tokens": 100, "output_tokens": 10}


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy."""
    if not await ctx.ask(mt.Question.boolean("confirm", f"{WORDS}: {env}?")):
        raise mt.Rejected(WORDS)
    note = await ctx.ask(mt.Question.text("note", WORDS))
    token = await ctx.ask(mt.Question.secret("token", WORDS))
    return f"{note} {len(token.reveal())} {WORDS}"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """The exported spans. The instrumentation is removed after the test."""
    exporter = InMemorySpanExporter()
    yield exporter
    otel.uninstrument()


def instrumented(exporter: InMemorySpanExporter, *, content: bool = False) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.instrument(provider, content=content)


def agent() -> mt.Agent:
    call = {"name": "deploy", "arguments": {"env": WORDS}}
    return mt.Agent(
        mt.ScriptedModel([{"calls": [call], "usage": TALK}, {"text": WORDS, "usage": TALK}]),
        tools=[deploy],
    )


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


REPLIES: dict[str, Any] = {
    "deploy.confirm": True,
    "deploy.note": WORDS,
    "deploy.token": mt.SecretValue("hunter2"),
}


def test_turns_requests_calls_and_questions_are_spans(spans: InMemorySpanExporter) -> None:
    instrumented(spans)
    result = agent().run_sync("Ship it.", prompter=mt.ScriptedPrompter(REPLIES))
    found = by_name(spans)

    turn = found["invoke_agent midturn"]
    assert attributes(turn)["midturn.turn.status"] == result.status == "completed"
    assert turn.context is not None
    for name in ("execute_tool deploy", "ask confirm", "ask note", "ask token", "chat scripted"):
        span = found[name]
        assert span.parent is not None
        assert span.parent.span_id == turn.context.span_id
        assert attributes(span)["gen_ai.conversation.id"] == result.conversation
    request = attributes(found["chat scripted"])
    assert (
        request["gen_ai.operation.name"],
        request["gen_ai.usage.input_tokens"],
        request["gen_ai.usage.output_tokens"],
    ) == (
        "chat",
        100,
        10,
    )
    assert attributes(found["execute_tool deploy"])["gen_ai.tool.name"] == "deploy"
    confirm = attributes(found["ask confirm"])
    assert (confirm["midturn.question.outcome"], confirm["midturn.answered.by"]) == (
        "answered",
        "user",
    )


def test_spans_have_no_content_unless_enabled(spans: InMemorySpanExporter) -> None:
    instrumented(spans)
    agent().run_sync(WORDS, prompter=mt.ScriptedPrompter(REPLIES))
    assert all(WORDS not in span.to_json() for span in spans.get_finished_spans())

    spans.clear()
    instrumented(spans, content=True)
    agent().run_sync(WORDS, prompter=mt.ScriptedPrompter(REPLIES))
    found = by_name(spans)
    assert attributes(found["ask note"])["midturn.answer"] == WORDS
    assert WORDS in attributes(found["execute_tool deploy"])["gen_ai.tool.call.arguments"]
    assert all("hunter2" not in span.to_json() for span in spans.get_finished_spans())


def test_question_span_covers_the_whole_wait(spans: InMemorySpanExporter) -> None:
    async def scene() -> None:
        made = agent()
        result = await made.run("Ship it.")
        (question,) = result.pending
        assert "ask confirm" not in by_name(spans)
        instrumented(spans)  # the process in which the user answers
        await made.store.answer(question.id, value=True, user="u42", via="web")
        span = by_name(spans)["ask confirm"]
        pair = (await made.store.read(result.conversation)).pairs()[0]
        assert pair.response is not None
        assert span.start_time is not None
        assert span.end_time is not None
        assert (span.end_time - span.start_time) / 1e9 == pytest.approx(
            (pair.response.at - pair.request.at).total_seconds(), abs=1e-3
        )
        said = attributes(span)
        assert (said["midturn.answered.user"], said["midturn.answered.via"]) == ("u42", "web")

    asyncio.run(scene())


def test_continued_runs_and_external_answers_link_to_the_first_run(
    spans: InMemorySpanExporter,
) -> None:
    instrumented(spans)
    made = agent()
    result = made.run_sync("Ship it.")
    made.store.answer_sync(result.pending[0].id, value=False)
    made.resume_sync(result.conversation)
    made.run_sync("Again.", conversation=result.conversation)

    first, second, third = [
        span for span in spans.get_finished_spans() if span.name == "invoke_agent midturn"
    ]
    assert first.context is not None
    for span in (by_name(spans)["ask confirm"], second):
        assert [link.context.span_id for link in span.links] == [first.context.span_id]
    assert (list(first.links), list(third.links)) == ([], [])


def test_errors_are_recorded_with_their_type(
    spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    @mt.tool
    def broken() -> str:
        """Break."""
        raise KeyError("nope")

    instrumented(spans)
    mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "broken", "arguments": {}}]}, {"text": "Oh."}]),
        tools=[broken],
    ).run_sync("Go.")
    span = by_name(spans)["execute_tool broken"]

    assert attributes(span)["error.type"] == "KeyError"
    assert span.status.status_code is StatusCode.ERROR
    assert "nope" not in span.to_json()
    assert caplog.records


def test_an_inquirer_has_spans_too(spans: InMemorySpanExporter) -> None:
    instrumented(spans)
    store = mt.MemoryStore()
    inquirer = mt.Inquirer(store, store.new_sync(), mt.ScriptedPrompter({"deploy.confirm": True}))
    with inquirer.turn_sync("Ship it."):
        inquirer.run_sync(
            "deploy",
            "1",
            {},
            lambda call: str(call.ask_sync(mt.Question.boolean("confirm", "Sure?"))),
        )

    assert {"ask confirm", "execute_tool deploy", "invoke_agent midturn"} <= set(by_name(spans))
