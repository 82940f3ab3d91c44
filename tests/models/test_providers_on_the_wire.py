"""The real provider library against a server that speaks the four wire formats."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from typing import Any

import msgspec
import pytest

from midturn.errors import ContextTooLong, ModelError
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    Event,
    Image,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.exchange import (
    ModelRequest,
    ReasoningDelta,
    ReasoningPart,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
    Usage,
)
from midturn.models.profiles import Family
from support.conversations import TOOLS, asked_events, main_request
from support.exchanges import recorded
from support.providers.answers import Answer, Fails, Says, ToolUse
from support.providers.loopback import Loopback
from support.wire_models import KEY, WIRES, OnWire, converse, last_of, on_every_wire

HELLO = ModelRequest(events=[ChatRequest(content="Hello")], conversation="17")
WHOLE = Says(
    text="I will read it",
    reasoning="let me think",
    calls=(ToolUse("fs_read_file", {"path": "plan.md"}),),
)


def body_of(server: Loopback, number: int = -1) -> str:
    return server.received[number].body.decode()


@on_every_wire
def test_an_answer_is_streamed_and_ends_with_its_parts(wire: OnWire) -> None:
    with Loopback(WHOLE) as server:
        (events,) = converse(wire.at(server), main_request(asked_events()))

    assert (
        "".join(event.text for event in events if isinstance(event, ReasoningDelta))
        == "let me think"
    )
    assert [event.text for event in events if isinstance(event, TextDelta)] == [
        "I ",
        "will ",
        "read ",
        "it",
    ]
    reasoning, text, call = last_of(events).parts
    assert isinstance(reasoning, ReasoningPart)
    assert reasoning.text == "let me think"
    assert isinstance(text, TextPart)
    assert text.text == "I will read it"
    assert isinstance(call, ToolCallPart)
    assert (call.name, call.arguments, call.problem) == ("fs_read_file", {"path": "plan.md"}, None)
    assert call.id
    assert last_of(events).stop_reason == "tool_calls"
    assert last_of(events).usage == Usage(100, 7, 60, 0)


@on_every_wire
def test_requests_contain_the_conversation_unchanged(wire: OnWire) -> None:
    """System prompt, text, results and tool schemas arrive unchanged.

    Nothing is added to a schema.
    """
    with Loopback(Says(text="ok")) as server:
        converse(wire.at(server), main_request(asked_events()))

    sent = body_of(server)
    for text in (
        "You are careful.",
        "Improve the plan",
        "the plan",
        "I will patch it.",
        "Change a file.",
    ):
        assert text in sent
    schemas = [tool.parameters for tool in TOOLS]
    assert [_schema(tool) for tool in _tools(wire.family, server.received[0].json)] == schemas


def _tools(family: Family, body: Any) -> list[Any]:
    tools = body["tools"][0]["functionDeclarations"] if family == "google" else body["tools"]
    return [tool.get("function", tool) for tool in tools]


def _schema(tool: Any) -> Any:
    return next(
        tool[key] for key in ("input_schema", "parameters_json_schema", "parameters") if key in tool
    )


@on_every_wire
def test_provider_metadata_is_sent_back(wire: OnWire) -> None:
    """Signed reasoning and IDs are stored in the events and sent again with the next request."""
    with Loopback(WHOLE, Says(text="ok")) as server:
        model = wire.at(server)
        (first,) = converse(model, HELLO)
        events: list[Event] = [ChatRequest(content="Hello"), *recorded(last_of(first).parts)]
        call = next(event for event in events if isinstance(event, ToolCallRequest))
        converse(
            model,
            ModelRequest(
                events=[
                    *events,
                    ToolCallResponse(id=call.id, call=call.event_id, content="the plan"),
                ],
                tools=TOOLS,
            ),
        )

    signed = {"openai-compatible": "let me think"}.get(wire.family, "c2lnbmVk")
    assert signed in body_of(server)
    assert "the plan" in body_of(server)


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@on_every_wire
def test_pictures_in_results_are_sent_if_the_model_accepts_them(wire: OnWire) -> None:
    events: list[Event] = [
        ChatRequest(content="Look"),
        ToolCallRequest(
            event_id="e1", id="call_1", name="fs_read_file", arguments={"path": "dot.png"}
        ),
        ToolCallResponse(
            id="call_1",
            call="e1",
            content="[dot.png]",
            images=(Image("image/png", DOT), Image("image/png", "bm90aGluZw==")),
        ),
    ]
    with Loopback(Says(text="A dot.")) as server:
        converse(wire.at(server), ModelRequest(events=events, tools=TOOLS))

    takes = wire.family != "openai-compatible"
    assert (DOT[:40] in body_of(server)) == takes
    assert "[dot.png]" in body_of(server)
    assert "You do not see the picture" in body_of(
        server
    )  # the second message is empty and not sent
    assert "bm90aGluZw" not in body_of(server)


@on_every_wire
def test_reasoning_of_another_model_is_not_sent(wire: OnWire) -> None:
    with Loopback(WHOLE, Says(text="ok")) as server:
        (first,) = converse(wire.at(server), HELLO)
        events = [
            ChatRequest(content="Hello"),
            *recorded(last_of(first).parts),
            ChatRequest(content="And now?"),
        ]
        other = wire.at(
            server,
            id=f"{wire.provider}/other",
            model="other" if wire.family == "openai-compatible" else wire.model,
        )
        converse(other, ModelRequest(events=events))

    assert "let me think" not in body_of(server)
    assert "c2lnbmVk" not in body_of(server)
    assert "I will read it" in body_of(server)


@on_every_wire
def test_arguments_that_are_not_a_json_object_stay_text(wire: OnWire) -> None:
    if wire.family == "google":
        pytest.skip("Google sends arguments as JSON, never as text")
    with Loopback(Says(calls=(ToolUse("fs_read_file", '{"path": '),)), Says(text="ok")) as server:
        model = wire.at(server)
        (first,) = converse(model, HELLO)
        (call,) = last_of(first).parts
        assert isinstance(call, ToolCallPart)
        assert call.arguments == '{"path": '
        assert call.problem
        events = [ChatRequest(content="Hello"), *recorded([call])]
        converse(
            model,
            ModelRequest(
                events=[
                    *events,
                    ToolCallResponse(id=call.id, call="e_call_wire_0", content="no JSON"),
                ]
            ),
        )

    assert "no JSON" in body_of(server)


@on_every_wire
def test_a_key_is_sent_only_in_the_providers_header(wire: OnWire) -> None:
    with Loopback(Says(text="ok")) as server:
        converse(wire.at(server), HELLO)

    received = server.received[0]
    holders = [name for name, value in received.headers.items() if KEY in value]
    assert len(holders) == 1
    assert KEY not in body_of(server)
    assert KEY not in received.path


def test_a_server_without_a_key_is_sent_none() -> None:
    local = WIRES[-1]
    with Loopback(Says(text="ok")) as server:
        converse(local.at(server, key=None), HELLO)

    assert not {"authorization", "x-api-key"} & set(server.received[0].headers)


@on_every_wire
def test_a_repeated_call_id_is_sent_as_two_ids(wire: OnWire) -> None:
    events: list[Event] = [ChatRequest(content="Hello")]
    for number in range(2):
        events += [
            ToolCallRequest(
                event_id=f"c{number}",
                id="same",
                name="fs_read_file",
                arguments={"path": str(number)},
            ),
            ToolCallResponse(id="same", call=f"c{number}", content=f"result {number}"),
        ]
    with Loopback(Says(text="ok")) as server:
        converse(wire.at(server), ModelRequest(events=events, tools=TOOLS))

    assert '"same"' in body_of(server)
    assert '"same_2"' in body_of(server)


FAILURES: list[tuple[Answer, str, bool]] = [
    (
        Fails(status=401, code="authentication_error"),
        "rejected the API key (it went wrong). Check $WIRE_KEY.",
        False,
    ),
    (
        Fails(status=404, code="not_found_error"),
        "has no model of this name (it went wrong).",
        False,
    ),
    (
        Fails(status=400, code="invalid_request_error"),
        "rejected the request (it went wrong).",
        False,
    ),
    (Fails(status=429, code="rate_limit_error", retry_after="7"), "is busy (it went wrong).", True),
    (Fails(status=408, code="timeout"), "is busy (it went wrong).", True),
    (Fails(status=409, code="conflict"), "is busy (it went wrong).", True),
    (Fails(status=500), "failed (it went wrong).", True),
    (Fails(status=529, code="overloaded_error"), "is busy (it went wrong).", True),
    (Says(text="half of it", after="cut"), "connection to 127.0.0.1 broke", True),
]


@on_every_wire
@pytest.mark.parametrize(
    ("answer", "message", "transient"),
    FAILURES,
    ids=lambda value: str(value.status) if isinstance(value, Fails) else None,
)
def test_a_failure_message_names_cause_and_remedy(
    wire: OnWire,
    answer: Answer,
    message: str,
    transient: bool,  # noqa: FBT001
) -> None:
    with Loopback(answer) as server, pytest.raises(ModelError) as caught:
        converse(wire.at(server), HELLO)

    assert message in str(caught.value)
    assert caught.value.transient is transient
    assert KEY not in str(caught.value)
    assert len(server.received) == 1, "the library must not try again by itself"
    if isinstance(answer, Fails):
        assert caught.value.status == answer.status
        assert caught.value.retry_after == (7 if answer.retry_after else None)


TOO_LONG: dict[Family, Fails] = {
    "anthropic": Fails(
        status=400,
        code="invalid_request_error",
        message="prompt is too long: 208310 tokens > 200000 maximum",
    ),
    "openai": Fails(
        status=400,
        code="context_length_exceeded",
        message="Your input exceeds the context window of this model.",
    ),
    "google": Fails(
        status=400,
        code="INVALID_ARGUMENT",
        message=(
            "The input token count (1200000) exceeds the maximum number of tokens allowed"
            " (1048575)."
        ),
    ),
    "openai-compatible": Fails(
        status=400,
        code="context_length_exceeded",
        message="This model's maximum context length is 8192 tokens. However, you requested 9000.",
    ),
}


@on_every_wire
def test_a_too_long_conversation_is_recognized(wire: OnWire) -> None:
    with (
        Loopback(TOO_LONG[wire.family]) as server,
        pytest.raises(ContextTooLong, match="exceeds the model's context window"),
    ):
        converse(wire.at(server), HELLO)


@on_every_wire
def test_an_incomplete_response_is_an_error(wire: OnWire) -> None:
    with (
        Loopback(Says(text="half of it", after="early_end")) as server,
        pytest.raises(ModelError) as caught,
    ):
        converse(wire.at(server), HELLO)

    assert caught.value.transient


@on_every_wire
def test_an_invalid_event_is_an_error(wire: OnWire) -> None:
    with (
        Loopback(Says(text="half of it", after="garbage")) as server,
        pytest.raises(ModelError) as caught,
    ):
        converse(wire.at(server), HELLO)

    assert "127.0.0.1" in str(caught.value)


@on_every_wire
def test_a_filtered_response_is_an_error(wire: OnWire) -> None:
    with (
        Loopback(Says(stop="refusal")) as server,
        pytest.raises(ModelError, match="content filter blocked the response"),
    ):
        converse(wire.at(server), HELLO)


@on_every_wire
def test_a_refusal_in_text_is_a_response(wire: OnWire) -> None:
    with Loopback(Says(text="I cannot do that", stop="refusal")) as server:
        (events,) = converse(wire.at(server), HELLO)

    assert last_of(events).stop_reason == "refusal"


@on_every_wire
def test_a_silent_server_times_out(wire: OnWire) -> None:
    with (
        Loopback(Says(text="half of it", after="silence")) as server,
        pytest.raises(ModelError, match="stopped answering") as caught,
    ):
        converse(wire.at(server), ModelRequest(events=HELLO.events, timeout=0.3))

    assert caught.value.transient


@on_every_wire
def test_an_unreachable_server_is_named(wire: OnWire) -> None:
    with Loopback(Says(text="ok")) as server:
        gone = wire.at(server)

    with pytest.raises(
        ModelError, match=r"Cannot reach 127\.0\.0\.1.*Check the network and the address\.$"
    ) as caught:
        converse(gone, HELLO)
    assert caught.value.transient
    assert caught.value.failure == "unreachable"


@on_every_wire
@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_cancelling_closes_the_connection_at_once(wire: OnWire, how: str) -> None:
    with Loopback(Says(text="half of it", after="silence")) as server:

        async def give_up() -> None:
            model = wire.at(server)
            events = model.stream(HELLO)
            assert await anext(events) == TextDelta("half ")
            if how == "closed":
                await events.aclose()  # type: ignore[attr-defined]  # it is a generator
            else:
                task = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0.02)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            for _ in range(200):
                if server.received[0].left:
                    break
                await asyncio.sleep(0.01)
            await model.aclose()

        asyncio.run(give_up())
        assert server.received[0].left


@on_every_wire
def test_one_model_works_in_consecutive_event_loops(wire: OnWire) -> None:
    with Loopback(Says(text="ok")) as server:
        model = wire.at(server)
        for _ in range(2):
            (events,) = converse(model, HELLO)
            assert last_of(events).stop_reason == "stop"


@on_every_wire
def test_cache_off_disables_caching(wire: OnWire) -> None:
    with Loopback(Says(text="ok")) as server:
        converse(
            wire.at(server),
            ModelRequest(events=HELLO.events, system="Be brief.", cache="off", conversation="17"),
        )

    assert "cache" not in body_of(server)


def test_parameters_ignored_by_a_model_give_no_warning() -> None:
    anthropic = WIRES[0]
    with Loopback(Says(text="ok")) as server:
        converse(
            anthropic.at(server),
            ModelRequest(events=HELLO.events, parameters={"temperature": 0.1, "max_tokens": 77}),
        )

    assert server.received[0].json["max_tokens"] == 77


def test_warnings_of_the_embedding_program_are_still_shown() -> None:
    """This includes warnings from modules of the same vendors.

    It also includes warnings of the provider library about other requests.
    """
    with Loopback(Says(text="ok")) as server:
        converse(WIRES[0].at(server), HELLO)

    for module in (
        "google.cloud.storage",
        "openai",
        "anthropic.lib",
        "pydantic_ai.models",
        "my_program",
    ):
        with pytest.raises(
            UserWarning, match="look here"
        ):  # pytest turns every warning into an error here
            warnings.warn_explicit("look here", UserWarning, f"{module}.py", 1, module=module)


def test_a_deprecated_model_is_announced() -> None:
    from midturn.models.profiles import ModelSpec
    from midturn.models.reached_model import LazyProviderModel

    told: list[str] = []
    with Loopback(Says(text="ok")) as server:
        spec = ModelSpec(
            id="anthropic/claude-sonnet-4-5",
            provider="anthropic",
            model="claude-sonnet-4-5",
            family="anthropic",
            base_url=server.url,
        )
        converse(LazyProviderModel(spec, told.append), HELLO)

    assert len(told) == 1
    assert "anthropic/claude-sonnet-4-5 will be shut down by its provider on " in told[0]


def test_the_library_is_loaded_at_the_first_request() -> None:
    code = (
        "import sys, midturn.models.reached_model, midturn.models.registry,"
        " midturn.models.scripted, midturn.runtime.side_request\nprint([name for name in"
        " ('pydantic_ai', 'pydantic', 'openai', 'anthropic', 'httpx2') if name in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"


def test_a_structured_value_is_sent_as_json() -> None:
    local = WIRES[-1]
    with Loopback(Says(text="ok")) as server:
        converse(
            local.at(server),
            ModelRequest(
                events=[
                    ChatRequest(content="x"),
                    ChatResponse(structured={"a": [1]}),
                    ChatRequest(content="y"),
                ]
            ),
        )

    assert server.received[0].json["messages"][1]["content"] == '{"a":[1]}'


@on_every_wire
def test_a_requested_schema_returns_a_value(wire: OnWire) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    with Loopback(Says(text='{"city": "Utrecht"}')) as server:
        (events,) = converse(
            wire.at(server), ModelRequest(events=HELLO.events, tools=TOOLS, schema=schema)
        )
        (in_words,) = converse(
            wire.at(server, overrides={"native": False}),
            ModelRequest(events=HELLO.events, tools=TOOLS, schema=schema),
        )

    for answer in (events, in_words):
        (part,) = last_of(answer).parts
        assert isinstance(part, StructuredPart)
        assert part.value == {"city": "Utrecht"}
    assert "JSON Schema" in body_of(server)


def test_a_manipulated_stream_is_handled() -> None:
    anthropic = WIRES[0]
    strange: dict[str, Any] = {
        "provider": {
            "model": anthropic.id,
            "part_kind": "x",
            "content": "y",
            "response": {"parts": [], "kind": 1},
        }
    }
    events = [
        ChatRequest(content="Hello"),
        ChatResponse(message="Hi", metadata=strange),
        ChatRequest(content="And?"),
    ]
    with Loopback(Says(text="ok")) as server:
        converse(anthropic.at(server), ModelRequest(events=events))

    assert server.received[0].json["messages"][1]["content"][0]["text"] == "Hi"


@on_every_wire
def test_a_key_echoed_by_the_server_is_not_shown(wire: OnWire) -> None:
    refusal = Fails(
        status=401, code="authentication_error", message=f"Incorrect API key provided: {KEY}"
    )
    with Loopback(refusal) as server, pytest.raises(ModelError) as caught:
        converse(wire.at(server), HELLO)

    assert "Incorrect API key provided: [key]" in str(caught.value)
    assert KEY not in str(caught.value)


@on_every_wire
def test_lone_surrogates_are_handled(wire: OnWire) -> None:
    with Loopback(Says(text="smile \ud83d\ude00 done \ud83d")) as server:
        try:
            (events,) = converse(wire.at(server), HELLO)
        except ModelError:
            return  # the library may refuse it with an error
    for event in events:
        assert msgspec.json.encode(event)
