"""Askers: external agents that run as child processes in their own protocols, without a
terminal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import midturn as mt
from midturn.clock import SYSTEM
from midturn.integrations.acp.running import AcpRun
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.codex_server import CodexServer
from midturn.integrations.hooks.headless import Headless
from midturn.integrations.hooks.model_messages import Refused
from midturn.protocol_forms import Outgoing
from support.stories.agents import OtherAgent, reply_in_words
from support.stories.outcome import Outcome
from support.stories.scene import Scene
from support.warm_commands import started_by_others

_SUPPORT = Path(__file__).parents[1]
MESSAGE = "Before I deploy:"


class HeadlessAgent(OtherAgent):
    """An agent that asks what its prompt says and prints what it was told.

    Text that the protocol cannot carry is sent with the next prompt.
    """

    program: ClassVar[str]
    run: ClassVar[Callable[..., Headless]]
    interrupted: ClassVar[str] = ""
    """Text when its turn is ended by a question."""
    permission_ended: ClassVar[str] = ""
    """Text when its turn is ended by a permission request."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory)
        self.directory = directory
        self.is_stopped = False

    async def ask(self) -> str:
        """Run the agent to its end."""
        said: list[str] = []
        command = started_by_others(_SUPPORT / self.program)
        run: Any = type(self).run
        agent = run(
            command=command,
            cwd=self.directory,
            store=self.store,
            clock=SYSTEM,
            say=said.append,
            complain=said.append,
        )
        self.is_stopped = await agent.go(json.dumps(self.document())) is None
        return "".join(said)

    def outcome(self) -> Outcome:
        """Return the outcome. If a person ended the turn, the run is over, whatever the agent
        says afterwards.
        """
        found = super().outcome()
        assert self.is_stopped == (found.end == "ended_by_user")
        return found

    def document(self) -> dict[str, Any]:
        """Return what the agent asks: a permission or a form."""
        if self.scene.run == "ask":
            return {"permission": "deploy", "arguments": self.scene.arguments}
        questions = [mt.Question.from_json(question) for question in self.scene.ask]
        return {"form": Outgoing.of(questions).schema, "message": MESSAGE}

    @classmethod
    def text_read(cls, outcome: Outcome) -> str:
        """Return what the agent says it was told."""
        if not outcome.record or outcome.record[0].startswith("run:"):
            return cls.decided(outcome)
        if outcome.end == "ended_by_user":
            return cls.elicited("cancel") + cls.interrupted
        answers, *reasons = outcome.words[0].split("\n")
        given = json.loads(answers)
        if "cancelled" in given:
            return cls.elicited("decline") + cls.next_prompt(
                f"midturn: {cls.named(MESSAGE)}: {reply_in_words(given)}"
            )
        told = cls.elicited("accept", given)
        return told + "".join(
            cls.next_prompt(f"midturn: {cls.named(MESSAGE)}: {reason}") for reason in reasons
        )

    @classmethod
    def decided(cls, outcome: Outcome) -> str:
        """Return what it was told about its call."""
        if outcome.end == "ended_by_user":
            return cls.permission_ended
        ((decision,), (said,)) = outcome.record, outcome.words
        _, state, *_ = decision.split()
        if state == "approved":
            return cls.permitted(is_allowed=True)
        if state == "skipped":
            why = model_messages.refused(Refused(json.loads(said.partition("Reason: ")[2])))
        else:
            why = model_messages.edited(
                json.loads(decision.removeprefix("run: edited to ").removesuffix(" by user"))
            )
        return cls.permitted(is_allowed=False) + cls.next_prompt(f'midturn: "deploy": {why}')

    @classmethod
    def named(cls, message: str) -> str:
        """Return how a later prompt refers to an earlier question."""
        raise NotImplementedError

    @classmethod
    def elicited(cls, action: str, content: dict[str, Any] | None = None) -> str:
        """Return what it was told about its form."""
        raise NotImplementedError

    @classmethod
    def permitted(cls, *, is_allowed: bool) -> str:
        """Return what it was told about its call."""
        raise NotImplementedError

    @classmethod
    def next_prompt(cls, said: str) -> str:
        """Return what it says about a prompt."""
        raise NotImplementedError


class AcpAgent(HeadlessAgent):
    """An agent that uses the Agent Client Protocol."""

    program = "acp_agent.py"
    run = AcpRun
    permission_ended = "permission: cancelled"

    @classmethod
    def named(cls, message: str) -> str:
        return f'"{message}"'

    @classmethod
    def elicited(cls, action: str, content: dict[str, Any] | None = None) -> str:
        return f"form: {action} {content}"

    @classmethod
    def permitted(cls, *, is_allowed: bool) -> str:
        return f"permission: {'yes' if is_allowed else 'no'}"

    @classmethod
    def next_prompt(cls, said: str) -> str:
        return f" | heard: {said}"


class CodexApp(HeadlessAgent):
    """Codex through its app server."""

    program = "codex_app_server.py"
    run = CodexServer
    interrupted = "interrupted"
    permission_ended = json.dumps([{"decision": "cancel"}])

    @classmethod
    def named(cls, message: str) -> str:
        """It names the asking server."""
        return f"The MCP server cloud asks: {message}"

    @classmethod
    def elicited(cls, action: str, content: dict[str, Any] | None = None) -> str:
        return json.dumps([{"action": action, **({} if content is None else {"content": content})}])

    @classmethod
    def permitted(cls, *, is_allowed: bool) -> str:
        return json.dumps([{"decision": "accept" if is_allowed else "decline"}])

    @classmethod
    def next_prompt(cls, said: str) -> str:
        return f"heard: {said}"
