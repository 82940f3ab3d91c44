"""Runs hooks in this process, for tests that need neither a separate process nor real time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from midturn.events.open_question import ProcessMark
from midturn.integrations.hooks.external_call import Quota
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.hook import HookRun
from midturn.integrations.hooks.hook_agent import HookAgent, HookOutput, asker_of
from midturn.ports import Clock
from midturn.question.json_value import JsonObject
from midturn.stores.opening import FileStore
from support.clocks import FakeClock

CLAUDE_UNATTENDED = {"CLAUDE_CODE_SESSION_ATTENDED": "0"}
"""The environment that Claude Code gives its hooks if nobody is at its terminal."""


_GONE = ProcessMark(
    pid=os.getpid(), started="before"
)  # a process that does not exist: a hook that has ended


class HookRuns:
    """Runs the hooks of one agent to their ends. `environment` is what the agent gives them.

    `room` is the quota shared by runs of one process. `process` marks the process that waits for
    the answers; by default it has ended.
    """

    def __init__(
        self,
        store: FileStore,
        agent: HookAgent,
        environment: Mapping[str, str],
        room: Quota | None = None,
        process: ProcessMark = _GONE,
    ) -> None:
        self.store = store
        self._agent = agent
        self._environment = environment
        self._room = room
        self._process = process

    async def run(self, document: JsonObject, clock: Clock | None = None, wait: float = 1) -> Any:
        """Run a hook; return what it printed, or None."""
        said: list[HookOutput] = []
        ticking = clock or FakeClock()
        asker = replace(asker_of(self._agent, document, self._environment), process=self._process)
        calls = ExternalCallService(self.store, asker, ticking, self._room or Quota())
        going = HookRun(
            agent=self._agent,
            document=document,
            occasion=self._agent.read(document, self._environment),
            calls=calls,
            clock=ticking,
            wait=wait,
            say=said.append,
        )
        await going.go()
        return said[0].document
