"""Results and questions of tools that are too large to record.

The turn continues, and no tool runs again because of them.
"""

from __future__ import annotations

from base64 import b64encode

import pytest

import midturn as mt
from midturn.events.outcome import Success
from midturn.events.types import Image, ToolCallResponse
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.stores.memory_conversations import MemoryStore

PICTURE = Image("image/png", b64encode(b"\x89PNG" + b"x" * 899_996).decode())
HUGE = Image("image/png", b64encode(b"\x89PNG" + b"x" * 2_999_996).decode())


def result_of(outcome: object, limits: Limits = DEFAULT_LIMITS) -> tuple[ToolCallResponse, int]:
    """Return the recorded response of a tool with this outcome, and how often the tool ran."""
    ran: list[object] = []

    @mt.tool
    def look() -> object:
        ran.append(outcome)
        return outcome

    store = MemoryStore(limits)
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "look"}]}, {"text": "Done."}]),
        tools=[look],
        store=store,
        limits=limits,
    )
    result = agent.run_sync("Look.")
    assert result.status == "completed"
    (response,) = (
        event
        for event in store.read_sync(result.conversation).events
        if isinstance(event, ToolCallResponse)
    )
    return response, len(ran)


@pytest.mark.parametrize(
    ("images", "kept", "said"),
    [
        ((PICTURE,), 1, "Here."),
        (
            (HUGE,),
            0,
            (
                "Here.\n(A picture of 3,000,000 bytes is left out here: a result may have 2,097,152"
                " bytes, pictures in base64.)"
            ),
        ),
        (
            (PICTURE, PICTURE, PICTURE),
            1,
            (
                "Here.\n(2 pictures of 900,000 and 900,000 bytes are left out here: a result may"
                " have 2,097,152 bytes, pictures in base64.)"
            ),
        ),
    ],
)
def test_pictures_that_do_not_fit_are_left_out_with_a_notice(
    images: tuple[Image, ...], kept: int, said: str
) -> None:
    response, ran = result_of(Success("Here.", images))

    assert (len(response.images or ()), response.content, ran) == (kept, said, 1)


@pytest.mark.parametrize("content", ["\x01", "\ud800", "x", "\U0001f600"])
def test_a_text_too_long_to_record_is_shortened(content: str) -> None:
    response, ran = result_of(content * 300_000, Limits(tool_output=10_000_000, batch=100_000))

    assert "bytes are left out here" in response.content
    assert ran == 1


OPTIONS = [
    mt.SelectOption(f"{number} {'v' * 1_000}", description="d" * 1_000) for number in range(200)
]
LONG = mt.Form([mt.Question.select(f"q{number}", "Which?", OPTIONS) for number in range(6)])


@pytest.mark.parametrize(
    "asked",
    [LONG, mt.Question.text("q", "What?", default="x" * 3_000_000)],
    ids=["options", "default"],
)
def test_a_tool_with_a_question_too_large_to_record_gets_an_error(
    asked: mt.Form | mt.Question[str],
) -> None:
    response, ran = result_of(asked)

    assert "may be recorded at once (`limits.batch`). Ask less." in response.content
    assert (response.is_error, ran) == (True, 1)


def test_a_question_that_just_fits_is_asked() -> None:
    @mt.tool
    def pick() -> object:
        return mt.Form(LONG.questions[:3])

    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "pick"}]}]), tools=[pick], store=MemoryStore()
    )
    assert [question.request.question_id for question in agent.run_sync("Go.").pending] == ["q0"]
