"""The nearest word to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean `x`?` for the known word nearest to `word`, or nothing where none is near."""
    import difflib  # only where something is wrong: it is slow to import

    near = difflib.get_close_matches(word[:128], list(known), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""
