"""`midturn answer` without a VALUE: the person at the terminal is asked as the turn would ask, question by question."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct, structs

from midturn.agent.assembly.command_line import definition_of, known_tools
from midturn.cli.asking import terminal
from midturn.cli.command_context import Place
from midturn.cli.config import project_asked_from
from midturn.cli.loading import Flags, load_for
from midturn.cli.output import ExitStatus, note
from midturn.config.settings import Settings
from midturn.errors import AnswerError, DigestMismatch, MidturnError, Problem
from midturn.events.open_question import Asker, OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy
from midturn.inbox.answering_session import StoredVisit
from midturn.integrations.hooks.claude_deferring import resuming
from midturn.prompter import Prompter, ask_once
from midturn.question.json_value import JsonObject
from midturn.question.reply import Answered, Deferred, EndedTurn, Replied, Reply, Submitted, Unavailable

# ----------------------------------------------------------------------------------------------------------------------
# Parameters of a call's tool, by the configuration of its conversation


def parameters_of(place: Place, question: OpenQuestion) -> JsonObject:
    """Return what the tool of a call takes; nothing where only the program that runs the turn knows its tools."""
    if question.kind != "run" or question.asker:
        return {}
    events = place.store.read_sync(question.conversation).events
    tools = known_tools(load_for(place, Flags(), events).settings)
    return definition_of(tools[question.tool]).parameters if question.tool in tools else {}


def answer_here(place: Place, question: OpenQuestion, settings: Settings, who: AnsweredBy, reason: str | None) -> VisitEnd:
    """Ask `who` until the form is done, or the rest of it is left for later. `reason` explains an answer that comes without one.

    Each reply is recorded before the next question is shown, by us or by the process that holds the conversation, so that what was answered
    stays answered if this terminal goes away.

    Raises:
        AnswerError: No one could be asked, or the answer came too late to fit.
        NotOpen: Another answer was faster.
    """
    store = place.store
    last = store.run_sync("look", store.port.look(question.conversation))
    visiting = StoredVisit(store, question, last.turn.events, who)
    asks = _Shown(question.source.header, reason, parameters_of(place, question))
    agent = question.asker.agent if question.asker else ""
    prompter = terminal(settings, agent=agent, project=project_asked_from(place, question), exit_leaves_open=True)
    return asyncio.run(_walk(prompter, visiting, asks))


class VisitEnd(Struct, frozen=True):
    """The last reply of a visit, and the prompt that it replied to."""

    reply: Reply
    prompt: Prompt | None


class _Shown(Struct, frozen=True):
    """Common to every prompt of a visit: the asker, the reason for answering so, and the terms of edited arguments."""

    header: str
    reason: str | None
    parameters: JsonObject


_CHANGED = "This was changed while you looked at it, so nothing was recorded. This is asked now."


async def _walk(prompter: Prompter, visiting: StoredVisit, asks: _Shown) -> VisitEnd:
    """Ask what there is to ask; a reply that does not fit is asked for again."""
    last = VisitEnd(Unavailable(), None)
    error: str | None = None
    while prompt := visiting.prompt():
        shown = structs.replace(prompt, asked_by=asks.header, parameters=asks.parameters, error=error or prompt.error)
        reply = await ask_once(prompter, shown)
        if isinstance(reply, Unavailable):
            raise AnswerError([Problem("", "Nobody could be asked: name a VALUE, or answer at a terminal.")])
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
    """Add the reason that was given on the command line where the person has typed none; that of a review is the reason of its yes."""
    match reply:
        case Answered(reason=None):
            return structs.replace(reply, reason=reason)
        case Submitted() if reason:
            return Answered(value=True, reason=reason)
        case _:
            return reply


# ----------------------------------------------------------------------------------------------------------------------
# Going on with the session of another agent that has ended with its question


def go_on_there(asker: Asker) -> ExitStatus:
    """Go on with the session of the agent that asked, and return when it has ended.

    Raises:
        MidturnError: It cannot be resumed from here.
    """
    command = resuming(asker)
    if command is None or shutil.which(command[0]) is None:
        raise MidturnError(f"The answer is kept, but no session of {asker.name} can be resumed from here: start it again yourself.")
    note("midturn: {} goes on in {}.", shlex.join(command), asker.cwd or ".")
    folder = Path(asker.cwd)
    ended = subprocess.run(command, cwd=folder if folder.is_dir() else None, check=False)  # noqa: S603  the user asked for it
    return ExitStatus.DONE if ended.returncode == 0 else ExitStatus.ERROR
