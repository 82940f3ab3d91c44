"""Notifications about prompts: bell, window title, desktop notification, and the user's own
command.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from midturn.events.prompt import Prompt
from midturn.events.types import ASSISTANT, Source
from midturn.question.answer_type import SecretType
from midturn.question.json_value import Json, JsonObject
from midturn.question.reader_schema import reader_schema
from midturn.question.text import rfc3339
from midturn.terminal.capabilities import TerminalSettings
from midturn.terminal.prompts.cells import clip
from midturn.terminal.prompts.keys import asked_by, question_line

_MAX_TITLE = 120
_SAVE_TITLE = "\x1b[22;2t"
_RESTORE_TITLE = "\x1b[23;2t"
_WITHOUT_TITLES = ("linux", "vt", "cons")
_OSC_9_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_MULTIPLEXERS = ("screen", "tmux")
_OSC_777_TERMS = ("rxvt", "foot", "contour")


def calling(prompt: Prompt, settings: TerminalSettings, environment: Mapping[str, str]) -> str:
    """Return the sequences that ring the bell, set the window title and show a desktop notification.

    `called_off` returns the sequence that restores the title later.
    """
    text = _in_a_string(f"{asked_by(prompt)}: {question_line(prompt)}")
    bell = "\a" if settings.bell else ""
    if not settings.notify or not _has_title(environment):
        return bell
    return f"{bell}{_SAVE_TITLE}\x1b]2;{text}\x1b\\{_notification(text, environment)}"


def called_off(settings: TerminalSettings, environment: Mapping[str, str]) -> str:
    """Return the sequence that restores the title."""
    return _RESTORE_TITLE if settings.notify and _has_title(environment) else ""


def _notification(text: str, environment: Mapping[str, str]) -> str:
    """Return the notification sequence for this terminal, or an empty string.

    The environment may name a different terminal, because a program that opens its own terminal
    inherits the variables of the outer one.
    """
    term = environment.get("TERM", "")
    if term.startswith(_MULTIPLEXERS):
        return ""
    if environment.get("TERM_PROGRAM") in _OSC_9_PROGRAMS or term in {
        "xterm-kitty",
        "xterm-ghostty",
    }:
        return f"\x1b]9;{text}\x1b\\"
    if term.startswith(_OSC_777_TERMS):
        return f"\x1b]777;notify;midturn;{text}\x1b\\"
    return ""


def _in_a_string(text: str) -> str:
    """Replace semicolons, which separate fields in a sequence, and clip the text.

    The text is already escaped.
    """
    return clip(text.replace(";", ","), _MAX_TITLE)


def _has_title(environment: Mapping[str, str]) -> bool:
    return not environment.get("TERM", "").startswith(_WITHOUT_TITLES)


# --------------------------------------------------------------------------------------------------
# `notify.command`: the user's command that runs when an answer is needed


_SECRET = re.compile(
    r"(KEYS?|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASS|CREDENTIALS?)(_|\d*$)|(^|_)PATS?(_|\d*$)|(^|_)AUTH$",
    re.IGNORECASE,
)
_WITH_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]+@")


class NotifyCommand:
    """Runs `command` with a question as JSON on stdin.

    The command runs in a separate session, and prompts do not wait for it. `tell` is called if the
    command fails. Each distinct problem is reported once.
    """

    def __init__(self, command: tuple[str, ...], tell: Callable[[str], None]) -> None:
        self._command = command
        self._tell = tell
        self._reported: set[str] = set()

    def run(self, question: JsonObject) -> str | None:
        """Start the command. If that fails, return the problem, unless it was reported before.

        The command receives the question but never an answer.
        """
        if not self._command:
            return None
        try:
            program = self._start(
                f"{json.dumps(question, ensure_ascii=False)}\n".encode(errors="backslashreplace")
            )
        except (OSError, ValueError) as error:
            return self._once(f"cannot be run: {getattr(error, 'strerror', None) or error}")
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._wait, args=(program, loop), name="midturn-notify", daemon=True
        ).start()
        return None

    def _start(self, given: bytes) -> subprocess.Popen[bytes]:
        """Start the command.

        Its input is an unnamed file, so it can read the input after this process has ended.
        """
        nothing = subprocess.DEVNULL
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            return subprocess.Popen(  # noqa: S603 (the user configured it)
                self._command,
                stdin=file,
                stdout=nothing,
                stderr=nothing,
                env=_environment(),
                start_new_session=True,
            )

    def _wait(self, program: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the command in a thread, so that it leaves no zombie process."""
        status = program.wait()
        try:
            loop.call_soon_threadsafe(self._ended, status)
        except RuntimeError:
            return  # the loop is closed: the turn is over

    def _ended(self, status: int) -> None:
        how = f"was ended by signal {-status}" if status < 0 else f"exited with status {status}"
        if status and (problem := self._once(how)):
            self._tell(problem)

    def _once(self, how: str) -> str | None:
        """Return the message about a problem, or None if it was already reported."""
        if how in self._reported:
            return None
        self._reported.add(how)
        return f"notify.command: {self._command[0]} {how}"


def _environment() -> dict[str, str]:
    """Return the environment for the command, without variables that look like secrets.

    The command needs the desktop's variables.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not (_SECRET.search(name) or _WITH_PASSWORD.search(value))
    }


def question_of(prompt: Prompt) -> dict[str, Json]:
    """Return a prompt outside a turn as JSON.

    The format is the same as in `OpenQuestion.to_json()`, without the fields that are unknown.
    """
    return {
        "id": prompt.id,
        "conversation": prompt.conversation,
        "kind": prompt.kind,
        "source": msgspec.to_builtins(_source(prompt)),
        "question_id": prompt.question.id,
        "question": prompt.question.persisted().to_json(),
        "answer_schema": (
            None
            if isinstance(prompt.question.answer_type, SecretType)
            else reader_schema(prompt.question)
        ),
        "form": None,
        "tool": prompt.tool,
        "arguments": prompt.arguments,
        "asked_at": rfc3339(datetime.now(UTC)),
    }


def _source(prompt: Prompt) -> Source:
    """Return the source of a prompt. A tool with the same name as the assistant is still a tool."""
    if prompt.asked_by == prompt.tool:
        return Source.tool(prompt.tool)
    return ASSISTANT if prompt.asked_by == ASSISTANT.header else Source("other", prompt.asked_by)
