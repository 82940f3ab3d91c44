"""Steps of a walk through a form: the next question, the review, the end."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from midturn.question.question import Question
from midturn.values.json_value import Json, NotJson, read_json
from midturn.values.secret import SecretValue


class Ask(Struct, frozen=True):
    """Ask this question.

    `index` is its 1-based place in the submitted form and `total` the form's length, skipped questions included. `prefill` is the answer
    that it has already had, where Back brought it up again; `UNSET` otherwise, and always for a secret.

    Args:
        question: The question.
        can_go_back: Whether there is an earlier answer to go back to.
    """

    question: Question[Any]
    index: int
    total: int
    prefill: Json | UnsetType = UNSET
    can_go_back: bool = False


class Review(Struct, frozen=True):
    """Show all answers once more; `answers` is what `Completed` would hold."""

    answers: dict[str, Json | SecretValue]


class Completed(Struct, frozen=True):
    """The walk is over. `answers` holds every id in submitted order; a skipped one's is `None`, a secret's a `SecretValue`."""

    answers: dict[str, Json | SecretValue]


class Cancelled(Struct, frozen=True):
    """The person replied instead. `answered` is what was collected by then, without skipped questions and secrets.

    Args:
        reply: The words; None where there are none.
    """

    answered: dict[str, Json]
    reply: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the marker that the model reads as the result of the call."""
        marker: dict[str, Json] = {"cancelled": True, "answered": self.answered}
        return marker if self.reply is None else {**marker, "reply": self.reply}

    @classmethod
    def read(cls, content: str) -> Cancelled | None:
        """Read a result that begins with such a marker; None where it is anything else.

        What the person typed with a "no" before stands in lines below it.

        Args:
            content: The result of a call. The caller knows whether it can come from no one else.
        """
        if not content.startswith('{"cancelled":'):
            return None
        try:
            found = read_json(content.partition("\n")[0])
        except NotJson:
            return None
        if not isinstance(found, dict) or not {"cancelled", "answered"} <= set(found) <= {"cancelled", "answered", "reply"}:
            return None
        answered, reply = found["answered"], found.get("reply")
        return cls(answered, reply) if isinstance(answered, dict) and (reply is None or isinstance(reply, str)) else None


class FormEnded(Struct, frozen=True):
    """The person ended the turn."""


Step: TypeAlias = Ask | Review | Completed | Cancelled | FormEnded
