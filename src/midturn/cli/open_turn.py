"""The choice of `query -c` about an open turn: resume, discard, or leave it."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.cli.asking import ask_here
from midturn.cli.held import Held
from midturn.cli.output import ExitStatus
from midturn.cli.place import Place
from midturn.cli.resume import check_is_ours, discard, resume_held
from midturn.errors import StoreError
from midturn.question.answer_type import SelectOption
from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.record.window import open_turn
from midturn.sandbox.doors import for_people_only

RESUME, DISCARD, QUIT = "resume", "discard", "quit"
_LEAVE = SelectOption(QUIT, "Leave everything as it is.")
BEFORE_A_REQUEST = (
    SelectOption(RESUME, "Go on with it; your new request comes after it."),
    SelectOption(DISCARD, "End it; your new request comes next."),
    _LEAVE,
)
BEFORE_A_CHAT = (
    SelectOption(RESUME, "Go on with it."),
    SelectOption(DISCARD, "End it; what you say next begins a new turn."),
    _LEAVE,
)


def resolve_open_turn(place: Place, held: Held, *, attached: bool, options: Sequence[SelectOption] = BEFORE_A_REQUEST) -> ExitStatus | None:
    """Deal with an open turn; None where the new turn may begin. `options` say what each answer means for what comes next.

    Raises:
        StoreError: No one is there to decide.
    """
    if open_turn(held.events) is None:
        return None

    check_is_ours(held)
    if not attached:
        raise StoreError(
            f"Conversation {held.conversation} has an open turn. `midturn resume {held.conversation}` goes on with it, "
            f"`midturn resume {held.conversation} --discard` ends it."
        )
    for_people_only("go on with turns")
    match _choice(held.conversation, options):
        case "resume":
            status = resume_held(place, held, attached=attached)
            return None if status in (ExitStatus.DONE, ExitStatus.REFUSED) else status
        case "discard":
            discard(held)
            return None
        case _:
            return ExitStatus.DONE


def _choice(conversation: str, options: Sequence[SelectOption]) -> str:
    text = f"Conversation {conversation} has an open turn. What about it?"
    reply = ask_here(Question.select("open_turn", text, options, default=RESUME))
    return str(reply.value) if isinstance(reply, Answered) else QUIT
