"""Both kinds of stores for the tests of channels. After each test, the recorded decisions are
checked.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from support.channels.paired import only_paired_people_have_answered
from support.invented_decisions import no_invented_decisions
from support.stores import own_home, store

__all__ = ["no_invented_decisions", "only_paired_people_have_answered", "own_home", "store"]


@pytest.fixture(scope="module", autouse=True)
def _what_libraries_leave_open_is_found_here() -> Iterator[None]:
    """Collect garbage while ResourceWarnings of the libraries are ignored. Otherwise a later
    test would report them.
    """
    yield
    gc.collect()
