from __future__ import annotations

from typing import Any, get_args

import pytest

from midturn.exchange import InquiryAsked
from midturn.models.profiles import (
    NATIVE,
    NATIVE_ALONE,
    TAIL,
    TAIL_AS_MAIN,
    TOOL,
    AskStrategy,
    Family,
    Profile,
    how_to_ask,
    how_to_shape,
    thinking_ends_with_text,
    writes_text,
)
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion

FAMILIES: tuple[Family, ...] = get_args(Family)


def tries(shares_cache: bool, **profile: Any) -> list[AskStrategy]:  # noqa: FBT001 (a column of the table)
    question = PersistedQuestion(text="Deploy?", answer_type=BooleanType())
    asked = [InquiryAsked("deploy", "confirm", question, shares_cache, trial) for trial in (1, 2)]
    return [how_to_ask(Profile(**profile), each) for each in asked]


@pytest.mark.parametrize(
    ("family", "shared", "other"),
    [
        ("anthropic", [TAIL_AS_MAIN, NATIVE], [NATIVE, NATIVE]),
        ("openai", [TAIL, NATIVE], [NATIVE, NATIVE]),
        ("google", [NATIVE, NATIVE], [NATIVE_ALONE, NATIVE_ALONE]),
        ("openai-compatible", [NATIVE, NATIVE], [NATIVE_ALONE, NATIVE_ALONE]),
    ],
)
def test_profiles_match_the_documented_table(
    family: Family, shared: list[AskStrategy], other: list[AskStrategy]
) -> None:
    assert tries(True, family=family) == shared
    assert tries(False, family=family) == other


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shares_cache", [True, False])
def test_a_model_without_structured_output_is_asked_in_words_then_by_tool_call(
    family: Family,
    shares_cache: bool,  # noqa: FBT001
) -> None:
    assert tries(shares_cache, family=family, native=False) == [TAIL, TOOL]
    assert tries(shares_cache, family=family, native=False, forced_tool=False) == [TAIL, TAIL]


def test_a_model_without_structured_output_beside_tools_is_asked_in_words_first() -> None:
    assert tries(True, family="google", native_with_tools=False) == [TAIL, NATIVE_ALONE]
    assert tries(False, family="google", native_with_tools=False) == [NATIVE_ALONE, NATIVE_ALONE]


def test_a_schema_requested_by_the_user_leaves_tools_available() -> None:
    assert how_to_shape(Profile(family="openai"), tools=True) == AskStrategy(
        "native", choice="main"
    )
    assert (
        how_to_shape(Profile(family="google", native_with_tools=False), tools=True) == TAIL_AS_MAIN
    )
    assert how_to_shape(
        Profile(family="google", native_with_tools=False), tools=False
    ) == AskStrategy("native", choice="main")
    assert (
        how_to_shape(Profile(family="openai-compatible", native=False), tools=False) == TAIL_AS_MAIN
    )


def test_models_without_text_output_are_recognized_by_name() -> None:
    for mute in ("text-embedding-4", "gemini-3-pro-image", "whisper-1", "gpt-6-tts", "imagen-5"):
        assert not writes_text(mute)
    for speaks in (
        "claude-haiku-5-5",
        "gpt-6-astra",
        "gemini-3.8-flash",
        "llama",
        "qwen/qwen3-coder",
    ):
        assert writes_text(speaks)


def test_models_whose_thinking_ends_at_user_text() -> None:
    for ends in (
        "claude-haiku-4-5",
        "claude-haiku-5-5",
        "claude-3-7-sonnet",
        "claude-opus-4-1",
        "claude-sonnet-4-5",
        "claude-sonnet-4-20250514",
    ):
        assert thinking_ends_with_text("anthropic", ends)
    for goes_on in ("claude-sonnet-5-5", "claude-sonnet-4-6", "claude-opus-4-8", "claude-opus-4-5"):
        assert not thinking_ends_with_text("anthropic", goes_on)
    assert not thinking_ends_with_text("openai", "claude-haiku-4-5")
