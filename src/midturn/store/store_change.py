"""One thing that happened to a question of a store, or to a turn."""

from __future__ import annotations

from typing import Literal, cast

import msgspec
from msgspec import Struct

from midturn.core.events import AnsweredBy
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion


class StoreChange(Struct, frozen=True, kw_only=True):
    """One thing that happened.

    `asked`: `question` is open. `answered`: `answered_by` says who answered the question `id`. `withdrawn`: it was closed without an
    answer. `turn_ended`: the last turn of `conversation` is over; `id` is empty.

    Args:
        kind: What happened: one of these words.
    """

    kind: Literal["asked", "answered", "withdrawn", "turn_ended"]
    conversation: str
    id: str = ""
    question: OpenQuestion | None = None
    answered_by: AnsweredBy | None = None

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON; what is not set is left out."""
        shown: dict[str, Json] = {"kind": self.kind, "conversation": self.conversation}
        if self.id:
            shown["id"] = self.id
        if self.question:
            shown["question"] = self.question.to_json()
        if self.answered_by:
            shown["answered_by"] = cast("Json", msgspec.to_builtins(self.answered_by))
        return shown
