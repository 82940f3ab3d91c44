"""Runs or resumes a turn from the command line: who is there, what is shown, what a signal does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Struct

from midturn.agent.result import RunResult, result_of
from midturn.agent.turn_usage import turn_usage
from midturn.cli.exit_status import ExitStatus
from midturn.cli.held import Held
from midturn.cli.output import note, say_json
from midturn.cli.place import Place
from midturn.cli.servers import connect
from midturn.cli.shown import line, spoken
from midturn.cli.signals import with_signals
from midturn.cli.turn_display import OutputFormat, Screen, display_for
from midturn.cli.turn_report import print_result, report, report_left_open, report_waiting, status_of
from midturn.compose.command_line import CommandLine, CommandParts
from midturn.compose.mcp import Servers
from midturn.compose.run_parts import RunParts
from midturn.config.load import Loaded
from midturn.config.settings import Settings
from midturn.core.turn.inputs import TurnRequested
from midturn.errors import TerminalGone
from midturn.models.wrapper import SPENT, Spent
from midturn.prompter import Prompter
from midturn.runtime.driver import RunEnding
from midturn.runtime.session import Session
from midturn.terminal.gate import Gate

_MISSHAPEN = "the answer has not the shape that was asked for"


class TurnRun(Struct, frozen=True, kw_only=True):
    """Everything a run needs besides its conversation.

    `prompter` replaces the terminal; with `waits`, a suspended turn is not left; `shaped`: the answer is JSON of a wanted shape. `servers`
    are left connected for the next turn; without them, this one connects for itself.
    """

    place: Place
    loaded: Loaded
    attached: bool
    output: OutputFormat = "text"
    prompter: Prompter | None = None
    waits: bool = False
    shaped: bool = False
    servers: Servers | None = None


class TurnRunner:
    """A run that is set up: what is wrong with the configuration, its model or its tools has been found.

    Raises:
        ConfigError: Something is.
    """

    def __init__(self, run: TurnRun) -> None:
        settings = run.loaded.settings
        gate = Gate()
        prompter = (run.prompter or _terminal(settings, gate)) if run.attached else None
        attached = prompter is not None
        self._servers = run.servers or Servers()
        others = connect(self._servers, settings, run.place.root, attached=attached).tools
        parts = CommandParts(settings=settings, root=run.place.root, attached=attached, others=others)
        if run.place.store.port.lacks_key:
            note("midturn: no key can be kept in your state directory, so this turn would have to be adopted to be resumed.")
        self.interrupted = False
        """Whether Ctrl-C was pressed while it ran, even if too late for the turn."""
        self._run = run
        self._display = display_for(Screen(output=run.output, shaped=run.shaped, gate=gate), settings)
        self._command_line = CommandLine(parts, RunParts(prompter=prompter, display=self._display))

    def run(self, held: Held, requested: TurnRequested | None) -> ExitStatus:
        """Run a new turn, or resume the open one (None); say how it ended."""
        try:
            status = self._run_once(held, requested)
            while status == ExitStatus.SUSPENDED and self._run.waits and _answered(held):
                status = self._run_once(held, None)
        finally:
            if self._run.servers is None:
                self._servers.close()
        return status

    def _run_once(self, held: Held, requested: TurnRequested | None) -> ExitStatus:
        session = self._command_line.session(held.journal)
        spent: list[Spent] = []
        SPENT.set(spent)
        try:
            with _hushed(attached=self._run.attached):
                ending = asyncio.run(self._perform(session, requested))
        except (SystemExit, TerminalGone):  # a signal, or nobody there any more: what is recorded stays
            if session.turn_is_open:
                note("midturn: the turn is open. `midturn resume {}{}` goes on with it.", held.conversation, self._run.place.option)
            else:
                note("midturn: the turn was ended.")
            raise
        finally:
            self._display.end()
        if ending.status == "open":
            return self._left_open(held, ending, spent)
        return self._tell(result_of(held.conversation, session.window, ending, spent), session)

    async def _perform(self, session: Session, requested: TurnRequested | None) -> RunEnding:
        work = session.resume if requested is None else lambda: session.run(requested)

        def interrupt() -> None:
            self.interrupted = True
            session.interrupt()

        try:
            return await with_signals(work, interrupt)
        finally:
            await self._command_line.aclose()

    def _left_open(self, held: Held, ending: RunEnding, spent: Sequence[Spent]) -> ExitStatus:
        result = RunResult[Any](conversation=held.conversation, status="failed", error=ending.error, usage=turn_usage(spent))
        if self._run.output == "json":
            print_result(result, status="open")
        failure = ending.failure.failure if ending.failure else None
        report_left_open(held.conversation, ending.error or "", failure, self._run.place.option)
        return ExitStatus.ERROR

    def _tell(self, result: RunResult[Any], session: Session) -> ExitStatus:
        status = status_of(result)
        waits = status == ExitStatus.SUSPENDED and self._run.waits
        match self._run.output:
            case _ if self._run.shaped and result.status == "completed" and result.structured is None:
                status = self._misshapen(result)
            case "json" if not waits:
                print_result(result)
            case "text" if self._run.shaped and result.status == "completed":
                say_json(result.structured)
            case _:
                pass
        if waits:
            report_waiting(result.pending, line("Waiting. Ctrl-C leaves the turn as it is."), self._run.place.option)
        else:
            report(result, session.window, attached=self._run.attached, option=self._run.place.option)
        return status

    def _misshapen(self, result: RunResult[Any]) -> ExitStatus:
        """Say that an answer has another shape than the one asked for: an error, and no answer for whoever reads stdout."""
        if self._run.output == "json":
            print_result(result, status="failed")
        note(line("midturn: {}:\n{}", _MISSHAPEN, spoken(result.text)))
        return ExitStatus.ERROR


def _answered(held: Held) -> bool:
    """Hold on until somebody answers; False when the person here does not want to wait any longer."""
    try:
        held.wait_for_answers()
    except KeyboardInterrupt:
        note("midturn: not waiting any longer; the turn stays open. `midturn resume {}` goes on with it.", held.conversation)
        return False
    held.take_answers()
    return True


def _terminal(settings: Settings, gate: Gate) -> Prompter:
    from midturn.cli.asking import terminal  # only a person who is there is asked

    return terminal(settings, gate)


def _hushed(*, attached: bool) -> AbstractContextManager[None]:
    """Keep what is typed during a turn off the screen, where somebody is there to type."""
    if not attached:
        return nullcontext()
    from midturn.terminal.restore import HUSH  # where nobody is there, no terminal is touched

    return HUSH.during_turn()
