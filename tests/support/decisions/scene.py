"""A call that only certain people may decide, in a store on disk, and what the log records
about it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import msgspec

import midturn as mt
from midturn.events.types import (
    Approval,
    InquiryAnswered,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    Vote,
)
from midturn.question.json_value import Json, members
from midturn.stores.store import ConversationStore
from support.cli import CommandLine, asks, calls
from support.hooks import until
from support.stories.askers import ForeignLoop
from support.stories.scene import Scene

STAGING, PRODUCTION, SHARED, THEIRS = "staging", "production", "shared", "theirs"
"""Environments. Anyone may approve the first, two of bo and carl the second, ana and bo
together the third, only bo the fourth.
"""
_PEOPLE = {
    PRODUCTION: mt.People(ask=["ops"], only=True, approvals=2, members={"ops": ["bo", "carl"]}),
    SHARED: mt.People(
        ask=["team"],
        only=True,
        approvals=2,
        members={"team": ["ana", "bo"]},
        logins={"ana": ["a.smith"]},
    ),
    THEIRS: mt.People(ask=["bo"], only=True),
}


def _rule(arguments: Json, _context: object) -> mt.People | Literal["ask"]:
    env = str(members(arguments).get("say"))
    people = next((people for name, people in _PEOPLE.items() if env.startswith(name)), None)
    return "ask" if people is None else people


@mt.tool(run=_rule)
async def deploy(say: str) -> str:
    """Deploy."""
    return say


class Call:
    """One call of `deploy` by an agent of a program. Its turn waits in a store or for a
    prompter.
    """

    def __init__(self, directory: Path, env: str, prompter: mt.Prompter | None = None) -> None:
        self.address = str(directory / "store")
        self.store: ConversationStore = mt.open_store(self.address)
        model = mt.ScriptedModel(
            [{"calls": [{"name": "deploy", "arguments": {"say": env}}]}, {"text": "Done."}]
        )
        self.agent = mt.Agent(
            model, tools=[deploy], store=self.store, prompter=prompter, detached="defer"
        )
        self.conversation = ""

    def begin(self) -> None:
        """Start the call; return when the turn is suspended or has ended."""
        self.conversation = self.agent.run_sync("Go").conversation

    def question(self) -> mt.OpenQuestion:
        """Wait until the call waits for a decision; return the question."""
        return until(self.store.pending_sync, bool)[0]

    def is_open(self) -> bool:
        return bool(self.store.pending_sync())

    def go_on(self) -> None:
        """Continue the turn until it ends or waits again, as a worker does."""
        asyncio.run(self._go_on())

    async def _go_on(self) -> None:
        if await self.store.ready():
            await self.agent.resume(self.conversation, prompter=None)

    def answer(self, user: str, **said: object) -> None:
        """Answer as another user, who has seen the current call."""
        question = self.question()
        asyncio.run(self.store.answer(question.id, user=user, digest=question.digest, **said))  # type: ignore[arg-type]
        self.go_on()

    # Recorded events
    # ----------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[mt.events.Event]:
        return list(self.store.read_sync(self.conversation or self.store.ids_sync()[-1]).events)

    @property
    def ran(self) -> list[str]:
        """The last line of the tool's result, which follows a note about an edit, or nothing
        if it did not run.
        """
        ended = [
            event
            for event in self.events
            if isinstance(event, ToolCallResponse) and not event.is_error
        ]
        return [event.content.rpartition("\n")[2] for event in ended]

    @property
    def votes(self) -> list[str]:
        """Users who have said yes."""
        return [
            event.answered_by.user or ""
            for event in self.events
            if isinstance(event, Vote) and event.answered_by and event.answer
        ]

    @property
    def deciders(self) -> list[str]:
        """Users who have decided the call."""
        decisions = [
            event
            for event in self.events
            if isinstance(event, InquiryAnswered)
            or (isinstance(event, Approval) and event.state != "waiting")
        ]
        return [event.answered_by.user or "" for event in decisions if event.answered_by]

    @property
    def has_ended(self) -> bool:
        return any(isinstance(event, TurnEnd) for event in self.events)


_CONFIGURATION = """
prompt.settle_ms = 0
[people.ana]
logins = ["a.smith"]
[people.bo]
[people.carl]
[groups.ops]
members = ["bo", "carl"]
[groups.team]
members = ["ana", "bo"]
[user]
name = "ana"
"""
_RULES = f"""
[[conversation.tools.deploy.rules]]
when.say = "{PRODUCTION}"
ask = ["ops"]
only = true
approvals = 2
[[conversation.tools.deploy.rules]]
when.say = "{SHARED}*"
ask = ["team"]
only = true
approvals = 2
[[conversation.tools.deploy.rules]]
when.say = "{THEIRS}"
ask = ["bo"]
only = true
"""


class ConfiguredCall(Call):
    """The same call by the configured assistant. The user is ana."""

    def __init__(self, directory: Path, env: str) -> None:
        self.user = CommandLine(directory)
        self.user.configure(_CONFIGURATION)
        self.user.asker(run="ask", detached={"run": "defer"})
        with self.user.config.open("a") as file:
            file.write(_RULES)
        self.script = self.user.script(calls("deploy", say=env), {"text": "Done."})
        self.conversation = ""
        self.address = str(self.user.store)

    @property
    def store(self) -> ConversationStore:  # type: ignore[override]
        return mt.open_store(self.address)

    def begin(self) -> None:
        """Start the call without a terminal."""
        assert self.user.run("query", "-m", self.script, "--defer", "Go").status == 3

    def go_on(self) -> None:
        """Continue the turn as far as possible."""
        self.user.run("resume", "--ready")


class CallOfAnotherAgent(ConfiguredCall):
    """The same call by an external agent, which runs the approved call itself."""

    def __init__(self, directory: Path, env: str, agent: str) -> None:
        super().__init__(directory, env)
        rules = self.user.config.read_text().replace(
            "conversation.tools.deploy.rules", f"agents.{agent}.tools.deploy.rules"
        )
        self.user.config.write_text(rules)

    @property
    def ran(self) -> list[str]:
        """The calls that the agent was allowed to run."""
        made = {
            event.event_id: event.arguments
            for event in self.events
            if isinstance(event, ToolCallRequest)
        }
        allowed = [
            event
            for event in self.events
            if isinstance(event, Approval) and event.state in ("approved", "edited")
        ]
        return [
            str(
                members(event.arguments if event.state == "edited" else made[event.call]).get("say")
            )
            for event in allowed
        ]


class AskedCall(Call):
    """A call of another framework's loop, whose tool asks certain people a yes/no question."""

    def __init__(self, directory: Path, env: str, loop: type[ForeignLoop]) -> None:
        people = {name: value for name, value in msgspec.to_builtins(_PEOPLE[env]).items() if value}
        self.loop = loop(Scene(ask=[asks("sure", "Deploy?", people=people)]), directory)
        self.conversation = self.loop.conversation
        self.address = str(directory / "store")

    @property
    def store(self) -> ConversationStore:  # type: ignore[override]
        return self.loop.store

    def begin(self) -> None:
        self.loop.begin()

    def go_on(self) -> None:
        """Enter the loop again."""
        self.loop.go_on()

    def answer(self, user: str, **said: object) -> None:
        """Answer as another user."""
        del said
        asyncio.run(self.store.answer(self.question().id, True, user=user))
        self.go_on()
