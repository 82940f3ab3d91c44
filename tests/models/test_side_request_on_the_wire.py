"""Side requests on the wire.

Checks which part of the main request they repeat, and how they demand the shape of the
answer.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from midturn.events.types import ToolCallRequest
from midturn.models.reached_model import LazyProviderModel
from midturn.models.wrapper import RetryingModel
from midturn.runtime.side_request import ChosenAssistant
from midturn.runtime.side_responder import Consultation, consult
from midturn.turn.inputs import AssistantFailed, AssistantReplied
from support.clocks import FakeClock
from support.conversations import REQUEST, asked_events, main_request
from support.providers.answers import Answer, Fails, Says, ToolUse
from support.providers.loopback import Loopback
from support.wire_models import OnWire, converse, on_every_wire
from support.wire_prefix import other_fields, rendered, shared

GOOD = Says(text='{"reason": "Looks right.", "answer": true}')
PROSE = Says(text="Sure, go ahead!")
MAIN = ChosenAssistant(model="main", parameters={"temperature": 0.2}, shares_cache=True)
HAIKU = OnWire("anthropic", "anthropic", "claude-haiku-4-5", "anthropic")
OTHER = ChosenAssistant(model="other", parameters={"temperature": 0.2})


def ask(
    model: LazyProviderModel, settings: ChosenAssistant, clock: FakeClock | None = None
) -> AssistantReplied | AssistantFailed:
    asked = Consultation(
        asked=REQUEST, tool="fs_modify_file", main=main_request(asked_events()), settings=settings
    )

    async def send() -> AssistantReplied | AssistantFailed:
        try:
            return await consult(RetryingModel(model, clock or FakeClock()), asked)
        finally:
            await model.aclose()

    return asyncio.run(send())


def bodies(wire: OnWire, settings: ChosenAssistant, *answers: Answer) -> list[Any]:
    """Return the body of the main request and the bodies of the side requests."""
    events = asked_events()
    cycle = next(
        place
        for place, event in enumerate(events)
        if isinstance(event, ToolCallRequest) and event.event_id == "c1"
    )
    with Loopback(Says(text="I will patch it."), *answers) as server:
        model = wire.at(server)
        converse(model, main_request(events[: cycle - 1]))
        reply = ask(model, settings)
    assert isinstance(reply, AssistantReplied)
    assert (reply.answer, reply.reason) == (True, "Looks right.")
    return [received.json for received in server.received]


@on_every_wire
def test_the_main_request_is_a_prefix_of_the_side_request(wire: OnWire) -> None:
    main, side = bodies(wire, MAIN, GOOD)

    part = shared(rendered(wire.family, main), rendered(wire.family, side))

    print(  # noqa: T201
        f"\n{wire.family}: {part:.1%} of the main request's {len(rendered(wire.family, main))}"
        " bytes are repeated"
    )
    assert part == 1


@on_every_wire
def test_fields_after_the_prefix_match_the_table(wire: OnWire) -> None:
    main, side = bodies(wire, MAIN, GOOD)

    before, after = other_fields(wire.family, main), other_fields(wire.family, side)
    differs = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert (
        differs
        == {
            "anthropic": set[str](),
            "openai": {"tool_choice"},
            "google": {"toolConfig", "generationConfig"},
            "openai-compatible": {"tool_choice", "response_format"},
        }[wire.family]
    )
    assert (
        shape_of(wire, side)
        == {
            "anthropic": "tail",
            "openai": "tail",
            "google": "native",
            "openai-compatible": "native",
        }[wire.family]
    )


@on_every_wire
def test_the_second_attempt_uses_the_providers_schema_field(wire: OnWire) -> None:
    *_, second = bodies(wire, MAIN, PROSE, GOOD)

    assert shape_of(wire, second) == "native"
    assert choice_of(wire, second) == "none"
    assert "Your answer could not be used" in json.dumps(second)


@on_every_wire
def test_another_model_is_asked_with_its_schema_field_and_without_tools(wire: OnWire) -> None:
    _, side = bodies(wire, OTHER, GOOD)

    assert shape_of(wire, side) == "native"
    if wire.family in {"anthropic", "openai"}:
        assert side["tools"]
        assert choice_of(wire, side) == "none"
    else:
        assert "tools" not in side


@on_every_wire
def test_a_call_instead_of_an_answer_is_not_run_and_counts_as_wrong(wire: OnWire) -> None:
    call = Says(calls=(ToolUse("fs_read_file", {"path": "plan.md"}),))

    *_, second = bodies(wire, MAIN, call, GOOD)

    assert "Not run: only an answer to the question was asked for." in json.dumps(second)


@on_every_wire
def test_messages_do_not_use_internal_terms(wire: OnWire) -> None:
    for body in bodies(wire, MAIN, PROSE, GOOD):
        assert "inquiry" not in json.dumps(body).lower()


@on_every_wire
def test_a_side_request_is_retried(wire: OnWire) -> None:
    clock = FakeClock()
    with Loopback(Fails(status=429, retry_after="3"), Says(text="{", after="cut"), GOOD) as server:
        reply = ask(wire.at(server), MAIN, clock)

    assert isinstance(reply, AssistantReplied)
    assert clock.slept[0] == 3
    assert len(clock.slept) == 2


@on_every_wire
def test_a_model_that_stays_down_is_a_failure_with_a_reason(wire: OnWire) -> None:
    with Loopback(Fails(status=500, message="the cooling is out")) as server:
        reply = ask(wire.at(server), MAIN)

    assert isinstance(reply, AssistantFailed)
    assert "the cooling is out" in reply.error


@on_every_wire
def test_a_model_without_structured_output_is_asked_in_words_then_by_tool_call(
    wire: OnWire,
) -> None:
    if wire.family == "anthropic":  # Sonnet 5.5 cannot be made to call a tool, Haiku can
        wire = HAIKU
    forced = Says(calls=(ToolUse("give_answer", {"reason": "Looks right.", "answer": True}),))
    with Loopback(PROSE, forced) as server:
        reply = ask(wire.at(server, overrides={"native": False, "forced_tool": True}), MAIN)

    first, second = (received.json for received in server.received)
    assert isinstance(reply, AssistantReplied)
    assert shape_of(wire, first) == "tail"
    assert shape_of(wire, second) == "tool"
    assert "give_answer" in json.dumps(choice_field(wire, second))


@on_every_wire
def test_a_model_without_forced_calls_is_asked_in_words_again(wire: OnWire) -> None:
    with Loopback(PROSE, GOOD) as server:
        reply = ask(wire.at(server, overrides={"native": False, "forced_tool": False}), MAIN)

    assert isinstance(reply, AssistantReplied)
    assert [shape_of(wire, received.json) for received in server.received] == ["tail", "tail"]


def test_gemini_2_is_asked_in_words_because_tools_exclude_a_schema() -> None:
    gemini = OnWire("google", "google", "gemini-2.5-flash", "google")
    pytest.importorskip("google.genai", reason="the extra `midturn[google]` is not installed")
    with Loopback(PROSE, GOOD) as server:
        ask(gemini.at(server), MAIN)

    first, second = (received.json for received in server.received)
    assert (shape_of(gemini, first), "tools" in first) == ("tail", True)
    assert (shape_of(gemini, second), "tools" in second) == ("native", False)


def test_the_openai_side_request_has_the_cache_key_of_the_main_request() -> None:
    pytest.importorskip("openai", reason="the extra `midturn[openai]` is not installed")
    main, side = bodies(OnWire("openai", "openai", "gpt-6-astra", "openai", "/v1"), MAIN, GOOD)

    assert main["prompt_cache_key"] == side["prompt_cache_key"] == "17"


def test_a_thinking_haiku_gets_the_question_inside_the_paused_result() -> None:
    """Text of the user after a result would end the model's thinking and invalidate its cache."""
    pytest.importorskip("anthropic", reason="the extra `midturn[anthropic]` is not installed")
    settings = ChosenAssistant(model="main", parameters={"thinking": True}, shares_cache=True)
    with Loopback(GOOD) as server:
        ask(HAIKU.at(server), settings)

    last = server.received[0].json["messages"][-1]
    assert {block["type"] for block in last["content"]} == {"tool_result"}
    assert "Apply the changes to plan.md?" in json.dumps(last)


def choice_field(wire: OnWire, body: Any) -> Any:
    return (
        body.get("toolConfig", {}).get("functionCallingConfig")
        if wire.family == "google"
        else body.get("tool_choice")
    )


def choice_of(wire: OnWire, body: Any) -> str:
    """Return the tool choice of a request: `auto` if it is not set, `none` without tools."""
    field = choice_field(wire, body)
    if field is None:
        return "auto" if "tools" in body else "none"
    return str(field if isinstance(field, str) else field.get("type", field.get("mode"))).lower()


def shape_of(wire: OnWire, body: Any) -> str:
    """Return the field in which the shape of the answer is demanded."""
    native = {
        "anthropic": lambda: body.get("output_config", body.get("output_format")),
        "openai": lambda: body.get("text", {}).get("format"),
        "google": lambda: body.get("generationConfig", {}).get("responseJsonSchema"),
        "openai-compatible": lambda: body.get("response_format"),
    }[wire.family]()
    if native:
        return "native"
    if "give_answer" in json.dumps(body.get("tools", [])):
        return "tool"
    return "tail" if "JSON Schema" in rendered(wire.family, body) else "none"
