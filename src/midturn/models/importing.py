"""Loading a heavy module in a thread, while the event loop runs on."""

from __future__ import annotations

import asyncio
import threading
from importlib import import_module
from types import ModuleType

_LOADED: dict[str, ModuleType] = {}  # what is still loading stands in `sys.modules` already, but not here


async def imported_in_thread(name: str) -> ModuleType:
    """Import a module in a thread that nobody waits for: whoever stops waiting, with Ctrl-C, leaves at once.

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
