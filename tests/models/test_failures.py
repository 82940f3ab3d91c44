from __future__ import annotations

from typing import get_args

from midturn.errors import ContextTooLong
from midturn.models.library_connection import Endpoint, Failure, FailureReport, explain, one_line
from midturn.models.profiles import nearest_models, suggested_models

PLACE = Endpoint("openai/gpt-6-luna", "api.example", "$OPENAI_API_KEY")
FAILURES: tuple[Failure, ...] = get_args(Failure)


def test_every_failure_message_names_its_source() -> None:
    for failure in FAILURES:
        error = explain(failure, PLACE, FailureReport(detail="because {of} this"))
        assert "(because {of} this)" in str(error)
        assert any(place in str(error) for place in ("openai/gpt-6-luna", "api.example"))
        assert str(error).endswith(".")


def test_only_temporary_failures_are_retried() -> None:
    transient = {
        failure for failure in FAILURES if explain(failure, PLACE, FailureReport()).transient
    }

    assert transient == {"busy", "server", "unreachable", "broken", "silent", "garbled"}


def test_a_too_long_conversation_has_its_own_error_class() -> None:
    assert isinstance(explain("too_long", PLACE, FailureReport()), ContextTooLong)


def test_a_misspelt_model_gets_the_nearest_known() -> None:
    error = explain(
        "unknown_model",
        PLACE,
        FailureReport(suggestion=suggested_models("anthropic/claude-haiku-5.5")),
    )

    assert "Did you mean `anthropic/claude-haiku-5-5` or `anthropic/claude-haiku-4-5`?" in str(
        error
    )
    assert suggested_models("local/llama") == ""


def test_a_model_without_its_provider_gets_the_full_id() -> None:
    assert nearest_models("gpt-6-luna")[0] == "openai/gpt-6-luna"


def test_a_providers_message_is_shown_in_one_line() -> None:
    assert one_line(" a\n\tb ") == "a b"
    assert len(one_line("x" * 1_000)) == 301
