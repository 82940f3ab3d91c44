"""Whether a person is at a terminal who can be asked."""

from __future__ import annotations

from collections.abc import Mapping

from midturn.terminal.device import can_open_terminal

SWITCHES = ("CI", "MIDTURN_NON_INTERACTIVE")


def is_attached(environment: Mapping[str, str], *, non_interactive: bool) -> bool:
    """Say whether questions can be shown: piping stdin or stdout changes nothing."""
    return not non_interactive and not any(_is_on(environment.get(name)) for name in SWITCHES) and can_open_terminal()


def _is_on(value: str | None) -> bool:
    return value is not None and value.strip().lower() not in ("", "0", "false", "no", "off")
