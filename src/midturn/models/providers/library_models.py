"""The library's model for each family of providers, and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never, cast

import httpx2
import msgspec
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.profiles import ModelProfile

from midturn.core.json_value import Json
from midturn.models.profiles import ModelSpec, Profile, thinking_ends_with_text

_NO_KEY = "none"
"""The clients insist on one; it is not sent."""


def library_model(spec: ModelSpec, http: httpx2.AsyncClient) -> LibraryModel:
    """Build the library's model. Its own schema rewriting is off where a server takes schemas as they are."""
    key = spec.key.reveal() if spec.key else _NO_KEY
    as_written = cast("ModelProfile", {"json_schema_transformer": None})
    match spec.family:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(spec.model, provider=AnthropicProvider(api_key=key, base_url=spec.base_url, http_client=http))
        case "openai":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider = OpenAIProvider(api_key=key, base_url=spec.base_url, http_client=http)
            return OpenAIResponsesModel(spec.model, provider=provider, profile=as_written)
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(spec.model, provider=GoogleProvider(api_key=key, base_url=spec.base_url, http_client=http))
        case "openai-compatible":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            server = OpenAICompatibleProvider(spec.provider, base_url=spec.base_url or "", api_key=key, http_client=http)
            whole = cast("ModelProfile", {**as_written, "openai_chat_streaming_requires_finish_reason": True})
            return OpenAIChatModel(spec.model, provider=server, profile=whole)
        case _ as other:
            assert_never(other)


async def send_no_key(request: httpx2.Request) -> None:
    """Take away the placeholder that the client sends in place of a key."""
    for name in ("authorization", "x-api-key", "x-goog-api-key"):
        request.headers.pop(name, None)


def known_profile(spec: ModelSpec, known: Mapping[str, Any]) -> Profile:
    """Return what the library knows about the model, corrected by what is configured."""
    native = bool(known.get("supports_json_schema_output", True))
    combines = spec.family != "google" or bool(known.get("google_supports_tool_combination", False))
    facts: dict[str, Json] = {
        "native": native,
        "native_with_tools": combines,
        "forced_tool": bool(known.get("supports_forced_tool_choice", True)),
        "images": spec.family != "openai-compatible",
        "context_window": known.get("context_window"),
        "thinking_ends_with_text": thinking_ends_with_text(spec.family, spec.model),
    }
    return msgspec.convert({"family": spec.family, **facts, **spec.overrides}, Profile)


def retirement(spec: ModelSpec) -> str | None:
    """Say when the provider will switch this model off, if that is known."""
    if spec.family != "anthropic":
        return None
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    day = DEPRECATED_MODELS.get(spec.model)
    return None if day is None else f"{spec.id} will be switched off by its provider on {day}. Choose another model with `-m`."
