"""Profiles of models: provider, address, key, abilities, parameters, and known names."""

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

    `id` is what the user writes (`<provider>/<model>`), `family` the wire that is spoken. Without `base_url` it is the provider's usual
    address; without `key` none is sent. `key_origin` says where the key comes from, `overrides` are the configured `profile`.
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
    """One model. `native`: it takes a JSON Schema for its answer; `native_with_tools`: even beside tools.

    `forced_tool`: it can be made to call one tool. `images`: it sees pictures in the results of tools. `thinking_ends_with_text`: words of
    the user after results make it forget what it thought before them, and the provider's cache with it.
    """

    family: Family
    native: bool = True
    native_with_tools: bool = True
    forced_tool: bool = True
    images: bool = True
    context_window: int | None = None
    thinking_ends_with_text: bool = False


class How(Struct, frozen=True):
    """Ways to demand a shape.

    `tail`: the schema stands in the last user message. `native`: in the provider's own field. `tool`: a tool has to be called whose
    parameters are the shape. `choice` is the tool choice: the main request's, none, or that tool.
    """

    shape: Shape
    tools: bool = True
    choice: ForcedChoice = "none"


TAIL_AS_MAIN: Final = How("tail", choice="main")
TAIL: Final = How("tail")
NATIVE: Final = How("native")
NATIVE_ALONE: Final = How("native", tools=False)
TOOL: Final = How("tool", choice="answer")

# The first and the second try, where the answer shares the main thread's cache and where it does not. Anthropic and OpenAI count the
# native field into the cache key (Anthropic the tool choice, too); Google and local servers do not.
_TRIES: Final[dict[tuple[Family, bool], tuple[How, How]]] = {
    ("anthropic", True): (TAIL_AS_MAIN, NATIVE),
    ("anthropic", False): (NATIVE, NATIVE),
    ("openai", True): (TAIL, NATIVE),
    ("openai", False): (NATIVE, NATIVE),
    ("google", True): (NATIVE, NATIVE),
    ("google", False): (NATIVE_ALONE, NATIVE_ALONE),
    ("openai-compatible", True): (NATIVE, NATIVE),
    ("openai-compatible", False): (NATIVE_ALONE, NATIVE_ALONE),
}


def how_to_ask(profile: Profile, asked: InquiryAsked) -> How:
    """Return how a side request demands its answer."""
    if not profile.native:
        return TAIL if asked.trial == 1 or not profile.forced_tool else TOOL
    how = _TRIES[profile.family, asked.shares_cache][min(asked.trial, 2) - 1]
    if how == NATIVE and not profile.native_with_tools:
        return TAIL if asked.trial == 1 else NATIVE_ALONE
    return how


def how_to_shape(profile: Profile, *, tools: bool) -> How:
    """Return how the main request demands a shape that the user asked for; tools may still be called before the answer."""
    return How("native", choice="main") if profile.native and (profile.native_with_tools or not tools) else TAIL_AS_MAIN


_ANSWERS_NOTHING: Final = re.compile(r"embed|whisper|tts|dall-e|imagen|veo|image|moderation|transcribe|rerank|realtime", re.IGNORECASE)
_THINKING_ENDS: Final = re.compile(r"claude-(3|haiku|opus-4-[01]\b|opus-4-2|sonnet-4-[05]\b|sonnet-4-2)")


def writes_text(model: str) -> bool:
    """Whether the model, by its name, can manage any of the shapes: it writes text."""
    return not _ANSWERS_NOTHING.search(model)


def thinking_ends_with_text(family: Family, model: str) -> bool:
    """Whether this model's thinking ends at the user's next words (Claude before Opus 4.5 and Sonnet 4.6, and every Haiku)."""
    return family == "anthropic" and bool(_THINKING_ENDS.match(model))


# ----------------------------------------------------------------------------------------------------------------------
# Parameters of a request, cache retention included


KNOWN: Final = (
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
_OWN: Final = ("anthropic_", "google_", "openai_")


def check_parameters(model: str, parameters: JsonObject) -> None:
    """Refuse a parameter that nothing would come of. A provider's own ones (`anthropic_…`, `google_…`, `openai_…`) pass.

    Raises:
        ModelError: There is no such parameter; the nearest is named.
    """
    for name in parameters:
        if name not in KNOWN and not name.startswith(_OWN):
            advice = did_you_mean(name, KNOWN) or f" Known are {', '.join(f'`{known}`' for known in KNOWN)}."
            raise ModelError(f"{model}: there is no parameter `{name}`.{advice}")


Retention: TypeAlias = Literal["5m", "30m", "1h", "12h"]
_TIERS: Final[dict[Retention, int]] = {"5m": 300, "30m": 1_800, "1h": 3_600, "12h": 43_200}
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def retention(cache: str) -> bool | Retention:
    """Return what `request.cache` means: off, the provider's usual time, or the offered time that is nearest to a duration.

    Raises:
        ConfigError: It is none of `off`, `short`, `long` and a duration such as `90s`, `30m`, `2h`.
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
        raise ConfigError(f"`request.cache` is {duration!r}. Write `off`, `short`, `long`, or a duration such as `30m` or `2h`.")
    return float(found[1]) * _UNITS[found[2]]


# ----------------------------------------------------------------------------------------------------------------------
# Models that are known by name, to suggest one where a name is misspelt. Other names are never refused: new models appear all the time


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

_NAMED: Final = 3
_NEAR: Final = 0.8


def nearest_models(id: str) -> list[str]:
    """Return the known models whose ids are nearest to `id`, at most three; `id` may lack its provider."""
    provider, slash, model = id[:128].rpartition("/")
    names = {
        known.removeprefix(f"{provider}/" if slash else known.partition("/")[0] + "/"): known for known in KNOWN_PROFILES if known != id
    }
    return [names[near] for near in difflib.get_close_matches(model, list(names), n=_NAMED, cutoff=_NEAR)]


def suggested_models(id: str) -> str:
    """Return ` Did you mean …?` with the nearest models, or nothing where none is near."""
    near = [f"`{model}`" for model in nearest_models(id)]
    return f" Did you mean {', '.join(near[:-1])}{' or ' if near[:-1] else ''}{near[-1]}?" if near else ""
