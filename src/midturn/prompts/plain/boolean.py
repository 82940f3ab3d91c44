"""Yes or no, line by line; approvals too."""

from __future__ import annotations

from midturn.core.question.answer import YES_OR_NO
from midturn.prompts.command import Commands, find
from midturn.prompts.content import one_line, yes_no_default
from midturn.prompts.plain.dialog import Dialog, Say
from midturn.prompts.plain.scene import Scene

_WORDS = {word: "y" if yes else "n" for word, yes in YES_OR_NO.items() if len(word) > 1}  # a single letter is a key


def boolean(scene: Scene) -> Dialog:
    """Ask until one of the keys is typed. Enter takes the default of a question, and never approves."""
    default = yes_no_default(scene.prompt)
    enter = "" if default is None else "y" if default else "n"
    keys = ", ".join(command.key for command in scene.commands)
    ask = f"Type one of {keys}{f' (Enter for {enter})' if enter else ''}: "
    rows = scene.opening()
    while True:
        typed = (yield Say(rows=rows, ask=ask)).strip()
        command = find(scene.commands, _WORDS.get(typed.casefold(), typed) or enter)
        if command is None:
            rows = [_refusal(typed, scene.commands)]
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done


def _refusal(typed: str, offered: Commands) -> str:
    if not typed:
        return f"There is no default: type one of {','.join(command.key for command in offered)}."
    return f"{one_line(typed)} is not an option; type ? for help."
