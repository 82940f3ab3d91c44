"""The routing table (docs/reference/routing.md). The first matching row determines who answers."""

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
    """Use the answer that was remembered earlier in this turn.

    Args:
        value: The answer.
    """

    value: Json


class UseConfigured(Struct, frozen=True):
    """Use the configured answer. For a secret, it is a `SecretValue`.

    Args:
        value: The answer.
    """

    value: Json | SecretValue


class UseDefault(Struct, frozen=True):
    """Use the question's default.

    Args:
        value: The answer.
    """

    value: Json


class AskAssistant(Struct, frozen=True):
    """Ask a model. With `escalate`, the user is also asked if the model answers no to a boolean
    question.
    """

    escalate: bool = False


class AskUser(Struct, frozen=True):
    """Ask the attached person."""


class Suspend(Struct, frozen=True):
    """Suspend the turn until a person answers later."""


class Fail(Struct, frozen=True):
    """Fail the call, because no user or model may answer. `reason` is recorded."""

    reason: CancelReason


Route: TypeAlias = UseCached | UseConfigured | UseDefault | AskAssistant | AskUser | Suspend | Fail


class Situation(Struct, frozen=True, kw_only=True):
    """The inputs of the table. `cached` and `configured` are UNSET unless they are valid
    answers.
    """

    cached: Json | UnsetType
    configured: Json | SecretValue | UnsetType
    configured_is_invalid: bool
    default: Json | UnsetType
    target: TargetKind
    attached: bool
    policy: DetachedPolicy
    human_only: bool


class RouteRow(Struct, frozen=True):
    """A row: its number in docs/reference/routing.md, its condition and its decision."""

    number: int
    when: Callable[[Situation], bool]
    then: Callable[[Situation], Route]


TABLE: tuple[RouteRow, ...] = (
    RouteRow(1, lambda s: s.cached is not UNSET, lambda s: UseCached(_known(s.cached))),
    RouteRow(2, lambda s: s.configured is not UNSET, lambda s: UseConfigured(_known(s.configured))),
    RouteRow(3, lambda s: s.configured_is_invalid, lambda _: Fail("invalid_static_answer")),
    RouteRow(
        4, lambda s: s.target != "user" and s.human_only, lambda _: Fail("assistant_routing_denied")
    ),
    RouteRow(
        5,
        lambda s: s.target != "user",
        lambda s: AskAssistant(escalate=s.target == "assistant_with_escalation"),
    ),
    RouteRow(6, lambda s: s.attached, lambda _: AskUser()),
    RouteRow(7, lambda s: s.policy == "defer", lambda _: Suspend()),
    RouteRow(8, lambda s: s.human_only, lambda _: Fail("no_prompt_backend")),
    RouteRow(9, lambda s: s.policy == "auto", lambda _: AskAssistant()),
    RouteRow(
        10,
        lambda s: s.policy == "defaults" and s.default is not UNSET,
        lambda s: UseDefault(_known(s.default)),
    ),
    RouteRow(11, lambda s: s.policy == "defaults", lambda _: Fail("no_default")),
    RouteRow(12, lambda _: True, lambda _: Fail("detached_denied")),
)


def decide(situation: Situation) -> Route:
    """Return the route of the first matching row."""
    return next(row.then(situation) for row in TABLE if row.when(situation))


def route(
    question: Question[Any],
    *,
    target: TargetKind | Target = "user",
    cached: Json | UnsetType = UNSET,
    configured: Json | SecretValue | UnsetType = UNSET,
    attached: bool = True,
    detached: DetachedPolicy = "defer",
    exclusive: bool | None = None,
) -> Route:
    """Determine who answers `question`.

    Args:
        question: The question.
        target: The configured target: the user or a model.
        cached: The remembered answer. Ignored if invalid, if the question has `persistence = none`,
            and for secrets.
        configured: The configured answer. If it is invalid, the call fails.
        attached: Whether a person can be prompted now.
        detached: The policy if no person can be prompted.
        exclusive: Overrides the question's own `exclusive`.

    Raises:
        ConfigError: Unknown target or policy.
    """
    kind = target.kind if isinstance(target, Target) else target
    _check("target", kind, _TARGETS)
    _check("detached", detached, _POLICIES)
    secret = isinstance(question.answer_type, SecretType)
    remembers = question.persistence != "none" and not secret
    configured_answer = UNSET if configured is UNSET else _fitting(question, configured)
    return decide(
        Situation(
            cached=_plain(_fitting(question, cached))
            if remembers and cached is not UNSET
            else UNSET,
            configured=configured_answer,
            configured_is_invalid=configured is not UNSET and configured_answer is UNSET,
            default=question.default,
            target=kind,
            attached=attached,
            policy=detached,
            human_only=secret or (question.exclusive if exclusive is None else exclusive),
        )
    )


def _check(name: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise ConfigError(
            f"Invalid {name}={given!r}: expected one of {', '.join(map(repr, allowed))}."
        )


def _fitting(question: Question[Any], value: Json | SecretValue) -> Json | SecretValue | UnsetType:
    """Return the canonical answer, or UNSET if `value` is not a valid answer."""
    try:
        return question.check(value)
    except AnswerError:
        return UNSET


def _plain(value: Json | SecretValue | UnsetType) -> Json | UnsetType:
    return UNSET if isinstance(value, SecretValue) else value


def _known(value: Any) -> Any:
    """Narrow the type of a value that the row's condition has checked."""
    return value
