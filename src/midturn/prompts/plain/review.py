"""All answers of a form once more, before they are sent."""

from __future__ import annotations

from midturn.core.reply import Submitted
from midturn.prompts.command import find
from midturn.prompts.content import one_line
from midturn.prompts.plain.dialog import Dialog, Say
from midturn.prompts.plain.scene import Scene


def review(scene: Scene) -> Dialog:
    """Ask until the answers are sent with Enter, or one of the keys is typed."""
    keys = ", ".join(command.key for command in scene.commands)
    rows = scene.opening()
    while True:
        typed = (yield Say(rows=rows, ask=f"Press Enter to send, or type one of {keys}: ")).strip()
        if not typed:
            return Submitted()
        command = find(scene.commands, typed)
        if command is None:
            rows = [f"{one_line(typed)} is not an option; type ? for help."]
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done
