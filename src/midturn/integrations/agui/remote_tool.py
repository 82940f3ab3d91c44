"""A remote agent as a tool.

The call stores its progress (`ToolContext.keep`): the number of its runs, the messages and the
state of the thread, and either the run that is about to be sent, the interrupts of the last run, or
the answer. If its process dies, the call continues from that point when it runs again. Answers from
people are recorded before they are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from midturn.errors import ConfigError
from midturn.integrations.agui.protocol import AguiMessage
from midturn.integrations.agui.remote_answers import AskedAgent
from midturn.integrations.agui.remote_client import (
    DEFAULT_TIMEOUT,
    RemoteAgent,
    RunRequest,
)
from midturn.integrations.agui.remote_interrupts import Interrupt, checked_interrupts
from midturn.integrations.agui.remote_run import (
    Cancelled,
    Failed,
    Interrupted,
    RemoteRun,
    Succeeded,
)
from midturn.integrations.remote_asking import MAX_ROUNDS
from midturn.integrations.remote_http import RemoteError, check_url
from midturn.question.json_value import Json, canonical
from midturn.question.text import cut_to_bytes, single_line
from midturn.tools.asking import ToolContext
from midturn.tools.function import FunctionTool, tool as function_tool
from midturn.tools.returned import Rejected

MAX_ANSWER_BYTES: Final = 64 * 1024
"""Maximum size of the remote agent's answer to the model, in bytes."""
MAX_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Maximum total size of the messages and the state of a thread, in bytes."""
_KEPT: Final = "agui"
_THREAD: Final = "agui_thread"
_PART_LENGTH: Final = 60_000  # characters in a stored part of a thread: at most 256 KiB as JSON


def tool(
    url: str,
    *,
    name: str,
    description: str,
    headers: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> FunctionTool[Any, Any]:
    """Return a tool that sends a message to a remote agent over AG-UI and returns its answer.

    Interrupts of the remote agent become questions of this call. Only a person may answer them, and
    they are never asked for secrets. They can be answered in every interface, and the call
    continues after a restart.

    Args:
        url: Address to which runs are sent. Use `https`, except for agents on this machine.
        name: Name of the tool. Questions show it as the name of the agent that asks.
        description: Description for the model: what the remote agent can do.
        headers: Headers of each request, such as `Authorization`. They are not recorded.
        timeout: Maximum duration of a run, in seconds. Time spent waiting for people does not
            count.

    Raises:
        ConfigError: The address, the name or the timeout is not valid.
    """
    check_url(url)
    if not timeout > 0:
        raise ConfigError(f"`timeout` must be a positive number of seconds, not {timeout!r:.80}.")
    agent = RemoteAgent(url=url, headers=dict(headers or {}), timeout=timeout)

    async def ask_remote(ctx: ToolContext, message: str) -> str:
        try:
            return await _RemoteCall(ctx, agent, name).run(message)
        except RemoteError as error:
            raise Rejected(str(error)) from None

    return function_tool(name=name, description=description)(ask_remote)


class _Progress(Struct, omit_defaults=True):
    """The stored progress of a call.

    Args:
        runs: Number of runs that were started.
        set: Number of the set of parts that contains the thread: 0 or 1.
        parts: Number of parts of the thread.
        entries: Answers in the run that is about to be sent; None if that run has ended.
        interrupts: Open interrupts of the last run.
        answer: The answer of the agent; None if it has not finished.
    """

    runs: int = 0
    set: int = 0
    parts: int = 0
    entries: list[Any] | None = None
    interrupts: list[Interrupt] = []
    answer: str | None = None


class _Thread(Struct):
    messages: Sequence[AguiMessage] = ()
    state: Any = msgspec.field(default_factory=dict[str, Json])


class _RemoteCall:
    """One call of the tool."""

    def __init__(self, ctx: ToolContext, agent: RemoteAgent, name: str) -> None:
        self._ctx = ctx
        self._agent = agent
        self._name = name
        kept = ctx.kept(_KEPT)
        self._progress = _Progress() if kept is None else msgspec.convert(kept, _Progress)
        self._thread = self._kept_thread()

    async def run(self, message: str) -> str:
        """Send the message, ask people about the interrupts, and return the agent's answer.

        Raises:
            Rejected: The run fails or is cancelled, or it exceeds a limit.
            RemoteError: The remote agent cannot be reached, or breaks the protocol.
        """
        if not self._progress.runs:
            key = self._ctx.idempotency_key
            first: AguiMessage = {"id": f"{key}.m", "role": "user", "content": message}
            self._thread.messages = [first]
            await self._begin([])
        while self._progress.answer is None:
            if self._progress.entries is not None:
                await self._send(self._progress.entries)
            else:
                await self._begin(await self._entries())
        return self._progress.answer

    # Runs
    # ----------------------------------------------------------------------------------------------

    async def _begin(self, entries: list[Json]) -> None:
        """Store a run before it is sent."""
        if self._progress.runs > MAX_ROUNDS:
            raise Rejected(f"{self._name} has asked more than {MAX_ROUNDS} times.")
        if not self._progress.runs:
            await self._keep_thread()
        self._progress.runs += 1
        self._progress.entries = entries
        self._progress.interrupts = []
        await self._keep()

    async def _send(self, entries: list[Json]) -> None:
        """Send the stored run, and store its result."""
        key = self._ctx.idempotency_key
        request = RunRequest(
            thread=key,
            run=f"{key}.{self._progress.runs}",
            messages=self._thread.messages,
            state=self._thread.state,
            entries=entries,
        )
        found = [each async for each in self._agent.run(request) if isinstance(each, RemoteRun)]
        await self._take(found[-1])

    async def _take(self, run: RemoteRun) -> None:
        match run.outcome:
            case Succeeded():
                self._progress.answer = answer_of(run, run.outcome, self._name)
            case Interrupted(interrupts):
                self._progress.interrupts = checked_interrupts(interrupts, run.messages)
                self._thread = _Thread(run.messages, run.state)
                await self._keep_thread()
            case Cancelled():
                raise Rejected(f"The run of {self._name} was cancelled there.")
            case Failed(message, code):
                raise Rejected(failure_text(self._name, message, code))
        self._progress.entries = None
        await self._keep()

    async def _entries(self) -> list[Json]:
        """Ask people, and return the answers to all interrupts."""
        asked, number = AskedAgent(self._ctx, self._name), self._progress.runs
        return await asyncio.gather(
            *(
                asked.entry(interrupt, f"ask_{number}_{place}")
                for place, interrupt in enumerate(self._progress.interrupts, 1)
            )
        )

    # Stored progress
    # ----------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        await self._ctx.keep(_KEPT, cast("Json", msgspec.to_builtins(self._progress)))

    async def _keep_thread(self) -> None:
        """Store the messages and the state in parts, because they can be larger than one stored
        value.

        Two sets of parts alternate. `_keep` selects the new set. After a crash before that, the
        earlier set is still complete.
        """
        written = msgspec.json.encode(self._thread)
        if len(written) > MAX_KEPT_BYTES:
            raise Rejected(
                f"The thread of {self._name} has {len(written):,} bytes. At most"
                f" {MAX_KEPT_BYTES:,} can be kept to continue it."
            )
        text, number = written.decode(), 1 - self._progress.set
        parts = [text[at : at + _PART_LENGTH] for at in range(0, len(text), _PART_LENGTH)]
        for place, part in enumerate(parts):
            await self._ctx.keep(f"{_THREAD}_{number}_{place}", part)
        self._progress.set, self._progress.parts = number, len(parts)

    def _kept_thread(self) -> _Thread:
        progress = self._progress
        names = (f"{_THREAD}_{progress.set}_{place}" for place in range(progress.parts))
        written = "".join(str(self._ctx.kept(name)) for name in names)
        return msgspec.json.decode(written, type=_Thread) if written else _Thread()


# Results
# --------------------------------------------------------------------------------------------------


def answer_of(run: RemoteRun, outcome: Succeeded, name: str) -> str:
    """Return the answer of an agent that has finished.

    Args:
        run: The run.
        outcome: Its outcome.
        name: Name of the agent.
    """
    found = run.text if outcome.result is None else canonical(outcome.result).decode()
    shown = cut_to_bytes(found, MAX_ANSWER_BYTES)
    notes = ["[The rest of the answer is left out, because it is too long.]"] * (shown != found)
    if outcome.open_calls:
        calls = ", ".join(single_line(call) for call in outcome.open_calls)
        notes.append(f"[{name} has ended without the results of these calls: {calls}]")
    return "\n\n".join(filter(None, (shown, *notes))) or f"{name} has ended without a text."


def failure_text(name: str, message: str, code: str) -> str:
    """Return the text that describes a failed run to the model."""
    marked = f" ({single_line(code)})" if code else ""
    return f"The run of {name} failed{marked}: {single_line(message) or 'it gave no reason.'}"
