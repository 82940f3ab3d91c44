from __future__ import annotations

from support.no_lie import nothing_is_on_record_that_nobody_decided

__all__ = ["nothing_is_on_record_that_nobody_decided"]  # of every test here
