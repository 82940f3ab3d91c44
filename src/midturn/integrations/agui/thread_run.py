"""Processes one run request of a thread.

A run records the entries of `resume`, continues the open turn until it ends or waits for people,
and then starts a turn with the new messages. It ends with the open questions, or with the end of
the turn. All decisions are based on the log. A run that joins a running turn, repeats an earlier
run or follows another process therefore returns the same messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from midturn.agent.result import HistoryMessage, RunResult, build_result
from midturn.errors import (
    ModelError,
    StoreError,
    StoreLocked,
    TurnOpen,
)
from midturn.events.types import Event, TurnEnd, turn_keys
from midturn.events.window import Window, last_turn
from midturn.integrations.agui import protocol
from midturn.integrations.agui.entries import EntryResults, EntryTaker
from midturn.integrations.agui.event_writer import EventWriter
from midturn.integrations.agui.interrupts import AskedQuestion, asked_questions, interrupts
from midturn.integrations.agui.protocol import AguiEvent
from midturn.integrations.agui.run_input import InputMessage, RunInput
from midturn.integrations.agui.thread_messages import (
    SEPARATOR,
    ThreadMessages,
    displaced,
    own_messages,
    request_metadata,
)
from midturn.integrations.agui.turn_driver import RETRY_DELAY, TurnDriver
from midturn.integrations.agui.turns import OpenedStream, RunningTurns
from midturn.question.json_value import Json
from midturn.runtime.driver import RunEnding
from midturn.stores.store import ConversationStore
from midturn.turn.view import TurnView

_LOG = logging.getLogger(__name__)
_MAX_LOCK_SECONDS: Final = 30.0  # maximum wait for the lock of a conversation
_FAILED: Final = "The server cannot continue this conversation. The error was logged."
_MODEL_FAILED: Final = (
    "The model is unavailable. The turn stays open. Send a run without new messages to try again."
)
_BUSY: Final = "Another program runs the turn and cannot take a secret. Send the secret again."
_OPEN: Final = "The turn is open and continues later. Send a run without new messages to follow it."


_Beginning: TypeAlias = tuple[str | None, Sequence[Event]]
"""The conversation of a thread, if it has one, and its events before the run."""


def thread_key(user: str, thread: str) -> str:
    """Return the conversation key for a user's thread. The user name is quoted, so that no other
    user's thread can have the same key.
    """
    return f"agui:{quote(user, safe='')}:{thread}"


class RunSettings(Struct, frozen=True, kw_only=True):
    """Settings of all runs.

    Args:
        secrets: Whether front ends may send secrets.
        context: Whether the front end's context is added to the user's messages.
    """

    secrets: bool = False
    context: bool = False


class ThreadRun:
    """One run. Iterate over `events` once.

    A task that starts at once records the entries of `resume`, so that no answer is lost if the
    connection breaks before the first event is sent.

    Args:
        turns: The turns that run in this application.
        store: The store, with its authorization rules.
        given: The request.
        user: The user of the front end.
        settings: Settings of all runs.
    """

    def __init__(
        self,
        turns: RunningTurns,
        store: ConversationStore,
        given: RunInput,
        user: str,
        settings: RunSettings,
    ) -> None:
        self._turns = turns
        self._store = store
        self._given = given
        self._user = user
        self._settings = settings
        self._thread = ThreadMessages(given.messages, with_images=not given.is_old)
        self._writer = EventWriter(self._thread)
        self._conversation = ""
        self._result: RunResult[object] | None = None
        self._entries = EntryResults()
        self._beginning = turns.in_background(self._record_entries())

    async def events(self) -> AsyncGenerator[AguiEvent]:
        """Yield the events of the run. The last one ends the run."""
        yield protocol.run_started(self._given.thread, self._given.run)
        try:
            async for event in self._run():
                yield event
        except ModelError as error:
            _LOG.warning(
                "the model of conversation %s is unavailable: %s", self._conversation, error
            )
            end = protocol.run_error(_MODEL_FAILED, "model")
        except Exception as error:  # noqa: BLE001  the program's own code may raise anything; the front end needs an end
            _LOG.exception("the run %r of a thread failed: %r", self._given.run, error)
            end = protocol.run_error(_FAILED, "store" if isinstance(error, StoreError) else "error")
        else:
            return
        for event in self._writer.close():
            yield event
        yield end

    # The run
    # ----------------------------------------------------------------------------------------------

    async def _run(self) -> AsyncIterator[AguiEvent]:
        found, recorded = await asyncio.shield(self._beginning)
        words = self._given.new_messages(frozenset(self._thread.ids))
        for event in self._first_events(words, is_new=not recorded):
            yield event
        for value in self._entries.not_taken:
            yield protocol.custom("not_taken", value)
        words = tuple(message for message in words if message.text)
        if found is None and not words:
            yield protocol.snapshot(own_messages(self._given.messages))
            yield self._finished({"type": "success"})
            return
        key = thread_key(self._user, self._given.thread)
        self._conversation = found or await self._store.new(words[0].text, key=key)
        self._turns.reserve(self._conversation)
        try:
            driver = TurnDriver(
                self._turns,
                self._store,
                self._conversation,
                self._writer,
                len(recorded),
                self._user,
                self._entries,
            )
            async for event in self._drive(driver, words):
                yield event
            for event in self._unused_secrets():
                yield event
            async for event in self._end(driver):
                yield event
        finally:
            self._turns.release(self._conversation)

    async def _read(self, conversation: str | None) -> Sequence[Event]:
        """Add the recorded events to the thread, so that this run does not send them as new."""
        if conversation is None:
            return ()
        events = (await self._store.read(conversation)).events
        for event in events:
            self._thread.take(event)
        return events

    def _first_events(self, words: Sequence[InputMessage], *, is_new: bool) -> Iterator[AguiEvent]:
        """Yield the snapshot for a front end that lacks recorded messages, and warnings about parts
        of the input that are not used.
        """
        yield from self._ignored(words)
        new = {message.id for message in words}
        held = [
            message
            for message in self._given.messages
            if message.role in ("user", "assistant", "tool") and message.id not in new
        ]
        if is_new:
            return
        unknown = [
            each.id for each in held if each.id not in self._thread.ids and each.role == "user"
        ]
        if unknown:
            yield protocol.custom("history", {"why": "not_recorded", "messages": [*unknown]})
        if [message.id for message in held] != [each["id"] for each in self._thread.messages]:
            yield from self._snapshot(words)

    def _ignored(self, words: Sequence[InputMessage]) -> Iterator[AguiEvent]:
        parts = sorted({kind for message in words for kind in message.ignored_parts})
        ignored: dict[str, Json] = {}
        if self._given.tools:
            ignored["tools"] = [*self._given.tools]
        if parts:
            ignored["parts"] = [*parts]
        if self._given.context and not self._settings.context:
            ignored["context"] = len(self._given.context)
        if ignored:
            yield protocol.custom("ignored", ignored)

    def _snapshot(self, words: Sequence[InputMessage] = ()) -> Iterator[AguiEvent]:
        """Yield the messages of the thread, and the new messages that are not recorded yet."""
        new: list[protocol.AguiMessage] = [
            {**message.given, "id": message.id, "role": "user", "content": message.text}
            for message in words
            if message.id not in self._thread.ids
        ]
        messages = [*own_messages(self._given.messages), *self._thread.messages, *new]
        if displaced([message.id for message in self._given.messages], messages):
            yield protocol.snapshot([])  # so that the front end uses the order of the next snapshot
        yield protocol.snapshot(messages)

    async def _record_entries(self) -> _Beginning:
        """Read the thread, and record the entries of `resume` as answers."""
        found = await self._store.find(thread_key(self._user, self._given.thread))
        recorded = await self._read(found)
        if self._given.entries:
            asked = [] if found is None else await self._asked(found)
            taker = EntryTaker(self._store, found, self._user, asked)
            self._entries = await taker.take(self._given.entries)
        return found, recorded

    async def _asked(self, conversation: str) -> list[AskedQuestion]:
        return await asked_questions(
            self._store, conversation, self._user, takes_secrets=self._settings.secrets
        )

    # Driving the turn
    # ----------------------------------------------------------------------------------------------

    async def _drive(
        self, driver: TurnDriver, words: tuple[InputMessage, ...]
    ) -> AsyncIterator[AguiEvent]:
        """Continue the open turn, and then start a turn with the new messages, until the turn ends
        or waits for people.
        """
        begun_at = time.monotonic()
        while True:
            async for event in driver.continue_turn():
                yield event
            if not words:
                return
            events = (await self._store.read(self._conversation)).events
            if self._given.run in turn_keys(events):
                new = [each for each in words if each.id not in self._thread.ids]
                for message in new:
                    yield self._words_not_taken(message, "run_exists")
                return
            if TurnView.last(events).is_open:
                for message in words:
                    yield self._words_not_taken(message, "turn_open")
                return
            try:
                opened = self._begin(words, is_new=not events)
                async for event in driver.follow(opened, has_history=not events):
                    yield event
            except (StoreLocked, TurnOpen):  # another request or program was first
                if time.monotonic() - begun_at > _MAX_LOCK_SECONDS:
                    for message in words:
                        yield self._words_not_taken(message, "busy")
                    return
                await asyncio.sleep(RETRY_DELAY)
                continue
            words = ()

    def _words_not_taken(self, message: InputMessage, why: str) -> AguiEvent:
        return protocol.custom("not_taken", {"message": message.id, "why": why})

    def _begin(self, words: Sequence[InputMessage], *, is_new: bool) -> OpenedStream:
        text = SEPARATOR.join(message.text for message in words)
        if self._settings.context:
            context = (f"{name}: {value}" for name, value in self._given.context)
            text = SEPARATOR.join((text, *context))
        return self._turns.source.start(
            self._conversation,
            text,
            key=self._given.run,
            metadata=request_metadata(self._given.run, words),
            author=self._user,
            history=self._history(words) if is_new else (),
        )

    def _history(self, words: Sequence[InputMessage]) -> list[HistoryMessage]:
        """Return the history that the front end sent with a new conversation. It begins with the
        first text from the user.
        """
        new = {message.id for message in words}
        found: list[HistoryMessage] = []
        for message in self._given.messages:
            if not message.text or message.id in new:
                continue
            if message.role == "user":
                found.append({"role": "user", "content": message.text})
            elif message.role == "assistant" and found:
                found.append({"role": "assistant", "content": message.text})
        return found

    # The end
    # ----------------------------------------------------------------------------------------------

    def _unused_secrets(self) -> Iterator[AguiEvent]:
        """Yield an event for each secret that was not used, because another program was running the
        turn.
        """
        for address in self._entries.secrets:
            value: dict[str, Json] = {"interruptId": address, "why": "busy", "text": _BUSY}
            yield protocol.custom("not_taken", value)

    async def _end(self, driver: TurnDriver) -> AsyncIterator[AguiEvent]:
        """Yield the messages of the thread, and the end of the run."""
        async for event in driver.catch_up():
            yield event
        self._result = driver.result
        for event in self._writer.close():
            yield event
        for event in self._snapshot():
            yield event
        if self._thread.has_dropped_images:
            yield protocol.custom("flattened", {"why": "images_need_protocol_1.0"})
        asked = await self._asked(self._conversation)
        if asked:
            found = interrupts(
                asked,
                self._entries.problems,
                is_old=self._given.is_old,
                calls=self._thread.calls,
            )
            yield self._finished({"type": "interrupt", "interrupts": found})
            return
        window = last_turn((await self._store.read(self._conversation)).events)
        for event in self._ended(window):
            yield event

    def _ended(self, window: Window | None) -> Iterator[AguiEvent]:
        """Yield the end of a run without open questions."""
        ended = _turn_end(window)
        if ended is None and window is not None and window.open:
            yield protocol.run_error(_OPEN, "open", usage=self._usage())
            return
        if ended is None:  # no turn has begun
            yield self._finished({"type": "success"})
            return
        ending = RunEnding(ended.status, ended.error)
        result = self._result
        if result is None or result.status == "suspended":
            result = build_result(self._conversation, TurnView(window), ending, None, ())
        match result.status:
            case "completed":
                structured: dict[str, Json] = {}
                if result.structured is not None:
                    structured["result"] = result.to_json()["structured"]
                yield self._finished({"type": "success"}, **structured)
            case "ended_by_user" if self._given.is_old:
                yield protocol.custom("ended", {"status": "ended_by_user"})
                yield self._finished({"type": "success"})
            case "ended_by_user":
                yield self._finished({"type": "cancelled"})
            case _:
                text = result.error or "The turn failed."
                yield protocol.run_error(text, "failed", usage=self._usage())

    def _finished(self, outcome: dict[str, Json], **members: Json) -> AguiEvent:
        """Return the last event of a run that did not fail. Front ends that use a version before
        1.0 do not support the outcome `success`.
        """
        if outcome["type"] != "success" or not self._given.is_old:
            members["outcome"] = outcome
        return protocol.run_finished(
            self._given.thread, self._given.run, usage=self._usage(), **members
        )

    def _usage(self) -> list[Json]:
        return [] if self._result is None else protocol.token_usage(self._result.run_usage)


def _turn_end(window: Window | None) -> TurnEnd | None:
    if window is None or window.open:
        return None
    return next((event for event in window.events if isinstance(event, TurnEnd)), None)
