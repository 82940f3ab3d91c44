"""The four wire formats with a model on each, which tests call through the real provider
libraries on the loopback server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import pytest
from msgspec import Struct

from midturn.exchange import Finished, ModelEvent, ModelRequest
from midturn.models.profiles import Family, ModelSpec
from midturn.models.reached_model import LazyProviderModel
from midturn.ports import Model
from midturn.question.json_value import SecretValue
from support.providers.loopback import Loopback

KEY = "sk-loopback-1234567890"


class OnWire(Struct, frozen=True):
    """A model, and the extra that its provider needs."""

    family: Family
    provider: str
    model: str
    extra: str
    path: str = ""

    @property
    def id(self) -> str:
        """The model's id."""
        return f"{self.provider}/{self.model}"

    def at(self, server: Loopback, **changed: Any) -> LazyProviderModel:
        """Return the model with `server` as its provider."""
        spec: dict[str, Any] = {
            "id": self.id,
            "provider": self.provider,
            "model": self.model,
            "family": self.family,
            "base_url": server.url + self.path,
            "key": SecretValue(KEY),
            "key_origin": "$WIRE_KEY",
        }
        return LazyProviderModel(ModelSpec(**{**spec, **changed}))


WIRES: Sequence[OnWire] = (
    OnWire("anthropic", "anthropic", "claude-sonnet-5-5", "anthropic"),
    OnWire("openai", "openai", "gpt-6-astra", "openai", "/v1"),
    OnWire("google", "google", "gemini-4-argon", "google"),
    OnWire("openai-compatible", "local", "llama", "openai", "/v1"),
)
for _libraries in (
    "anthropic",
    "google",
    "openai",
):  # slow imports, once for all forked test processes
    with suppress(ImportError):
        import_module(f"pydantic_ai.models.{_libraries}")
_MODULES = {"anthropic": "anthropic", "openai": "openai", "google": "google.genai"}
Asked: TypeAlias = tuple[list[ModelEvent], Finished]


def _installed(extra: str) -> bool:
    try:
        return find_spec("pydantic_ai") is not None and find_spec(_MODULES[extra]) is not None
    except ModuleNotFoundError:
        return False


on_every_wire = pytest.mark.parametrize(
    "wire",
    [
        pytest.param(
            wire,
            id=wire.family,
            marks=pytest.mark.skipif(
                not _installed(wire.extra),
                reason=f"the extra `midturn[{wire.extra}]` is not installed",
            ),
        )
        for wire in WIRES
    ],
)


def converse(model: LazyProviderModel, *requests: ModelRequest) -> list[list[ModelEvent]]:
    """Send the requests over one connection, one after the other; return the events of each."""

    async def send() -> list[list[ModelEvent]]:
        try:
            return [[event async for event in model.stream(request)] for request in requests]
        finally:
            await model.aclose()

    return asyncio.run(send())


def last_of(events: Sequence[ModelEvent]) -> Finished:
    """Return the end of an answer."""
    assert isinstance(events[-1], Finished)
    return events[-1]


def as_model(model: LazyProviderModel) -> Model:
    """Return the adapter as the type that the runtime wants."""
    return model
