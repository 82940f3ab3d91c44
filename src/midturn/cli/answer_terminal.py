"""`midturn answer` without VALUE: ask at the terminal, question by question, as a turn does."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct, structs

from midturn.agent.assembly.command_line import definition_of, known_tools
from midturn.cli.asking import terminal
from midturn.cli.command_context import CommandContext
from midturn.cli.config import project_asked_from
from midturn.cli.loading import Flags, load_for
from midturn.cli.output import ExitStatus, note
from midturn.config.settings import Settings
from midturn.errors import AnswerError, DigestMismatch, MidturnError, Problem
from midturn.events.open_question import AskingAgent, OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy
from midturn.inbox.answering_session import StoredVisit
from midturn.integrations.hooks.claude_deferring import resume_command
from midturn.prompter import Prompter, ask_once
from midturn.question.json_value import JsonObject
from midturn.question.reply import (
    Answered,
    Deferred,
    EndedTurn,
    Replied,
    Reply,
    Submitted,
    Unavailable,
)

# --------------------------------------------------------------------------------------------------
# Parameters of a called tool


def parameters_of(place: CommandContext, question: OpenQuestion) -> JsonObject:
    """Return the parameters of the called tool.

    The result is empty if the tool is defined only in the program that runs the turn.
    """
    if question.kind != "run" or question.asker:
        return {}
    events = place.store.read_sync(question.conversation).events
    tools = known_tools(load_for(place, Flags(), events).settings)
    return definition_of(tools[question.tool]).parameters if question.tool in tools else {}


def answer_here(
    place: CommandContext,
    question: OpenQuestion,
    settings: Settings,
    who: AnsweredBy,
    reason: str | None,
) -> VisitEnd:
    """Ask `who` until the form is complete or the remaining questions are deferred.

    `reason` applies to every answer for which no reason was typed.

    Each reply is recorded before the next question is shown, either by this process or by the
    process that holds the lock of the conversation. If the terminal is closed, earlier answers are
    therefore not lost.

    Raises:
        AnswerError: There is no terminal, or the answer came too late.
        NotOpen: Another answer came first.
    """
    store = place.store
    last = store.run_sync("look", store.port.look(question.conversation))
    visiting = StoredVisit(store, question, last.turn.events, who)
    asks = _PromptDetails(question.source.header, reason, parameters_of(place, question))
    agent = question.asker.agent if question.asker else ""
    prompter = terminal(
        settings, agent=agent, project=project_asked_from(place, question), exit_leaves_open=True
    )
    return asyncio.run(_walk(prompter, visiting, asks))


class VisitEnd(Struct, frozen=True):
    """The last reply, and the prompt that it answers."""

    reply: Reply
    prompt: Prompt | None


class _PromptDetails(Struct, frozen=True):
    """Details that are the same for every prompt: the asker, the reason from the command line, and
    the parameters for edited arguments.
    """

    header: str
    reason: str | None
    parameters: JsonObject


_CHANGED = (
    "This was changed while you were looking at it, so nothing was recorded. The current version is"
    " shown."
)


async def _walk(prompter: Prompter, visiting: StoredVisit, asks: _PromptDetails) -> VisitEnd:
    """Show prompts until no question is left. After an invalid reply, ask again."""
    last = VisitEnd(Unavailable(), None)
    error: str | None = None
    while prompt := visiting.prompt():
        shown = structs.replace(
            prompt, asked_by=asks.header, parameters=asks.parameters, error=error or prompt.error
        )
        reply = await ask_once(prompter, shown)
        if isinstance(reply, Unavailable):
            raise AnswerError(
                [Problem("", "No terminal is available. Pass a VALUE, or answer at a terminal.")]
            )
        reply = _with_reason(reply, asks.reason)
        last = VisitEnd(reply, prompt)
        if isinstance(reply, Deferred):
            break
        try:
            await visiting.take(reply)
            error = None
        except AnswerError as misfit:
            if visiting.prompt() is None:
                raise
            error = _CHANGED if isinstance(misfit, DigestMismatch) else str(misfit)
        else:
            if isinstance(reply, EndedTurn | Replied):
                break
    return last


def _with_reason(reply: Reply, reason: str | None) -> Reply:
    """Add the reason from the command line if the person typed no reason."""
    match reply:
        case Answered(reason=None):
            return structs.replace(reply, reason=reason)
        case Submitted() if reason:
            return Answered(value=True, reason=reason)
        case _:
            return reply


# --------------------------------------------------------------------------------------------------
# Resuming another agent's session, if the session ended at its question


def resume_session(asker: AskingAgent) -> ExitStatus:
    """Resume the session of the agent that asked, and return when it ends.

    Raises:
        MidturnError: This command cannot resume the session.
    """
    command = resume_command(asker)
    if command is None or shutil.which(command[0]) is None:
        raise MidturnError(
            f"The answer is stored, but the session of {asker.name} cannot be resumed from here."
            " Start it again yourself."
        )
    note("midturn: running {} in {}.", shlex.join(command), asker.cwd or ".")
    folder = Path(asker.cwd)
    ended = subprocess.run(command, cwd=folder if folder.is_dir() else None, check=False)  # noqa: S603  the user asked for it
    return ExitStatus.DONE if ended.returncode == 0 else ExitStatus.ERROR
