"""Runs turns for remote clients with the configuration of the working directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from midturn.agent.assembly.command_line import CommandArguments, CommandLine
from midturn.agent.assembly.mcp import Servers, can_ask
from midturn.agent.given_secrets import GivenSecrets, create_secret_prompter
from midturn.agent.result import HistoryMessage, RunResult, build_result, record_history
from midturn.agent.turn_stream import StreamDisplay, Streamed, TurnStream, recorded_since
from midturn.cli.command_context import CommandContext
from midturn.cli.loading import Flags, ignored_warnings, load_for
from midturn.cli.output import note
from midturn.cli.remote_agents import with_remote_agent
from midturn.errors import ConfigError, StoreLocked
from midturn.exchange import Spent
from midturn.models.wrapper import SPENT
from midturn.prompter import Prompter
from midturn.question.json_value import JsonObject
from midturn.runtime.keyed_turn import keyed_turn
from midturn.runtime.run_options import RunOptions
from midturn.stores.locked import LockedConversation
from midturn.stores.store import ConversationStore
from midturn.turn.inputs import TurnRequested

OpenedStream = AbstractAsyncContextManager[AsyncIterator[Streamed]]


class ConfiguredTurns:
    """Runs turns with the configuration of a directory.

    No person is attached to these turns. A question suspends its turn until it is answered by the
    client or in the inbox.
    """

    def __init__(self, place: CommandContext, flags: Flags) -> None:
        self._place = place
        self._flags = flags
        self._servers = Servers()

    @property
    def store(self) -> ConversationStore:
        """The store that contains the conversations."""
        return self._place.store

    def start(
        self,
        conversation: str,
        text: str,
        *,
        key: str,
        metadata: JsonObject,
        author: str,
        history: Sequence[HistoryMessage],
    ) -> OpenedStream:
        """Start a turn."""

        @asynccontextmanager
        async def started() -> AsyncGenerator[TurnStream]:
            async with await self.store.open(conversation) as journal:
                if keyed_turn(journal.events, key, ""):
                    raise StoreLocked(f"The turn of run {key} has just begun.")
                await record_history(journal, history)
                request = TurnRequested(text, author=author, metadata=dict(metadata))
                async with self._streaming(journal, request, RunOptions(key=key)) as stream:
                    yield stream

        return started()

    def resume(
        self, conversation: str, *, after: int | None, secrets: GivenSecrets, user: str | None
    ) -> OpenedStream:
        """Resume the open turn."""

        @asynccontextmanager
        async def resumed() -> AsyncGenerator[TurnStream]:
            prompter: Prompter | None = None
            if secrets:
                prompter = await create_secret_prompter(
                    self.store, conversation, secrets, user, None
                )
            async with await self.store.open_root(conversation) as journal:
                options = RunOptions(prompter=prompter)
                async with self._streaming(journal, None, options, after) as stream:
                    yield stream

        return resumed()

    @asynccontextmanager
    async def _streaming(
        self,
        journal: LockedConversation,
        request: TurnRequested | None,
        options: RunOptions,
        after: int | None = None,
    ) -> AsyncGenerator[TurnStream]:
        """Run a turn in a background task, and stream its events.

        Raises:
            ConfigError: The turn cannot be set up.
        """
        loaded = load_for(self._place, self._flags, journal.events)
        if request is None and (warnings := ignored_warnings(loaded)):
            raise ConfigError("\n".join(warnings))
        if request is not None:
            request = replace(request, delta=loaded.given.to_record())
        attached = options.prompter is not None
        connected = await asyncio.to_thread(
            self._servers.connected,
            loaded.settings,
            self._place.root,
            asks=can_ask(loaded.settings, attached=attached),
        )
        for warning in connected.warnings:
            note("midturn: {}", warning)
        display = StreamDisplay(journal, with_events=True)
        if after is not None:
            for item in recorded_since(journal.events, journal.conversation, after):
                display.seen.put_nowait(item)
        arguments = CommandArguments(
            settings=loaded.settings,
            root=self._place.root,
            attached=attached,
            others=connected.tools,
        )
        command_line = CommandLine(with_remote_agent(arguments), replace(options, display=display))
        running = asyncio.create_task(_run(command_line, journal, request))
        stream = TurnStream(journal.conversation, display, running)
        try:
            yield stream
        finally:
            await stream.stop()
            await command_line.aclose()

    async def close(self) -> None:
        """Disconnect the MCP servers."""
        await asyncio.to_thread(self._servers.close)


async def _run(
    command_line: CommandLine, journal: LockedConversation, request: TurnRequested | None
) -> RunResult[Any]:
    """Run or resume a turn.

    Raises:
        ModelError: The model was unavailable after all retries.
    """
    session = command_line.session(journal)
    spent: list[Spent] = []
    SPENT.set(spent)
    ending = await (session.run(request) if request else session.resume())
    return build_result(journal.conversation, session.view, ending, None, spent)
