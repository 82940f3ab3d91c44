"""What the prompts of a terminal go by."""

from __future__ import annotations

from midturn.prompts.settings import PromptSettings


class PrompterSettings(PromptSettings, frozen=True, kw_only=True):
    """What configuration says about prompts, and what only the program that asks knows.

    `notify_command` runs a program of the user's with the question on stdin. `announces`: it says itself who answered a prompt that was
    taken away; a display that shows every answer does that better.
    """

    notify_command: tuple[str, ...] = ()
    announces: bool = True

    @property
    def settle(self) -> float:
        """`settle_ms` in seconds."""
        return self.settle_ms / 1_000
