"""Memory use of a program that prompts repeatedly, such as a chat."""

from __future__ import annotations

import gc
from collections.abc import Generator
from weakref import WeakSet

import pytest

from midturn.terminal import prompter


class Turn:
    """An object with a reference cycle, as a running turn has."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def frozen_process() -> Generator[None]:
    """A program that has frozen its loaded objects.

    This process is a fork of a process that has frozen more.
    """
    gc.collect()
    gc.freeze()
    prompter._freeze_loaded_objects.cache_clear()
    yield
    prompter._freeze_loaded_objects.cache_clear()


@pytest.mark.long
@pytest.mark.usefixtures("frozen_process")
def test_repeated_prompts_do_not_leak_turns() -> None:
    there = WeakSet[Turn]()
    for _ in range(20):
        turn = Turn()
        there.add(turn)
        prompter._collect_garbage()
        del turn

    gc.collect()
    assert len(there) <= 1
