"""Synchronous forms of the store's methods, for programs without an event loop and for other
threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S")


def sync_form(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    run: Callable[[S, str, Coroutine[Any, Any, Any]], Any],
) -> Callable[Concatenate[S, P], T]:
    """Return the synchronous form of an async method, for programs without an event loop. The form
    calls `run` with the object, the method's name, and the coroutine.
    """
    name = method.__name__

    @wraps(method)
    def form(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self, name, getattr(self, name)(*args, **kwargs))

    form.__name__, form.__qualname__ = f"{name}_sync", f"{method.__qualname__}_sync"
    summary = " ".join((method.__doc__ or "").partition("\n\n")[0].split())
    form.__doc__ = f"{summary} See `{name}`; this form is for programs without an event loop."
    return form


def refuse_inside_a_loop(name: str, instead: str) -> None:
    """Raise an error if this thread runs an event loop, which the function `name` would block.

    Raises:
        RuntimeError: A loop is running in this thread.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:  # noqa: SLF001  documented for such uses
        raise RuntimeError(
            f"`{name}` would block the event loop that is running in this thread. Use `{instead}`."
        )


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion without an event loop. The coroutine may only make short
    pauses.

    Raises:
        RuntimeError: The coroutine waits for something that needs an event loop.
    """
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("The coroutine waits for something that needs an event loop.")


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion in a new event loop."""
    with keeper(needs_loop=True) as run:
        return run(work)


@contextmanager
def keeper(*, needs_loop: bool) -> Generator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Yield a function that runs coroutines to completion.

    If the coroutines need an event loop, they share one loop.
    """
    if not needs_loop:
        yield drive
        return
    import asyncio  # programs that need no loop do not import it

    with asyncio.Runner() as runner:
        yield runner.run
