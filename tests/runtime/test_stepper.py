"""Each report steps the machine at once. The steps are queued in order for the driver."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from midturn.events.types import ToolCallRequest
from midturn.runtime.stepper import Stepper
from midturn.turn.inputs import CallBegun, CallLeft, Record, TimeRead, TurnRequested
from midturn.turn.settings import TurnSettings
from midturn.turn.turn import Turn


def stepper(turn: Turn | None = None) -> Stepper:
    turn = turn or Turn(TurnSettings(tools={}), map(str, count(1)))
    return Stepper(turn, lambda: TimeRead("2026-01-01T00:00:00Z"))


def left(*calls: str) -> list[CallLeft]:
    return [CallLeft(call) for call in calls]


def test_steps_are_returned_in_the_order_of_reports() -> None:
    asyncio.run(_in_order())


async def _in_order() -> None:
    under_test = stepper()
    reader = asyncio.create_task(under_test.next())
    await asyncio.sleep(0)
    for happened in left("a", "b"):
        under_test.report(happened)
    assert [(await reader).happened, (await under_test.next()).happened] == left("a", "b")


def test_cancelling_a_reader_loses_no_step() -> None:
    asyncio.run(_cancelled())


async def _cancelled() -> None:
    under_test = stepper()
    reader = asyncio.create_task(under_test.next())
    await asyncio.sleep(0)
    reader.cancel()
    under_test.report(CallLeft("a"))
    await asyncio.wait([reader])
    assert (await under_test.next()).happened == CallLeft("a")


def test_the_stepper_is_not_idle_before_nested_tasks_report() -> None:
    asyncio.run(_coming())


async def _coming() -> None:
    under_test = stepper()

    async def report() -> None:
        under_test.report(CallLeft("a"))

    async def begin() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(report())

    assert await under_test.wait_until_idle()
    begun = asyncio.gather(begin())
    assert not await under_test.wait_until_idle()
    await begun


def test_a_report_steps_the_machine_before_effects_are_performed() -> None:
    turn = Turn(TurnSettings(tools={}), map(str, count(1)))
    under_test = stepper(turn)
    under_test.report(TurnRequested("Go"))
    assert turn.record.started
    assert [step.happened for step in under_test.taken()] == [TurnRequested("Go")]
    assert under_test.taken() == []


def test_a_bug_in_the_machine_is_raised_in_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise AssertionError("a defect")

    monkeypatch.setattr(Turn, "step", broken)
    under_test = stepper()
    under_test.report(CallLeft("a"))
    (step,) = under_test.taken()
    assert str(step.defect) == "a defect"


def test_a_report_inside_a_step_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    under_test = stepper()

    def reports(*_: object) -> None:
        under_test.report(CallLeft("b"))

    monkeypatch.setattr(Turn, "step", reports)
    under_test.report(CallLeft("a"))
    (step,) = under_test.taken()
    assert "inside a step" in str(step.defect)


def test_a_report_from_another_thread_is_refused() -> None:
    async def play() -> None:
        under_test = stepper()
        with pytest.raises(AssertionError, match="thread of the event loop"):
            await asyncio.to_thread(under_test.report, CallBegun("1", "send", {}))
        assert under_test.taken() == []

    asyncio.run(play())


def test_an_input_after_the_end_of_the_driver_is_ignored() -> None:
    turn = Turn(TurnSettings(tools={}), map(str, count(1)))
    under_test = stepper(turn)
    under_test.close()
    under_test.report(TurnRequested("Go"))
    assert not turn.record.started
    assert under_test.taken() == []


def test_a_turn_without_deadlines_is_not_told_the_time() -> None:
    under_test = stepper()
    for happened in (TurnRequested("Go"), CallBegun("1", "send", {})):
        under_test.report(happened)
    steps = under_test.taken()
    assert [type(step.happened).__name__ for step in steps] == ["TurnRequested", "CallBegun"]
    recorded = [
        effect.event for step in steps for effect in step.effects if isinstance(effect, Record)
    ]
    assert any(isinstance(event, ToolCallRequest) for event in recorded)
