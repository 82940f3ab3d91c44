"""Remote agents of other ages, agents that break the protocol, and agents that attack."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

import midturn as mt
from midturn.integrations import agui
from midturn.integrations.agui import remote_client
from midturn.integrations.agui.remote_run import MalformedEvent, RunReader, SseReader, read_event
from midturn.integrations.remote_http import RemoteError
from support.agui import call, scripted
from support.agui_remote import (
    FINISHED,
    STARTED,
    Event,
    Respond,
    called,
    interrupted,
    said,
    scripted_agent,
)

NO_ANSWERS: Mapping[str, Any] = {}
OLD_START: Event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
OLD_END: Event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "_RETRY_DELAY", 0)


async def result(
    respond: Respond, answers: Mapping[str, Any] = NO_ANSWERS, **options: Any
) -> tuple[str, Any]:
    """Call an agent, answer its questions, and return the result and the requests."""
    async with scripted_agent(respond) as (url, remote):
        tool = agui.tool(url, name="remote", description="x", **options)
        agent = scripted(call("remote", message="Go."), {"text": "Done."}, tools=[tool])
        ended = await agent.run("Go.")
        while ended.status == "suspended":
            for question in ended.pending:
                await agent.store.answer(question, answers[question.question.text])
            ended = await agent.resume(ended.conversation)
        assert ended.status == "completed"
        events: Any = (await agent.store.read(ended.conversation)).events
        found = next(each for each in events if each.type == "tool_call_response")
        return found.content, remote


def of(respond: Respond, answers: Mapping[str, Any] = NO_ANSWERS, **options: Any) -> str:
    return asyncio.run(result(respond, answers, **options))[0]


def events(*sent: Event | bytes) -> Respond:
    return lambda _: sent


# Other ages and dialects
# --------------------------------------------------------------------------------------------------


def test_agent_before_1_0_without_interrupts() -> None:
    assert of(events(OLD_START, *said("Hello."), OLD_END)) == "Hello."


def test_snake_case_and_unknown_events_are_read() -> None:
    sent: list[Event] = [
        {"type": "RUN_STARTED", "thread_id": "t", "run_id": "r", "protocol_version": "1.0"},
        {"type": "STEP_STARTED", "stepName": "x"},
        {"type": "OF_THE_FUTURE", "value": 1},
        {"type": "TEXT_MESSAGE_START", "message_id": "a", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "message_id": "a", "delta": "Hel"},
        {"type": "TEXT_MESSAGE_CONTENT", "message_id": "a", "delta": "lo."},
        {"type": "RUN_FINISHED", "outcome": {"type": "success", "pendingToolCallIds": []}},
    ]
    assert of(events(*sent)) == "Hello."


def test_chunks_are_read() -> None:
    sent: list[Event] = [
        OLD_START,
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "a", "role": "assistant", "delta": "Hel"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "lo."},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "pay", "delta": "{"},
        {"type": "TOOL_CALL_CHUNK", "delta": "}"},
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "paid"},
        OLD_END,
    ]
    assert of(events(*sent)) == "Hello."


def test_interrupt_of_langgraph_without_outcome_is_asked() -> None:
    value = json.dumps({"message": "Where to?", "responseSchema": {"enum": ["a", "b"]}})
    asks = {"type": "CUSTOM", "name": "on_interrupt", "value": value, "rawEvent": {"id": "lg-1"}}

    def respond(run: Event) -> Iterable[Event]:
        return [OLD_START, *(said("Done.") if run.get("resume") else [asks]), OLD_END]

    found, remote = asyncio.run(result(respond, {"Where to?": "b"}))
    assert found == "Done."
    entry = {"interruptId": "lg-1", "status": "resolved", "payload": "b"}
    assert remote.runs[1]["resume"] == [entry]


def test_calls_that_an_old_agent_leaves_to_its_front_end_are_reported() -> None:
    found = of(events(OLD_START, *called("c1", "confirm", {}), OLD_END))
    assert "without the results of these calls: confirm" in found


def test_snapshot_replaces_the_messages_and_is_the_answer() -> None:
    def respond(run: Event) -> Iterable[Event]:
        answer = {"id": "x", "role": "assistant", "content": "From the snapshot."}
        return [
            STARTED,
            {"type": "MESSAGES_SNAPSHOT", "messages": [*run["messages"], answer]},
            FINISHED,
        ]

    assert of(respond) == "From the snapshot."


def test_structured_result_is_the_answer() -> None:
    assert of(events(STARTED, *said("x"), {**FINISHED, "result": {"a": [1]}})) == '{"a":[1]}'


def test_run_without_text_is_no_error() -> None:
    assert of(events(STARTED, FINISHED)) == "remote has ended without a text."


def test_comments_and_carriage_returns_are_read() -> None:
    sent = b": still here\r\n\r\nevent: x\r\ndata: " + json.dumps(STARTED).encode() + b"\r\n\r\n"
    assert of(events(sent, *said("Hello."), FINISHED)) == "Hello."


def test_cancelled_run_is_no_success() -> None:
    sent = {**FINISHED, "outcome": {"type": "cancelled"}}
    assert "cancelled there" in of(events(STARTED, *said("x"), sent))


def test_failed_run_is_reported() -> None:
    error = {"type": "RUN_ERROR", "message": "No budget.", "code": "quota"}
    found, remote = asyncio.run(result(events(STARTED, error)))
    assert found == "The run of remote failed (quota): No budget."
    assert len(remote.runs) == 1


def test_run_with_answers_that_fails_is_sent_again_once() -> None:
    asks = interrupted({"id": "i1", "reason": "x", "message": "A?"})
    error = {"type": "RUN_ERROR", "message": "Busy."}

    def respond(run: Event) -> Iterable[Event]:
        return [STARTED, error if run.get("resume") else asks]

    found, remote = asyncio.run(result(respond, {"A?": "a"}))
    assert "Busy." in found
    assert len(remote.runs) == 3
    assert remote.runs[1] == remote.runs[2]


def test_run_that_is_cut_off_is_sent_again_with_the_same_id() -> None:
    runs: list[Event] = []

    def respond(run: Event) -> Iterable[Event]:
        runs.append(run)
        return [STARTED, *said("Hello.")] if len(runs) == 1 else [STARTED, *said("Hi."), FINISHED]

    assert of(respond) == "Hi."
    assert runs[0] == runs[1]


def test_temporary_failure_is_repeated_and_a_refusal_is_not() -> None:
    found, remote = asyncio.run(result(lambda _: Response("later", 503)))
    assert "status 503" in found
    assert len(remote.runs) == 3
    found, remote = asyncio.run(result(lambda _: Response("no\x1b way\nhere", 422)))
    assert "status 422. no" in found
    assert len(remote.runs) == 1


# Broken protocols
# --------------------------------------------------------------------------------------------------


def custom(**members: Any) -> Event:
    return members


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"data: {\n\n", "not JSON"),
        (b"data: \xff\n\n", "not JSON"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "not JSON"),
        (b"data: []\n\n", "without a `type`"),
        (custom(type=1), "without a `type`"),
        (custom(type="TEXT_MESSAGE_START"), "`messageId` must be a string"),
        (custom(type="TEXT_MESSAGE_START", messageId=""), "must not be empty"),
        (custom(type="TEXT_MESSAGE_CONTENT", messageId="a", delta="x"), "was not started"),
        (custom(type="TEXT_MESSAGE_CHUNK", delta="x"), "`messageId` is missing"),
        (custom(type="TOOL_CALL_START", toolCallId="c"), "`toolCallName` must be a string"),
        (custom(type="TOOL_CALL_ARGS", toolCallId="c", delta="x"), "was not started"),
        (custom(type="TOOL_CALL_RESULT", messageId="m"), "`toolCallId` must be a string"),
        (custom(type="MESSAGES_SNAPSHOT", messages={}), "`messages` must be an array"),
        (custom(type="MESSAGES_SNAPSHOT", messages=[{"id": "a"}]), "no `role`"),
        (custom(type="STATE_DELTA", delta=[{"op": "jump", "path": ""}]), "no operation"),
        (custom(type="STATE_DELTA", delta=[{"op": "remove", "path": "/a"}]), "nothing at `/a`"),
        (custom(type="RUN_STARTED", protocolVersion="2.0"), "version '2.0' is not supported"),
        (custom(type="RUN_FINISHED", outcome={"type": "odd"}), "is not known"),
        (custom(type="RUN_FINISHED", outcome=[]), "is not known"),
        (interrupted(), "must be an array of objects"),
        (interrupted({"reason": "x"}), "without a valid ID"),
        (interrupted({"id": "x" * 10_000}), "without a valid ID"),
        (interrupted({"id": "i", "responseSchema": []}), "schema is not an object"),
        (interrupted({"id": "i"}, {"id": "i"}), "two questions with the same ID"),
        (interrupted(*({"id": f"i{n}"} for n in range(21))), "21 questions at once"),
        (interrupted({"id": "i", "message": "x" * 200_000}), "At most 131,072 are allowed"),
        (custom(type="RUN_ERROR"), "`message` must be a string"),
    ],
)
def test_broken_event_is_a_clear_error(sent: Event | bytes, words: str) -> None:
    found, remote = asyncio.run(result(events(STARTED, sent, FINISHED)))
    assert words in found
    assert "remote agent" in found
    assert len(remote.runs) == 1


def test_stream_without_an_end_is_no_success() -> None:
    assert "cut off before its last event" in of(events(STARTED, *said("Half.")))


def test_response_that_is_no_stream_is_an_error() -> None:
    assert "does not speak AG-UI" in of(lambda _: JSONResponse({"hello": "world"}))


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_chunks_of_any_size_are_split_into_the_same_events(chunks: list[bytes]) -> None:
    whole, parts = SseReader(), SseReader()
    joined = [*whole.take(b"".join(chunks))]
    assert [data for chunk in chunks for data in parts.take(chunk)] == joined


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
TYPES = (
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_CHUNK",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_CHUNK",
    "TOOL_CALL_RESULT",
    "MESSAGES_SNAPSHOT",
    "STATE_SNAPSHOT",
    "STATE_DELTA",
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "CUSTOM",
)
NAMES = (
    "messageId",
    "delta",
    "toolCallId",
    "toolCallName",
    "content",
    "messages",
    "snapshot",
    "outcome",
    "result",
    "message",
    "name",
    "value",
    "rawEvent",
    "role",
)


@given(
    st.lists(
        st.tuples(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(NAMES), JSON)), max_size=6
    )
)
def test_any_event_is_read_or_refused(sent: list[tuple[str, dict[str, Any]]]) -> None:
    reader = RunReader([], {})
    try:
        for kind, more in sent:
            event = read_event(json.dumps({**more, "type": kind}).encode())
            assert all(isinstance(part, str) for part in reader.take(event))
        if reader.outcome is not None:
            json.dumps(reader.result.messages)
    except MalformedEvent:
        pass


# Limits and attacks
# --------------------------------------------------------------------------------------------------


def test_too_large_stream_is_cut() -> None:
    text = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a1", "delta": "x" * 1_000_000}
    found, remote = asyncio.run(result(events(STARTED, *said("x")[:1], *repeat(text, 20))))
    assert "larger than 16,777,216 bytes" in found
    assert len(remote.runs) == 1


def test_endless_stream_is_cut() -> None:
    async def drip() -> AsyncGenerator[bytes]:
        yield b"data: " + json.dumps(STARTED).encode() + b"\n\n"
        while True:
            yield b": still here\n\n"
            await asyncio.sleep(0.05)

    def respond(_: Event) -> Response:
        return StreamingResponse(drip(), media_type="text/event-stream")

    assert "has not finished after 0.5 s" in of(respond, timeout=0.5)


def test_compressed_response_is_refused() -> None:
    bomb = gzip.compress(b"data: " + b"x" * 10_000_000)

    def respond(_: Event) -> Response:
        headers = {"content-encoding": "gzip"}
        return Response(bomb, media_type="text/event-stream", headers=headers)

    found, remote = asyncio.run(result(respond))
    assert "compressed" in found
    assert remote.headers[0]["accept-encoding"] == "identity"


def test_redirect_is_not_followed() -> None:
    async def scene() -> None:
        async with scripted_agent(events(STARTED, FINISHED)) as (other, evil):
            found, remote = await result(
                lambda _: RedirectResponse(other, 307), headers={"authorization": "Bearer needle"}
            )
            assert "redirects to another address" in found
            assert "needle" not in found
            assert (len(remote.runs), evil.runs) == (1, [])

    asyncio.run(scene())


@pytest.mark.parametrize(
    "url",
    ["http://example.org", "ftp://x", "x", "https://", "http://[x", "https://a:b@x", "https://x:y"],
)
def test_unsafe_address_is_refused(url: str) -> None:
    with pytest.raises(mt.ConfigError):
        agui.tool(url, name="remote", description="x")


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeout_must_be_positive(timeout: float) -> None:
    with pytest.raises(mt.ConfigError):
        agui.tool("https://x", name="remote", description="x", timeout=timeout)


def test_unreachable_agent_is_an_error_of_the_call() -> None:
    async def scene() -> None:
        tool = agui.tool("http://127.0.0.1:9", name="remote", description="x")
        agent = scripted(call("remote", message="Go."), {"text": "Done."}, tools=[tool])
        ended = await agent.run("Go.")
        read: Any = (await agent.store.read(ended.conversation)).events
        found = next(each for each in read if each.type == "tool_call_response")
        assert "cannot be reached" in found.content

    asyncio.run(scene())


def test_agent_that_asks_without_end_is_stopped() -> None:
    def respond(run: Event) -> Iterable[Event]:
        return [STARTED, interrupted({"id": run["runId"], "reason": "x", "message": "A?"})]

    found, remote = asyncio.run(result(respond, {"A?": "a"}))
    assert found
    assert len(remote.runs) <= 52


def test_state_patches_cannot_grow_without_limit() -> None:
    grow = [{"op": "copy", "from": "", "path": f"/{n}"} for n in range(60)]
    start = {"type": "STATE_SNAPSHOT", "snapshot": {"x": "y" * 1000}}
    found = of(events(STARTED, start, {"type": "STATE_DELTA", "delta": grow}, FINISHED))
    assert "copies and tests more than" in found


def test_long_answer_is_cut_for_the_model() -> None:
    found = of(events(STARTED, *said("x" * 100_000), FINISHED))
    assert len(found) < 66_000
    assert "left out" in found


def test_warning_about_secrets_cannot_be_pushed_out() -> None:
    async def scene() -> None:
        asks = interrupted({"id": "i", "reason": "x", "message": "Your password?\n" + "x" * 50_000})
        async with scripted_agent(events(STARTED, asks)) as (url, _):
            tool = agui.tool(url, name="remote", description="x")
            agent = scripted(call("remote", message="Go."), {"text": "Done."}, tools=[tool])
            asked = await agent.run("Go.")
            assert (asked.pending[0].question.context or "").endswith(
                "Do not enter passwords or keys."
            )

    asyncio.run(scene())


def test_large_thread_is_kept_in_parts() -> None:
    """A kept value has at most 256 KiB."""
    big = [*said('é"' * 150_000), interrupted({"id": "i1", "reason": "x", "message": "A?"})]

    def respond(run: Event) -> Iterable[Event]:
        return [STARTED, *said("Done.", "a2"), FINISHED] if run.get("resume") else [STARTED, *big]

    found, remote = asyncio.run(result(respond, {"A?": "a"}))
    assert found == "Done."
    assert remote.runs[1]["messages"][1]["content"] == 'é"' * 150_000


def test_request_above_the_limit_is_refused() -> None:
    message: Any = {"id": "m", "role": "user", "content": "x" * 17_000_000}
    with pytest.raises(RemoteError, match="16,777,216"):
        _ = remote_client.RunRequest(thread="t", run="r", messages=[message]).body
