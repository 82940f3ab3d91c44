"""Regular expressions that a model writes, matched in linear time.

Python's own `re` can be made to run for ever by a pattern of a few characters, with the whole program standing still. The engine
behind the schema validator cannot: it knows no look-around and no back-references.
"""

from __future__ import annotations

from midturn.tools.returned import Rejected

_LONGEST = 1_000
_COMPILED = 64 * 1024  # bytes of a compiled pattern: the time for each byte of text grows with it
_SEARCHED = 20_000  # characters of a line that are looked at


class Pattern:
    """A pattern that is looked for anywhere in a line.

    Raises:
        Rejected: It is not a regular expression, or uses what the engine does not know.
    """

    def __init__(self, pattern: str) -> None:
        import jsonschema_rs

        if not pattern or len(pattern) > _LONGEST:
            raise Rejected(f"`pattern` must have 1 to {_LONGEST} characters.")
        options = jsonschema_rs.RegexOptions(size_limit=_COMPILED, dfa_size_limit=_COMPILED)
        try:
            self._validator = jsonschema_rs.validator_for({"pattern": pattern}, offline=True, pattern_options=options)
        except (jsonschema_rs.ValidationError, ValueError):
            raise Rejected(
                "`pattern` is not a regular expression that is known here, or too large a one. Escape the characters . ^ $ * + ? { } [ ] "
                "\\ | ( ) with a backslash to find them as they are; look-around and back-references are not available."
            ) from None

    def is_in(self, line: str) -> bool:
        """Say whether the pattern occurs in a line, or in the beginning of a very long one."""
        return self._validator.is_valid(line[:_SEARCHED])
