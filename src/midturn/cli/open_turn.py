"""What `query -c` does about a turn that was left open: resume, discard, or leave it (spec 7.4)."""

from __future__ import annotations

import asyncio

from midturn.cli.exit_status import ExitStatus
from midturn.cli.place import Place
from midturn.core.prompt import Prompt
from midturn.core.question import Question
from midturn.core.reply import Answered
from midturn.core.stream import open_turn
from midturn.errors import StoreError
from midturn.runtime.prompter import ask_once

RESUME, DISCARD, QUIT = "resume", "discard", "quit"


def settle_open_turn(place: Place, conversation: str, *, attached: bool) -> ExitStatus | None:
    """Deal with an open turn; None where the new turn may begin.

    Raises:
        StoreError: Nobody is there to decide.
    """
    if open_turn(place.store.read(conversation).events) is None:
        return None
    if not attached:
        raise StoreError(
            f"Conversation {conversation} has an open turn. `midturn resume {conversation}` goes on with it, "
            f"`midturn resume {conversation} --discard` ends it."
        )
    match _choice(conversation):
        case "resume":
            from midturn.cli.resume import Resume, run_resume

            return run_resume(Resume(id=conversation))
        case "discard":
            from midturn.cli.resume import discard

            discard(place, conversation)
            return None
        case _:
            return ExitStatus.DONE


def _choice(conversation: str) -> str:
    from midturn.terminal.prompter import TerminalPrompter  # only a person who is there needs it

    question = Question.select(
        "open_turn", f"Conversation {conversation} has an open turn. What about it?", [RESUME, DISCARD, QUIT], default=RESUME
    )
    reply = asyncio.run(ask_once(TerminalPrompter(), Prompt(question=question, asked_by="midturn", can_reply=False)))
    return str(reply.value) if isinstance(reply, Answered) else QUIT
