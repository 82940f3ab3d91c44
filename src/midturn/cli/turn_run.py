"""Runs or resumes a turn from the command line: who is there, what is shown, what a signal does."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.agent.assembly.command_line import CommandLine, CommandParts
from midturn.agent.assembly.mcp import Connected, Servers, can_ask
from midturn.agent.assembly.session import RunParts
from midturn.cli.asking import terminal
from midturn.cli.command_context import Place
from midturn.cli.headless import with_signals
from midturn.cli.locked import Held, hush
from midturn.cli.output import ExitStatus, block, line, note
from midturn.cli.turn_end import Ended, EndReport, OutputFormat, Screen, display_for
from midturn.config.load import Loaded
from midturn.config.settings import Settings
from midturn.errors import TerminalGone
from midturn.exchange import Spent
from midturn.models.wrapper import SPENT
from midturn.prompter import Prompter
from midturn.runtime.driver import RunEnding, Session
from midturn.terminal.output_pair import Gate
from midturn.turn.step import TurnRequested

if TYPE_CHECKING:
    from midturn.agent.assembly.mcp import Servers
    from midturn.ports import Tool


class TurnRun(Struct, frozen=True, kw_only=True):
    """Everything a run needs besides its conversation.

    `prompter` replaces the terminal; with `waits`, a suspended turn is not left; `shaped`: the answer is JSON of a wanted shape. `servers`
    are left connected for the next turn; without them, this one connects for itself. `again` is what the user types to go on with a turn
    that was left open, where that is no command of a shell. `exit_leaves_open` is as in `terminal`.
    """

    place: Place
    loaded: Loaded
    attached: bool
    output: OutputFormat = "text"
    prompter: Prompter | None = None
    waits: bool = False
    shaped: bool = False
    servers: Servers | None = None
    again: str | None = None
    exit_leaves_open: bool = False


class TurnRunner:
    """A run that is set up: what is wrong with the configuration, its model or its tools has been found.

    Raises:
        ConfigError: Something is.
    """

    def __init__(self, run: TurnRun) -> None:
        settings = run.loaded.settings
        self._gate = gate = Gate()
        prompter = (run.prompter or _terminal(settings, gate, exit_leaves_open=run.exit_leaves_open)) if run.attached else None
        attached = prompter is not None
        self._own_servers: Servers | None = None
        self._run = run
        parts = CommandParts(settings=settings, root=run.place.root, attached=attached, others=self._others(attached=attached))
        self.interrupted = False
        """Whether Ctrl-C was pressed while it ran, even if too late for the turn."""
        self._display = display_for(Screen(output=run.output, shaped=run.shaped, gate=gate), settings)
        self._command_line = CommandLine(parts, RunParts(prompter=prompter, display=self._display))

    def run(self, held: Held, requested: TurnRequested | None) -> ExitStatus:
        """Run a new turn, or resume the open one (None); say how it ended."""
        try:
            status = self._run_once(held, requested)
            while status == ExitStatus.SUSPENDED and self._run.waits and _answered(held, self._run.place.option):
                status = self._run_once(held, None)
        finally:
            if self._own_servers is not None:
                self._own_servers.close()
        return status

    def _others(self, *, attached: bool) -> Sequence[Tool]:
        """Return the tools of MCP servers, connected."""
        settings, servers = self._run.loaded.settings, self._run.servers
        if servers is None and not settings.mcp:
            return ()

        if servers is None:
            servers = self._own_servers = Servers()
        return connect(servers, settings, self._run.place.root, attached=attached).tools

    def _run_once(self, held: Held, requested: TurnRequested | None) -> ExitStatus:
        session = self._command_line.session(held.journal)
        spent: list[Spent] = []
        SPENT.set(spent)
        try:
            with _hushed(attached=self._run.attached):
                ending = asyncio.run(self._perform(session, requested))
        except (SystemExit, TerminalGone):  # a signal, or a terminal that is gone: what is recorded stays
            if session.turn_is_open:
                note("midturn: the turn is open. `midturn resume {}{}` goes on with it.", held.conversation, self._run.place.option)
            else:
                note("midturn: the turn was ended.")
            raise
        finally:
            self._display.end()

        run = self._run
        end = EndReport(
            output=run.output, shaped=run.shaped, waits=run.waits, attached=run.attached, option=run.place.option, again=run.again
        )
        return end.tell(Ended(held.conversation, ending, session.view, spent))

    async def _perform(self, session: Session, requested: TurnRequested | None) -> RunEnding:
        work = session.resume if requested is None else lambda: session.run(requested)

        def interrupt() -> None:
            self.interrupted = True
            session.interrupt()

        try:
            with _typing(self._gate, attached=self._run.attached):
                return await with_signals(work, interrupt)
        finally:
            await self._command_line.aclose()


def _answered(held: Held, option: str) -> bool:
    """Hold on until there is an answer; False when the person here does not want to wait any longer."""
    try:
        note("Waiting. Ctrl-C leaves the turn as it is.")  # from this line on it does
        held.wait_for_answers()
    except KeyboardInterrupt:
        note("midturn: not waiting any longer; the turn stays open. `midturn resume {}{}` goes on with it.", held.conversation, option)
        return False
    held.take_answers()
    return True


def _terminal(settings: Settings, gate: Gate, *, exit_leaves_open: bool) -> Prompter:
    return terminal(settings, gate, exit_leaves_open=exit_leaves_open)


def _hushed(*, attached: bool) -> AbstractContextManager[None]:
    """Keep what is typed during a turn off the screen, where a person is there to type."""
    if not attached:
        return nullcontext()
    return hush().during_turn()


def _typing(gate: Gate, *, attached: bool) -> AbstractContextManager[None]:
    """Show what a person types in a chat while the turn runs."""
    if not attached:
        return nullcontext()
    return hush().typing(gate)


# ----------------------------------------------------------------------------------------------------------------------
# The MCP servers of a command: connected, with a word about those that cannot be used


def connect(servers: Servers, settings: Settings, root: Path, *, attached: bool) -> Connected:
    """Return the connected servers; `attached`: a person is there to be asked."""
    found = servers.connected(settings, root, asks=can_ask(settings, attached=attached))
    for warning in found.warnings:
        note(line("midturn: {}", block(warning)))
    return found


@contextmanager
def connected(settings: Settings, root: Path, *, attached: bool) -> Generator[Connected]:
    """Connect for as long as the block runs."""
    with Servers() as servers:
        yield connect(servers, settings, root, attached=attached)
