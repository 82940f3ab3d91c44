"""What a signal does while a turn runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from midturn.errors import TerminalGone

_T = TypeVar("_T")
DEADLY = (signal.SIGTERM, signal.SIGHUP)


async def with_signals(work: Callable[[], Awaitable[_T]], interrupt: Callable[[], None]) -> _T:
    """Let Ctrl-C end the turn (a second one leaves at once), and a deadly signal leave it open: it can be resumed.

    Raises:
        SystemExit: A signal ended the work; its status is 128 and the signal's number.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    signals: list[signal.Signals] = []

    def leave(number: signal.Signals) -> None:
        signals.append(number)
        task.cancel()

    def stop() -> None:
        loop.add_signal_handler(signal.SIGINT, leave, signal.SIGINT)
        interrupt()

    loop.add_signal_handler(signal.SIGINT, stop)
    for number in DEADLY:
        loop.add_signal_handler(number, leave, number)
    try:
        return await task
    except (asyncio.CancelledError, TerminalGone):
        if signals:
            raise SystemExit(128 + signals[0]) from None
        raise
    finally:
        for number in (signal.SIGINT, *DEADLY):
            loop.remove_signal_handler(number)
