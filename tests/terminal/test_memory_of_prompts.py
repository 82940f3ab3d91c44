"""Memory of a program that prompts again and again, as a chat does."""

from __future__ import annotations

import gc
from weakref import WeakSet

import pytest

from midturn import collector


class Turn:
    """Something with a cycle in it, as everything is that runs."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has put aside what it has loaded."""
    gc.collect()
    monkeypatch.setattr(collector, "_ASIDE", set[str]())
    collector.put_aside()


@pytest.mark.long
@pytest.mark.usefixtures("loaded")
def test_a_turn_that_prompts_leaves_nothing_behind_after_the_first() -> None:
    there = WeakSet[Turn]()
    for _ in range(20):
        turn = Turn()
        there.add(turn)
        collector.tidy_after_prompt()
        del turn

    gc.collect()
    assert len(there) <= 1
