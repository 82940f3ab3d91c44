"""The agents whose hooks we speak with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from midturn.foreign import claude
from midturn.foreign.claude import Claude
from midturn.foreign.hook import HookAgent
from midturn.foreign.installing import Installation

Locating: TypeAlias = Callable[[Path, Path | None, Mapping[str, str]], Installation]

AGENTS: Final[Mapping[str, HookAgent]] = {agent.key: agent for agent in (Claude(),)}
INSTALLATIONS: Final[Mapping[str, Locating]] = {"claude": claude.installation}
"""What is installed where: for the user whose home is given, or for a project."""
