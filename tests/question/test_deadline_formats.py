"""Formats of a deadline: seconds, a duration, a `timedelta`, or a point in time.

Everything else is rejected with a list of the allowed formats.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import midturn as mt
from support.agents import careful

HERE = timezone(timedelta(hours=2))
LENGTHS: list[tuple[Any, float]] = [
    (10, 10),
    (1.5, 1.5),
    ("2h", 7_200),
    ("90s", 90),
    (timedelta(minutes=3), 180),
    (31_536_000, 31_536_000),
]
WRONG: list[Any] = [
    0, -5, 31_536_001, True, float("nan"), float("inf"), 1e308, 10**400, 10**5_000,
    "soon", "", "0s", "400d", "2 h", [], {}, object(), 5 + 1j, b"2h",
    timedelta(0), timedelta(microseconds=1), timedelta(days=366), timedelta(days=99_999_999), timedelta.min,
]  # fmt: skip
NO_MOMENTS: list[Any] = [
    datetime(2026, 1, 1),  # noqa: DTZ001  it has no zone
    datetime.max,  # noqa: DTZ901  nor has this
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    "2026-12-01",
    "2026-12-01T00:00",
]


def add(left: int) -> int:
    """Add."""
    return left


def built(**more: Any) -> mt.Question[str]:
    """Return a question that is made without a constructor."""
    return mt.Question(id="go", text="Go?", answer_type=mt.TextType(), **more)


REFUSED = (
    r"/deadline: .* is not a valid deadline\. Give seconds from 1 to 31,536,000 .*a `datetime` with"
    r" a time zone"
)
WAYS: list[Callable[[Any], mt.Question[Any]]] = [
    lambda deadline: mt.Question.boolean("go", "Go?", deadline=deadline),
    lambda deadline: mt.Question.select("go", "Go?", ["a", "b"], deadline=deadline),
    lambda deadline: mt.Question.multi_select("go", "Go?", ["a", "b"], deadline=deadline),
    lambda deadline: mt.Question.text("go", "Go?", deadline=deadline),
    lambda deadline: mt.Question.secret("go", "Go?", deadline=deadline),
    lambda deadline: mt.Question.schema("go", "Go?", {"type": "integer"}, deadline=deadline),
    lambda deadline: built(deadline=deadline),
]


@pytest.mark.parametrize("ask", WAYS)
def test_every_format_of_a_deadline_works_for_every_question(
    ask: Callable[[Any], mt.Question[Any]],
) -> None:
    for given, seconds in LENGTHS:
        assert (ask(given).deadline_seconds, ask(given).deadline) == (seconds, None)
    for moment in (
        datetime(2026, 12, 1, 2, tzinfo=HERE),
        "2026-12-01T00:00:00Z",
        datetime(2026, 12, 1, tzinfo=UTC),
    ):
        assert (ask(moment).deadline_seconds, ask(moment).deadline) == (
            None,
            "2026-12-01T00:00:00.000000Z",
        )


@pytest.mark.parametrize("ask", WAYS)
def test_other_values_are_refused_with_the_allowed_formats(
    ask: Callable[[Any], mt.Question[Any]],
) -> None:
    for wrong in [*WRONG, *NO_MOMENTS]:
        with pytest.raises(mt.QuestionError, match=REFUSED):
            ask(wrong)


def test_tool_permissions_accept_each_format() -> None:
    for given, seconds in LENGTHS:
        assert mt.tool(run="ask", deadline=given)(add).deadline == timedelta(seconds=seconds)
    wrong: Any
    for wrong in [*WRONG, *NO_MOMENTS, datetime(2026, 12, 1, tzinfo=UTC)]:
        with pytest.raises(
            mt.ConfigError,
            match=(
                r"Tool `add`: deadline=.* must be from 1 second to 365 days\. Give seconds"
                r" .*`timedelta`"
            ),
        ):
            mt.tool(run="ask", deadline=wrong)(add)


class Timed:
    """A tool that no decorator has made."""

    definition = mt.ToolDefinition("timed", "Do it.", {"type": "object"})
    run = "ask"

    def __init__(self, deadline: Any) -> None:
        self.deadline = deadline

    def inquiry_source(self) -> mt.Source:
        """Ask as itself."""
        return mt.Source.tool("timed")

    async def execute(self, run: mt.ToolRun) -> mt.Outcome:
        """Do it."""
        return mt.Success(run.call.name)


def test_tools_of_other_classes_accept_each_format() -> None:
    model = mt.ScriptedModel([{"calls": [{"name": "timed"}]}, {"text": "Done."}])
    for given, _ in LENGTHS:
        (asked,) = mt.Agent(model, tools=[Timed(given)]).run_sync("Go").pending
        assert asked.deadline
    with pytest.raises(mt.ConfigError, match=r"Tool `timed`: deadline='soon'"):
        mt.Agent(model, tools=[Timed("soon")]).run_sync("Go")


def test_a_route_accepts_each_format() -> None:
    for given in ("2h", 10, timedelta(hours=1)):
        model = mt.ScriptedModel([{"calls": [{"name": "careful"}]}, {"text": "Done."}])
        (asked,) = (
            mt.Agent(model, tools=[careful], routes={"careful.confirm": {"deadline": given}})
            .run_sync("Ask")
            .pending
        )
        assert asked.deadline
    for wrong in WRONG:
        with pytest.raises(
            mt.ConfigError,
            match=r"routes\['careful.confirm'\]\['deadline'\]: .* is not a duration\. Give seconds",
        ):
            mt.Agent(
                mt.ScriptedModel([]),
                tools=[careful],
                routes={"careful.confirm": {"deadline": wrong}},
            )


def test_a_deadline_in_json_keeps_its_two_keys() -> None:
    with pytest.raises(
        mt.QuestionError,
        match=(
            r"/deadline: \"2h\" is not a valid time\. Give a date and a time with a time zone .*"
            r" `deadline_seconds`"
        ),
    ):
        mt.Question.from_json(
            {"id": "go", "text": "Go?", "answer_type": {"type": "boolean"}, "deadline": "2h"}
        )
