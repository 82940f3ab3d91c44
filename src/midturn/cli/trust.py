"""`midturn trust`: shows what the workspace's files enable, and lets their user approve it (spec 8.1)."""

from __future__ import annotations

import asyncio

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import Flags, load_for
from midturn.cli.output import cell, note, say
from midturn.cli.place import environment, find_place
from midturn.config.approvals import Approvals
from midturn.config.places import state_directory
from midturn.config.trust import FileTrust
from midturn.core.prompt import Prompt
from midturn.core.question import Question
from midturn.core.reply import Answered
from midturn.runtime.prompter import ask_once


@click.command
@click.option("--yes", is_flag=True, help="Approve without asking.")
def command(*, yes: bool) -> ExitStatus:
    """Show what the files of this workspace enable, and approve them as they are now."""
    files = load_for(find_place(), Flags()).files
    for file in files:
        _show(file)
    waiting = [file for file in files if not file.approved]
    if not waiting:
        say("Nothing waits for your approval.")
        return ExitStatus.DONE
    if not yes and not _agreed(len(waiting)):
        note("midturn: nothing was approved.")
        return ExitStatus.ERROR
    approvals = Approvals.of(state_directory(), environment())
    for file in waiting:
        approvals.approve(file.path, file.sha256)
        say(f"Approved {cell(file.name)}. A change to it needs a new approval.")
    return ExitStatus.DONE


def _show(file: FileTrust) -> None:
    say(f"{cell(file.name)}  sha256 {file.sha256}{'  (approved)' if file.approved else ''}")
    for enabled in file.enables:
        say(f"  {cell(enabled.place)}: {cell(enabled.key)} = {cell(enabled.value)}  ({enabled.why})")


def _agreed(count: int) -> bool:
    from midturn.terminal.prompter import TerminalPrompter

    question = Question.boolean("trust", f"Approve {'this file' if count == 1 else f'these {count} files'}?")
    reply = asyncio.run(ask_once(TerminalPrompter(), Prompt(question=question, asked_by="midturn", can_reply=False)))
    return isinstance(reply, Answered) and reply.value is True
