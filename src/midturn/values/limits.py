"""Limits of a turn and its questions: `limits.<name>` in the configuration sets each, `turn/state.py` applies those of a turn."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Each field is one limit; sizes are bytes, times are seconds.

    Args:
        question: The text of a question, and each of its options, in characters.
        context: The context above it, in bytes.
        options: How many options a question may have.
        form: How many questions a form may have.
        shown: How many different questions a person may be shown in one turn.
        repeats: How often a tool may ask the same question in one call.
        rejected_cycles: After how many rounds in a row that models rejected only a person may answer.
        cycles: How many requests to the main model a turn may take.
        seconds: How long a turn may work; None: as long as it takes. Waiting for people does not count.
        tool_output: How much of the result of a tool the model reads, in bytes.
        batch: How much one batch of events may weigh, in bytes.
        json_depth: How deep JSON may be nested: an answer, the arguments of a call.
        event_line: How long one recorded event may be, in bytes.
    """

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
