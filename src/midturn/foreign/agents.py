"""The agents whose hooks we speak with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from midturn.foreign import claude, claude_deferring, codex, copilot, gemini, qwen
from midturn.foreign.hook import HookAgent
from midturn.foreign.installing import Installation

Locating: TypeAlias = Callable[[Path, Path | None, Mapping[str, str]], Installation]

AGENTS: Final[Mapping[str, HookAgent]] = {
    agent.key: agent for agent in (claude.Claude(), codex.Codex(), gemini.Gemini(), qwen.Qwen(), copilot.Copilot())
}
INSTALLATIONS: Final[Mapping[str, Locating]] = {
    "claude": claude.installation,
    "codex": codex.installation,
    "gemini": gemini.installation,
    "qwen": qwen.installation,
    "copilot": copilot.installation,
}
"""What is installed where: for the user whose home is given, or for a project."""
DEFERRING: Final[Mapping[str, tuple[HookAgent, Locating]]] = {
    "claude": (claude_deferring.DeferringClaude(), claude_deferring.installation),
}
"""Those that can end where a person is needed, and go on when they are resumed: how their hooks speak then, and what is installed."""
