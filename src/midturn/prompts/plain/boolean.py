"""Yes or no, line by line; approvals too."""

from __future__ import annotations

from midturn.prompts.content import one_line, skipped, yes_no_default
from midturn.prompts.keys import Commands, find, find_named
from midturn.prompts.plain.dialog import Dialog
from midturn.prompts.plain.scene import Scene


def boolean(scene: Scene) -> Dialog:
    """Ask until one of the keys is typed. Enter takes the default of a question, and never approves."""
    default = yes_no_default(scene.prompt)
    enter = "-" if skipped(scene.prompt) else "" if default is None else "y" if default else "n"
    ask = f"Type {scene.keys()}{f' (Enter for {enter})' if enter else ''}:"
    rows = scene.opening()
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        command = find_named(scene.commands, typed) if typed else find(scene.commands, enter)
        if command is None:
            rows = [_refusal(typed, scene.commands)]
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done


def _refusal(typed: str, offered: Commands) -> str:
    if not typed:
        return f"There is no default: type one of {', '.join(command.key for command in offered)}."
    return f"{one_line(typed)} is not an option; type ? for help."
