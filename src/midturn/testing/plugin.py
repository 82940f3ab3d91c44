"""Fixtures for pytest, there as soon as midturn is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

import midturn as mt
from midturn import testing

if TYPE_CHECKING:  # the plugin is loaded in every test run of every project that has midturn installed
    from midturn.models.scripted import ScriptedModel
    from midturn.testing.clock import Clock
    from midturn.testing.fixtures import AssertAnswers, Entries, MakeScriptedModel, MakeScriptedPrompter, RecordedPairs, ToolErrors
    from midturn.testing.prompter import Scripted, ScriptedPrompter, Unscripted


@pytest.fixture
def scripted_prompter() -> Iterator[MakeScriptedPrompter]:
    """Build scripted prompters; a reply left over, or a prompt without one, fails the test."""
    built: list[ScriptedPrompter] = []

    def build(replies: Mapping[str, Scripted] | None = None, *, unscripted: Unscripted = "raise") -> ScriptedPrompter:
        built.append(testing.ScriptedPrompter(replies, unscripted=unscripted))
        return built[-1]

    yield build
    for prompter in built:
        prompter.assert_exhausted()


@pytest.fixture
def scripted_model(caplog: pytest.LogCaptureFixture) -> Iterator[MakeScriptedModel]:
    """Build scripted models that do not wait for `delay_ms`; the test fails where a tool raises or a call names no tool that there is.

    It fails, too, where a call has an argument that does not exist (`tool_errors="allow"` turns these three off), where an `expect` does
    not hold, or where replies are left over, each with the reason.
    """
    built: list[ScriptedModel] = []
    allowed: list[str] = []

    async def at_once(_: float) -> None:
        """Wait for nothing."""

    def build(replies: Entries = (), inquiries: Entries = (), *, tool_errors: ToolErrors = "raise") -> ScriptedModel:
        allowed.append(tool_errors)
        built.append(mt.ScriptedModel(replies, inquiries, sleep=at_once))
        return built[-1]

    yield build
    problems = [problem for model in built for problem in model.problems()]
    if "allow" not in allowed:
        problems += [problem for model in built for problem in model.misspelt()]
        problems += [record.getMessage() for record in caplog.get_records("call") if record.name == "midturn.tools"]
    if problems:
        raise AssertionError("The scripted model: " + "\n".join(problems))


@pytest.fixture(name="clock")
def moved_clock() -> Iterator[Clock]:
    """Move the clock of midturn: `clock.pass_(hours=3)`."""
    with testing.Clock().moved() as clock:
        yield clock


@pytest.fixture
def recorded_pairs() -> RecordedPairs:
    """Return what a conversation recorded about its questions, as values to compare."""
    return testing.recorded_pairs


@pytest.fixture
def assert_answers() -> AssertAnswers:
    """Fail unless exactly these questions were answered, in this order, with these answers."""
    return testing.assert_answers
