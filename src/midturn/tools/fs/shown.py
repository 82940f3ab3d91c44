"""An answer counts for exactly what was shown."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from midturn.core.question import Question
from midturn.tools.context import ToolContext

_CALLS = 1_000


class Shown:
    """Remembers, for each call of this process, the last question that was shown under an id.

    The file tools return a question and are run again with its answer. By then the file may have changed, and so may the question: the
    answer is then none to it. After a restart the call runs from its beginning, so that nothing need be kept longer.
    """

    def __init__(self) -> None:
        self._questions: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def answer(self, context: ToolContext, question: Question[bool]) -> bool | None:
        """Return the answer to this very question; None means that it must be asked (and is from now on what was shown)."""
        key = (context.idempotency_key, question.id)
        digest = hashlib.sha256(question.persisted().key).digest()
        if question.id in context.answers and self._questions.get(key) == digest:
            return context.answers[question.id] is True
        self._questions[key] = digest
        self._questions.move_to_end(key)
        if len(self._questions) > _CALLS:
            self._questions.popitem(last=False)
        return None


SHOWN = Shown()
