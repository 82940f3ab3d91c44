"""Settings of a program for a provider's model.

Tested on each wire format over the loopback interface.
"""

from __future__ import annotations

import pytest

import midturn as mt
from support.providers.answers import Says
from support.providers.loopback import Loopback
from support.wire_models import WIRES, OnWire


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
def test_a_program_sets_address_key_parameters_and_headers(wire: OnWire) -> None:
    pytest.importorskip("pydantic_ai")
    with Loopback(Says(text="Hello.")) as server:
        model = mt.ProviderModel(
            wire.id,
            base_url=server.url + wire.path,
            api_key="sk-mine-123",
            parameters={"temperature": 0.5, "max_tokens": 77},
        )
        result = mt.Agent(model).run_sync("Hi")

    assert result.text == "Hello."
    sent = server.received[0]
    assert "sk-mine-123" in str(sent.headers) + sent.path
    assert "77" in sent.body.decode()
    assert (
        wire.provider != "local" or "0.5" in sent.body.decode()
    )  # other providers ignore the temperature while the model thinks


def test_a_custom_server_gets_headers_and_no_key() -> None:
    pytest.importorskip("openai")
    with Loopback(Says(text="Hello.")) as server:
        model = mt.ProviderModel(
            "ollama/qwen3", base_url=f"{server.url}/v1", headers={"X-Team": "blue"}
        )
        assert mt.Agent(model).run_sync("Hi").text == "Hello."

    headers = {name.lower(): value for name, value in server.received[0].headers.items()}
    assert headers["x-team"] == "blue"
    assert "authorization" not in headers


def test_an_unknown_model_without_an_address_is_refused() -> None:
    with pytest.raises(mt.ConfigError, match="Unknown provider `ollama`"):
        mt.ProviderModel("ollama/qwen3")
