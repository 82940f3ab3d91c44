"""A form (spec 3.1): 1 to 20 questions, asked in order."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from midturn.core.question import Question


class Form(Struct, frozen=True):
    """Questions that are asked together. With `review`, the person sees all answers once more before they are sent."""

    questions: tuple[Question[Any], ...]
    review: bool = False
