"""The replies of a person."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.question.text import check_text, check_text_or_none

Scope: TypeAlias = Literal["conversation", "project", "everywhere"]
"""How far a standing permission reaches: this conversation, this project (a directory), every project of this user."""
SCOPES: Final[tuple[Scope, ...]] = ("conversation", "project", "everywhere")
DEFAULT_SCOPE: Final[Scope] = "project"


class Answered(Struct, frozen=True):
    """An answer. `reason` explains it, `automatic` marks one that no human gave.

    `remember` keeps it for the turn. A yes to the call of another agent may name what that keeps of it: one of `Prompt.always`.

    Args:
        value: The answer; a secret as a `SecretValue`.
        scope: One of `Prompt.scopes`: how far the answer counts for later questions or calls. None: for this one.
        rule: With a `scope`, the calls that a yes to a call covers, as a rule of the configuration. None: those with equal arguments.
    """

    value: Json | SecretValue
    reason: str | None = None
    remember: bool | str = False
    automatic: bool = False
    scope: Scope | None = None
    rule: JsonObject | None = None

    def __post_init__(self) -> None:
        """Refuse a reason that could not be recorded.

        Raises:
            TypeError: It is not text.
        """
        if self.reason is not None:
            check_text("reason", self.reason)


class WentBack(Struct, frozen=True):
    """The person wants the previous question of the form again."""


class Replied(Struct, frozen=True):
    """The person does not answer, and says something to the model instead (or nothing).

    Args:
        text: The words; None where there are none.
    """

    text: str | None = None

    def __post_init__(self) -> None:
        """Refuse words that could not be recorded.

        Raises:
            TypeError: They are not text.
        """
        check_text_or_none("text", self.text)


class EndedTurn(Struct, frozen=True):
    """Ctrl-C, end of input, or End Turn: no further model request in this turn."""


class Edited(Struct, frozen=True):
    """Approved with changes: the arguments (kind `run`) or the content (kind `deliver`) to use instead.

    Args:
        value: The whole of what is used instead.
    """

    value: Json


class Submitted(Struct, frozen=True):
    """The answers at the review step are right: send them."""


class Deferred(Struct, frozen=True):
    """The person decides later: the question stays open, whatever the detached policies say, and nothing is recorded."""


class Unavailable(Struct, frozen=True):
    """There was no one to show the prompt to (a background job): it counts as not attached."""


Reply: TypeAlias = Answered | WentBack | Replied | EndedTurn | Edited | Submitted | Deferred | Unavailable
