"""`midturn acp`: our assistant for editors; and agents of others that speak the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click
from msgspec.structs import replace

from midturn.acp.agent import AssistantAgent, SentServer, SentServers, sent_servers, serve
from midturn.acp.session import Interrupt
from midturn.agent.prompters import InboxPrompter
from midturn.cli.headless import headless_place, prompt_of, say_prose, to_its_end
from midturn.cli.lazy import CommandEntry, LazyGroup
from midturn.cli.loading import Flags, load_for
from midturn.cli.options import with_model, with_store
from midturn.cli.output import ExitStatus, note
from midturn.cli.place import Place, StoreAddress, place_in
from midturn.clock import SYSTEM, now
from midturn.compose.command_line import CommandLine, CommandParts, discard_turn
from midturn.compose.mcp import MISSING, Servers, asks_somebody
from midturn.compose.session import RunParts
from midturn.config.assign import Assignment
from midturn.config.settings import Settings
from midturn.errors import ConfigError
from midturn.ports import Clock, Display, Notice
from midturn.runtime.driver import RunEnding
from midturn.sandbox.doors import for_people_only
from midturn.store.held import HeldConversation
from midturn.store.metadata import Metadata, title
from midturn.store.store import ConversationStore
from midturn.turn.inputs import TurnRequested

# ----------------------------------------------------------------------------------------------------------------------
# `midturn acp`: our assistant as an agent of the Agent Client Protocol, for editors


_MISSING = 'The Agent Client Protocol needs the extra `acp`: install it with `pip install "midturn[acp]"`.'


class _Group(LazyGroup):
    """Serves where no command is named."""

    sections: Mapping[str, Mapping[str, CommandEntry]] = {
        "Commands": {
            "run": CommandEntry("midturn.cli.acp:run_command", "Run one without anybody at its terminal; what it asks waits in the inbox.")
        }
    }


@click.command("acp", cls=_Group, invoke_without_command=True)
@with_model
@click.option("--cfg", multiple=True, metavar="KEY=VALUE|FILE", help="Set a key of the configuration, or read a file of keys.")
@click.option("--own-servers", is_flag=True, help="Use the MCP servers of the configuration only, and none that the editor sends.")
@with_store
@click.pass_context
def command(
    context: click.Context, *, model: str | None, cfg: tuple[str, ...], own_servers: bool, store: StoreAddress | None
) -> ExitStatus | None:
    """Be an agent for editors that speak the Agent Client Protocol: they start this command, and talk with it over stdin and stdout.

    What the assistant asks is shown in the editor, and waits in the inbox; the first answer counts.
    """
    if context.invoked_subcommand is not None:
        return None
    check_installed()
    _check_editor()

    for_people_only("take answers for one")
    assignments = [Assignment("assistant.model.id", model, "--model")] if model else []
    return serve_editor(Flags(cfg=cfg, assignments=assignments), store, takes_servers=not own_servers)


def _check_editor() -> None:
    """Make sure that a program is at the other end: a file and /dev/null never hang up, and a person has nothing to type here.

    Raises:
        click.UsageError: stdin or stdout is neither a pipe nor a socket.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError("Editors start this command, and talk with it: there is nothing to type here. `midturn chat` is for you.")
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        mode = os.fstat(stream.fileno()).st_mode if stream is not None else 0
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise click.UsageError(f"Editors start this command, and talk with it over pipes: its {name} is not one.")


def check_installed() -> None:
    """Make sure that the library for the protocol is there.

    Raises:
        ConfigError: It is not.
    """
    if importlib.util.find_spec("acp") is None:
        raise ConfigError(_MISSING)


# ----------------------------------------------------------------------------------------------------------------------
# Turns for editors, under the configuration of the directory that an editor has open


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
        asks = asks_somebody(settings, attached=True)
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
            display.show(Notice(f"The editor's MCP servers are not used. {MISSING}"))
            return settings
        for problem in self._sent.problems:
            display.show(Notice(problem))
        return replace(settings, mcp={**self._sent.servers, **settings.mcp})

    async def end(self, journal: HeldConversation) -> None:
        """End the open turn of a conversation."""
        await discard_turn(self.store, journal)

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


# ----------------------------------------------------------------------------------------------------------------------
# `midturn acp run`: an agent of somebody else's, without a terminal; its permissions and questions wait in the inbox


@click.command("run")
@click.argument("agent", nargs=-1, required=True, metavar="-- AGENT [ARGUMENT]...")
@click.option("-p", "--prompt", metavar="TEXT", help="What the agent is to do; without it, what is piped into stdin.")
@click.option("--mode", metavar="MODE", help="One of the agent's own modes, such as one in which it asks before it edits.")
@with_store
def run_command(*, agent: tuple[str, ...], prompt: str | None, mode: str | None, store: StoreAddress | None) -> ExitStatus:
    """Run AGENT, such as `gemini --acp`, with one prompt. What it says goes to stdout.

    What it asks waits in `midturn inbox`, for as long as it takes: silence is never an answer.
    """
    check_installed()
    return asyncio.run(_run(headless_place(store), agent, prompt_of(prompt), mode))


async def _run(place: Place, agent: tuple[str, ...], prompt: str, mode: str | None) -> ExitStatus:
    from midturn.acp.running import AcpRun

    run = AcpRun(command=agent, cwd=place.cwd, store=place.store, clock=SYSTEM, say=say_prose, mode=mode)
    ended = await to_its_end(run.go(prompt))
    say_prose("\n")
    if ended is None or ended == "cancelled":
        note("midturn: the agent was stopped. What it asked and nobody answered stays on record.")
        return ExitStatus.ENDED_BY_USER
    if ended != "end_turn":
        note("midturn: the agent stopped: {}.", ended)
        return ExitStatus.ERROR
    return ExitStatus.DONE
