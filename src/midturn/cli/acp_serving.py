"""Turns for editors, under the configuration of the directory that an editor has open."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from midturn.agent.assembly.command_line import CommandLine, CommandParts, discard_turn
from midturn.agent.assembly.mcp import Servers, can_ask, missing
from midturn.agent.assembly.session import RunParts
from midturn.agent.prompters import InboxPrompter
from midturn.cli.command_context import Place, StoreAddress, environment, place_in
from midturn.cli.loading import Flags, load_for
from midturn.cli.output import ExitStatus
from midturn.clock import SYSTEM, now
from midturn.config.places import own_name
from midturn.config.settings import Settings
from midturn.events.types import AnsweredBy
from midturn.integrations.acp.agent import AssistantAgent, SentServer, SentServers, sent_servers, serve
from midturn.integrations.acp.session import Interrupt
from midturn.ports import Clock, Display, Notice
from midturn.runtime.driver import RunEnding
from midturn.stores.locked import HeldConversation
from midturn.stores.metadata import Metadata, title
from midturn.stores.store import ConversationStore
from midturn.turn.step import TurnRequested


class ConfiguredTurns:
    """Turns of one place. A question waits for the inbox while its turn runs; what an inbox cannot take meanwhile suspends the turn."""

    def __init__(self, place: Place, flags: Flags, sent: SentServers) -> None:
        self._place = place
        self._flags = flags
        self._sent = sent
        self._servers = Servers()

    @property
    def store(self) -> ConversationStore:
        """Where the conversations are."""
        return self._place.store

    async def begin(self, conversation: str, words: str) -> str:
        """Make a conversation with this id."""
        return await self.store.port.add([], Metadata(title=title(words), created_at=now()), conversation)

    async def run(self, journal: HeldConversation, words: str | None, display: Display, begun: Callable[[Interrupt], None]) -> RunEnding:
        """Run a turn, or go on with the open one."""
        loaded = load_for(self._place, self._flags, journal.events)
        for sentence in loaded.ignored if words is not None else ():
            display.show(Notice(sentence))
        settings, root = self._with_servers(loaded.settings, display), self._place.root
        asks = can_ask(settings, attached=True)
        connected = await asyncio.to_thread(self._servers.connected, settings, root, asks=asks)
        for warning in connected.warnings:
            display.show(Notice(warning))
        parts = CommandParts(settings=settings, root=root, others=connected.tools)
        command_line = CommandLine(parts, RunParts(prompter=InboxPrompter(), display=display))
        try:
            session = command_line.session(journal)
            begun(session.interrupt)
            if words is None:
                return await session.resume()
            delta = loaded.given.to_record()
            return await session.run(TurnRequested(words, delta=delta))
        finally:
            await command_line.aclose()

    def _with_servers(self, settings: Settings, display: Display) -> Settings:
        """Add what the editor has sent; a server that is configured here under the same name is the one that counts."""
        if self._sent.servers and importlib.util.find_spec("mcp") is None:
            display.show(Notice(f"The editor's MCP servers are not used. {missing()}"))
            return settings
        for problem in self._sent.problems:
            display.show(Notice(problem))
        return replace(settings, mcp={**self._sent.servers, **settings.mcp})

    async def end(self, journal: HeldConversation) -> None:
        """End the open turn of a conversation."""
        await discard_turn(self.store, journal, AnsweredBy("user", via="acp", user=own_name(environment())))

    async def close(self) -> None:
        """Leave the MCP servers."""
        await asyncio.to_thread(self._servers.close)


def editor_agent(flags: Flags, store: StoreAddress | None, clock: Clock = SYSTEM, *, takes_servers: bool = True) -> AssistantAgent:
    """Return our assistant, as it is configured in whichever directory a session is begun.

    Args:
        flags: What the command was given.
        store: Where conversations are, if not where they always are.
        clock: What time it is.
        takes_servers: The MCP servers that an editor sends are used, too.
    """
    absolute = store.absolute() if store else None
    waiting = replace(flags, defer=True)

    def turns(cwd: Path, sent: Sequence[SentServer]) -> ConfiguredTurns:
        place = place_in(cwd, absolute)
        return ConfiguredTurns(place, waiting, sent_servers(sent if takes_servers else (), place.root))

    return AssistantAgent(turns, clock)


def serve_editor(flags: Flags, store: StoreAddress | None, *, takes_servers: bool) -> ExitStatus:
    """Be an editor's agent until it hangs up, or this process is told to end."""
    return asyncio.run(_until_told(editor_agent(flags, store, takes_servers=takes_servers)))


async def _until_told(agent: AssistantAgent) -> ExitStatus:
    serving = asyncio.ensure_future(serve(agent))
    told: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        told.append(number)
        serving.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    with suppress(asyncio.CancelledError):  # the protocol's library keeps it to itself
        await serving
    return ExitStatus(128 + told[0]) if told else ExitStatus.DONE
