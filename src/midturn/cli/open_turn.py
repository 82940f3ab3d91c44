"""The choice of `query -c` about an open turn: resume, discard, or leave it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from midturn.cli.asking import ask_here
from midturn.cli.held import Held
from midturn.cli.output import ExitStatus
from midturn.cli.place import Place
from midturn.cli.resume import check_is_ours, discard, resume_held
from midturn.errors import StoreError
from midturn.question.answer import Answered
from midturn.question.answer_type import SelectOption
from midturn.question.question import Question
from midturn.record.window import open_turn
from midturn.sandbox.doors import for_people_only

RESUME, DISCARD, QUIT = "resume", "discard", "quit"
_LEAVE = SelectOption(QUIT, "Leave everything as it is.")
_NEW_REQUEST = (
    SelectOption(RESUME, "Go on with it; your new request comes after it."),
    SelectOption(DISCARD, "End it; your new request comes next."),
    _LEAVE,
)


class Offer(Struct, frozen=True, kw_only=True):
    """The question about an open turn; its options, to resume, to discard and to leave it, say what each means for what comes next.

    `again` is what the user types later to go on with the turn, where that is no command of a shell.
    """

    text: str = "Conversation {} has an open turn. What about it?"
    options: Sequence[SelectOption[str]] = _NEW_REQUEST
    again: str | None = None


BEFORE_A_REQUEST = Offer()
IN_A_CHAT = Offer(again="/retry")
BEFORE_A_CHAT = Offer(
    options=(
        SelectOption(RESUME, "Go on with it."),
        SelectOption(DISCARD, "End it; what you say next begins a new turn."),
        _LEAVE,
    ),
    again="/retry",
)
AFTER_A_FAILURE = Offer(
    text="The turn is not finished. Try again?",
    options=(
        SelectOption("try again", "From where it stopped."),
        SelectOption("end the turn", "What is on record stays."),
        SelectOption("leave it open", "`/retry` tries again later."),
    ),
    again="/retry",
)


def resolve_open_turn(place: Place, held: Held, *, attached: bool, offer: Offer = BEFORE_A_REQUEST) -> ExitStatus | None:
    """Deal with an open turn; None where the new turn may begin.

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
    match _choice(held.conversation, offer):
        case "resume":
            status = resume_held(place, held, attached=attached, again=offer.again)
            return None if status in (ExitStatus.DONE, ExitStatus.REFUSED) else status
        case "discard":
            discard(place, held)
            return None
        case _:
            return ExitStatus.DONE


def _choice(conversation: str, offer: Offer) -> str:
    values = [option.value for option in offer.options]
    reply = ask_here(Question.select("open_turn", offer.text.format(conversation), offer.options, default=values[0]))
    return (RESUME, DISCARD, QUIT)[values.index(str(reply.value))] if isinstance(reply, Answered) else QUIT
