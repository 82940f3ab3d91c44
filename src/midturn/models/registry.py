"""Find a model by its id."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final, get_args

import msgspec
from msgspec import Struct

from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.models.profiles import (
    KNOWN_PROFILES,
    Family,
    ModelSpec,
    Profile,
    suggested_models,
    writes_text,
)
from midturn.models.reached_model import LazyProviderModel
from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.question.text import did_you_mean

# --------------------------------------------------------------------------------------------------
# Installed provider libraries, and the commands that install them


_LIBRARIES: Final[dict[Family, tuple[str, str]]] = {  # the extra, and the module that it installs
    "anthropic": ("anthropic", "anthropic"),
    "openai": ("openai", "openai"),
    "google": ("google", "google.genai"),
    "openai-compatible": ("openai", "openai"),
}


def is_installed(family: Family) -> bool:
    """Return whether the library of `family` is installed, without importing it."""
    try:
        return find_spec("pydantic_ai") is not None and find_spec(_LIBRARIES[family][1]) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def library_command(family: Family) -> str:
    """Return the command that installs the library of `family`."""
    return install_command(_LIBRARIES[family][0])


KEYS: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""The environment variables for the API keys of the built-in providers. The first variable that is
set is used.
"""
PREFERRED: Final = {
    "anthropic": ("anthropic/claude-sonnet-5-5", "anthropic/claude-haiku-4-5"),
    "openai": ("openai/gpt-6.1-sol", "openai/gpt-6-luna"),
    "google": ("google/gemini-4-argon", "google/gemini-3.8-flash"),
}
"""The recommended models of each provider: the main model, then the reviewer. Providers are in
order of preference.
"""


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `providers.llm`: API protocol, address, environment variable for the key, and
    overrides for model profiles.
    """

    kind: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    profile: dict[str, Json] = {}


class Lookup(Struct, frozen=True, kw_only=True):
    """Where models are looked up: the configured `providers.llm`, and the environment with API
    keys. `report` is called with notices for the user.
    """

    providers: Mapping[str, JsonObject] = {}
    environment: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    report: Callable[[str], None] = lambda _: None


def model_named(id: str, lookup: Lookup | None = None) -> LazyProviderModel:
    """Return the model `<provider>/<model>`. No request is sent, and the model's library is not
    imported.

    Raises:
        ConfigError: The id has no provider, or the provider cannot be used. The message lists
            everything that is missing.
    """
    lookup = lookup or Lookup()
    spec = spec_named(id, lookup)
    missing = _missing(spec)
    if missing:
        raise ConfigError(f"{id} cannot be used:\n" + "\n".join(f"  {line}" for line in missing))
    return LazyProviderModel(spec, lookup.report)


def id_parts(id: str) -> tuple[str, str]:
    """Split a model id into provider and model.

    Raises:
        ConfigError: The id is invalid. The message suggests similar ids.
    """
    provider, slash, model = id.partition("/")
    if not slash or not provider or not model:
        raise ConfigError(
            f"`{id}` is not a model id. Write `<provider>/<model>`, such as"
            f" `{KNOWN_PROFILES[1]}`.{suggested_models(id)}"
        )
    return provider, model


def preferred_provider(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the most preferred provider whose API key is set, and the environment variable of the
    key.
    """
    found = (
        (provider, name)
        for provider in PREFERRED
        for name in KEYS[provider]
        if environment.get(name)
    )
    return next(found, None)


def spec_named(id: str, lookup: Lookup) -> ModelSpec:
    """Return the address, protocol and key of a model. The key may be missing.

    Raises:
        ConfigError: The id has no provider, or the provider's configuration is invalid.
    """
    provider, model = id_parts(id)
    settings = provider_settings(provider, lookup.providers)
    family = _family(provider, settings)
    if family == "openai-compatible" and not settings.base_url:
        raise ConfigError(
            f"`providers.llm.{provider}.base_url` is missing. Set it to the address of the server,"
            " such as `http://127.0.0.1:8080/v1`."
        )
    _check_overrides(provider, family, settings.profile)
    names = (settings.api_key_env,) if settings.api_key_env else KEYS.get(provider, ())
    name = next((name for name in names if lookup.environment.get(name)), names[0] if names else "")
    value = lookup.environment.get(name)
    return ModelSpec(
        id=id,
        provider=provider,
        model=model,
        family=family,
        base_url=settings.base_url,
        key=SecretValue(value) if value else None,
        key_origin=f"${name}" if name else "",
        overrides=settings.profile,
    )


def provider_settings(provider: str, providers: Mapping[str, JsonObject]) -> ProviderSettings:
    """Return the configured settings of a provider. Built-in providers need no settings.

    Raises:
        ConfigError: The provider is unknown (the message suggests the nearest one) or its entry
            is invalid.
    """
    known = sorted({*KEYS, *providers})
    if provider not in known:
        near = did_you_mean(provider, known)
        names = ", ".join(f"`{name}`" for name in known)
        raise ConfigError(
            f"Unknown provider `{provider}`.{near} Known providers: {names}. Add others in"
            " `providers.llm.<name>`."
        )
    try:
        return msgspec.convert(providers.get(provider, {}), ProviderSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"`providers.llm.{provider}`: {error}.") from error


def require_text_model(id: str) -> None:
    """Reject a model that cannot generate text.

    Raises:
        ConfigError: The model is an embedding, image or speech model.
    """
    if not writes_text(id.partition("/")[2]):
        raise ConfigError(
            f"`{id}` cannot answer questions because it does not generate text. Choose a chat"
            f" model, such as `{KNOWN_PROFILES[1]}`."
        )


def _family(provider: str, settings: ProviderSettings) -> Family:
    kind = settings.kind or (provider if provider in KEYS else "openai-compatible")
    kinds: tuple[Family, ...] = get_args(Family)
    found: Family | None = next((family for family in kinds if family == kind), None)
    if found is None:
        allowed = ", ".join(f"`{name}`" for name in kinds)
        raise ConfigError(
            f"Invalid `providers.llm.{provider}.kind`: `{kind}`.{did_you_mean(kind, kinds)} Allowed"
            f" values: {allowed}."
        )
    return found


def _check_overrides(provider: str, family: Family, overrides: JsonObject) -> None:
    known = [field.name for field in msgspec.structs.fields(Profile) if field.name != "family"]
    for key in overrides:
        if key not in known:
            advice = (
                did_you_mean(key, known)
                or f" Known keys: {', '.join(f'`{name}`' for name in known)}."
            )
            raise ConfigError(f"`providers.llm.{provider}.profile.{key}` is unknown.{advice}")
    try:
        msgspec.convert({**overrides, "family": family}, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"`providers.llm.{provider}.profile`: {error}.") from error


def _missing(spec: ModelSpec) -> list[str]:
    """Return what is missing to use this model. Each item says how to fix it."""
    missing: list[str] = []
    if spec.key is None and spec.key_origin:
        missing.append(f"It needs an API key: set {spec.key_origin}.")
    if not is_installed(spec.family):
        missing.append(f"Its library is not installed: {library_command(spec.family)}")
    return missing
