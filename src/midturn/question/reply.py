"""The replies that a person can give to a prompt."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.question.text import check_text, check_text_or_none

Scope: TypeAlias = Literal["conversation", "project", "everywhere"]
"""Scope of a standing permission: this conversation, this project (a directory), or all projects
of this user.
"""
SCOPES: Final[tuple[Scope, ...]] = ("conversation", "project", "everywhere")
DEFAULT_SCOPE: Final[Scope] = "project"


class Answered(Struct, frozen=True):
    """An answer.

    Args:
        value: The answer. A secret is a `SecretValue`.
        reason: Explanation of the answer.
        remember: Whether the answer is remembered for the turn. To approve an external agent's call
            permanently, set it to one of `Prompt.always`, the permissions that the agent offers.
        automatic: Whether the answer was given without a human.
        scope: One of `Prompt.scopes`: which later questions or calls the answer also applies to.
            None: only this question or call.
        rule: Rule in the format of the configuration, for an approval with `scope`. The approval
            applies to calls that match the rule. None: calls with the same arguments.
    """

    value: Json | SecretValue
    reason: str | None = None
    remember: bool | str = False
    automatic: bool = False
    scope: Scope | None = None
    rule: JsonObject | None = None

    def __post_init__(self) -> None:
        """Validate the reason.

        Raises:
            TypeError: `reason` is not a string.
        """
        if self.reason is not None:
            check_text("reason", self.reason)


class WentBack(Struct, frozen=True):
    """The person wants to return to the previous question of the form."""


class Replied(Struct, frozen=True):
    """The person does not answer, and sends a message to the model instead.

    Args:
        text: The message, or None.
    """

    text: str | None = None

    def __post_init__(self) -> None:
        """Validate the message.

        Raises:
            TypeError: The message is not a string.
        """
        check_text_or_none("text", self.text)


class EndedTurn(Struct, frozen=True):
    """The person ended the turn (Ctrl-C, end of input, or End Turn). No more model requests are
    made in this turn.
    """


class Edited(Struct, frozen=True):
    """The person approved with changes: new arguments for the call (prompt kind `run`), or new
    content for the result (kind `deliver`).

    Args:
        value: The complete new arguments or the complete new content.
    """

    value: Json


class Submitted(Struct, frozen=True):
    """The person confirmed the answers in the review. The answers are sent."""


class Deferred(Struct, frozen=True):
    """The person wants to decide later. The question stays open, whatever the detached policies
    are, and nothing is recorded.
    """


class Unavailable(Struct, frozen=True):
    """The prompt could not be shown, for example in a background job. The question is treated as
    in a detached run.
    """


Reply: TypeAlias = (
    Answered | WentBack | Replied | EndedTurn | Edited | Submitted | Deferred | Unavailable
)
