"""Models that are known by name, to suggest one where a name is misspelt. Other names are never refused: new models appear all the time."""

from __future__ import annotations

from typing import Final

KNOWN: Final = (
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
    import difflib  # only where something is wrong

    provider, slash, model = id[:128].rpartition("/")
    names = {known.removeprefix(f"{provider}/" if slash else known.partition("/")[0] + "/"): known for known in KNOWN if known != id}
    return [names[near] for near in difflib.get_close_matches(model, list(names), n=_NAMED, cutoff=_NEAR)]


def suggested_models(id: str) -> str:
    """Return ` Did you mean …?` with the nearest models, or nothing where none is near."""
    near = [f"`{model}`" for model in nearest_models(id)]
    return f" Did you mean {', '.join(near[:-1])}{' or ' if near[:-1] else ''}{near[-1]}?" if near else ""
