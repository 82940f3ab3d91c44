"""A turn that is cut anywhere and resumed gives every call the same result.

The design depends on this property.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, seed, settings

from support.depth import tries
from support.turn_check import check, cut_everywhere
from support.turn_oracle import expected
from support.turn_player import play
from support.turn_script import Script
from support.turn_scripts import (
    SCENES,
    Scene,
    approvals,
    at_once,
    chains,
    coroutines,
    escalations,
    group_decisions,
    memories,
    previewed,
    replies,
    scripts,
)

RANDOM = os.environ.get(
    "MIDTURN_PREFIX_EXAMPLES"
)  # number of random examples; without it, a fixed set of one hundred
DEEP = os.environ.get("DEEP") == "1"
EXAMPLES = int(RANDOM or tries(80))
RARE = 0.05  # minimum share of the examples in which each ingredient occurs
INGREDIENTS = {
    "chains": ("a chain of returned questions",),
    "re-asks": ("the same question again", "the limit of repeats"),
    "several calls at once": ("several calls at once",),
    "concurrent asks of one coroutine": ("several asks at once",),
    "remembered answers": ("a remembered answer", "a remembered permission"),
    "approvals": ("an approved call", "run that waits", "deliver that waits", "a delivered result"),
    "foretold questions": ("a foretold question that is asked",),
    "secrets": ("a secret",),
    "escalations": ("a no escalated", "a failure escalated"),
    "replies to a tool": ("Reply to a tool",),
    "limits": ("the limit of", "the breaker"),
    "cancellations": ("End Turn", "Ctrl-C", "Reply", "Back"),
}


AMONG_PEOPLE = {
    "several votes": ("several votes",),
    "a no of one": ("people: no", "people permit: no"),
    "an edit that is voted on": ("people permit: edit",),
    "people who may not": ("people who may not",),
    "deadlines of several people": ("people: late", "people permit: late"),
    "other deadlines": ("a deadline that passes", "a permission past its deadline"),
    "replies instead": ("people: reply",),
}
EMPHASES: tuple[tuple[Sequence[Scene], int], ...] = (
    (SCENES, EXAMPLES * 2 // 5),
    *(
        ((scene,), EXAMPLES // 10)
        for scene in (chains, coroutines, at_once, memories, approvals, escalations, replies)
    ),
    ((previewed,), EXAMPLES // 4),
)


@pytest.mark.timeout(600)
def test_a_turn_cut_anywhere_and_resumed_has_the_same_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every call gets the same answers and result.

    No question is asked again, and every request has one response.
    """
    seen = Counter[str]()
    for scenes, examples in EMPHASES:
        _holds(scenes, examples, seen)

    total = seen.pop("examples")
    with capsys.disabled():
        shares = ", ".join(
            f"{count / total:.0%} {name}"
            for name, count in seen.most_common()
            if name in INGREDIENTS
        )
        print(f"\n{total} turns, each cut at every event: {shares}")  # noqa: T201  what was covered
    assert all(seen[name] >= RARE * total for name in INGREDIENTS), seen


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(1, 9 if DEEP else 2))
def test_a_turn_of_several_people_cut_anywhere_has_the_same_result(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Turns with votes, edits and escalations lead to the same result after any cut.

    They also contain late answers, changed votes, votes without permission, passing on and
    reminders. Answers are given at a prompt, through the queue, and from outside. With
    `DEEP=1`, there are eight parts of 250 turns each.
    """
    seen = Counter[str]()
    _holds((group_decisions,), 250 if DEEP else 24, seen, part)

    total = seen.pop("examples")
    with capsys.disabled():
        shares = ", ".join(f"{seen[name] / total:.0%} {name}" for name in AMONG_PEOPLE)
        print(f"\n{total} turns of several people, each cut at every event: {shares}")  # noqa: T201  what was covered
    assert all(seen[name] >= (RARE * total / 3 if DEEP else 1) for name in AMONG_PEOPLE), (
        seen
    )  # these turns have more ingredients


def _holds(
    scenes: Sequence[Scene], examples: int, seen: Counter[str], part: int | None = None
) -> None:
    """Try turns made of these scenes, and count their ingredients in `seen`."""

    @settings(
        max_examples=examples,
        derandomize=RANDOM is None,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(scripts(scenes))
    def holds(script: Script) -> None:
        oracle = expected(script)
        world = play(script)
        check(world, oracle)
        cut_everywhere(world, oracle)
        seen.update(["examples", *_ingredients(oracle.seen)])

    (holds if part is None else seed(part)(holds))()


def _ingredients(seen: Counter[str]) -> list[str]:
    """Return the ingredients of a turn."""
    return [
        name
        for name, marks in (INGREDIENTS | AMONG_PEOPLE).items()
        if any(mark.startswith(marks) for mark in +seen)
    ]
