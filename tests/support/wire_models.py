"""The four wires with a model on each, to be asked through the real provider library on the loopback server."""

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
from midturn.models.reached_model import ReachedModel
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

    def at(self, server: Loopback, **changed: Any) -> ReachedModel:
        """Return the model as `server` plays it."""
        spec: dict[str, Any] = {
            "id": self.id,
            "provider": self.provider,
            "model": self.model,
            "family": self.family,
            "base_url": server.url + self.path,
            "key": SecretValue(KEY),
            "key_origin": "$WIRE_KEY",
        }
        return ReachedModel(ModelSpec(**{**spec, **changed}))


WIRES: Sequence[OnWire] = (
    OnWire("anthropic", "anthropic", "claude-sonnet-5-5", "anthropic"),
    OnWire("openai", "openai", "gpt-6-astra", "openai", "/v1"),
    OnWire("google", "google", "gemini-4-argon", "google"),
    OnWire("openai-compatible", "local", "llama", "openai", "/v1"),
)
for _libraries in ("anthropic", "google", "openai"):  # here, once for all processes that tests are forked to: they take seconds
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
            marks=pytest.mark.skipif(not _installed(wire.extra), reason=f"the extra `midturn[{wire.extra}]` is not installed"),
        )
        for wire in WIRES
    ],
)


def converse(model: ReachedModel, *requests: ModelRequest) -> list[list[ModelEvent]]:
    """Send the requests one after the other over one connection, and return what came for each."""

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


def as_model(model: ReachedModel) -> Model:
    """Say to the type checker that the adapter is what the runtime wants."""
    return model
