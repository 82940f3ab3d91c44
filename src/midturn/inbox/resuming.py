"""Goes on with turns of which a question was answered, here in the server."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from itertools import chain
from typing import Protocol

from midturn.clock import Outage
from midturn.errors import AnswerError, MidturnError, NoConversation, NotOpen, Problem, QuestionError, StoreLocked
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt
from midturn.inbox.store_access import Port
from midturn.prompter import Prompter
from midturn.question.form import Form
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply, Submitted, Unavailable
from midturn.turn.view import TurnView

# ----------------------------------------------------------------------------------------------------------------------
# Secrets that were typed on a page, on their way to the turn that asked for them: in this process's memory, and nowhere else


_KEPT_SECONDS = 15 * 60  # while a form is filled in
_MOST = 100


class Vault:
    """Secrets of forms that are not done yet; what travels with the page is a handle, which says nothing."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, SecretValue]] = {}

    def keep(self, secret: SecretValue) -> str:
        """Keep one; return its handle."""
        now = time.monotonic()
        fresh = {handle: kept for handle, kept in self._kept.items() if now - kept[0] < _KEPT_SECONDS}
        self._kept = dict(list(fresh.items())[-_MOST + 1 :])
        handle = secrets.token_urlsafe(16)
        self._kept[handle] = (now, secret)
        return handle

    def find(self, handle: object) -> SecretValue | None:
        """Return the secret of a handle; None where it was kept too long ago, or by a server that is gone."""
        kept = self._kept.get(handle) if isinstance(handle, str) else None
        return kept[1] if kept and time.monotonic() - kept[0] < _KEPT_SECONDS else None


class SecretReplies(Prompter):
    """Answers what people saw on a page, and typed there, as long as this turn runs in this process; a secret would have to be asked anew.

    A prompter for one run of the turn. What others answer in the inbox reaches the turn, too: then the prompt is taken away.
    """

    concurrent = True
    via = "web"

    def __init__(self) -> None:
        self.user: str | None = None
        self._given: dict[str, tuple[bytes, Answered]] = {}
        self._waiting: dict[str, asyncio.Future[Answered]] = {}
        self._taken = asyncio.Event()

    def give(self, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None) -> None:
        """Take what was typed: the answers by the ids of a form's questions; that of a question of its own is under `""`."""
        self.user = user
        self._taken = asyncio.Event()
        shown = _shown(question)
        self._given = {name: (shown[name], answer) for name, answer in answers.items() if name in shown}
        waiting = self._waiting.get(question.id)
        if waiting and not waiting.done() and (answer := self._answer_to(_name_in(question), question.question.key)):
            waiting.set_result(answer)

    def waits_for(self, id: str) -> bool:
        """Say whether the turn waits here for the answer to a question."""
        return id in self._waiting

    async def taken(self) -> None:
        """Return when the turn has taken the first of what was given."""
        await self._taken.wait()

    @property
    def was_taken(self) -> bool:
        """Whether it has."""
        return self._taken.is_set()

    async def prompt(self, prompt: Prompt) -> Reply:
        """Answer, if this is what the person saw: a secret must not go to a question that has changed meanwhile."""
        if prompt.kind == "review" and self.was_taken and not self._given:
            return Submitted()
        if prompt.kind not in ("tool", "deliver"):
            return Unavailable()
        key = prompt.question.persisted().key
        answer = self._answer_to(prompt.question.id, key) or self._answer_to("", key)
        if answer is not None:
            return answer
        if not self.was_taken:  # nothing of what was typed fits: the turn has changed
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


def _shown(question: OpenQuestion) -> dict[str, bytes]:
    if question.form is None:
        return {"": question.question.key}
    return {name: one.persisted().key for name, one in _of_form(question).items()}


def _of_form(question: OpenQuestion) -> dict[str, Question[object]]:
    """Return the questions of the form by id; none where a newer version wrote it."""
    try:
        form = Form.from_record(list(question.form.questions)) if question.form else None
    except QuestionError:
        return {}
    return {} if form is None else {one.id: one for one in form.questions}


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
    """Runs what is ready, and no turn twice from the same state: a model that is down is not asked without end."""

    def __init__(self, port: Port, resume: ResumeTurn) -> None:
        """Go on with turns by `resume`."""
        self._port = port
        self._resume = resume
        self._running: dict[str, asyncio.Task[None]] = {}
        self._live: dict[str, SecretReplies] = {}
        self._begun: dict[str, tuple[int, ...]] = {}
        self._nudged = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False
        self._unknown = Outage(_LOG, "what can go on can be found out again")

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
            StoreLocked: Another process holds it.
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
                self._unknown.noticed("what can go on cannot be found out: %r", error)
            else:
                self._unknown.over()
            try:
                await asyncio.wait_for(self._nudged.wait(), _EVERY)
            except TimeoutError:
                continue

    async def _begin_ready(self) -> None:
        for conversation in await self._port.ready():
            if len(self._running) >= _AT_ONCE:
                return
            if conversation in self._running or self._begun.get(conversation) == (state := await self._state(conversation)):
                continue
            self._begun[conversation] = state  # as it begins: what others record while it ends must count
            task = asyncio.create_task(self._go_on(conversation))
            self._running[conversation] = task
            task.add_done_callback(lambda _, done=conversation: self._running.pop(done, None))

    async def _go_on(self, conversation: str) -> None:
        try:
            await self._resume(conversation)
        except (StoreLocked, NotOpen):  # another process goes on with it, or has: if that dies, nothing need have changed
            del self._begun[conversation]
        except MidturnError as error:
            _LOG.warning("the turn of conversation %s could not go on: %r", conversation, str(error))
        except Exception:  # noqa: BLE001  a tool or a model is anybody's code: the others go on
            _LOG.exception("the turn of conversation %s could not go on", conversation)

    async def _state(self, conversation: str) -> tuple[int, ...]:
        """Return how long its turn is, and those inside of its tools: an answer to one of them lets it go on as well."""
        try:
            turn = await self._port.last_turn(conversation)
        except NoConversation:  # one inside that was never begun
            return (0,)
        inside = [await self._state(child.conversation) for child in TurnView.last(turn).awaited_children]
        return (len(turn), *chain.from_iterable(inside))


async def _quietly(going: asyncio.Task[object]) -> None:
    """Wait for a run whose errors are told elsewhere; when the server ends, it is left."""
    try:
        await asyncio.gather(going, return_exceptions=True)
    except asyncio.CancelledError:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        raise
