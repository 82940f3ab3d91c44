"""The routing table (docs/routing.md): the first row that matches decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast, get_args

from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, ConfigError
from midturn.events.types import CancelReason
from midturn.question.answer_type import SecretType
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question
from midturn.routing.policy import DetachedPolicy, Target, TargetKind

_TARGETS = cast("tuple[str, ...]", get_args(TargetKind))
_POLICIES = cast("tuple[str, ...]", get_args(DetachedPolicy))


class UseCached(Struct, frozen=True):
    """The answer that was remembered in this turn.

    Args:
        value: The answer.
    """

    value: Json


class UseConfigured(Struct, frozen=True):
    """The answer that the configuration fixes; a secret's is a `SecretValue`.

    Args:
        value: The answer.
    """

    value: Json | SecretValue


class UseDefault(Struct, frozen=True):
    """The question's own default.

    Args:
        value: The answer.
    """

    value: Json


class AskAssistant(Struct, frozen=True):
    """A model answers; with `escalate`, its "no" to a boolean question goes to the user."""

    escalate: bool = False


class AskUser(Struct, frozen=True):
    """The person who is attached answers."""


class Suspend(Struct, frozen=True):
    """The turn waits for a person who comes by later."""


class Fail(Struct, frozen=True):
    """No one may answer: the call fails, and `reason` is recorded."""

    reason: CancelReason


Route: TypeAlias = UseCached | UseConfigured | UseDefault | AskAssistant | AskUser | Suspend | Fail


class Situation(Struct, frozen=True, kw_only=True):
    """Everything the table looks at. `cached` and `configured` hold a value only where it is a valid answer."""

    cached: Json | UnsetType
    configured: Json | SecretValue | UnsetType
    configured_is_invalid: bool
    default: Json | UnsetType
    target: TargetKind
    attached: bool
    policy: DetachedPolicy
    human_only: bool


class RouteRow(Struct, frozen=True):
    """One row: its number in docs/routing.md, when it applies, and what it decides."""

    number: int
    when: Callable[[Situation], bool]
    then: Callable[[Situation], Route]


TABLE: tuple[RouteRow, ...] = (
    RouteRow(1, lambda s: s.cached is not UNSET, lambda s: UseCached(_known(s.cached))),
    RouteRow(2, lambda s: s.configured is not UNSET, lambda s: UseConfigured(_known(s.configured))),
    RouteRow(3, lambda s: s.configured_is_invalid, lambda _: Fail("invalid_static_answer")),
    RouteRow(4, lambda s: s.target != "user" and s.human_only, lambda _: Fail("assistant_routing_denied")),
    RouteRow(5, lambda s: s.target != "user", lambda s: AskAssistant(escalate=s.target == "assistant_with_escalation")),
    RouteRow(6, lambda s: s.attached, lambda _: AskUser()),
    RouteRow(7, lambda s: s.policy == "defer", lambda _: Suspend()),
    RouteRow(8, lambda s: s.human_only, lambda _: Fail("no_prompt_backend")),
    RouteRow(9, lambda s: s.policy == "auto", lambda _: AskAssistant()),
    RouteRow(10, lambda s: s.policy == "defaults" and s.default is not UNSET, lambda s: UseDefault(_known(s.default))),
    RouteRow(11, lambda s: s.policy == "defaults", lambda _: Fail("no_default")),
    RouteRow(12, lambda _: True, lambda _: Fail("detached_denied")),
)


def decide(situation: Situation) -> Route:
    """Say who answers: the first row that matches, top to bottom."""
    return next(row.then(situation) for row in TABLE if row.when(situation))


def route(  # noqa: PLR0913  a public signature
    question: Question[Any],
    *,
    target: TargetKind | Target = "user",
    cached: Json | UnsetType = UNSET,
    configured: Json | SecretValue | UnsetType = UNSET,
    attached: bool = True,
    detached: DetachedPolicy = "defer",
    exclusive: bool | None = None,
) -> Route:
    """Say who answers `question`.

    Args:
        question: What is asked.
        target: Who the configuration wants asked.
        cached: The remembered answer; ignored where it does not fit, and for `persistence = none` and secrets.
        configured: The configured answer; one that does not fit fails the call.
        attached: Whether a person is at a prompt now.
        detached: The policy when no one is.
        exclusive: The configuration's override of the question's own `exclusive`.

    Raises:
        ConfigError: There is no such target, or no such policy.
    """
    kind = target.kind if isinstance(target, Target) else target
    _check("target", kind, _TARGETS)
    _check("detached", detached, _POLICIES)
    secret = isinstance(question.answer_type, SecretType)
    remembers = question.persistence != "none" and not secret
    static = UNSET if configured is UNSET else _fitting(question, configured)
    return decide(
        Situation(
            cached=_plain(_fitting(question, cached)) if remembers and cached is not UNSET else UNSET,
            configured=static,
            configured_is_invalid=configured is not UNSET and static is UNSET,
            default=question.default,
            target=kind,
            attached=attached,
            policy=detached,
            human_only=secret or (question.exclusive if exclusive is None else exclusive),
        )
    )


def _check(name: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise ConfigError(f"{name}={given!r}: it is one of {', '.join(map(repr, allowed))}.")


def _fitting(question: Question[Any], value: Json | SecretValue) -> Json | SecretValue | UnsetType:
    """Return the canonical answer, or nothing where `value` is not an answer."""
    try:
        return question.check(value)
    except AnswerError:
        return UNSET


def _plain(value: Json | SecretValue | UnsetType) -> Json | UnsetType:
    return UNSET if isinstance(value, SecretValue) else value


def _known(value: Any) -> Any:
    """Narrow what the row's condition has made sure of."""
    return value
