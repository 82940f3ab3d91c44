"""What has happened in a turn waits, in order, for the one who reads it."""

import asyncio

from midturn.runtime.driver import Happenings
from midturn.turn.step import CallLeft


def left(*calls: str) -> list[CallLeft]:
    return [CallLeft(call) for call in calls]


def test_what_happened_is_taken_in_order_and_waited_for() -> None:
    asyncio.run(_in_order())


async def _in_order() -> None:
    happenings = Happenings()
    reader = asyncio.create_task(happenings.next())
    await asyncio.sleep(0)
    for happened in left("a", "b"):
        happenings.report(happened)
    assert [await reader, await happenings.next()] == left("a", "b")


def test_a_reader_who_is_cancelled_loses_nothing() -> None:
    asyncio.run(_cancelled())


async def _cancelled() -> None:
    happenings = Happenings()
    reader = asyncio.create_task(happenings.next())
    await asyncio.sleep(0)
    reader.cancel()
    happenings.report(CallLeft("a"))
    await asyncio.wait([reader])
    assert await happenings.next() == CallLeft("a")


def test_what_tasks_within_tasks_are_about_to_report_is_coming() -> None:
    asyncio.run(_coming())


async def _coming() -> None:
    happenings = Happenings()

    async def report() -> None:
        happenings.report(CallLeft("a"))

    async def begin() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(report())

    assert not await happenings.are_coming()
    begun = asyncio.gather(begin())
    assert await happenings.are_coming()
    await begun
