"""Model profiles: provider, address, API key, capabilities, parameters and known model names."""

from __future__ import annotations

import difflib
import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from midturn.errors import ConfigError, ModelError
from midturn.exchange import Family, InquiryAsked
from midturn.question.json_value import JsonObject, SecretValue
from midturn.question.text import did_you_mean

Shape: TypeAlias = Literal["tail", "native", "tool"]
ForcedChoice: TypeAlias = Literal["main", "none", "answer"]


class ModelSpec(Struct, frozen=True, kw_only=True):
    """One model of one provider.

    `id` is `<provider>/<model>`, as the user writes it. `family` is the API protocol. If `base_url`
    is None, the provider's usual address is used. If `key` is None, no key is sent. `key_origin`
    says where the key comes from. `overrides` is the configured `profile`.
    """

    id: str
    provider: str
    model: str
    family: Family
    base_url: str | None = None
    key: SecretValue | None = None
    key_origin: str = ""
    overrides: JsonObject = {}


class Profile(Struct, frozen=True, kw_only=True):
    """Capabilities of a model.

    `native`: the model accepts a JSON Schema for its response. `native_with_tools`: the model
    accepts the schema together with tools. `forced_tool`: the model can be forced to call one
    tool. `images`: the model accepts images in tool results. `thinking_ends_with_text`: user text
    after tool results makes the model discard its earlier thinking, and also invalidates the
    provider's cache.
    """

    family: Family
    native: bool = True
    native_with_tools: bool = True
    forced_tool: bool = True
    images: bool = True
    context_window: int | None = None
    thinking_ends_with_text: bool = False


class AskStrategy(Struct, frozen=True):
    """A way to request a response that follows a JSON Schema.

    `tail`: the last user message contains the schema. `native`: the provider's own field contains
    the schema. `tool`: the model must call a tool whose parameters are the schema. `choice` is
    the tool choice: the same as in the main request, none, or the answer tool.
    """

    shape: Shape
    tools: bool = True
    choice: ForcedChoice = "none"


TAIL_AS_MAIN: Final = AskStrategy("tail", choice="main")
TAIL: Final = AskStrategy("tail")
NATIVE: Final = AskStrategy("native")
NATIVE_ALONE: Final = AskStrategy("native", tools=False)
TOOL: Final = AskStrategy("tool", choice="answer")

# Strategies for the first and second attempt, by family and by whether the side request uses the
# main request's cache. For Anthropic and OpenAI, the native field is part of the cache key. For
# Anthropic, the tool choice is also part of the cache key. For Google and local servers, neither is
# part of the cache key.
_STRATEGIES: Final[dict[tuple[Family, bool], tuple[AskStrategy, AskStrategy]]] = {
    ("anthropic", True): (TAIL_AS_MAIN, NATIVE),
    ("anthropic", False): (NATIVE, NATIVE),
    ("openai", True): (TAIL, NATIVE),
    ("openai", False): (NATIVE, NATIVE),
    ("google", True): (NATIVE, NATIVE),
    ("google", False): (NATIVE_ALONE, NATIVE_ALONE),
    ("openai-compatible", True): (NATIVE, NATIVE),
    ("openai-compatible", False): (NATIVE_ALONE, NATIVE_ALONE),
}


def how_to_ask(profile: Profile, asked: InquiryAsked) -> AskStrategy:
    """Return the strategy that a side request uses to request an answer."""
    if not profile.native:
        return TAIL if asked.trial == 1 or not profile.forced_tool else TOOL
    strategy = _STRATEGIES[profile.family, asked.shares_cache][min(asked.trial, 2) - 1]
    if strategy == NATIVE and not profile.native_with_tools:
        return TAIL if asked.trial == 1 else NATIVE_ALONE
    return strategy


def how_to_shape(profile: Profile, *, tools: bool) -> AskStrategy:
    """Return the strategy that the main request uses to require a response format. The model may
    still call tools before the final response.
    """
    return (
        AskStrategy("native", choice="main")
        if profile.native and (profile.native_with_tools or not tools)
        else TAIL_AS_MAIN
    )


_NON_TEXT_MODEL: Final = re.compile(
    r"embed|whisper|tts|dall-e|imagen|veo|image|moderation|transcribe|rerank|realtime",
    re.IGNORECASE,
)
_ENDS_THINKING_MODEL: Final = re.compile(
    r"claude-(3|haiku|opus-4-[01]\b|opus-4-2|sonnet-4-[05]\b|sonnet-4-2)"
)


def writes_text(model: str) -> bool:
    """Return whether the model generates text, based on its name."""
    return not _NON_TEXT_MODEL.search(model)


def thinking_ends_with_text(family: Family, model: str) -> bool:
    """Return whether user text ends this model's thinking. This is true for Claude models before
    Opus 4.5 and Sonnet 4.6, and for every Haiku.
    """
    return family == "anthropic" and bool(_ENDS_THINKING_MODEL.match(model))


# --------------------------------------------------------------------------------------------------
# Request parameters, and cache retention


KNOWN_PARAMETERS: Final = (
    "citations",
    "extra_body",
    "extra_headers",
    "frequency_penalty",
    "logit_bias",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "seed",
    "service_tier",
    "stop_sequences",
    "temperature",
    "thinking",
    "top_k",
    "top_p",
)
_PROVIDER_PREFIXES: Final = ("anthropic_", "google_", "openai_")


def check_parameters(model: str, parameters: JsonObject) -> None:
    """Reject unknown parameters. Provider-specific parameters (`anthropic_…`, `google_…`,
    `openai_…`) are allowed.

    Raises:
        ModelError: A parameter is unknown. The message suggests the nearest one.
    """
    for name in parameters:
        if name not in KNOWN_PARAMETERS and not name.startswith(_PROVIDER_PREFIXES):
            advice = (
                did_you_mean(name, KNOWN_PARAMETERS)
                or f" Known parameters: {', '.join(f'`{known}`' for known in KNOWN_PARAMETERS)}."
            )
            raise ModelError(f"{model}: unknown parameter `{name}`.{advice}")


Retention: TypeAlias = Literal["5m", "30m", "1h", "12h"]
_TIERS: Final[dict[Retention, int]] = {"5m": 300, "30m": 1_800, "1h": 3_600, "12h": 43_200}
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def retention(cache: str) -> bool | Retention:
    """Parse `request.cache`: off, the provider's default, or the supported retention time nearest
    to a duration.

    Raises:
        ConfigError: The value is not `off`, `short`, `long` or a duration such as `90s`, `30m` or
            `2h`.
    """
    match cache:
        case "off":
            return False
        case "short":
            return True
        case "long":
            return "1h"
        case _:
            seconds = _seconds(cache)
            return min(_TIERS, key=lambda tier: abs(_TIERS[tier] - seconds))


def _seconds(duration: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", duration.strip())
    if not found:
        raise ConfigError(
            f"Invalid `request.cache` value {duration!r}. Use `off`, `short`, `long`, or a duration"
            " such as `30m` or `2h`."
        )
    return float(found[1]) * _UNITS[found[2]]


# --------------------------------------------------------------------------------------------------
# Known model names, for suggestions when a name is misspelt. Unknown names are accepted, because
# new models appear often.


KNOWN_PROFILES: Final = (
    "anthropic/claude-fable-5-2",
    "anthropic/claude-haiku-4-5",
    "anthropic/claude-haiku-5-5",
    "anthropic/claude-opus-4-8",
    "anthropic/claude-opus-5-5",
    "anthropic/claude-sonnet-4-6",
    "anthropic/claude-sonnet-5-5",
    "openai/gpt-5.6-luna",
    "openai/gpt-5.6-sol",
    "openai/gpt-5.6-terra",
    "openai/gpt-6-astra",
    "openai/gpt-6-luna",
    "openai/gpt-6.1-sol",
    "openai/gpt-6.1-terra",
    "google/gemini-3.1-flash-lite",
    "google/gemini-3.1-pro-preview",
    "google/gemini-3.5-flash-lite",
    "google/gemini-3.8-flash",
    "google/gemini-4-argon",
    "google/gemini-4-carbon",
)

_MAX_SUGGESTIONS: Final = 3
_MIN_SIMILARITY: Final = 0.8


def nearest_models(id: str) -> list[str]:
    """Return at most three known model ids that are most similar to `id`, which may lack the
    provider.
    """
    provider, slash, model = id[:128].rpartition("/")
    names = {
        known.removeprefix(f"{provider}/" if slash else known.partition("/")[0] + "/"): known
        for known in KNOWN_PROFILES
        if known != id
    }
    return [
        names[near]
        for near in difflib.get_close_matches(
            model, list(names), n=_MAX_SUGGESTIONS, cutoff=_MIN_SIMILARITY
        )
    ]


def suggested_models(id: str) -> str:
    """Return ` Did you mean …?` with the most similar models, or an empty string."""
    near = [f"`{model}`" for model in nearest_models(id)]
    return (
        f" Did you mean {', '.join(near[:-1])}{' or ' if near[:-1] else ''}{near[-1]}?"
        if near
        else ""
    )
