"""Runs an agent without a terminal. The agent's questions go to the inbox. Each protocol
implements `AgentSession`.
"""

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
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import Quota
from midturn.integrations.hooks.external_calls import ExternalCallService, Rules, ask_always
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    DecidedElsewhere,
    FormCompleted,
    Refused,
    RepliedTo,
    TurnStopped,
)
from midturn.ports import Clock
from midturn.security.process_ancestry import VARIABLE
from midturn.stores.lock import mark
from midturn.stores.store import ConversationStore

# --------------------------------------------------------------------------------------------------
# An agent that runs as a child process, connected over its standard streams


# maximum size of one message, in bytes; results may contain images
_MAX_MESSAGE_SIZE = 64 * 1024 * 1024
_GRACE_PERIOD = 5.0  # maximum seconds to wait until the agent exits, and for its last output
_CHUNK_SIZE = 64 * 1024


class AgentFailed(MidturnError):  # noqa: N818  named for the event
    """The agent cannot be started, failed, or exited early. The message contains the reason if it
    is known.
    """


async def start_agent(command: Sequence[str], cwd: Path) -> asyncio.subprocess.Process:
    """Start an agent in its own process group.

    Raises:
        AgentFailed: The agent cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, VARIABLE: Path(command[0]).name}
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            env=environment,
            limit=_MAX_MESSAGE_SIZE,
            start_new_session=True,
        )
    except OSError as error:
        raise AgentFailed(f"{command[0]} cannot be started: {error.strerror or error}.") from error


async def relay_stderr(
    stream: asyncio.StreamReader | None, complain: Callable[[str], None]
) -> None:
    """Forward the agent's standard error until it is closed."""
    decoder = getincrementaldecoder("utf-8")("replace")
    while stream and (chunk := await stream.read(_CHUNK_SIZE)):
        complain(decoder.decode(chunk))


async def stop_agent(process: asyncio.subprocess.Process) -> None:
    """Terminate an agent and all processes in its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_PERIOD)


class AgentSession(Protocol):
    """A session with an agent over its protocol. The agent may ask questions while a prompt runs.

    The methods raise `ConnectionError` after the agent exits.
    """

    @property
    def pending_messages(self) -> PendingMessages:
        """Messages that the protocol could not deliver to the agent yet."""
        ...

    async def begin(self) -> None:
        """Start or resume a session."""
        ...

    async def prompt(self, prompt: str) -> str:
        """Run a turn and return its status in the protocol's terms."""
        ...

    async def close(self) -> None:
        """Close the session."""
        ...


class Headless(Struct, frozen=True, kw_only=True):
    """Settings to run an agent. `command` is started in the directory `cwd`. The agent's
    questions are stored in `store`.

    `say` receives the agent's text. `complain` receives the agent's output on standard error.
    """

    command: Sequence[str]
    cwd: Path
    store: ConversationStore
    clock: Clock
    say: Callable[[str], None]
    complain: Callable[[str], None]
    rules: Rules = ask_always

    async def run(
        self, connect: Callable[[Process], AgentSession], prompt: str, completed: str
    ) -> str | None:
        """Run one prompt until the agent is done. Return the status of the last turn, or None if a
        person ended the turn.

        Some protocols cannot transmit the reason for a decision. In that case, the reason is sent
        as the next prompt, after a turn with status `completed`.

        Raises:
            AgentFailed: The agent cannot be started or exits early. Its open questions stay open.
        """
        process = await start_agent(self.command, self.cwd)
        agent = connect(process)
        relay_task = asyncio.ensure_future(relay_stderr(process.stderr, self.complain))
        session_task = asyncio.ensure_future(_run_prompts(agent, prompt, completed))
        exit_task = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({session_task, exit_task}, return_when=asyncio.FIRST_COMPLETED)
            return await asyncio.wait_for(
                session_task, _GRACE_PERIOD
            )  # after the exit, process the messages that are still in the pipe
        except (ConnectionError, TimeoutError) as error:
            await asyncio.wait({exit_task}, timeout=_GRACE_PERIOD)
            how = (
                f"ended (status {exit_task.result()})"
                if exit_task.done()
                else "closed the connection"
            )
            raise AgentFailed(
                f"{self.command[0]} {how} before its turn was complete. Its questions stay open."
            ) from error
        finally:
            for task in (session_task, exit_task):
                task.cancel()
            await asyncio.gather(session_task, exit_task, return_exceptions=True)
            await agent.close()
            await stop_agent(process)
            await asyncio.wait({relay_task}, timeout=_GRACE_PERIOD)
            relay_task.cancel()


class Inbox:
    """Creates the services that store the questions of one agent process."""

    def __init__(self, run: Headless, process: Process) -> None:
        self._run = run
        self._agent = mark(process.pid)
        self._quota = Quota()

    def calls(self, asker: AskingAgent) -> ExternalCallService:
        """Return the service for an agent. `asker` is completed with the directory and the ids of
        the processes.
        """
        cwd = str(self._run.cwd.absolute())
        asking = structs.replace(
            asker, cwd=cwd, process=mark(os.getpid()), serves=self._agent, itself=self._agent
        )
        return ExternalCallService(
            self._run.store, asking, self._run.clock, self._quota, self._run.rules
        )


class PendingMessages:
    """Messages that a protocol cannot transmit with a decision. They are sent as the next prompt.

    There are two kinds. Messages about decisions are always sent. The second kind states that
    a request could not be shown to a person. Without it, the agent would tell its model that the
    user refused the request. It is sent only once per run, because an agent may ask in a loop.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        """Whether a person ended the turn. After that, nothing is sent to the agent."""
        self._messages: list[str] = []
        self._unasked: dict[str, str] = {}
        self._has_reported = False

    def keep(self, asked: str, outcome: Decided | None) -> None:
        """Queue a message about an outcome that the protocol cannot transmit. If a person ended the
        turn, set `is_stopped`.
        """
        match outcome:
            case Refused(reason=reason, rule=rule) if reason or rule:
                self._messages.append(model_messages.outcome_message(asked, outcome))
            case RepliedTo() | Approved(arguments=dict()):
                self._messages.append(model_messages.outcome_message(asked, outcome))
            case FormCompleted(reasons=reasons) if reasons:
                self._messages.append(model_messages.added(asked, [*reasons.values()]))
            case TurnStopped():
                self.is_stopped = True
            case None | Refused() | Approved() | FormCompleted() | DecidedElsewhere():
                pass

    def keep_unasked(self, asked: str, why: str) -> None:
        """Queue a message that a request was not shown to a person, with the reason."""
        self._unasked[asked] = why

    def take(self) -> str:
        """Return all queued messages as one prompt, and clear the queue."""
        said, self._messages = self._messages, []
        if self._unasked and not self._has_reported:
            said.append(
                model_messages.unasked([*self._unasked], next(iter(self._unasked.values())))
            )
            self._has_reported = True
        return "\n".join(said)


async def _run_prompts(agent: AgentSession, prompt: str, completed: str) -> str | None:
    """Prompt the agent until no messages are queued or a person ends the turn."""
    await agent.begin()
    ended = await agent.prompt(prompt)
    while (
        ended == completed
        and not agent.pending_messages.is_stopped
        and (said := agent.pending_messages.take())
    ):
        ended = await agent.prompt(said)
    return None if agent.pending_messages.is_stopped else ended
