"""Whether a person is at a terminal who can be asked."""

from __future__ import annotations

from collections.abc import Mapping

from midturn.terminal.controlling import can_open_terminal

SWITCHES = ("CI", "MIDTURN_NON_INTERACTIVE")


def is_attached(environment: Mapping[str, str], *, non_interactive: bool) -> bool:
    """Say whether questions can be shown: piping stdin or stdout changes nothing. Nobody sits at one that a tool or an agent made."""
    if non_interactive or any(_is_on(environment.get(name)) for name in SWITCHES):
        return False
    if not can_open_terminal():
        return False
    from midturn.sandbox.doors import not_a_persons  # without a terminal it does not matter who has started us

    return not not_a_persons(environment)


def _is_on(value: str | None) -> bool:
    return value is not None and value.strip().lower() not in ("", "0", "false", "no", "off")
