"""Patterns that are matched in linear time, whatever the text."""

from __future__ import annotations

from functools import lru_cache

SIZES = (1, 4, 16, 64, 512)  # kilobytes of the compiled pattern; what is larger takes too long to run


@lru_cache(maxsize=512)
def pattern_size(pattern: str) -> int | None:
    """Return how large a pattern is when compiled, in kilobytes, or None where it is too large, or none for a linear-time engine.

    Matching takes at most about a tenth of a microsecond for each of these kilobytes and each byte of text.
    """
    import jsonschema_rs  # a heavy import, for schemas with patterns only

    for size in SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=size * 1024, dfa_size_limit=size * 1024)
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options, offline=True)
        except jsonschema_rs.ValidationError:
            continue
        return size
    return None
