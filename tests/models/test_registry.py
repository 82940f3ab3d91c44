from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

import midturn.models.registry as registry_module
from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.models.profiles import Family
from midturn.models.registry import Lookup, model_named, require_text_model, spec_named
from midturn.question.json_value import SecretValue

KEYS = {
    "ANTHROPIC_API_KEY": "sk-a",
    "OPENAI_API_KEY": "sk-o",
    "GEMINI_API_KEY": "sk-g",
    "EMPTY": "",
    "MY_KEY": "sk-m",
}
LOCAL = {"local": {"kind": "openai-compatible", "base_url": "http://127.0.0.1:8080/v1"}}
HERE = Lookup(providers=LOCAL, environment=KEYS)
NOBODY = Lookup(environment={})


def nothing_is(_: Family) -> bool:
    return False


def test_a_built_in_provider_takes_its_usual_variable() -> None:
    spec = spec_named("google/gemini-4-argon", HERE)

    assert (spec.family, spec.model, spec.key_origin, spec.base_url) == (
        "google",
        "gemini-4-argon",
        "$GEMINI_API_KEY",
        None,
    )
    assert spec.key == SecretValue("sk-g")


def test_the_key_is_never_displayed() -> None:
    assert "sk-a" not in repr(spec_named("anthropic/claude-haiku-5-5", HERE))


def test_a_configured_server_is_a_provider_and_gets_a_key_only_if_configured() -> None:
    spec = spec_named("local/qwen/qwen3-coder", HERE)

    assert (spec.provider, spec.model, spec.base_url, spec.key) == (
        "local",
        "qwen/qwen3-coder",
        "http://127.0.0.1:8080/v1",
        None,
    )
    named = replace(HERE, providers={"local": {**LOCAL["local"], "api_key_env": "MY_KEY"}})
    assert spec_named("local/x", named).key == SecretValue("sk-m")


def test_a_built_in_provider_can_have_another_address_and_key() -> None:
    around = replace(
        HERE, providers={"anthropic": {"base_url": "http://127.0.0.1:1/", "api_key_env": "MY_KEY"}}
    )

    spec = spec_named("anthropic/claude-haiku-5-5", around)

    assert (spec.family, spec.base_url, spec.key_origin) == (
        "anthropic",
        "http://127.0.0.1:1/",
        "$MY_KEY",
    )


def test_a_missing_key_names_the_variable() -> None:
    with pytest.raises(ConfigError) as caught:
        model_named("openai/gpt-6-luna", NOBODY)

    assert "It needs an API key: set $OPENAI_API_KEY." in str(caught.value)
    assert "midturn " not in str(caught.value)  # a program cannot use a command


def test_an_empty_variable_is_not_a_key() -> None:
    around = Lookup(
        providers={"local": {**LOCAL["local"], "api_key_env": "EMPTY"}}, environment=KEYS
    )

    with pytest.raises(ConfigError, match=r"set \$EMPTY"):
        model_named("local/x", around)


def test_a_missing_library_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "is_installed", nothing_is)

    with pytest.raises(ConfigError, match=re.escape(install_command("google"))):
        model_named("google/gemini-4-argon", HERE)


@pytest.mark.parametrize(
    ("id", "message"),
    [
        (
            "anthropc/claude-haiku-5-5",
            (
                "Unknown provider `anthropc`. Did you mean `anthropic`? Known providers:"
                " `anthropic`, `google`, `local`, `openai`"
            ),
        ),
        ("claude-haiku-5-6", "is not a model id. Write `<provider>/<model>`, such as `anthropic/"),
        ("claude-haiku-5-5", "Did you mean `anthropic/claude-haiku-5-5`"),
        ("anthropic/", "is not a model id"),
        ("/x", "is not a model id"),
    ],
)
def test_an_id_with_an_unknown_provider_is_corrected(id: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model_named(id, HERE)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "openai-compatible"}, "`providers.llm.x.base_url` is missing"),
        (
            {"kind": "openai_compatible", "base_url": "http://h"},
            "Did you mean `openai-compatible`?",
        ),
        ({"base_ur": "http://h"}, "`providers.llm.x`: Object contains unknown field `base_ur`"),
    ],
)
def test_an_invalid_entry_is_named(entry: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model_named("x/y", Lookup(providers={"x": entry}, environment=KEYS))

    assert message in str(caught.value)


def test_a_model_without_text_output_is_refused_as_an_assistant() -> None:
    require_text_model("anthropic/claude-haiku-5-5")
    with pytest.raises(
        ConfigError, match="cannot answer questions because it does not generate text"
    ):
        require_text_model("openai/text-embedding-4")


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"nativ": True}, "`providers.llm.local.profile.nativ` is unknown. Did you mean `native`?"),
        (
            {"context_window": "big"},
            "`providers.llm.local.profile`: Expected `int | null`, got `str`",
        ),
    ],
)
def test_an_invalid_profile_is_named(profile: dict[str, object], message: str) -> None:
    around = replace(HERE, providers={"local": {**LOCAL["local"], "profile": profile}})

    with pytest.raises(ConfigError) as caught:
        spec_named("local/x", around)

    assert message in str(caught.value)
