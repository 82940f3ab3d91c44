"""Both kinds of store, for the tests of channels; at the end of each, nothing is on record that nobody decided."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from support.channels.paired import only_paired_people_have_answered
from support.no_lie import nothing_is_on_record_that_nobody_decided
from support.stores import own_home, store

__all__ = ["nothing_is_on_record_that_nobody_decided", "only_paired_people_have_answered", "own_home", "store"]


@pytest.fixture(scope="module", autouse=True)
def _what_libraries_leave_open_is_found_here() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]  pytest finds it
    """Look for it while it is ignored: later, it would be said to be of whichever test the garbage is collected in."""
    yield
    gc.collect()
