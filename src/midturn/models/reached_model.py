"""A provider's model, behind midturn's interface. The provider's library is imported in a thread,
on the first request.
"""

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


# --------------------------------------------------------------------------------------------------
# Import a slow module in a thread, so that the event loop keeps running


_LOADED: dict[str, ModuleType] = {}  # `sys.modules` also contains modules that are still loading


async def imported_in_thread(name: str) -> ModuleType:
    """Import a module in a daemon thread, so that Ctrl-C ends the wait immediately.

    `asyncio.to_thread` is not suitable, because the event loop waits for its threads before it
    closes.
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
        except BaseException as raised:  # noqa: BLE001 (the awaiting task raises it again)
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, module, error)

    threading.Thread(target=load, name=f"import {name}", daemon=True).start()
    return await done


class LazyProviderModel:
    """A provider's model that connects on first use.

    `report` is called with notices for the user. `given` is the pydantic-ai model, if the program
    created one. The object can be used in several event loops, one after the other; each event loop
    has its own connection.
    """

    def __init__(
        self,
        spec: ModelSpec,
        report: Callable[[str], None] = lambda _: None,
        *,
        given: object = None,
    ) -> None:
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
        """Import the provider's library now, so that the first request does not wait for it.

        Raises:
            ModelError: The provider cannot be used with this configuration.
        """
        await self._connected()

    async def context_window(self) -> int | None:
        """Return the context window in tokens, or None if it is unknown."""
        return (await self._connected()).profile.context_window

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the response as it arrives.

        Raises:
            ModelError: The request failed. The message contains advice, and `transient` says
                whether a retry may help.
        """
        connection = await self._connected()
        events = connection.stream(request)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def aclose(self) -> None:
        """Close the connection of the current event loop."""
        connection, self._connection = self._connection, None
        if connection is not None and self._loop is asyncio.get_running_loop():
            await connection.aclose()

    async def _connected(self) -> ProviderConnection:
        connections = await imported_in_thread("midturn.models.library_connection")
        loop = asyncio.get_running_loop()
        if self._connection is None or self._loop is not loop:
            self._connection = cast(
                "ProviderConnection", connections.ProviderConnection(self._spec, self._given)
            )
            self._loop = loop
            if self._connection.advice:
                self._report(self._connection.advice)
        return self._connection
