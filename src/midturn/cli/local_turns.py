"""Turns of a chat that are recorded without a request to the model: the user's shell commands, and
summaries.
"""

from __future__ import annotations

import os
import subprocess
import sys

import click
from msgspec import structs

from midturn.agent.assembly.command_line import record_said
from midturn.cli.asking import confirmed
from midturn.cli.command_context import CommandContext
from midturn.cli.locked import ConversationLock
from midturn.cli.output import ExitStatus, block, line, note
from midturn.cli.query import Query, continue_conversation
from midturn.config.settings import Toggle
from midturn.events.transcript import WordsEntry, transcript_entries
from midturn.events.window import open_turn
from midturn.question.question import Question
from midturn.terminal.device import HUSH
from midturn.turn.inputs import TurnRequested

# maximum length of a command's output for the model, in characters; the middle is cut
_MAX_OUTPUT = 30_000
_SHELL = "/bin/sh"
_SUMMARISE = (
    "Summarise this conversation so far, for yourself: you will go on from your summary alone. Keep"
    " what was asked and decided, what is done and what is open, and names, paths and numbers that"
    " are still needed. Call no tool. Answer with the summary only."
)

# --------------------------------------------------------------------------------------------------
# `!COMMAND`: the user's command, run in their shell without asking


def check_is_free(held: ConversationLock) -> None:
    """Check that no turn is open, because another turn can then be recorded.

    Raises:
        click.UsageError: A turn is open.
    """
    if open_turn(held.events) is not None:
        raise click.UsageError("A turn is open in this conversation. Type `/retry` to continue it.")


def run_own(command: str) -> str:
    """Run a command in the user's shell, show its output, and return the text to record.

    Raises:
        click.UsageError: The command has several lines. They may have been pasted, and each line
            could be a command.
    """
    if not command:
        raise click.UsageError(
            "Type a command after `!`. It runs in your shell, and the model reads its output."
        )
    if "\n" in command:
        raise click.UsageError("`!` accepts one line only. Nothing was run.")
    printed, status = _run(command)
    ended = f"It exited with status {status}" if status >= 0 else f"Signal {-status} ended it"
    if status:
        note("midturn: {}.", f"{ended[0].lower()}{ended[1:]}")
    shown = (
        printed
        if len(printed) <= _MAX_OUTPUT
        else f"{printed[: _MAX_OUTPUT // 2]}\n[…]\n{printed[-_MAX_OUTPUT // 2 :]}"
    )
    return (
        f"I ran this command myself: `{command}`\n{ended}, and"
        f" printed{f':{chr(10) * 2}{shown}' if shown.strip() else ' nothing.'}"
    )


def _run(command: str) -> tuple[str, int]:
    """Return a command's output and exit status (a negative signal number if it was killed).

    Ctrl-C interrupts only the command.
    """
    printed: list[str] = []
    shell = os.environ.get("SHELL") or _SHELL
    with (
        HUSH.lifted(),
        subprocess.Popen(  # noqa: S603  typed by the user
            [shell, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            errors="replace",
        ) as running,
    ):
        while running.stdout is not None:
            try:
                for text in running.stdout:
                    printed.append(text)
                    note(block(text.rstrip("\n")))
                break
            except KeyboardInterrupt:  # the command also receives the signal
                continue
    return "".join(printed).rstrip("\n"), running.returncode


def record(held: ConversationLock, place: CommandContext, said: str) -> None:
    """Record text as a turn without a model request. The next request contains the text."""
    place.run(record_said(held.journal, said))


# --------------------------------------------------------------------------------------------------
# `/compact`: continue from a summary by the model


def summary(place: CommandContext, query: Query, conversation: str) -> str | None:
    """Let the model summarise the conversation in a temporary copy.

    Show the summary and ask whether to continue from it. Return the text to record, or None.
    """
    copy = place.store.fork_sync(conversation)
    try:
        with ConversationLock.existing(place, copy) as held:
            asked = structs.replace(query, id=copy, toggles=(*query.toggles, Toggle(on=False)))
            status = continue_conversation(asked, place, held, TurnRequested(_SUMMARISE))
            text = _last_words(held)
    finally:
        place.set_current(conversation)
        place.run(place.store.remove(copy))
    if status is not ExitStatus.DONE or not text:
        note("midturn: there is no summary. Nothing was changed.")
        return None
    sys.stdout.flush()
    if not confirmed(
        Question.boolean("compact", "Continue from this summary? The conversation itself is kept."),
        "",
    ):
        note("midturn: nothing was changed.")
        return None
    return f"Summary of our conversation so far ({conversation}), which you wrote:\n\n{text}"


def _last_words(held: ConversationLock) -> str:
    words = [
        entry.text
        for entry in transcript_entries(held.events)
        if isinstance(entry, WordsEntry) and entry.kind == "message"
    ]
    return words[-1] if words else ""


def report_move(old: str, new: str) -> None:
    """Print the conversation in which the chat continues."""
    note(line("midturn: continuing from the summary in conversation {}; {} is kept.", new, old))
