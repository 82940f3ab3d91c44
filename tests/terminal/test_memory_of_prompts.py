"""Memory of a program that prompts again and again, as a chat does."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from midturn.terminal import prompter


class Turn:
    """Something with a cycle in it, as everything is that runs."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def loaded() -> Generator[None]:
    """A program that has put aside what it has loaded."""
    gc.freeze()
    prompter._put_aside.cache_clear()
    yield
    gc.unfreeze()
    prompter._put_aside.cache_clear()


@pytest.mark.long
@pytest.mark.usefixtures("loaded")
def test_a_turn_that_prompts_leaves_nothing_behind_after_the_first() -> None:
    for _ in range(20):
        turn = Turn()
        prompter._tidy()
        del turn

    gc.collect()
    gc.unfreeze()
    assert sum(type(one) is Turn for one in gc.get_objects()) <= 1
