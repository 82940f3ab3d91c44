"""Where a secret is dropped: what is recorded of an answer that is one says who gave it, and nothing else."""

from __future__ import annotations

from midturn.core.events import AnsweredBy, InquiryAnswered, InquiryRedacted
from midturn.core.reply import Answered
from midturn.core.secret import SecretValue


def recorded_answer(id: str, answered: Answered, who: AnsweredBy) -> InquiryAnswered | InquiryRedacted:
    """Return the event that an answer becomes. The class for a secret has no field that could hold it."""
    if isinstance(answered.value, SecretValue):
        return InquiryRedacted(id=id, answered_by=who)
    return InquiryAnswered(id=id, answer=answered.value, answered_by=who, reason=answered.reason, remembered=answered.remember is True)
