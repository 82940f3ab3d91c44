"""Outcomes of a tool: success, error, or a need for input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from midturn.events.types import Image
from midturn.question.form import Form
from midturn.question.question import Question


class Success(Struct, frozen=True):
    """The tool is done; `content` is what the model reads, `images` what it sees, where it can; `warning` is for people, who see it once.

    Args:
        content: What the model reads.
    """

    content: str
    images: tuple[Image, ...] = ()
    warning: str | None = None


class ToolError(Struct, frozen=True):
    """The tool failed; the model reads `message`. `trace` is for people, `transient` says that trying again may help.

    Args:
        message: What the model reads.
    """

    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False


class NeedsInput(Struct, frozen=True):
    """The tool must know something first, and is run again with the answers. One question is a form of one.

    Args:
        form: The questions.
    """

    form: Form

    if TYPE_CHECKING:

        def __init__(self, form: Form | Question[Any]) -> None: ...

    def __post_init__(self) -> None:
        question: object = self.form
        if isinstance(question, Question):
            force_setattr(self, "form", Form((question,)))


Outcome: TypeAlias = Success | ToolError | NeedsInput
