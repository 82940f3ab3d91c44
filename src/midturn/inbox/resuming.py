"""Resumes turns in the server after their questions were answered."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from itertools import chain
from typing import Protocol

from midturn.clock import Outage
from midturn.errors import (
    AnswerError,
    MidturnError,
    NoConversation,
    NotOpen,
    Problem,
    QuestionError,
    StoreLocked,
)
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt
from midturn.inbox.store_access import Port
from midturn.prompter import Prompter
from midturn.question.form import Form
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply, Submitted, Unavailable
from midturn.turn.view import TurnView

# --------------------------------------------------------------------------------------------------
# Secrets entered on a page, until they are passed to the turn that asked for them. They are stored
# only in the memory of this process.


_SECRET_LIFETIME = 15 * 60  # seconds for which a secret is kept: enough to complete a form
_MAX_SECRETS = 100


class SecretCache:
    """Secrets of unsubmitted forms. The page contains only a random handle for each secret."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, SecretValue]] = {}

    def keep(self, secret: SecretValue) -> str:
        """Store a secret and return its handle."""
        now = time.monotonic()
        fresh = {
            handle: kept for handle, kept in self._kept.items() if now - kept[0] < _SECRET_LIFETIME
        }
        self._kept = dict(list(fresh.items())[-_MAX_SECRETS + 1 :])
        handle = secrets.token_urlsafe(16)
        self._kept[handle] = (now, secret)
        return handle

    def find(self, handle: object) -> SecretValue | None:
        """Return the secret of a handle, or None if the handle has expired or an earlier server
        process issued it.
        """
        kept = self._kept.get(handle) if isinstance(handle, str) else None
        return kept[1] if kept and time.monotonic() - kept[0] < _SECRET_LIFETIME else None


class SecretReplies(Prompter):
    """Prompter for one run of a turn. It answers the turn's questions with the values submitted on
    the web page, including secrets.

    The prompter is needed because a secret is not stored: the process that received the secret must
    pass it to the turn. The turn still accepts answers from other interfaces; such an answer
    cancels the prompt.
    """

    concurrent = True
    via = "web"

    def __init__(self) -> None:
        self.user: str | None = None
        self._given: dict[str, tuple[bytes, Answered]] = {}
        self._waiting: dict[str, asyncio.Future[Answered]] = {}
        self._taken = asyncio.Event()

    def give(
        self, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None
    ) -> None:
        """Set the submitted answers by question id. The answer to a question outside a form has the
        key `""`.
        """
        self.user = user
        self._taken = asyncio.Event()
        shown = _question_keys(question)
        self._given = {
            name: (shown[name], answer) for name, answer in answers.items() if name in shown
        }
        waiting = self._waiting.get(question.id)
        if (
            waiting
            and not waiting.done()
            and (answer := self._answer_to(_name_in(question), question.question.key))
        ):
            waiting.set_result(answer)

    def waits_for(self, id: str) -> bool:
        """Return whether the turn is waiting for this prompter to answer a question."""
        return id in self._waiting

    async def wait_until_taken(self) -> None:
        """Wait until the turn uses one of the submitted answers."""
        await self._taken.wait()

    @property
    def was_taken(self) -> bool:
        """Whether the turn has used one of the submitted answers."""
        return self._taken.is_set()

    async def prompt(self, prompt: Prompt) -> Reply:
        """Answer the question if the person saw the same version of it.

        A secret must not be sent to a question that has changed.
        """
        if prompt.kind == "review" and self.was_taken and not self._given:
            return Submitted()
        if prompt.kind not in ("tool", "deliver"):
            return Unavailable()
        key = prompt.question.persisted().key
        answer = self._answer_to(prompt.question.id, key) or self._answer_to("", key)
        if answer is not None:
            return answer
        if not self.was_taken:  # the turn asks another question, so these answers do not apply
            return Unavailable()
        self._waiting[prompt.id] = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting[prompt.id]
        finally:
            del self._waiting[prompt.id]

    def _answer_to(self, name: str, key: bytes) -> Answered | None:
        seen, answer = self._given.get(name, (b"", None))
        if answer is None or seen != key:
            return None
        del self._given[name]
        self._taken.set()
        return answer


def _name_in(question: OpenQuestion) -> str:
    return question.question_id if question.form and question.kind == "tool" else ""


def _question_keys(question: OpenQuestion) -> dict[str, bytes]:
    if question.form is None:
        return {"": question.question.key}
    return {
        name: question.persisted().key for name, question in _questions_of_form(question).items()
    }


def _questions_of_form(question: OpenQuestion) -> dict[str, Question[object]]:
    """Return the questions of the form by id, or none if a newer version wrote the form."""
    try:
        form = Form.from_record(list(question.form.questions)) if question.form else None
    except QuestionError:
        return {}
    return {} if form is None else {each.id: each for each in form.questions}


_LOG = logging.getLogger(__name__)
_MAX_RUNNING = 16
_POLL_INTERVAL = 1.0  # seconds between checks for turns that other processes made ready
# minimum pause between two checks, as a multiple of the duration of a check. So checks take at most
# 1 % of the time, even if many turns cannot be resumed
_SHARE = 100
_MAX_POLL_INTERVAL = 10.0  # maximum seconds between two checks
_GRACE_PERIOD = 5.0  # seconds that running turns have to end or suspend when the server stops
_TURN_CHANGED = (
    "The turn has changed and asks something else now. Your answer was not used. Reload the page to"
    " see the current question."
)


class ResumeTurn(Protocol):
    """Resumes the open turn of a conversation."""

    async def __call__(self, conversation: str, *, prompter: Prompter | None = None) -> object:
        """Resume the turn. `prompter` answers the questions for which it has answers."""
        ...


class Resuming:
    """Resumes ready turns. A turn is resumed at most once from the same state.

    Otherwise, a turn would be resumed in a loop while its model is unavailable.
    """

    def __init__(self, port: Port, resume: ResumeTurn) -> None:
        """Prepare to run turns with `resume`."""
        self._port = port
        self._resume = resume
        self._running: dict[str, asyncio.Task[None]] = {}
        self._live: dict[str, SecretReplies] = {}
        self._started_at: dict[str, tuple[int, ...]] = {}
        self._wake = asyncio.Event()
        self._scan_task: asyncio.Task[None] | None = None
        self._stopped = False
        self._outage = Outage(_LOG, "ready turns can be found again")

    def nudge(self) -> None:
        """Check for ready turns now."""
        self._wake.set()
        self.begin()

    def begin(self) -> None:
        """Start checking for ready turns, including turns that other processes make ready."""
        if not self._stopped and (self._scan_task is None or self._scan_task.done()):
            self._scan_task = asyncio.create_task(self._resume_ready_turns())

    async def give(
        self, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None
    ) -> None:
        """Resume a turn immediately with the submitted answers.

        Return after the turn has recorded the answers. Secrets are redacted in the record.

        Raises:
            AnswerError: The turn now asks another question.
            StoreLocked: Another process holds the lock of the conversation.
            MidturnError: The turn failed to resume.
        """
        if question.conversation in self._live:
            self._give_to_live(self._live[question.conversation], question, answers, user)
            return
        replies = SecretReplies()
        replies.give(question, answers, user)
        self._live[question.conversation] = replies
        going = asyncio.create_task(self._resume(question.conversation, prompter=replies))
        self._running[question.conversation] = running = asyncio.create_task(_ended(going))
        running.add_done_callback(lambda _: self._forget(question.conversation))
        taken = asyncio.create_task(replies.wait_until_taken())
        await asyncio.wait((going, taken), return_when=asyncio.FIRST_COMPLETED)
        if not replies.was_taken:
            taken.cancel()
            await going  # raises the exception if the run failed
            raise AnswerError([Problem("", _TURN_CHANGED)])

    def waits_for(self, question: OpenQuestion) -> bool:
        """Return whether a turn in this process is waiting for the answer to a question.

        Only a turn that was resumed with a secret can be waiting in this process.
        """
        live = self._live.get(question.conversation)
        return live is not None and live.waits_for(question.id)

    def _give_to_live(
        self,
        live: SecretReplies,
        question: OpenQuestion,
        answers: Mapping[str, Answered],
        user: str | None,
    ) -> None:
        live.give(question, answers, user)
        if not live.was_taken:
            raise AnswerError([Problem("", _TURN_CHANGED)])

    def _forget(self, conversation: str) -> None:
        self._running.pop(conversation, None)
        self._live.pop(conversation, None)

    async def stop(self) -> None:
        """Wait up to the grace period for running turns to end or suspend, then cancel the rest.

        Cancelled turns stay open in the store.
        """
        self._stopped = True
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=_GRACE_PERIOD)
        tasks = [task for task in (self._scan_task, *self._running.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _resume_ready_turns(self) -> None:
        while not self._stopped:
            self._wake.clear()
            begun = time.monotonic()
            try:
                await self._start_ready()
            except MidturnError as error:
                self._outage.noticed("cannot find ready turns: %r", error)
            else:
                self._outage.over()
            pause = (time.monotonic() - begun) * _SHARE
            try:
                await asyncio.wait_for(
                    self._wake.wait(), min(max(_POLL_INTERVAL, pause), _MAX_POLL_INTERVAL)
                )
            except TimeoutError:
                continue

    async def _start_ready(self) -> None:
        for conversation in await self._port.ready():
            if len(self._running) >= _MAX_RUNNING:
                return
            if conversation in self._running or self._started_at.get(conversation) == (
                state := await self._lengths(conversation)
            ):
                continue
            self._started_at[conversation] = (
                # the state at the start, so that events recorded during the run count as a change
                state
            )
            task = asyncio.create_task(self._run(conversation))
            self._running[conversation] = task
            task.add_done_callback(lambda _, done=conversation: self._running.pop(done, None))

    async def _run(self, conversation: str) -> None:
        try:
            await self._resume(conversation)
        except (
            StoreLocked,
            NotOpen,
        ):  # another process is running the turn; if it dies, resume from the same state
            del self._started_at[conversation]
        except MidturnError as error:
            _LOG.warning(
                "failed to resume the turn of conversation %s: %r", conversation, str(error)
            )
        except Exception:  # noqa: BLE001  a tool or a model may raise anything; other turns must continue
            _LOG.exception("failed to resume the turn of conversation %s", conversation)

    async def _lengths(self, conversation: str) -> tuple[int, ...]:
        """Return the number of events of the turn and of its nested turns.

        An answer in a nested turn makes the outer turn ready.
        """
        try:
            turn = await self._port.last_turn(conversation)
        except NoConversation:  # the nested turn has not started
            return (0,)
        inside = [
            await self._lengths(child.conversation)
            for child in TurnView.last(turn).awaited_children
        ]
        return (len(turn), *chain.from_iterable(inside))


async def _ended(going: asyncio.Task[object]) -> None:
    """Wait for a run without raising its errors, because the caller of `give` reports them.

    Cancel the run when the server stops.
    """
    try:
        await asyncio.gather(going, return_exceptions=True)
    except asyncio.CancelledError:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        raise
