"""What bounds a turn and its questions; `limits.<name>` in the configuration sets each."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Each field is one limit; sizes are bytes, times are seconds."""

    question: int = 2_048
    context: int = 16 * 1024
    options: int = 200
    form: int = 20
    shown: int = 20
    repeats: int = 3
    rejected_cycles: int = 3
    cycles: int = 50
    seconds: float | None = None
    tool_output: int = 256 * 1024
    batch: int = 2 * 1024 * 1024
    json_depth: int = 128
    event_line: int = 16 * 1024 * 1024


DEFAULT_LIMITS = Limits()
