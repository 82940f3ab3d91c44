"""Pytest plugin: fixtures for every project in which midturn is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

import midturn as mt
from midturn import testing

if TYPE_CHECKING:  # pytest loads the plugin in every project, so it must be imported quickly
    from midturn.models.scripted import ScriptedModel
    from midturn.testing.clock import Clock
    from midturn.testing.fixtures import (
        AssertAnswers,
        Entries,
        MakeScriptedModel,
        MakeScriptedPrompter,
        RecordedPairs,
        ToolErrors,
    )
    from midturn.testing.prompter import Scripted, ScriptedPrompter, Unscripted


@pytest.fixture
def scripted_prompter() -> Iterator[MakeScriptedPrompter]:
    """Create scripted prompters. The test fails if a reply is unused or a prompt has no reply."""
    built: list[ScriptedPrompter] = []

    def build(
        replies: Mapping[str, Scripted] | None = None, *, unscripted: Unscripted = "raise"
    ) -> ScriptedPrompter:
        built.append(testing.ScriptedPrompter(replies, unscripted=unscripted))
        return built[-1]

    yield build
    for prompter in built:
        prompter.assert_exhausted()


@pytest.fixture
def scripted_model(caplog: pytest.LogCaptureFixture) -> Iterator[MakeScriptedModel]:
    """Create scripted models that do not wait for `delay_ms`.

    The test fails if replies are left over or an `expect` does not match. It also fails if a tool
    raises an error, or if a call names an unknown tool or argument. `tool_errors="allow"` turns off
    these checks of calls.
    """
    built: list[ScriptedModel] = []
    allowed: list[str] = []

    async def at_once(_: float) -> None:
        pass

    def build(
        replies: Entries = (), inquiries: Entries = (), *, tool_errors: ToolErrors = "raise"
    ) -> ScriptedModel:
        allowed.append(tool_errors)
        built.append(mt.ScriptedModel(replies, inquiries, sleep=at_once))
        return built[-1]

    yield build
    problems = [problem for model in built for problem in model.problems()]
    if "allow" not in allowed:
        problems += [problem for model in built for problem in model.misspelt()]
        problems += [
            record.getMessage()
            for record in caplog.get_records("call")
            if record.name == "midturn.tools"
        ]
    if problems:
        raise AssertionError("The scripted model: " + "\n".join(problems))


@pytest.fixture(name="clock")
def moved_clock() -> Iterator[Clock]:
    """Replace midturn's clock with one that the test advances: `clock.pass_(hours=3)`."""
    with testing.Clock().moved() as clock:
        yield clock


@pytest.fixture
def recorded_pairs() -> RecordedPairs:
    """Return the function `recorded_pairs`, which lists the recorded questions with their
    responses.
    """
    return testing.recorded_pairs


@pytest.fixture
def assert_answers() -> AssertAnswers:
    """Return the function `assert_answers`, which compares the recorded answers."""
    return testing.assert_answers
