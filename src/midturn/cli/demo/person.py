"""The scripted person of the demo: what they do is shown, for there is no terminal to watch them at."""

from __future__ import annotations

from midturn.cli.output import note
from midturn.core.prompt import Prompt
from midturn.core.reply import Reply
from midturn.prompts.answer_text import reply_text
from midturn.testing.prompter import ScriptedPrompter


class ScriptedPerson(ScriptedPrompter):
    """Answers by script, one line a prompt."""

    async def prompt(self, prompt: Prompt) -> Reply:
        """Reply as the script says, and show it."""
        reply = await super().prompt(prompt)
        place = f"[{prompt.index}/{prompt.total}] " if prompt.total > 1 else ""
        note("  {} asks: {}{}  {}", prompt.asked_by, place, prompt.question.text, reply_text(prompt, reply))
        return reply
