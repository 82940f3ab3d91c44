"""A reply that a walk cannot take."""

from __future__ import annotations

from midturn.core.form.steps import Ask, Cancelled, Completed, FormEnded, Review, Step
from midturn.errors import MidturnError


class MisplacedReplyError(MidturnError, ValueError):
    """The walk cannot take this reply where it stands: it is over, or there is nothing to go back to, to answer or to submit."""

    @classmethod
    def at(cls, step: Step, reply: object) -> MisplacedReplyError:
        """Say what the walk takes at this step."""
        return cls(f"{type(reply).__name__} does not belong here: {_takes(step)}.")


def _takes(step: Step) -> str:
    match step:
        case Ask(question, can_go_back=True):
            return f"the question `{question.id}` is open; it takes Answered, WentBack, Replied or EndedTurn"
        case Ask(question):
            return f"the question `{question.id}` is open and nothing was answered before it; it takes Answered, Replied or EndedTurn"
        case Review():
            return "the answers are under review; it takes Submitted, WentBack, Replied or EndedTurn"
        case Completed() | Cancelled() | FormEnded():
            return "the form is finished"
