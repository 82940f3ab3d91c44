"""Which model, where, with which key; what it can do, and how an answer of a certain shape is demanded of it."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from midturn.core.exchange import Family, InquiryAsked
from midturn.core.json_value import JsonObject
from midturn.core.secret import SecretValue

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
    """How a shape is demanded.

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
