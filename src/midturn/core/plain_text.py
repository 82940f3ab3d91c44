"""Is what a program gave text? What is recorded under a name that takes text could not be read back as anything else."""

from __future__ import annotations


def check_text(name: str, given: object) -> None:
    """Let text pass.

    Args:
        name: What the program calls it.
        given: What it gave.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(given, str):
        raise TypeError(f"`{name}` takes text, not {given!r:.80}.{_way_out(given)}")


def check_text_or_none(name: str, given: object) -> None:
    """Let text and None pass, as `check_text` does."""
    if given is not None:
        check_text(name, given)


def _way_out(given: object) -> str:
    return " A number becomes text with `str(…)`." if isinstance(given, int) and not isinstance(given, bool) else ""
