"""Fixtures for pytest, there as soon as midturn is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:  # the plugin is loaded in every test run of every project that has midturn installed
    from midturn.core.json_value import Json
    from midturn.models.scripted import ScriptedModel
    from midturn.testing.prompter import Scripted, ScriptedPrompter, Unscripted
    from midturn.testing.recorded import Recorded, Source

    Entries: TypeAlias = Sequence[Mapping[str, Json]]


@pytest.fixture
def scripted_prompter() -> Iterator[Callable[..., ScriptedPrompter]]:
    """Build scripted prompters; a reply left over, or a prompt without one, fails the test."""
    from midturn.testing.prompter import ScriptedPrompter

    built: list[ScriptedPrompter] = []

    def build(replies: Mapping[str, Scripted] | None = None, *, unscripted: Unscripted = "raise") -> ScriptedPrompter:
        built.append(ScriptedPrompter(replies, unscripted=unscripted))
        return built[-1]

    yield build
    for prompter in built:
        prompter.assert_exhausted()


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Build scripted models that do not wait for `delay_ms`."""
    from midturn.models.scripted import ScriptedModel

    async def at_once(_: float) -> None:
        """Wait for nothing."""

    def build(replies: Entries = (), inquiries: Entries = ()) -> ScriptedModel:
        return ScriptedModel(replies, inquiries, sleep=at_once)

    return build


@pytest.fixture
def recorded_pairs() -> Callable[[Source], list[Recorded]]:
    """Return what a conversation recorded about its questions, as values to compare."""
    from midturn.testing.recorded import recorded_pairs

    return recorded_pairs


@pytest.fixture
def assert_answers() -> Callable[[Source, Mapping[str, Json]], None]:
    """Fail unless exactly these questions were answered, in this order, with these answers."""
    from midturn.testing.recorded import assert_answers

    return assert_answers
