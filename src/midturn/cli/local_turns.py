"""Turns of a chat in which no model is asked: a command that the person ran, and a summary in place of a long conversation."""

from __future__ import annotations

import os
import subprocess
import sys

import click
from msgspec import structs

from midturn.agent.assembly.command_line import record_said
from midturn.cli.asking import confirmed
from midturn.cli.command_context import Place
from midturn.cli.locked import Held
from midturn.cli.output import ExitStatus, block, line, note
from midturn.cli.query import Query, go_on
from midturn.config.settings import Toggle
from midturn.events.transcript import WordsEntry, told
from midturn.events.window import open_turn
from midturn.question.question import Question
from midturn.terminal.device import HUSH
from midturn.turn.step import TurnRequested

_LONGEST = 30_000  # characters of what a command printed that the model reads: its beginning, and its end
_SHELL = "/bin/sh"
_SUMMARISE = (
    "Summarise this conversation so far, for yourself: you will go on from your summary alone. Keep what was asked and decided, what is "
    "done and what is open, and names, paths and numbers that are still needed. Call no tool. Answer with the summary only."
)

# ----------------------------------------------------------------------------------------------------------------------
# `!command`: the person's own command, run as they would run it in their shell. It asks no one


def check_is_free(held: Held) -> None:
    """Refuse to record anything behind a turn that is open.

    Raises:
        click.UsageError: One is.
    """
    if open_turn(held.events) is not None:
        raise click.UsageError("A turn is open in this conversation: `/retry` goes on with it.")


def run_own(command: str) -> str:
    """Run a command of the person's in their shell, show what it prints, and return what is recorded of it.

    Raises:
        click.UsageError: It has several lines, as a paste may: each could run something.
    """
    if not command:
        raise click.UsageError("`!COMMAND` runs a command in your shell, and the model reads what it printed.")
    if "\n" in command:
        raise click.UsageError("`!` runs a command of one line, and this has several: none was run.")
    printed, status = _run(command)
    ended = f"It exited with status {status}" if status >= 0 else f"Signal {-status} ended it"
    if status:
        note("midturn: {}.", f"{ended[0].lower()}{ended[1:]}")
    shown = printed if len(printed) <= _LONGEST else f"{printed[: _LONGEST // 2]}\n[…]\n{printed[-_LONGEST // 2 :]}"
    return f"I ran this command myself: `{command}`\n{ended}, and printed{f':{chr(10) * 2}{shown}' if shown.strip() else ' nothing.'}"


def _run(command: str) -> tuple[str, int]:
    """Return what a command printed, and its exit status (or minus the signal that ended it). Ctrl-C is for the command."""
    printed: list[str] = []
    shell = os.environ.get("SHELL") or _SHELL
    with (
        HUSH.lifted(),
        subprocess.Popen(  # noqa: S603  the person's own words, by their own Enter
            [shell, "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
        ) as running,
    ):
        while running.stdout is not None:
            try:
                for text in running.stdout:
                    printed.append(text)
                    note(block(text.rstrip("\n")))
                break
            except KeyboardInterrupt:  # the terminal has told the command, too
                continue
    return "".join(printed).rstrip("\n"), running.returncode


def record(held: Held, place: Place, said: str) -> None:
    """Record what the person said or did, as a turn that asks no model: the next request brings it along."""
    place.run(record_said(held.journal, said))


# ----------------------------------------------------------------------------------------------------------------------
# `/compact`: a summary by the model, shown before it counts


def summary(place: Place, query: Query, conversation: str) -> str | None:
    """Have the model summarise a conversation in a copy that is removed again, show it, and ask whether to go on from it."""
    copy = place.store.fork_sync(conversation)
    try:
        with Held.existing(place, copy) as held:
            asked = structs.replace(query, id=copy, toggles=(*query.toggles, Toggle(on=False)))
            status = go_on(asked, place, held, TurnRequested(_SUMMARISE))
            said = _last_words(held)
    finally:
        place.set_current(conversation)
        place.run(place.store.remove(copy))
    if status is not ExitStatus.DONE or not said:
        note("midturn: there is no summary, and nothing has changed.")
        return None
    sys.stdout.flush()
    if not confirmed(Question.boolean("compact", "Go on from this summary? The conversation itself stays as it is."), ""):
        note("midturn: nothing has changed.")
        return None
    return f"Summary of our conversation so far ({conversation}), which you wrote:\n\n{said}"


def _last_words(held: Held) -> str:
    words = [entry.text for entry in told(held.events) if isinstance(entry, WordsEntry) and entry.kind == "message"]
    return words[-1] if words else ""


def said_of_move(old: str, new: str) -> None:
    """Say where the chat goes on."""
    note(line("midturn: going on from the summary in conversation {}; {} stays as it is.", new, old))
