"""What is wrong with hooks that are installed: they are compared with those that `install` would write now."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from midturn.foreign.installing import HookFound

_SCRIPT = b"#!"
_CHANGED = re.compile(r" --wait [0-9.]+$")
"""What a user may have added: how long the hook waits."""
_LONGEST = 4096  # bytes of a script's first line


def faults(found: Sequence[HookFound], wanted: Sequence[HookFound]) -> Sequence[str]:
    """Return what is wrong with the hooks that were found, a phrase for each; nothing where they are those that are wanted."""
    expected = {hook.entry.event: hook for hook in wanted}
    there = {hook.entry.event for hook in found}
    twice = {event for event in there if [hook.entry.event for hook in found].count(event) > 1}
    said = [f"{event} is missing" for event in expected if event not in there]
    said += [f"{event} is not ours any more" for event in sorted(there - expected.keys())]
    said += [f"{event} is there twice" for event in sorted(twice)]
    said += [
        f"{hook.entry.event} has another matcher or time-out"
        for hook in found
        if hook.entry.event in expected and hook.entry != expected[hook.entry.event].entry
    ]
    commands = dict.fromkeys(hook.command for hook in found)
    return [*said, *(why for command in commands for why in _about(command, wanted[0].command))]


def _about(command: str, wanted: str) -> Sequence[str]:
    """Say what is wrong with a command."""
    gone = gone_of(command)
    if gone:
        return [f"they run {gone}, which is gone"]
    return [] if _CHANGED.sub("", command) == wanted else [f"they run `{command}`, and not this midturn's `{wanted}`"]


def gone_of(command: str) -> str:
    """Return the program of a command that cannot be run any more: it, or what its script is run by; an empty text where it can."""
    try:
        program = next(iter(shlex.split(command)), "")
    except ValueError:
        return command
    found = shutil.which(program)
    if found is None:
        return program
    interpreter = _interpreter(Path(found))
    return interpreter if interpreter and not os.access(interpreter, os.X_OK) else ""


def _interpreter(program: Path) -> str:
    try:
        with program.open("rb") as stream:
            first = stream.readline(_LONGEST)
    except OSError:  # it may be run, and not read
        return ""
    words = os.fsdecode(first.removeprefix(_SCRIPT)).split() if first.startswith(_SCRIPT) else []
    return words[0] if words else ""
