"""The store for programs without an event loop, and for threads beside one."""

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
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]], run: Callable[[S, str, Coroutine[Any, Any, Any]], Any]
) -> Callable[Concatenate[S, P], T]:
    """Return the form of an async method for programs without an event loop; `run` is given the object, the method's name, and the work."""
    name = method.__name__

    @wraps(method)
    def form(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self, name, getattr(self, name)(*args, **kwargs))

    form.__name__, form.__qualname__ = f"{name}_sync", f"{method.__qualname__}_sync"
    form.__doc__ = f"{(method.__doc__ or '').splitlines()[0]} See `{name}`; this form is for programs without an event loop."
    return form


def refuse_inside_a_loop(name: str, instead: str) -> None:
    """Say what to do in place of a function that would block the loop that is running.

    Raises:
        RuntimeError: One is running in this thread.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:  # noqa: SLF001  documented for such uses
        raise RuntimeError(f"`{name}` would block the event loop that is running in this thread. Use `{instead}`.")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what waits for nothing but short pauses, here and now.

    Raises:
        RuntimeError: It waits for something that only an event loop can wait for.
    """
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("This waits for something that only an event loop can wait for.")


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what needs an event loop, in one of its own."""
    with keeper(needs_loop=True) as run:
        return run(work)


@contextmanager
def keeper(*, needs_loop: bool) -> Generator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Return how several things are run to their ends, one after the other: in the same loop, where they need one."""
    if not needs_loop:
        yield drive
        return
    import asyncio  # who needs no loop does not pay for it

    with asyncio.Runner() as runner:
        yield runner.run
