"""All answers of a form once more, before they are sent."""

from __future__ import annotations

from midturn.core.reply import Submitted
from midturn.core.subject import AnswersSubject, reviewed_places
from midturn.prompts.content import one_line
from midturn.prompts.jump import BackTo
from midturn.prompts.keys import find_named
from midturn.prompts.plain.dialog import Dialog
from midturn.prompts.plain.scene import Scene


def review(scene: Scene) -> Dialog:
    """Ask until the answers are sent with Enter, a row is named to go back to, or one of the keys is typed."""
    places = reviewed_places(scene.prompt.subject) if isinstance(scene.prompt.subject, AnswersSubject) else []
    ask = f"Press Enter to send, type the number of a row to go back to it, or {scene.keys()}:"
    rows = scene.opening()
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        if not typed:
            return Submitted()
        number = int(typed) if typed.isdecimal() and len(typed) <= 3 else 0  # noqa: PLR2004 (no form has a thousand questions)
        if 1 <= number <= len(places):
            return BackTo(places[number - 1] + 1)
        command = find_named(scene.commands, typed)
        if command is None:
            rows = [f"{one_line(typed)} is not a row or a key; type ? for help."]
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done
