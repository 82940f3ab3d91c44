"""Who asks: agents of other people, by a hook. Each waits in a thread of its own for what it is told."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Never
from unittest.mock import patch

from midturn.clock import SYSTEM
from midturn.foreign import room
from midturn.foreign.clients import AGENTS
from midturn.store.file_store import FileStore
from midturn.store.lock import mark
from support.hook_runs import CLAUDE_ALONE, HookRuns
from support.stories.outcome import OPEN, Outcome, outcome_of
from support.stories.people import StorePerson
from support.stories.scene import Scene

_PATIENCE = 60.0


class OtherAgent:
    """An agent that asks once, and waits; `told` is what it heard."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        self.scene = scene
        self.store = FileStore(directory / "store")
        self.told = ""
        self.waiting = threading.Thread(target=self._wait, daemon=True)

    async def ask(self) -> str:
        """Ask; return the words that came back."""
        raise NotImplementedError

    @classmethod
    def hears(cls, outcome: Outcome) -> str:
        """Say what it hears where our own model would read `outcome.words`: the one rule of this agent."""
        raise NotImplementedError

    def begin(self) -> None:
        """Ask, and wait."""
        self.waiting.start()

    def go_on(self) -> None:
        """It goes on by itself."""

    def again(self) -> None:
        """It waits, and asks nothing a second time."""

    def change(self) -> None:
        """It waits, and asks nothing else."""

    def die(self) -> None:
        """Its death, and what it does when it is back, are tests of its own."""
        raise NotImplementedError

    begin_apart = end_apart = die

    def outcome(self) -> Outcome:
        """Wait until it was told something; say what is on record, and what it heard."""
        self.end()
        (conversation,) = self.store.ids_sync()
        found = outcome_of([event.to_json() for event in self.store.read_sync(conversation).events])
        assert found.end != OPEN
        return Outcome(found.record, (self.told,), found.end)

    def end(self) -> None:
        """Wait until it was told something."""
        self.waiting.join(_PATIENCE)
        assert not self.waiting.is_alive()

    def _wait(self) -> None:
        self.told = asyncio.run(self.ask())


class LatePerson(StorePerson):
    """Answers by `store.answer`; who comes late comes when the agent has been told."""

    def __init__(self, asker: OtherAgent) -> None:
        super().__init__(asker.store)
        self.asker = asker

    def refusal(self, id: str) -> str:
        """Say yes, after that."""
        self.asker.end()
        return super().refusal(id)

    def tries(self, id: str) -> str:
        """Say yes before that."""
        return super().refusal(id)


class HookedAgent(OtherAgent):
    """An agent whose hook asks for a permission, with nobody at its terminal."""

    agent: ClassVar[str]
    event: ClassVar[str] = "PermissionRequest"
    takes_arguments: ClassVar[bool] = False

    async def ask(self) -> str:
        """Run its hook."""
        runs = HookRuns(self.store, AGENTS[self.agent], CLAUDE_ALONE, process=mark(os.getpid()))
        with patch.object(room, "_above", _no_agent):
            return json.dumps(await runs.run(self.document(), SYSTEM, wait=_PATIENCE))

    @classmethod
    def hears(cls, outcome: Outcome) -> str:
        """Say what the agent hears of a decision about its call."""
        ((decision,), (words,)) = outcome.record, outcome.words
        _, state, *_ = decision.split()
        if state == "approved":
            return json.dumps(cls.allowed())
        if state == "skipped":
            return json.dumps(cls.denied(f"The user said no: {json.loads(words.partition('Reason: ')[2])}"))
        edited = json.loads(decision.removeprefix("run: edited to ").removesuffix(" by user"))
        if cls.takes_arguments:
            return json.dumps(cls.allowed(updatedInput=edited))
        only = "The user allows this call only with other arguments. Call the tool again with exactly these: "
        return json.dumps(cls.denied(only + json.dumps(edited, separators=(",", ":"))))

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """Return a yes."""
        return _permission("allow", **more)

    @classmethod
    def denied(cls, message: str) -> Any:
        """Return a no."""
        return _permission("deny", message=message)

    def document(self) -> dict[str, Any]:
        """Return what the agent says to its hook."""
        call: dict[str, Any] = {"tool_name": "deploy", "tool_input": self.scene.arguments}
        return {"hook_event_name": self.event, "session_id": "s1", "cwd": "/", **call}


class Claude(HookedAgent):
    """Claude Code."""

    agent = "claude"
    takes_arguments = True


class Codex(HookedAgent):
    """Codex."""

    agent = "codex"


class Gemini(HookedAgent):
    """Gemini CLI."""

    agent, event = "gemini", "BeforeTool"

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """Its yes is silence."""
        assert not more

    @classmethod
    def denied(cls, message: str) -> Any:
        """Its no has words of its own."""
        return {"decision": "deny", "reason": message}


class Qwen(HookedAgent):
    """Qwen Code."""

    agent = "qwen"
    takes_arguments = True


class Copilot(HookedAgent):
    """Copilot CLI."""

    agent = "copilot"

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """Its decision stands alone."""
        return {"behavior": "allow", **more}

    @classmethod
    def denied(cls, message: str) -> Any:
        """So does its no."""
        return {"behavior": "deny", "message": message}

    def document(self) -> dict[str, Any]:
        """Its names are others."""
        return {"hookName": "permissionRequest", "sessionId": "s1", "toolName": "deploy", "toolInput": self.scene.arguments}


def _permission(behavior: str, **said: Any) -> Any:
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": behavior, **said}}}


def _no_agent(*_: object) -> Iterator[Never]:
    return iter(())
