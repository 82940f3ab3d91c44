"""Run turns for editors, with the configuration of the directory that is open in the editor."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from midturn.agent.assembly.command_line import CommandArguments, CommandLine, discard_turn
from midturn.agent.assembly.mcp import Servers, can_ask, missing
from midturn.agent.prompters import InboxPrompter
from midturn.cli.command_context import CommandContext, StoreAddress, environment, place_in
from midturn.cli.loading import Flags, load_for
from midturn.cli.output import ExitStatus
from midturn.cli.remote_agents import with_remote_agent
from midturn.clock import SYSTEM, now
from midturn.config.places import own_name
from midturn.config.settings import Settings
from midturn.events.types import AnsweredBy
from midturn.integrations.acp.agent import (
    AssistantAgent,
    SentServer,
    SentServers,
    sent_servers,
    serve,
)
from midturn.integrations.acp.session import Interrupt
from midturn.ports import Clock, Display, Notice
from midturn.runtime.driver import RunEnding
from midturn.runtime.run_options import RunOptions
from midturn.stores.locked import LockedConversation
from midturn.stores.metadata import Metadata, title
from midturn.stores.store import ConversationStore
from midturn.turn.inputs import TurnRequested


class ConfiguredTurns:
    """Runs the turns of one directory.

    Questions are in the inbox while the turn runs. A question that cannot wait in the inbox
    suspends the turn.
    """

    def __init__(self, place: CommandContext, flags: Flags, sent: SentServers) -> None:
        self._place = place
        self._flags = flags
        self._sent = sent
        self._servers = Servers()

    @property
    def store(self) -> ConversationStore:
        """The store of the conversations."""
        return self._place.store

    async def begin(self, conversation: str, words: str) -> str:
        """Create a conversation with this ID and with `words` as its title. Return the ID."""
        return await self.store.port.add(
            [], Metadata(title=title(words), created_at=now()), conversation
        )

    async def run(
        self,
        journal: LockedConversation,
        words: str | None,
        display: Display,
        on_start: Callable[[Interrupt], None],
    ) -> RunEnding:
        """Run a turn. If `words` is None, resume the open turn."""
        loaded = load_for(self._place, self._flags, journal.events)
        for sentence in loaded.ignored if words is not None else ():
            display.show(Notice(sentence))
        settings, root = self._with_servers(loaded.settings, display), self._place.root
        asks = can_ask(settings, attached=True)
        connected = await asyncio.to_thread(self._servers.connected, settings, root, asks=asks)
        for warning in connected.warnings:
            display.show(Notice(warning))
        parts = CommandArguments(settings=settings, root=root, others=connected.tools)
        options = RunOptions(prompter=InboxPrompter(), display=display)
        command_line = CommandLine(with_remote_agent(parts), options)
        try:
            session = command_line.session(journal)
            on_start(session.interrupt)
            if words is None:
                return await session.resume()
            delta = loaded.given.to_record()
            return await session.run(TurnRequested(words, delta=delta))
        finally:
            await command_line.aclose()

    def _with_servers(self, settings: Settings, display: Display) -> Settings:
        """Add the MCP servers that the editor sent.

        A configured server with the same name has precedence.
        """
        if self._sent.servers and importlib.util.find_spec("mcp") is None:
            display.show(Notice(f"The MCP servers of the editor are not available. {missing()}"))
            return settings
        for problem in self._sent.problems:
            display.show(Notice(problem))
        return replace(settings, mcp={**self._sent.servers, **settings.mcp})

    async def end(self, journal: LockedConversation) -> None:
        """End the open turn of a conversation."""
        await discard_turn(
            self.store, journal, AnsweredBy("user", via="acp", user=own_name(environment()))
        )

    async def close(self) -> None:
        """Disconnect the MCP servers."""
        await asyncio.to_thread(self._servers.close)


def editor_agent(
    flags: Flags, store: StoreAddress | None, clock: Clock = SYSTEM, *, takes_servers: bool = True
) -> AssistantAgent:
    """Return midturn's assistant for editors.

    Each session uses the configuration of its own directory.

    Args:
        flags: Flags of the command.
        store: Store of conversations, if not the default store.
        clock: Source of time.
        takes_servers: Whether to use the MCP servers that the editor sends.
    """
    absolute = store.absolute() if store else None
    waiting = replace(flags, defer=True)

    def turns(cwd: Path, sent: Sequence[SentServer]) -> ConfiguredTurns:
        place = place_in(cwd, absolute)
        return ConfiguredTurns(
            place, waiting, sent_servers(sent if takes_servers else (), place.root)
        )

    return AssistantAgent(turns, clock)


def serve_editor(flags: Flags, store: StoreAddress | None, *, takes_servers: bool) -> ExitStatus:
    """Serve an editor until it disconnects or a signal arrives."""
    return asyncio.run(_serve_until_signal(editor_agent(flags, store, takes_servers=takes_servers)))


async def _serve_until_signal(agent: AssistantAgent) -> ExitStatus:
    serving = asyncio.ensure_future(serve(agent))
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        serving.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    with suppress(asyncio.CancelledError):  # the ACP library may have swallowed the cancellation
        await serving
    return ExitStatus(128 + received[0]) if received else ExitStatus.DONE
