"""One session of an editor: its conversation, the running turn, and the open dialogs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Literal, Protocol, TypeAlias

from acp import Client, RequestError

from midturn.errors import MidturnError, NotOpen, StoreError, StoreLocked
from midturn.events.open_question import OpenQuestion
from midturn.events.types import Event
from midturn.events.window import last_turn, open_turn
from midturn.integrations.acp.dialog import EditorDialog, NoEditorAnswer
from midturn.integrations.acp.updates import Editor, Update, Updates
from midturn.ports import Clock, Display
from midturn.runtime.driver import RunEnding
from midturn.stores.decisions import is_due
from midturn.stores.locked import LockedConversation
from midturn.stores.port import LastTurn, LockedBy
from midturn.stores.store import ConversationStore
from midturn.stores.watching import times_to_look

# --------------------------------------------------------------------------------------------------
# Ordered updates to the editor


class UpdateQueue:
    """Queue of updates to the editor. Queued updates are sent while a `sending` block runs, and
    dropped while a `dropping` block runs.
    """

    def __init__(self, connection: Client, session: str) -> None:
        self._connection = connection
        self._session = session
        self._queue: asyncio.Queue[Update] = asyncio.Queue()

    def tell(self, update: Update) -> None:
        """Add an update to the queue."""
        self._queue.put_nowait(update)

    async def drained(self) -> None:
        """Wait until the queue is empty."""
        await self._queue.join()

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Send updates in order while the block runs. At its end, wait until all are sent."""
        async with self._process(self._send):
            yield

    @asynccontextmanager
    async def dropping(self) -> AsyncGenerator[None]:
        """Drop all updates while the block runs, because the editor already shows them."""
        async with self._process(_drop):
            yield

    @asynccontextmanager
    async def _process(self, take: Callable[[Update], Awaitable[None]]) -> AsyncGenerator[None]:
        taking = asyncio.create_task(self._process_all(take))
        try:
            yield
            await self.drained()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _process_all(self, take: Callable[[Update], Awaitable[None]]) -> None:
        while True:
            update = await self._queue.get()
            try:
                await take(update)
            except ConnectionError:
                take = _drop  # the editor has disconnected
            finally:
                self._queue.task_done()

    async def _send(self, update: Update) -> None:
        await self._connection.session_update(self._session, update)


async def _drop(update: Update) -> None:
    del update


# --------------------------------------------------------------------------------------------------
# Interface for running turns. The caller implements it, because it has the configuration.


Interrupt: TypeAlias = Callable[[], object]


class SessionTurns(Protocol):
    """Runs turns of conversations in one directory. `EditorSession` asks the questions of these
    turns.
    """

    @property
    def store(self) -> ConversationStore:
        """Store of the conversations."""
        ...

    async def begin(self, conversation: str, words: str) -> str:
        """Create a conversation whose first message will be `words`, and return its id. The id is
        `conversation`, unless it is already in use.
        """
        ...

    async def run(
        self,
        journal: LockedConversation,
        words: str | None,
        display: Display,
        on_start: Callable[[Interrupt], None],
    ) -> RunEnding:
        """Run a turn. If `words` is None, resume the open turn. `on_start` receives a function
        that interrupts the turn.

        Raises:
            MidturnError: The turn cannot be set up, or the store failed.
        """
        ...

    async def end(self, journal: LockedConversation) -> None:
        """End the open turn of a conversation, with the same result as if a person had ended it."""
        ...

    async def close(self) -> None:
        """Close the connections that the turns opened."""
        ...


EditorStopReason: TypeAlias = Literal["end_turn", "cancelled"]
_LOG = logging.getLogger(__name__)
_RETRY_DELAY = 0.1  # seconds between attempts to lock the conversation
_MAX_ATTEMPTS = 100
_FAILED = -32603


class EditorSession:
    """A conversation in an editor. `id` is the id of the session and of the conversation. The
    first prompt creates the conversation.
    """

    def __init__(
        self, id: str, turns: SessionTurns, editor: Editor, connection: Client, clock: Clock
    ) -> None:
        self.id = id
        self._turns = turns
        self._clock = clock
        self._conversation: str | None = None
        self._dialog = EditorDialog(
            connection=connection, session=id, editor=editor, store=turns.store, clock=clock
        )
        self._update_queue = UpdateQueue(connection, id)
        self._updates = Updates(self._update_queue.tell)
        self._turn = asyncio.Lock()
        self._interrupt: Interrupt | None = None
        self._cancels = 0
        self._seen_length = 0
        self._background_turn: asyncio.Task[None] | None = None

    # Requests from the editor
    # ----------------------------------------------------------------------------------------------

    async def prompt(self, words: str) -> EditorStopReason:
        """Run a turn. If the previous turn is still open, first resume it and wait until it ends.

        Raises:
            RequestError: The turn failed or cannot start.
        """
        cancels_at_start = self._cancels
        if self._background_turn:
            await asyncio.gather(self._background_turn, return_exceptions=True)
        if self._turn.locked():
            raise RequestError.invalid_request(
                {
                    "details": (
                        "Another prompt of this session is still running. Wait for it, or"
                        " cancel it."
                    )
                }
            )
        if cancels_at_start != self._cancels:
            return "cancelled"
        async with self._turn, self._update_queue.sending():
            return await self._run_prompt(words, cancels_at_start)

    async def load(self, conversation: str) -> None:
        """Load a recorded conversation and send its content. Open questions are asked again.

        Raises:
            StoreError: The conversation does not exist or cannot be read.
        """
        await self._take_conversation(conversation, self._update_queue.sending())

    async def resume(self, conversation: str) -> None:
        """Load a recorded conversation whose content the editor already shows. Open questions are
        asked again.

        Raises:
            StoreError: The conversation does not exist or cannot be read.
        """
        await self._take_conversation(conversation, self._update_queue.dropping())

    async def cancel(self) -> None:
        """End the running or waiting turn, as Ctrl-C does in a terminal."""
        self._cancels += 1
        if self._interrupt:
            self._interrupt()

    async def close(self) -> None:
        """Close the session. Open questions stay open and can be answered in other interfaces."""
        if self._background_turn:
            self._background_turn.cancel()
            await asyncio.gather(self._background_turn, return_exceptions=True)
        await self._turns.close()

    async def _take_conversation(
        self, conversation: str, handling: AbstractAsyncContextManager[None]
    ) -> None:
        events = (await self._turns.store.read(conversation)).events
        self._conversation = conversation
        async with handling:
            self._updates.tell(events)
        if open_turn(events):
            self._background_turn = asyncio.create_task(self._resume_in_background(self._cancels))

    # Turns
    # ----------------------------------------------------------------------------------------------

    async def _run_prompt(self, words: str, cancels_at_start: int) -> EditorStopReason:
        try:
            if self._conversation is None:
                self._conversation = await self._turns.begin(self.id, words)
            elif open_turn((await self._turns.store.read(self._conversation)).events):
                await self._drive(None, cancels_at_start)
            return _stop_reason(await self._drive(words, cancels_at_start))
        except MidturnError as error:
            raise RequestError(_FAILED, str(error)) from error

    async def _resume_in_background(self, cancels_at_start: int) -> None:
        """Resume an open turn in the background after its conversation was loaded."""
        async with self._turn, self._update_queue.sending():
            try:
                await self._drive(None, cancels_at_start)
            except (MidturnError, RequestError) as error:
                self._updates.warn(str(error))

    async def _drive(self, words: str | None, cancels_at_start: int) -> RunEnding:
        """Run a turn until it ends, and show its questions in the editor. Stop when the user
        cancels the turn, that is, when the number of cancellations is no longer
        `cancels_at_start`.
        """
        async with self._asking_in_editor():
            while cancels_at_start == self._cancels:
                ending = await self._run(words, cancels_at_start)
                if ending and ending.status != "suspended":
                    return ending
                words = None
                if not await self._wait_until_ready(cancels_at_start):
                    return RunEnding("completed")
            if words is None:
                await self._end_turn()
            return RunEnding("ended_by_user")

    async def _run(self, words: str | None, cancels_at_start: int) -> RunEnding | None:
        """Run the turn until it ends or waits for an answer. Return None if another process is
        running the turn or has ended it.
        """

        def on_start(interrupt: Interrupt) -> None:
            self._interrupt = interrupt
            if cancels_at_start != self._cancels:
                interrupt()

        self._seen_length = 0
        try:
            async with await self._turns.store.open(self._conversation_id) as journal:
                if words is None:
                    # another process may have recorded events that the editor lacks
                    self._updates.tell(journal.events)
                ending = await self._turns.run(journal, words, self._updates, on_start)
                self._seen_length = _turn_length(journal.events)
                return ending
        except (StoreLocked, NotOpen):
            if words is not None:
                raise
            return None
        finally:
            self._interrupt = None

    async def _wait_until_ready(self, cancels_at_start: int) -> bool:
        """Wait until the open turn is ready or cancelled. Return False if another process has
        ended it.
        """
        if cancels_at_start != self._cancels:
            return True
        waiting = asyncio.create_task(self._is_ready())
        self._interrupt = waiting.cancel
        try:
            await asyncio.wait({waiting})
            return waiting.cancelled() or waiting.result()
        finally:
            self._interrupt = None
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _is_ready(self) -> bool:
        async with aclosing(times_to_look(self._turns.store.port.growing)) as times:
            async for _ in times:
                held = await self._turns.store.port.look(self._conversation_id)
                if open_turn(held.turn.events) is None:
                    self._updates.tell((await self._turns.store.read(self._conversation_id)).events)
                    return False
                changed = held.turn.handed or _turn_length(held.turn.events) != self._seen_length
                if not isinstance(held, LockedBy) and is_due(held.turn) and changed:
                    return True
        raise AssertionError("`times_to_look` never ends")

    async def _end_turn(self) -> None:
        """End a waiting turn. If another process holds the lock, retry, because releasing a lock
        sends no notification.
        """
        for _ in range(_MAX_ATTEMPTS):
            try:
                async with await self._turns.store.open(self._conversation_id) as journal:
                    if open_turn(journal.events):
                        await self._turns.end(journal)
                    return
            except StoreLocked:
                await self._clock.sleep(_RETRY_DELAY)
        raise StoreError(
            "Cannot end this turn, because another process is running it. Try again later."
        )

    async def _last_turn(self) -> LastTurn:
        return (await self._turns.store.port.look(self._conversation_id)).turn

    @property
    def _conversation_id(self) -> str:
        return self._conversation or self.id

    # Questions
    # ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _asking_in_editor(self) -> AsyncGenerator[None]:
        """Show open questions in the editor while the block runs."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        open_dialogs: dict[str, asyncio.Task[None]] = {}
        digests: dict[str, str] = {}
        try:
            async for change in self._turns.store.watch(self._conversation_id):
                if (
                    change.kind == "changed"
                    and change.question
                    and change.question.digest == digests.get(change.id)
                ):
                    continue  # the change was a vote or a reassignment, so the dialog stays valid
                if change.id in open_dialogs:
                    open_dialogs.pop(change.id).cancel()
                if change.question:
                    digests[change.id] = change.question.digest
                    open_dialogs[change.id] = asyncio.create_task(self._ask(change.question))
        finally:
            for dialog in open_dialogs.values():
                dialog.cancel()
            await asyncio.gather(*open_dialogs.values(), return_exceptions=True)

    async def _ask(self, question: OpenQuestion) -> None:
        """Ask a question in the editor. If the question cannot be asked, tell the user where to
        answer it. The question stays open.
        """
        await self._update_queue.drained()  # the editor must receive the call before its question
        where = f"You can answer it with `midturn answer {question.id}`."
        if not self._dialog.can_ask(question):
            self._updates.show_question_text(
                question.request.call,
                f"{question.question.text} This editor cannot show the question. {where}",
            )
            return
        try:
            await self._dialog.ask(question)
        except NoEditorAnswer as why:
            self._updates.show_question_text(
                question.request.call, f"{question.question.text} {why} {where}"
            )
        except ConnectionError:
            return  # the editor has disconnected, so the session ends
        except Exception:  # noqa: BLE001  third-party code may raise anything; the question stays in the inbox
            _LOG.exception("a dialog in %s failed", self._dialog.editor.name)
            self._updates.show_question_text(
                question.request.call, f"{question.question.text} {where}"
            )


def _turn_length(events: Sequence[Event]) -> int:
    window = last_turn(events)
    return len(window.events) if window else 0


def _stop_reason(ending: RunEnding) -> EditorStopReason:
    """Return the stop reason for the editor.

    Raises:
        RequestError: The turn failed, or it is still open because the model is unavailable.
    """
    match ending.status:
        case "completed":
            return "end_turn"
        case "ended_by_user":
            return "cancelled"
        case "open":
            raise RequestError(
                _FAILED,
                f"{ending.error or 'The model is unavailable.'} The turn is still open. Your next"
                " prompt resumes it first.",
            )
        case _:
            raise RequestError(_FAILED, ending.error or "The turn failed.")
