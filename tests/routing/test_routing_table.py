"""Routing of every possible combination, compared with the table in `table.md`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.routing.policy import DetachedPolicy, TargetKind
from midturn.routing.table import (
    AskAssistant,
    AskUser,
    Fail,
    Route,
    Suspend,
    UseCached,
    UseConfigured,
    UseDefault,
    route,
)

Given: TypeAlias = Literal["none", "valid", "invalid"]
_ROW = re.compile(r"\| (\d+) \| (.*) \| (.*) \| (.*) \|")
_WRONG = 17
_BOTH = (False, True)


class Case(Struct, frozen=True, kw_only=True):
    """One combination.

    `forced` is the configured override of the question's own `exclusive`.
    """

    cached: Given
    remembers: bool
    configured: Given
    target: TargetKind
    attached: bool
    policy: DetachedPolicy
    exclusive: bool
    forced: bool | None
    secret: bool
    has_default: bool

    @property
    def human_only(self) -> bool:
        """Return whether only a person may answer."""
        return self.secret or (self.exclusive if self.forced is None else self.forced)


class Row(Struct, frozen=True):
    """One row of the table: if all its clauses hold, its result follows."""

    number: int
    clauses: Sequence[str]
    result: str
    recorded: str


_CLAUSES: Mapping[str, Callable[[Case], bool]] = {
    "cached answer": lambda case: case.cached != "none",
    "`persistence = turn`": lambda case: case.remembers,
    "not `secret`": lambda case: not case.secret,
    "not the answer that this call has already had to an equal question": lambda _: (
        True
    ),  # the turn never passes such an answer
    "configured answer": lambda case: case.configured != "none",
    "invalid": lambda case: case.configured == "invalid",
    "target is an assistant kind": lambda case: (
        case.target in ("assistant", "assistant_with_escalation")
    ),
    "`human_only`": lambda case: case.human_only,
    "client attached": lambda case: case.attached,
    "policy `defer`": lambda case: case.policy == "defer",
    "policy `auto`": lambda case: case.policy == "auto",
    "policy `defaults`": lambda case: case.policy == "defaults",
    "policy `deny`": lambda case: case.policy == "deny",
    "the question has a default": lambda case: case.has_default,
    "no default": lambda case: not case.has_default,
}


def rows() -> list[Row]:
    """Read the table."""
    found = (
        _ROW.fullmatch(line)
        for line in Path(__file__).with_name("table.md").read_text().splitlines()
    )
    return [
        Row(int(row[1]), row[2].replace(", and ", ", ").split(", "), row[3], row[4])
        for row in found
        if row
    ]


def holds(row: Row, case: Case) -> bool:
    return all(_clause(clause, row, case) for clause in row.clauses)


def _clause(clause: str, row: Row, case: Case) -> bool:
    if clause == "valid for the question":
        return (case.cached if row.number == 1 else case.configured) == "valid"
    return _CLAUSES[clause](case)


def expected(row: Row, case: Case) -> Route:
    """Return the route that a row of the table describes."""
    recorded = re.findall(r"`(\w+)`", row.recorded)
    match row.result.split(";")[0].split(" (")[0]:
        case "use it":
            kinds: dict[str, Route] = {
                "cached": UseCached(answer(case)),
                "static": UseConfigured(SecretValue(answer(case)) if case.secret else answer(case)),
                "default": UseDefault(answer(case)),
            }
            return kinds[recorded[0]]
        case "fail the call":
            return Fail(recorded[0])
        case "ask the assistant":
            return AskAssistant(escalate=case.target == "assistant_with_escalation")
        case "prompt the user":
            return AskUser()
        case "suspend the turn":
            return Suspend()
        case other:
            raise AssertionError(other)


def answer(case: Case) -> Any:
    return "hunter2" if case.secret else True


def given(what: Given, case: Case) -> Any:
    values: dict[Given, Any] = {"none": UNSET, "valid": answer(case), "invalid": _WRONG}
    return values[what]


def question(case: Case) -> Question[Any]:
    if case.secret:
        return Question.secret("token", "The token?")
    persistence = "turn" if case.remembers else "none"
    asked = Question.boolean(
        "confirm", "Apply it?", exclusive=case.exclusive, persistence=persistence
    )
    return replace(asked, default=True) if case.has_default else asked


def cases() -> Iterator[Case]:
    """Yield every combination that a question can have.

    A secret is always for humans, has no default and is never remembered.
    """
    given_kinds: tuple[Given, ...] = get_args(Given)
    dimensions = (
        given_kinds,
        _BOTH,
        given_kinds,
        get_args(TargetKind),
        _BOTH,
        get_args(DetachedPolicy),
        _BOTH,
        (None, *_BOTH),
        _BOTH,
        _BOTH,
    )
    for values in product(*dimensions):
        case = msgspec.convert(dict(zip(Case.__struct_fields__, values, strict=True)), Case)
        if not case.secret or (case.exclusive and not case.has_default):
            yield case


def test_the_table_has_twelve_rows_in_order() -> None:
    assert [row.number for row in rows()] == list(range(1, 13))


def test_every_combination_is_routed_as_in_the_table() -> None:
    table, reached = rows(), set[int]()
    for case in cases():
        row = next(row for row in table if holds(row, case))
        reached.add(row.number)
        found = route(
            question(case),
            target=case.target,
            cached=given(case.cached, case),
            configured=given(case.configured, case),
            attached=case.attached,
            detached=case.policy,
            exclusive=case.forced,
        )
        assert found == expected(row, case), (row.number, case)

    assert reached == set(range(1, 13))


def test_exclusive_questions_are_never_answered_by_a_model_or_default() -> None:
    """This holds for every target and policy. Not even a remembered secret is used."""
    for case in cases():
        if case.human_only and not (case.cached == "valid" and case.remembers and not case.secret):
            found = route(
                question(case),
                target=case.target,
                attached=case.attached,
                detached=case.policy,
                exclusive=case.forced,
            )
            assert isinstance(found, AskUser | Suspend | Fail), case
