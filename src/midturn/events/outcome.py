"""Outcomes of a tool run: success, error, or questions to answer first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from midturn.events.types import Image
from midturn.question.form import Form
from midturn.question.question import Question


class Success(Struct, frozen=True):
    """The tool finished.

    Args:
        content: The result that the model reads.
        images: Images for the model. Models without image support do not receive them.
        warning: A warning shown to the user once.
    """

    content: str
    images: tuple[Image, ...] = ()
    warning: str | None = None


class ToolError(Struct, frozen=True):
    """The tool failed.

    Args:
        message: The error that the model reads.
        trace: Traceback lines to show to people.
        transient: Whether a retry may succeed.
    """

    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False


class NeedsInput(Struct, frozen=True):
    """The tool needs answers, and runs again when it has them.

    Args:
        form: The questions. A single question becomes a form of one.
    """

    form: Form

    if TYPE_CHECKING:

        def __init__(self, form: Form | Question[Any]) -> None: ...

    def __post_init__(self) -> None:
        question: object = self.form
        if isinstance(question, Question):
            force_setattr(self, "form", Form((question,)))


Outcome: TypeAlias = Success | ToolError | NeedsInput
