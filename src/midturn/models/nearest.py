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


def nearest_model(id: str) -> str | None:
    """Return the known model whose id is nearest to `id`, or None where none is near."""
    import difflib  # only where something is wrong

    near = difflib.get_close_matches(id, [known for known in KNOWN if known != id], n=1)
    return near[0] if near else None
