"""Run or resume a turn from the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.agent.assembly.command_line import CommandArguments, CommandLine
from midturn.agent.assembly.mcp import Connected, Servers, can_ask
from midturn.cli.asking import terminal
from midturn.cli.command_context import CommandContext
from midturn.cli.headless import with_signals
from midturn.cli.locked import ConversationLock, hush
from midturn.cli.output import ExitStatus, block, line, note
from midturn.cli.remote_agents import with_remote_agent
from midturn.cli.turn_end import TURN_ENDED, Ended, EndReport, OutputFormat, Screen, display_for
from midturn.config.load import Loaded
from midturn.config.settings import Settings
from midturn.errors import TerminalGone
from midturn.exchange import Spent
from midturn.models.wrapper import SPENT
from midturn.prompter import Prompter
from midturn.runtime.driver import RunEnding
from midturn.runtime.run_options import RunOptions
from midturn.runtime.session import Session
from midturn.terminal.output_pair import Gate
from midturn.turn.inputs import TurnRequested

if TYPE_CHECKING:
    from midturn.agent.assembly.mcp import Servers
    from midturn.ports import Tool


class TurnRun(Struct, frozen=True, kw_only=True):
    """The options of a run, without its conversation.

    Args:
        place: Workspace and store of the command.
        loaded: The configuration.
        attached: Whether a user can answer prompts.
        output: Output format.
        prompter: Prompter to use instead of the terminal.
        waits: Whether to wait for answers if the turn is suspended.
        shaped: Whether the response must match a JSON Schema.
        servers: MCP servers that stay connected after the run. None: the run connects servers and
            disconnects them at its end.
        again: Chat command that continues a turn that stays open. None: it is a shell command.
        exit_leaves_open: See `cli.asking.terminal`.
    """

    place: CommandContext
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
    """A run that is ready to start: the configuration, the model and the tools have been checked.

    Raises:
        ConfigError: The configuration, the model or a tool is invalid.
    """

    def __init__(self, run: TurnRun) -> None:
        settings = run.loaded.settings
        self._gate = gate = Gate()
        prompter = (
            (run.prompter or _terminal(settings, gate, exit_leaves_open=run.exit_leaves_open))
            if run.attached
            else None
        )
        attached = prompter is not None
        self._own_servers: Servers | None = None
        self._run = run
        parts = CommandArguments(
            settings=settings,
            root=run.place.root,
            attached=attached,
            others=self._server_tools(attached=attached),
        )
        self.interrupted = False
        """Whether Ctrl-C was pressed during the run, even if the turn was already over."""
        self._display = display_for(
            Screen(output=run.output, shaped=run.shaped, gate=gate), settings
        )
        self._command_line = CommandLine(
            with_remote_agent(parts), RunOptions(prompter=prompter, display=self._display)
        )

    def run(self, held: ConversationLock, requested: TurnRequested | None) -> ExitStatus:
        """Run a new turn, and report how it ended.

        If `requested` is None, resume the open turn.
        """
        try:
            status = self._run_once(held, requested)
            while (
                status == ExitStatus.SUSPENDED
                and self._run.waits
                and _wait_for_answer(held, self._run.place.option)
            ):
                status = self._run_once(held, None)
        finally:
            if self._own_servers is not None:
                self._own_servers.close()
        return status

    def _server_tools(self, *, attached: bool) -> Sequence[Tool]:
        """Connect to the MCP servers and return their tools."""
        settings, servers = self._run.loaded.settings, self._run.servers
        if servers is None and not settings.mcp:
            return ()

        if servers is None:
            servers = self._own_servers = Servers()
        return connect(servers, settings, self._run.place.root, attached=attached).tools

    def _run_once(self, held: ConversationLock, requested: TurnRequested | None) -> ExitStatus:
        session = self._command_line.session(held.journal)
        spent: list[Spent] = []
        SPENT.set(spent)
        try:
            with _without_echo(attached=self._run.attached):
                ending = asyncio.run(self._perform(session, requested))
        except (
            SystemExit,
            TerminalGone,
        ):  # after a signal or after the terminal was closed, recorded events are kept
            if session.turn_is_open:
                note(
                    "midturn: the turn is still open. To continue it: `midturn resume {}{}`",
                    held.conversation,
                    self._run.place.option,
                )
            else:
                note(TURN_ENDED)
            raise
        finally:
            self._display.end()

        run = self._run
        end = EndReport(
            output=run.output,
            shaped=run.shaped,
            waits=run.waits,
            attached=run.attached,
            option=run.place.option,
            again=run.again,
        )
        return end.tell(Ended(held.conversation, ending, session.view, spent))

    async def _perform(self, session: Session, requested: TurnRequested | None) -> RunEnding:
        work = session.resume if requested is None else lambda: session.run(requested)

        def interrupt() -> None:
            self.interrupted = True
            session.interrupt()

        try:
            with _echo_between_output(self._gate, attached=self._run.attached):
                return await with_signals(work, interrupt)
        finally:
            await self._command_line.aclose()


def _wait_for_answer(held: ConversationLock, option: str) -> bool:
    """Wait for an answer. Return False if the user stops waiting."""
    try:
        note(
            "Waiting for answers. Press Ctrl-C to stop waiting; the turn stays open."
        )  # from now on, Ctrl-C only stops waiting
        held.wait_for_answers()
    except KeyboardInterrupt:
        note(
            "midturn: stopped waiting. The turn stays open. To continue it: `midturn resume {}{}`",
            held.conversation,
            option,
        )
        return False
    held.take_answers()
    return True


def _terminal(settings: Settings, gate: Gate, *, exit_leaves_open: bool) -> Prompter:
    return terminal(settings, gate, exit_leaves_open=exit_leaves_open)


def _without_echo(*, attached: bool) -> AbstractContextManager[None]:
    """Hide keys that are pressed during a turn, if a user is at the terminal."""
    if not attached:
        return nullcontext()
    return hush().during_turn()


def _echo_between_output(gate: Gate, *, attached: bool) -> AbstractContextManager[None]:
    """Show the text that the user types during a turn of a chat, below the output."""
    if not attached:
        return nullcontext()
    return hush().typing(gate)


# --------------------------------------------------------------------------------------------------
# The MCP servers of a command, with warnings about servers that cannot be used


def connect(servers: Servers, settings: Settings, root: Path, *, attached: bool) -> Connected:
    """Connect the servers and print warnings. `attached` is set if a user can be asked."""
    found = servers.connected(settings, root, asks=can_ask(settings, attached=attached))
    for warning in found.warnings:
        note(line("midturn: {}", block(warning)))
    return found


@contextmanager
def connected(settings: Settings, root: Path, *, attached: bool) -> Generator[Connected]:
    """Connect the servers while the block runs."""
    with Servers() as servers:
        yield connect(servers, settings, root, attached=attached)
