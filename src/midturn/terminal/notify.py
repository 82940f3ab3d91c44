"""Calling a person who is elsewhere: the bell, the title, a desktop notification."""

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
from midturn.question.answer_schema import answer_schema
from midturn.question.answer_type import SecretType
from midturn.question.json_value import Json, JsonObject
from midturn.question.text import rfc3339
from midturn.terminal.capabilities import TerminalSettings
from midturn.terminal.prompts.cells import clip
from midturn.terminal.prompts.keys import asked_by, question_line

_LONGEST = 120
_SAVE_TITLE = "\x1b[22;2t"
_RESTORE_TITLE = "\x1b[23;2t"
_WITHOUT_TITLES = ("linux", "vt", "cons")
_NINE = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_MULTIPLEXERS = ("screen", "tmux")
_SEVEN_SEVEN_SEVEN = ("rxvt", "foot", "contour")


def calling(prompt: Prompt, settings: TerminalSettings, environment: Mapping[str, str]) -> str:
    """Return what makes the terminal call its person; the title is put back by `called_off`."""
    text = _in_a_string(f"{asked_by(prompt)}: {question_line(prompt)}")
    bell = "\a" if settings.bell else ""
    if not settings.notify or not _has_title(environment):
        return bell
    return f"{bell}{_SAVE_TITLE}\x1b]2;{text}\x1b\\{_notification(text, environment)}"


def called_off(settings: TerminalSettings, environment: Mapping[str, str]) -> str:
    """Return what puts the title back."""
    return _RESTORE_TITLE if settings.notify and _has_title(environment) else ""


def _notification(text: str, environment: Mapping[str, str]) -> str:
    """Return the sequence that this terminal knows, or nothing: what is inside another terminal may inherit its name."""
    term = environment.get("TERM", "")
    if term.startswith(_MULTIPLEXERS):
        return ""
    if environment.get("TERM_PROGRAM") in _NINE or term in {"xterm-kitty", "xterm-ghostty"}:
        return f"\x1b]9;{text}\x1b\\"
    if term.startswith(_SEVEN_SEVEN_SEVEN):
        return f"\x1b]777;notify;midturn;{text}\x1b\\"
    return ""


def _in_a_string(text: str) -> str:
    """Keep text from ending or splitting the sequence that it stands in: it passed the sink, and loses its semicolons."""
    return clip(text.replace(";", ","), _LONGEST)


def _has_title(environment: Mapping[str, str]) -> bool:
    return not environment.get("TERM", "").startswith(_WITHOUT_TITLES)


# ----------------------------------------------------------------------------------------------------------------------
# `notify.command`: the user's own program, run when an answer is needed


_SECRET = re.compile(r"(KEYS?|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASS|CREDENTIALS?)(_|\d*$)|(^|_)PATS?(_|\d*$)|(^|_)AUTH$", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]+@")


class NotifyCommand:
    """Runs `command` with a question as JSON on its stdin; it is a process of its own session, and is not waited for.

    `tell` hears of a program that ends with an error. Each problem is told once.
    """

    def __init__(self, command: tuple[str, ...], tell: Callable[[str], None]) -> None:
        self._command = command
        self._tell = tell
        self._told: set[str] = set()

    def run(self, question: JsonObject) -> str | None:
        """Start the program; return why it cannot be started, if that is news. It never learns an answer: none has been given yet."""
        if not self._command:
            return None
        try:
            program = self._start(f"{json.dumps(question, ensure_ascii=False)}\n".encode(errors="backslashreplace"))
        except (OSError, ValueError) as error:
            return self._once(f"cannot be run: {getattr(error, 'strerror', None) or error}")
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(program, loop), name="midturn-notify", daemon=True).start()
        return None

    def _start(self, given: bytes) -> subprocess.Popen[bytes]:
        """Start it with all of its input in a file without a name: it can be read even when we are gone."""
        nothing = subprocess.DEVNULL
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            return subprocess.Popen(  # noqa: S603 (the user configured it)
                self._command, stdin=file, stdout=nothing, stderr=nothing, env=_environment(), start_new_session=True
            )

    def _wait(self, program: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """Collect the program when it ends, in a thread, so that it leaves no zombie."""
        status = program.wait()
        try:
            loop.call_soon_threadsafe(self._ended, status)
        except RuntimeError:
            return  # the turn is over, and with it the need to notify

    def _ended(self, status: int) -> None:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        if status and (problem := self._once(how)):
            self._tell(problem)

    def _once(self, how: str) -> str | None:
        """Return a problem, unless it was told before."""
        if how in self._told:
            return None
        self._told.add(how)
        return f"notify.command: {self._command[0]} {how}"


def _environment() -> dict[str, str]:
    """Return our environment without what holds keys: it needs the desktop's variables, and no secrets."""
    return {name: value for name, value in os.environ.items() if not (_SECRET.search(name) or _WITH_PASSWORD.search(value))}


def question_of(prompt: Prompt) -> dict[str, Json]:
    """Return a prompt in the shape of `OpenQuestion.to_json()`, as far as it knows: for a prompt that belongs to no turn of ours."""
    return {
        "id": prompt.id,
        "conversation": prompt.conversation,
        "kind": prompt.kind,
        "source": msgspec.to_builtins(_source(prompt)),
        "question_id": prompt.question.id,
        "question": prompt.question.persisted().to_json(),
        "answer_schema": None if isinstance(prompt.question.answer_type, SecretType) else answer_schema(prompt.question),
        "form": None,
        "tool": prompt.tool,
        "arguments": prompt.arguments,
        "asked_at": rfc3339(datetime.now(UTC)),
    }


def _source(prompt: Prompt) -> Source:
    """Return who asks: the header says it, and a tool that is called like the assistant is still a tool."""
    if prompt.asked_by == prompt.tool:
        return Source.tool(prompt.tool)
    return ASSISTANT if prompt.asked_by == ASSISTANT.header else Source("other", prompt.asked_by)
