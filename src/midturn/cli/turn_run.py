"""Runs or resumes a turn from the command line: who is there, what is shown, what a signal does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import closing

from msgspec import Struct

from midturn.agent.result import RunResult, result_of
from midturn.cli.exit_status import ExitStatus
from midturn.cli.place import Place
from midturn.cli.turn_display import OutputFormat, display_for
from midturn.cli.turn_report import print_result, report, status_of
from midturn.compose import RunParts
from midturn.compose.command_line import CommandLine, CommandParts
from midturn.config.load import Loaded
from midturn.core.turn.inputs import TurnRequested
from midturn.errors import ModelError
from midturn.runtime.driver import Ending
from midturn.runtime.prompter import Prompter
from midturn.runtime.session import Session
from midturn.store.store import ConversationJournal

DEADLY = (signal.SIGTERM, signal.SIGHUP)


class TurnRun(Struct, frozen=True, kw_only=True):
    """Everything a run needs besides its conversation. `prompter` replaces the terminal."""

    place: Place
    loaded: Loaded
    attached: bool
    output: OutputFormat = "text"
    prompter: Prompter | None = None


def run_turn(run: TurnRun, journal: ConversationJournal, requested: TurnRequested | None) -> ExitStatus:
    """Run a new turn, or resume the open one; say how it ended."""
    with closing(journal):
        session = _session(run, journal)
        work = session.resume if requested is None else lambda: session.run(requested)
        ending = asyncio.run(_with_signals(work, session.interrupt))
        if ending.status == "open":
            raise ModelError(f"{ending.error}\nThe turn is open: `midturn resume {journal.conversation}` goes on with it.")
        result = result_of(journal.conversation, session.window, ending)
    return _tell(run, result, session)


def _session(run: TurnRun, journal: ConversationJournal) -> Session:
    settings = run.loaded.settings
    hidden = frozenset(name for name, tool in settings.tools.items() if tool.hidden)
    prompter = (run.prompter or _terminal(run)) if run.attached else None
    parts = CommandParts(settings=settings, root=run.place.root, attached=prompter is not None)
    return CommandLine(parts, RunParts(prompter=prompter, display=display_for(run.output, hidden))).session(journal)


def _terminal(run: TurnRun) -> Prompter:
    from midturn.terminal.prompter import TerminalPrompter  # only a person who is there needs it
    from midturn.terminal.settings import PromptSettings

    prompt = run.loaded.settings.prompt
    return TerminalPrompter(
        PromptSettings(
            mode=prompt.mode,
            settle=prompt.settle_ms / 1_000,
            text_menu=prompt.text_menu,
            bell=prompt.bell,
            notify=prompt.notify,
            notify_command=run.loaded.settings.notify,
        )
    )


def _tell(run: TurnRun, result: RunResult, session: Session) -> ExitStatus:
    if run.output == "json":
        print_result(result)
    report(result, session.window, attached=run.attached)
    return status_of(result)


async def _with_signals(work: Callable[[], Awaitable[Ending]], interrupt: Callable[[], None]) -> Ending:
    """Let Ctrl-C end the turn, and a deadly signal leave it open: it can be resumed."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    died: list[signal.Signals] = []

    def die(number: signal.Signals) -> None:
        died.append(number)
        task.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    for number in DEADLY:
        loop.add_signal_handler(number, die, number)
    try:
        return await task
    except asyncio.CancelledError:
        if died:
            raise SystemExit(128 + died[0]) from None
        raise
    finally:
        for number in (signal.SIGINT, *DEADLY):
            loop.remove_signal_handler(number)
