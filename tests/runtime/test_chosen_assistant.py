from __future__ import annotations

from typing import Any

from midturn.runtime.side_request import ChosenAssistant, chosen_assistant

MAIN: dict[str, Any] = {
    "name": "Midturn",
    "system_prompt": "Be careful.",
    "model": {
        "id": "anthropic/claude-sonnet-5-5",
        "parameters": {"temperature": 0.2, "max_tokens": 900},
    },
    "request": {"cache": "long", "max_retries": 2},
}
HAIKU = {"model": {"id": "anthropic/claude-haiku-4-5", "parameters": {"temperature": 0}}}


def test_by_default_the_main_assistant_answers_with_a_shared_cache() -> None:
    assert chosen_assistant(MAIN) == ChosenAssistant(
        model="anthropic/claude-sonnet-5-5",
        parameters={"temperature": 0.2, "max_tokens": 900},
        cache="long",
        max_retries=2,
        shares_cache=True,
    )


def test_each_layer_overrides_only_its_own_settings() -> None:
    settings = chosen_assistant(MAIN, HAIKU, {"request": {"cache": "off"}, "escalation": True})

    assert settings == ChosenAssistant(
        model="anthropic/claude-haiku-4-5",
        parameters={"temperature": 0, "max_tokens": 900},
        cache="off",
        max_retries=2,
    )


def test_the_target_overrides_the_default_for_questions() -> None:
    assert chosen_assistant(MAIN, HAIKU, {"model": {"id": "openai/gpt-6"}}).model == "openai/gpt-6"


def test_inherit_selects_the_main_model() -> None:
    settings = chosen_assistant(MAIN, HAIKU, {"model": {"id": "inherit"}})

    assert (settings.model, settings.parameters) == (
        MAIN["model"]["id"],
        MAIN["model"]["parameters"],
    )
    assert settings.shares_cache


def test_inherit_can_have_its_own_parameters() -> None:
    settings = chosen_assistant(
        MAIN, HAIKU, {"model": {"id": "inherit", "parameters": {"temperature": 1}}}
    )

    assert settings.parameters == {"temperature": 1, "max_tokens": 900}
    assert not settings.shares_cache


def test_inherit_as_the_default_for_questions_selects_the_main_model() -> None:
    settings = chosen_assistant(
        MAIN,
        {"model": {"id": "inherit"}, "system_prompt": "Be strict."},
        {"model": {"parameters": {"temperature": 1}}},
    )

    assert (settings.model, settings.system_prompt, settings.parameters["temperature"]) == (
        MAIN["model"]["id"],
        "Be strict.",
        1,
    )


def test_another_system_prompt_or_a_disabled_cache_shares_nothing() -> None:
    assert not chosen_assistant(MAIN, {"system_prompt": "Be strict."}).shares_cache
    assert not chosen_assistant(MAIN, {"request": {"cache": "off"}}).shares_cache
    assert chosen_assistant(MAIN, {"system_prompt": "Be careful."}).system_prompt is None
