"""All servers of a run, in a thread with a loop of their own: they outlive a turn, and the loop that it runs in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from midturn.mcp.connection import Connection, ServerGone
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import SILENCE, McpTool, registered_name
from midturn.ports import Tool


class McpServers:
    """Connected servers. `problems` says why some could not be reached, by their names: their tools are absent."""

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        names: Mapping[str, str] | None = None,
        silence: Mapping[str, float] | None = None,
        reserved: Collection[str] = (),
    ) -> None:
        """Connect to all of them at the same time.

        Args:
            specs: How they are reached.
            names: Other names for tools, by `<server>_<tool>`.
            silence: How many seconds a tool may be silent, by its name.
            reserved: Names that no tool of a server gets.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp-servers", daemon=True)
        self._thread.start()
        self._connections = [asyncio.run_coroutine_threadsafe(_made(spec), self._loop).result() for spec in specs]
        self.problems: dict[str, str] = {}
        self.tools: dict[str, list[Tool]] = {spec.name: [] for spec in specs}
        """By the name of their server."""
        self.left_out: dict[str, list[str]] = {}
        """By the name of their server, the tools whose names are reserved, or taken by another tool."""
        self._start(names or {}, silence or {}, set(reserved))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave all of them."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._closed(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _start(self, names: Mapping[str, str], silence: Mapping[str, float], taken: set[str]) -> None:
        starting = [(one, asyncio.run_coroutine_threadsafe(one.start(), self._loop)) for one in self._connections]
        for connection, started in starting:
            try:
                started.result()
            except ServerGone as gone:
                self.problems[connection.spec.name] = str(gone)
                continue
            for tool in connection.tools:
                known = registered_name(connection.spec.name, tool.name)
                name = names.get(known, known)
                if name in taken:
                    self.left_out.setdefault(connection.spec.name, []).append(name)
                    continue
                taken.add(name)
                self.tools[connection.spec.name].append(McpTool(connection, tool, name, self._loop, silence.get(name, SILENCE)))

    async def _closed(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections), return_exceptions=True)


async def _made(spec: ServerSpec) -> Connection:
    """Make a connection in the loop that it belongs to."""
    return Connection(spec)
