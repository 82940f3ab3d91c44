from __future__ import annotations

from support.invented_decisions import no_invented_decisions

__all__ = ["no_invented_decisions"]  # used by every test in this directory
