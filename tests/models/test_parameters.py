from __future__ import annotations

import typing

import pytest

from midturn.errors import ModelError
from midturn.models.parameters import KNOWN, check_parameters


def test_known_parameters_and_a_providers_own_pass() -> None:
    check_parameters("m", {"temperature": 0.2, "thinking": "high", "anthropic_effort": "low"})


def test_a_misspelt_parameter_is_named_with_the_nearest() -> None:
    with pytest.raises(ModelError, match=r"^anthropic/x: there is no parameter `temprature`\. Did you mean `temperature`\?$"):
        check_parameters("anthropic/x", {"temprature": 0.2})


def test_every_known_parameter_means_something_to_the_library() -> None:
    settings = pytest.importorskip("pydantic_ai.settings", reason="no provider's extra is installed")

    assert set(KNOWN) <= set(typing.cast("dict[str, object]", settings.ModelSettings.__annotations__))
