"""Runs an agent with no one at its terminal, in whatever protocol it speaks: what it asks waits in the inbox."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from midturn.errors import MidturnError
from midturn.events.open_question import Asker
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import Room
from midturn.integrations.hooks.external_calls import Errands, Rules, ask_always
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere, FormCompleted, Refused, RepliedTo, TurnStopped
from midturn.ports import Clock
from midturn.security.process_ancestry import VARIABLE
from midturn.stores.lock import mark
from midturn.stores.store import ConversationStore

# ----------------------------------------------------------------------------------------------------------------------
# An agent that runs as a child of ours, and is spoken with over its standard streams


_LONGEST = 64 * 1024 * 1024  # bytes of one message: a result may carry pictures
_PATIENCE = 5.0
_PIECE = 64 * 1024


class AgentFailed(MidturnError):  # noqa: N818  it says what happened
    """The agent cannot be run, or went away; the message says what is known."""


async def started(command: Sequence[str], cwd: Path) -> asyncio.subprocess.Process:
    """Start an agent in a process group of its own.

    Raises:
        AgentFailed: It cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, VARIABLE: Path(command[0]).name}
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=environment, limit=_LONGEST, start_new_session=True
        )
    except OSError as error:
        raise AgentFailed(f"{command[0]} cannot be started: {error.strerror or error}.") from error


async def relayed(stream: asyncio.StreamReader | None, complain: Callable[[str], None]) -> None:
    """Hand on what an agent writes to its standard error, until that is closed: the terminal is not its own."""
    decoder = getincrementaldecoder("utf-8")("replace")
    while stream and (chunk := await stream.read(_PIECE)):
        complain(decoder.decode(chunk))


async def ended(process: asyncio.subprocess.Process) -> None:
    """Let an agent end, now that no one speaks with it, with everything that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _PATIENCE)


class AgentTalk(Protocol):
    """An agent as its protocol reaches it. What it asks comes in while a prompt is under way.

    Its methods raise `ConnectionError` once the agent is gone.
    """

    @property
    def unsaid(self) -> Unsaid:
        """Everything the agent has still to be told."""
        ...

    async def begin(self) -> None:
        """Begin a session, or go on with one."""
        ...

    async def prompt(self, prompt: str) -> str:
        """Have a turn; return how it ended, as the protocol says it."""
        ...

    async def close(self) -> None:
        """Speak with the agent no more."""
        ...


class Headless(Struct, frozen=True, kw_only=True):
    """An agent to run: `command` starts it in `cwd`; its questions go into `store`.

    `say` prints what it says, `complain` what it writes to its standard error.
    """

    command: Sequence[str]
    cwd: Path
    store: ConversationStore
    clock: Clock
    say: Callable[[str], None]
    complain: Callable[[str], None]
    rules: Rules = ask_always

    async def run(self, speak: Callable[[Process], AgentTalk], prompt: str, completed: str) -> str | None:
        """Run one prompt to its end; return how the last turn ended, as the protocol says it, or None where a person has ended it.

        What people said with a no cannot be sent with it: it is the next prompt, where the turn before ended as `completed`.

        Raises:
            AgentFailed: It cannot be started, or goes away in the middle. What it asked stays open.
        """
        process = await started(self.command, self.cwd)
        agent = speak(process)
        relaying = asyncio.ensure_future(relayed(process.stderr, self.complain))
        talking = asyncio.ensure_future(_until_told(agent, prompt, completed))
        leaving = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({talking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return await asyncio.wait_for(talking, _PATIENCE)  # what it said before it ended is still heard
        except (ConnectionError, TimeoutError) as error:
            await asyncio.wait({leaving}, timeout=_PATIENCE)
            how = f"ended (status {leaving.result()})" if leaving.done() else "hung up"
            raise AgentFailed(f"{self.command[0]} {how} before its turn did. What it asked stays open.") from error
        finally:
            for task in (talking, leaving):
                task.cancel()
            await asyncio.gather(talking, leaving, return_exceptions=True)
            await agent.close()
            await ended(process)
            await asyncio.wait({relaying}, timeout=_PATIENCE)
            relaying.cancel()


class Inbox:
    """The questions of one process that we run, on their way into the store."""

    def __init__(self, run: Headless, process: Process) -> None:
        self._run = run
        self._agent = mark(process.pid)
        self._room = Room()

    def errands(self, asker: Asker) -> Errands:
        """Return what asks for the agent; of `asker`, which processes those are is filled in here."""
        cwd = str(self._run.cwd.absolute())
        named = structs.replace(asker, cwd=cwd, process=mark(os.getpid()), serves=self._agent, itself=self._agent)
        return Errands(self._run.store, named, self._run.clock, self._room, self._run.rules)


class Unsaid:
    """Words that a protocol cannot carry with a decision: the agent hears them with its next prompt.

    That is what people said; and once in a run, what no one was asked about, for agents tell their models in such a case that the user has
    refused. An agent that asks without end is not told so without end.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        """Whether a person has ended the turn: nothing is to be said any more, whatever the agent makes of that."""
        self._words: list[str] = []
        self._unasked: dict[str, str] = {}
        self._has_told = False

    def keep(self, asked: str, outcome: Decided | None) -> None:
        """Keep what was said about something that was asked."""
        match outcome:
            case Refused(reason=reason, rule=rule) if reason or rule:
                self._words.append(model_messages.told(asked, outcome))
            case RepliedTo() | Approved(arguments=dict()):
                self._words.append(model_messages.told(asked, outcome))
            case FormCompleted(reasons=reasons) if reasons:
                self._words.append(model_messages.added(asked, [*reasons.values()]))
            case TurnStopped():
                self.is_stopped = True
            case None | Refused() | Approved() | FormCompleted() | DecidedElsewhere():
                pass

    def keep_unasked(self, asked: str, why: str) -> None:
        """Keep that no one was asked about something, and why."""
        self._unasked[asked] = why

    def take(self) -> str:
        """Return all that was kept, and keep it no more."""
        said, self._words = self._words, []
        if self._unasked and not self._has_told:
            said.append(model_messages.unasked([*self._unasked], next(iter(self._unasked.values()))))
            self._has_told = True
        return "\n".join(said)


async def _until_told(agent: AgentTalk, prompt: str, completed: str) -> str | None:
    """Prompt until nothing that a person said is left to be told, or a person has ended the turn."""
    await agent.begin()
    ended = await agent.prompt(prompt)
    while ended == completed and not agent.unsaid.is_stopped and (said := agent.unsaid.take()):
        ended = await agent.prompt(said)
    return None if agent.unsaid.is_stopped else ended
