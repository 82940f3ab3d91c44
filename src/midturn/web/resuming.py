"""Goes on with turns of which a question was answered, here in the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from midturn.core.reply import Answered
from midturn.core.stream import OpenQuestion
from midturn.errors import AnswerError, MidturnError, NotOpen, Problem, StoreLocked
from midturn.prompter import Prompter
from midturn.web.port import Port
from midturn.web.secret_replies import SecretReplies

_LOG = logging.getLogger(__name__)
_AT_ONCE = 16
_EVERY = 1.0  # seconds between two looks for what others have answered
_PATIENCE = 5.0  # seconds in which a turn that runs may come to its next stop when the server ends
_CHANGED = "The turn has changed, and asks something else now. Nothing was given to it; look at the question again."


class ResumeTurn(Protocol):
    """Goes on with the open turn of a conversation."""

    async def __call__(self, conversation: str, *, prompter: Prompter | None = None) -> object:
        """Go on; `prompter` answers what it knows."""
        ...


class Resuming:
    """Runs what is ready, and no turn twice in the state in which it was left: a model that is down is not asked without end."""

    def __init__(self, port: Port, resume: ResumeTurn) -> None:
        """Go on with turns by `resume`."""
        self._port = port
        self._resume = resume
        self._running: dict[str, asyncio.Task[None]] = {}
        self._live: dict[str, SecretReplies] = {}
        self._left: dict[str, int] = {}
        self._nudged = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False

    def nudge(self) -> None:
        """Look for turns that are ready now."""
        self._nudged.set()
        self.begin()

    def begin(self) -> None:
        """Look from now on, also for what others have answered."""
        if not self._stopped and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_on())

    async def give(self, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None) -> None:
        """Go on with a turn at once, and hand it what was typed, secrets among it. Returns when the turn has it, on record as redacted.

        Raises:
            AnswerError: The turn asks something else by now.
            StoreLocked: Somebody else holds it.
            MidturnError: It could not go on.
        """
        if question.conversation in self._live:
            self._give_to_live(self._live[question.conversation], question, answers, user)
            return
        replies = SecretReplies()
        replies.give(question, answers, user)
        self._live[question.conversation] = replies
        going = asyncio.create_task(self._resume(question.conversation, prompter=replies))
        self._running[question.conversation] = running = asyncio.create_task(_quietly(going))
        running.add_done_callback(lambda _: self._forget(question.conversation))
        taken = asyncio.create_task(replies.taken())
        await asyncio.wait((going, taken), return_when=asyncio.FIRST_COMPLETED)
        if not replies.was_taken:
            taken.cancel()
            await going  # it raises what went wrong
            raise AnswerError([Problem("", _CHANGED)])

    def waits_for(self, question: OpenQuestion) -> bool:
        """Say whether a turn that runs here, after a secret was given to it, waits for the answer to a question."""
        live = self._live.get(question.conversation)
        return live is not None and live.waits_for(question.id)

    def _give_to_live(self, live: SecretReplies, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None) -> None:
        live.give(question, answers, user)
        if not live.was_taken:
            raise AnswerError([Problem("", _CHANGED)])

    def _forget(self, conversation: str) -> None:
        self._running.pop(conversation, None)
        self._live.pop(conversation, None)

    async def stop(self) -> None:
        """Let what runs come to its next stop, and leave every turn open that has not ended by then."""
        self._stopped = True
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=_PATIENCE)
        tasks = [task for task in (self._looking, *self._running.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_on(self) -> None:
        while not self._stopped:
            self._nudged.clear()
            try:
                await self._begin_ready()
            except MidturnError as error:
                _LOG.warning("what can go on cannot be found out: %r", str(error))
            try:
                await asyncio.wait_for(self._nudged.wait(), _EVERY)
            except TimeoutError:
                continue

    async def _begin_ready(self) -> None:
        for conversation in await self._port.ready():
            if len(self._running) >= _AT_ONCE:
                return
            if conversation in self._running or self._left.get(conversation) == await self._length(conversation):
                continue
            task = asyncio.create_task(self._go_on(conversation))
            self._running[conversation] = task
            task.add_done_callback(lambda _, done=conversation: self._running.pop(done, None))

    async def _go_on(self, conversation: str) -> None:
        try:
            await self._resume(conversation)
        except (StoreLocked, NotOpen):  # somebody else goes on with it, or has gone on
            return
        except MidturnError as error:
            _LOG.warning("the turn of conversation %s could not go on: %r", conversation, str(error))
        except Exception:  # noqa: BLE001  a tool or a model is anybody's code: the others go on
            _LOG.exception("the turn of conversation %s could not go on", conversation)
        self._left[conversation] = await self._length(conversation)

    async def _length(self, conversation: str) -> int:
        return len(await self._port.last_turn(conversation))


async def _quietly(going: asyncio.Task[object]) -> None:
    """Wait for a run whose errors somebody else hears of; when the server ends, it is left."""
    try:
        await asyncio.gather(going, return_exceptions=True)
    except asyncio.CancelledError:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        raise
