"""One session of an editor: a conversation, the turn that runs in it, and the dialogs that are open in the editor."""

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
from midturn.integrations.acp.dialog import EditorDialog, Unheard
from midturn.integrations.acp.updates import Editor, Update, Updates
from midturn.ports import Clock, Display
from midturn.runtime.driver import RunEnding
from midturn.stores.decisions import is_due
from midturn.stores.locked import HeldConversation
from midturn.stores.port import HeldBy, LastTurn
from midturn.stores.store import ConversationStore
from midturn.stores.watching import times_to_look

# ----------------------------------------------------------------------------------------------------------------------
# What an editor is told of one session, one thing after the other


class Telling:
    """Holds what was `told` until it is sent, or dropped."""

    def __init__(self, connection: Client, session: str) -> None:
        self._connection = connection
        self._session = session
        self._waiting: asyncio.Queue[Update] = asyncio.Queue()

    def tell(self, update: Update) -> None:
        """Have the editor told something."""
        self._waiting.put_nowait(update)

    async def told(self) -> None:
        """Return when everything has been sent, or dropped."""
        await self._waiting.join()

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Send what is told in the block, in its order, and all of it before the block is left."""
        async with self._taking(self._send):
            yield

    @asynccontextmanager
    async def dropping(self) -> AsyncGenerator[None]:
        """Send nothing of what is told in the block: the editor shows it already."""
        async with self._taking(_drop):
            yield

    @asynccontextmanager
    async def _taking(self, take: Callable[[Update], Awaitable[None]]) -> AsyncGenerator[None]:
        taking = asyncio.create_task(self._take_all(take))
        try:
            yield
            await self.told()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _take_all(self, take: Callable[[Update], Awaitable[None]]) -> None:
        while True:
            update = await self._waiting.get()
            try:
                await take(update)
            except ConnectionError:
                take = _drop  # the editor is gone
            finally:
                self._waiting.task_done()

    async def _send(self, update: Update) -> None:
        await self._connection.session_update(self._session, update)


async def _drop(update: Update) -> None:
    del update


# ----------------------------------------------------------------------------------------------------------------------
# What runs our assistant's turns for an editor: what knows the configuration


Interrupt: TypeAlias = Callable[[], object]


class Turns(Protocol):
    """Turns of conversations in one place. Whatever needs a person is left open: who asks it, and how, is not theirs."""

    @property
    def store(self) -> ConversationStore:
        """The store of the conversations."""
        ...

    async def begin(self, conversation: str, words: str) -> str:
        """Make a conversation with this id, of which these are the first words; return the id that it has."""
        ...

    async def run(self, journal: HeldConversation, words: str | None, display: Display, begun: Callable[[Interrupt], None]) -> RunEnding:
        """Run a turn, or go on with the open one (None); `begun` gets what ends it.

        Raises:
            MidturnError: It cannot be set up, or the store refuses.
        """
        ...

    async def end(self, journal: HeldConversation) -> None:
        """End the open turn of a conversation, as a person who wants no more of it does."""
        ...

    async def close(self) -> None:
        """Leave what was connected for the turns."""
        ...


EditorStopReason: TypeAlias = Literal["end_turn", "cancelled"]
_LOG = logging.getLogger(__name__)
_AGAIN = 0.1  # seconds between two tries
_TRIES = 100
_FAILED = -32603


class EditorSession:
    """A conversation as an editor sees it; `id` is also that of the conversation, which begins with the first prompt."""

    def __init__(self, id: str, turns: Turns, editor: Editor, connection: Client, clock: Clock) -> None:
        self.id = id
        self._turns = turns
        self._clock = clock
        self._conversation: str | None = None
        self._dialog = EditorDialog(connection=connection, session=id, editor=editor, store=turns.store, clock=clock)
        self._telling = Telling(connection, id)
        self._updates = Updates(self._telling.tell)
        self._turn = asyncio.Lock()
        self._interrupt: Interrupt | None = None
        self._cancels = 0
        self._left = 0
        self._behind: asyncio.Task[None] | None = None

    # What the editor asks for -------------------------------------------------------------------------------------------------

    async def prompt(self, words: str) -> EditorStopReason:
        """Run a turn. What was left open goes on first, until it is done.

        Raises:
            RequestError: It failed, or cannot be begun.
        """
        wanted = self._cancels
        if self._behind:
            await asyncio.gather(self._behind, return_exceptions=True)
        if self._turn.locked():
            raise RequestError.invalid_request({"details": "A prompt is under way in this session."})
        if wanted != self._cancels:
            return "cancelled"
        async with self._turn, self._telling.sending():
            return await self._prompted(words, wanted)

    async def load(self, conversation: str) -> None:
        """Take a recorded conversation, and show it; what is open in it is asked again.

        Raises:
            StoreError: There is none, or it cannot be read.
        """
        await self._take(conversation, self._telling.sending())

    async def resume(self, conversation: str) -> None:
        """Take a recorded conversation that the editor still shows; what is open in it is asked again.

        Raises:
            StoreError: There is none, or it cannot be read.
        """
        await self._take(conversation, self._telling.dropping())

    async def cancel(self) -> None:
        """End the turn that runs or waits, as Ctrl-C does."""
        self._cancels += 1
        if self._interrupt:
            self._interrupt()

    async def close(self) -> None:
        """Let go of everything; what is open stays open, and waits to be answered elsewhere."""
        if self._behind:
            self._behind.cancel()
            await asyncio.gather(self._behind, return_exceptions=True)
        await self._turns.close()

    async def _take(self, conversation: str, telling: AbstractAsyncContextManager[None]) -> None:
        events = (await self._turns.store.read(conversation)).events
        self._conversation = conversation
        async with telling:
            self._updates.tell(events)
        if open_turn(events):
            self._behind = asyncio.create_task(self._go_on_behind(self._cancels))

    # A turn -------------------------------------------------------------------------------------------------------------------

    async def _prompted(self, words: str, wanted: int) -> EditorStopReason:
        try:
            if self._conversation is None:
                self._conversation = await self._turns.begin(self.id, words)
            elif open_turn((await self._turns.store.read(self._conversation)).events):
                await self._driven(None, wanted)
            return _stopped(await self._driven(words, wanted))
        except MidturnError as error:
            raise RequestError(_FAILED, str(error)) from error

    async def _go_on_behind(self, wanted: int) -> None:
        """Go on with what was left open, while the editor asks for nothing."""
        async with self._turn, self._telling.sending():
            try:
                await self._driven(None, wanted)
            except (MidturnError, RequestError) as error:
                self._updates.warn(str(error))

    async def _driven(self, words: str | None, wanted: int) -> RunEnding:
        """Run a turn to its end, with its questions in the editor's dialogs, too; `wanted`: it is not cancelled while that is so."""
        async with self._asking():
            while wanted == self._cancels:
                ending = await self._run(words, wanted)
                if ending and ending.status != "suspended":
                    return ending
                words = None
                if not await self._waited(wanted):
                    return RunEnding("completed")
            if words is None:
                await self._ended()
            return RunEnding("ended_by_user")

    async def _run(self, words: str | None, wanted: int) -> RunEnding | None:
        """Run what can be run; None where another process does, or has."""

        def begun(interrupt: Interrupt) -> None:
            self._interrupt = interrupt
            if wanted != self._cancels:
                interrupt()

        self._left = 0
        try:
            async with await self._turns.store.open(self._known) as journal:
                if words is None:
                    self._updates.tell(journal.events)  # the process that answered may have recorded what followed
                ending = await self._turns.run(journal, words, self._updates, begun)
                self._left = _length(journal.events)
                return ending
        except (StoreLocked, NotOpen):
            if words is not None:
                raise
            return None
        finally:
            self._interrupt = None

    async def _waited(self, wanted: int) -> bool:
        """Wait until an open turn can go on here, or is cancelled; False where it is over: another process went on with it."""
        if wanted != self._cancels:
            return True
        waiting = asyncio.create_task(self._goes_on())
        self._interrupt = waiting.cancel
        try:
            await asyncio.wait({waiting})
            return waiting.cancelled() or waiting.result()
        finally:
            self._interrupt = None
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _goes_on(self) -> bool:
        async with aclosing(times_to_look(self._turns.store.port.growing)) as times:
            async for _ in times:
                held = await self._turns.store.port.look(self._known)
                if open_turn(held.turn.events) is None:
                    self._updates.tell((await self._turns.store.read(self._known)).events)
                    return False
                changed = held.turn.handed or _length(held.turn.events) != self._left
                if not isinstance(held, HeldBy) and is_due(held.turn) and changed:
                    return True
        raise AssertionError("times to look do not end")

    async def _ended(self) -> None:
        """End a turn that waits; another process that holds it just now is waited for. Nothing tells when it lets go, so that is tried."""
        for _ in range(_TRIES):
            try:
                async with await self._turns.store.open(self._known) as journal:
                    if open_turn(journal.events):
                        await self._turns.end(journal)
                    return
            except StoreLocked:
                await self._clock.sleep(_AGAIN)
        raise StoreError("Another process goes on with this turn, so that it cannot be ended here.")

    async def _look(self) -> LastTurn:
        return (await self._turns.store.port.look(self._known)).turn

    @property
    def _known(self) -> str:
        return self._conversation or self.id

    # What is asked ------------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _asking(self) -> AsyncGenerator[None]:
        """Ask in the editor what is open, while the block runs."""
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
            async for change in self._turns.store.watch(self._known):
                if change.kind == "changed" and change.question and change.question.digest == digests.get(change.id):
                    continue  # a vote, or other people: what the dialog shows is still asked
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
        """Ask, or say where it waits; whatever the editor does, the question stays open until a person answers."""
        await self._telling.told()  # the call comes before what it asks
        where = f"It waits in the inbox: `midturn answer {question.id}`"
        if not self._dialog.can_ask(question):
            self._updates.waits(question.request.call, f"{question.question.text} This editor cannot ask it. {where}")
            return
        try:
            await self._dialog.ask(question)
        except Unheard as why:
            self._updates.waits(question.request.call, f"{question.question.text} {why} {where}")
        except ConnectionError:
            return  # the editor is gone, and the session with it
        except Exception:  # noqa: BLE001  the editor is anybody's: whatever went wrong there, the inbox has the question
            _LOG.exception("a dialog of %s failed", self._dialog.editor.name)
            self._updates.waits(question.request.call, f"{question.question.text} {where}")


def _length(events: Sequence[Event]) -> int:
    """Count the events of the last turn."""
    window = last_turn(events)
    return len(window.events) if window else 0


def _stopped(ending: RunEnding) -> EditorStopReason:
    """Say to the editor how a turn ended.

    Raises:
        RequestError: It failed, or the model is down and the turn is open.
    """
    match ending.status:
        case "completed":
            return "end_turn"
        case "ended_by_user":
            return "cancelled"
        case "open":
            raise RequestError(_FAILED, f"{ending.error or 'The model is down.'} The turn is open: your next prompt goes on with it first.")
        case _:
            raise RequestError(_FAILED, ending.error or "The turn failed.")
