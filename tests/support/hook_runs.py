"""Runs of a hook in this process, for what depends on neither a process nor a clock of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from midturn.events.open_question import ProcessMark
from midturn.integrations.hooks.external_call import Room
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.hook import HookRun
from midturn.integrations.hooks.hook_agent import HookAgent, Said, asker_of
from midturn.ports import Clock
from midturn.question.json_value import JsonObject
from midturn.stores.opening import FileStore
from support.clocks import FakeClock

CLAUDE_ALONE = {"CLAUDE_CODE_SESSION_ATTENDED": "0"}
"""What Claude Code tells its hooks with nobody at its terminal."""


_GONE = ProcessMark(pid=os.getpid(), started="before")  # a hook that has ended is a process that is gone


class HookRuns:
    """Runs the hooks of one agent, each to its end, as processes of their own do; `environment` is what the agent gives them.

    `room` is what runs share that are one process, `process` what waits for their answers: gone with each run, unless it is said to live.
    """

    def __init__(
        self,
        store: FileStore,
        agent: HookAgent,
        environment: Mapping[str, str],
        room: Room | None = None,
        process: ProcessMark = _GONE,
    ) -> None:
        self.store = store
        self._agent = agent
        self._environment = environment
        self._room = room
        self._process = process

    async def run(self, document: JsonObject, clock: Clock | None = None, wait: float = 1) -> Any:
        """Run one; return what it printed, None where that is nothing."""
        said: list[Said] = []
        ticking = clock or FakeClock()
        asker = replace(asker_of(self._agent, document, self._environment), process=self._process)
        errands = Errands(self.store, asker, ticking, self._room or Room())
        going = HookRun(
            agent=self._agent,
            document=document,
            occasion=self._agent.read(document, self._environment),
            errands=errands,
            clock=ticking,
            wait=wait,
            say=said.append,
        )
        await going.go()
        return said[0].document
