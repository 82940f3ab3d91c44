"""A provider's model, behind our protocol. What it needs is loaded at the first request, beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from midturn.exchange import ModelEvent, ModelRequest
from midturn.models.profiles import ModelSpec

if TYPE_CHECKING:
    from midturn.models.library_connection import ProviderConnection


# ----------------------------------------------------------------------------------------------------------------------
# Loading a heavy module in a thread, while the event loop runs on


_LOADED: dict[str, ModuleType] = {}  # what is still loading stands in `sys.modules` already, but not here


async def imported_in_thread(name: str) -> ModuleType:
    """Import a module in a thread of its own: a wait that is stopped, with Ctrl-C, ends at once.

    (`asyncio.to_thread` will not do: the loop waits for its threads before it ends.)
    """
    if name in _LOADED:
        return _LOADED[name]
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ModuleType] = loop.create_future()

    def finish(module: ModuleType | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if module is not None:
            done.set_result(module)
        elif error is not None:
            done.set_exception(error)

    def load() -> None:
        module, error = None, None
        try:
            module = _LOADED[name] = import_module(name)
        except BaseException as raised:  # noqa: BLE001 (it is raised again, where it is waited for)
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, module, error)

    threading.Thread(target=load, name=f"import {name}", daemon=True).start()
    return await done


class ReachedModel:
    """A model of a provider; `report` hears what the user should know about it. `given` is the library's model, where the program made it.

    It may be used from several event loops, one after the other: each gets its own connection.
    """

    def __init__(self, spec: ModelSpec, report: Callable[[str], None] = lambda _: None, *, given: object = None) -> None:
        self._spec = spec
        self._given = given
        self._report = report
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: ProviderConnection | None = None

    @property
    def name(self) -> str:
        """The model's id, such as `anthropic/claude-haiku-4-5`."""
        return self._spec.id

    async def prepare(self) -> None:
        """Load the provider's library, so that the first request does not wait for it.

        Raises:
            ModelError: The provider cannot be used as it is configured.
        """
        await self._connected()

    async def context_window(self) -> int | None:
        """Return how many tokens the model reads at most; None where that is unknown."""
        return (await self._connected()).profile.context_window

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the answer as it comes.

        Raises:
            ModelError: It failed; the message says what to do, `transient` whether trying again may help.
        """
        connection = await self._connected()
        events = connection.stream(request)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def aclose(self) -> None:
        """Close the connection of this event loop."""
        connection, self._connection = self._connection, None
        if connection is not None and self._loop is asyncio.get_running_loop():
            await connection.aclose()

    async def _connected(self) -> ProviderConnection:
        connections = await imported_in_thread("midturn.models.library_connection")
        loop = asyncio.get_running_loop()
        if self._connection is None or self._loop is not loop:
            self._connection = cast("ProviderConnection", connections.ProviderConnection(self._spec, self._given))
            self._loop = loop
            if self._connection.advice:
                self._report(self._connection.advice)
        return self._connection
