from __future__ import annotations

import pytest
from msgspec.structs import replace

import midturn.models.available as at_hand_module
from midturn.models.available import AvailableProvider, available_providers, models_of
from midturn.models.profiles import Family
from midturn.models.registry import Lookup
from support.providers.loopback import Loopback

NOBODY = Lookup(environment={})


def anything_is(_: Family) -> bool:
    return True


@pytest.fixture(autouse=True)
def no_local_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the model servers that run on this machine."""
    monkeypatch.setattr(at_hand_module, "LOCAL_SERVERS", {})
    monkeypatch.setattr(at_hand_module, "is_installed", anything_is)


def by_name(around: Lookup) -> dict[str, AvailableProvider]:
    return {found.provider: found for found in available_providers(around)}


def test_a_provider_without_its_key_names_the_variable_to_set() -> None:
    assert by_name(NOBODY)["anthropic"] == AvailableProvider(
        provider="anthropic", missing="set $ANTHROPIC_API_KEY"
    )


def test_a_provider_with_its_key_lists_the_known_models() -> None:
    found = by_name(Lookup(environment={"OPENAI_API_KEY": "sk"}))["openai"]

    assert "openai/gpt-6-luna" in found.models
    assert found.missing is None


def test_a_configured_server_lists_its_models() -> None:
    with Loopback(models=("llama", "qwen")) as server:
        url = f"{server.url}/v1"
        found = by_name(replace(NOBODY, providers={"local": {"base_url": url}}))["local"]

    assert found == AvailableProvider(
        provider="local", models=("local/llama", "local/qwen"), base_url=url
    )


def test_a_local_server_is_found_without_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(models=("llama",)) as server:
        monkeypatch.setattr(
            at_hand_module,
            "LOCAL_SERVERS",
            {"ollama": f"{server.url}/v1", "vllm": "http://127.0.0.1:1/v1"},
        )
        found = by_name(NOBODY)

    assert found["ollama"].models == ("ollama/llama",)
    assert not found["ollama"].configured
    assert "vllm" not in found


def test_an_unreachable_server_is_reported() -> None:
    found = by_name(replace(NOBODY, providers={"local": {"base_url": "http://127.0.0.1:1/v1"}}))[
        "local"
    ]

    assert found.missing is not None
    assert found.missing.startswith("http://127.0.0.1:1/v1 does not answer (")


def test_a_key_is_sent_only_to_its_own_server() -> None:
    with Loopback(models=("m",)) as server:
        assert models_of(f"{server.url}/v1/", "sk-local") == ["m"]
        assert server.received[0].headers["authorization"] == "Bearer sk-local"


def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(ValueError, match="is not an http or https address"):
        models_of("file:///etc", None)
