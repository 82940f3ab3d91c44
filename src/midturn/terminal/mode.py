"""Which of the two looks a prompt has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from midturn.prompts.settings import Mode

PLAIN_TERMINALS = frozenset({"", "dumb", "unknown", "emacs"})


def choose_mode(setting: Mode, environment: Mapping[str, str]) -> Literal["rich", "plain"]:
    """Return what `setting` says; `auto` is plain for terminals that draw nothing, and where `ACCESSIBLE` is set."""
    if setting != "auto":
        return setting
    return "plain" if environment.get("TERM", "") in PLAIN_TERMINALS or environment.get("ACCESSIBLE") else "rich"
