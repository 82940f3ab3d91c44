"""What a child process sees of our environment: an allow-list, and what its tool declares."""

from __future__ import annotations

from collections.abc import Mapping

_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "LANG", "TERM", "TMPDIR"),
        *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),  # those that POSIX names
    }
)


def child_environment(ours: Mapping[str, str], declared: Mapping[str, str | None]) -> dict[str, str]:
    """Build the environment of a child. `declared` maps names to values, or to None where our own value is passed on."""
    kept = {name: value for name, value in ours.items() if name in _PASSED_ON}
    return kept | {name: ours[name] if value is None else value for name, value in declared.items() if value is not None or name in ours}
