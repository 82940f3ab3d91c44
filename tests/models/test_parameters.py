from __future__ import annotations

import typing

import pytest

from midturn.errors import ConfigError, ModelError
from midturn.models.profiles import KNOWN_PARAMETERS, Retention, check_parameters, retention


def test_known_parameters_and_provider_parameters_are_passed() -> None:
    check_parameters("m", {"temperature": 0.2, "thinking": "high", "anthropic_effort": "low"})


def test_a_misspelt_parameter_is_reported_with_the_nearest() -> None:
    with pytest.raises(
        ModelError,
        match=r"^anthropic/x: unknown parameter `temprature`\. Did you mean `temperature`\?$",
    ):
        check_parameters("anthropic/x", {"temprature": 0.2})


def test_the_library_supports_every_known_parameter() -> None:
    settings = pytest.importorskip(
        "pydantic_ai.settings", reason="no provider's extra is installed"
    )

    assert set(KNOWN_PARAMETERS) <= set(
        typing.cast("dict[str, object]", settings.ModelSettings.__annotations__)
    )


@pytest.mark.parametrize(
    ("cache", "means"),
    [
        ("off", False),
        ("short", True),
        ("long", "1h"),
        ("90s", "5m"),
        ("20m", "30m"),
        ("1h", "1h"),
        ("2h", "1h"),
        ("0.5h", "30m"),
        ("3d", "12h"),
    ],
)
def test_a_cache_setting_is_translated_for_each_provider(
    cache: str,
    means: bool | Retention,  # noqa: FBT001 (the expected value)
) -> None:
    assert retention(cache) == means


@pytest.mark.parametrize("cache", ["", "forever", "5", "m5", "-1h"])
def test_other_values_are_refused(cache: str) -> None:
    with pytest.raises(ConfigError, match="Use `off`, `short`, `long`, or a duration"):
        retention(cache)
