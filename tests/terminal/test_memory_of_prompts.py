"""Memory of a program that prompts again and again, as a chat does."""

from __future__ import annotations

import gc
from collections.abc import Generator
from weakref import WeakSet

import pytest

from midturn.terminal import prompter


class Turn:
    """Something with a cycle in it, as everything is that runs."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def loaded() -> Generator[None]:
    """A program that has put aside what it has loaded, and leaves it there: this process was forked from one that has put aside more."""
    gc.collect()
    gc.freeze()
    prompter._put_aside.cache_clear()
    yield
    prompter._put_aside.cache_clear()


@pytest.mark.long
@pytest.mark.usefixtures("loaded")
def test_a_turn_that_prompts_leaves_nothing_behind_after_the_first() -> None:
    there = WeakSet[Turn]()
    for _ in range(20):
        turn = Turn()
        there.add(turn)
        prompter._tidy()
        del turn

    gc.collect()
    assert len(there) <= 1
