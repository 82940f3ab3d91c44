"""Both kinds of store, for the tests of channels; at the end of each, nothing is on record that nobody decided."""

from __future__ import annotations

from support.no_lie import nothing_is_on_record_that_nobody_decided
from support.stores import own_home, store

__all__ = ["nothing_is_on_record_that_nobody_decided", "own_home", "store"]
