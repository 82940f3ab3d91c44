"""People at a real terminal, at which a turn or `midturn answer` runs."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from support.cli import CommandLine
from support.form_person import FormPerson
from support.hooks import until
from support.pty_session import PtySession
from support.stories.assistants import Assistant, Program
from support.stories.outcome import Outcome
from support.stories.people import OutsidePerson
from support.stories.scene import Scene

_APPROVALS = {
    "run": "Run deploy?",
    "deliver": "Deliver the result of deploy?",
    "review": "Send these answers?",
}
_PATIENCE = 120.0
_CTRL_C = "\x03"
_AS_JSON = "\x1bj"
_TO_THE_EDITOR = "\x18"
Start: TypeAlias = Callable[[str], PtySession]


class TerminalPerson:
    """Waits for each prompt and presses keys. `start` opens a terminal if there is no prompt
    to wait for.
    """

    def __init__(self, scene: Scene, *, plain: bool, start: Start) -> None:
        self.plain = plain
        self.enter = "\r" if plain else ""
        self.asked = {question["id"]: question for question in (*scene.ask, *scene.changed)}
        self.start = start
        self.refused: Callable[[str], str] = str
        self.ends: tuple[str, ...] = (_CTRL_C,)
        self.edited: Path | None = None
        self.session: PtySession | None = None
        self.person: FormPerson | None = None
        self._answered = ""

    def sit_down(self, session: PtySession) -> None:
        """Use this terminal from now on."""
        self.session, self.person = session, FormPerson(session, plain=self.plain)

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        if reason is not None:
            self._type(question, f"p{self.enter}", f"{reason}\r")
        else:
            self._type(question, self._keys(self.asked[question]["answer_type"], value))

    def reply(self, question: str, words: str) -> None:
        self._type(question, f"r{self.enter}", f"{words}\r")

    def back(self, question: str) -> None:
        self._type(question, f"b{self.enter}")

    def end_turn(self, question: str) -> None:
        """Press Ctrl-C, or another key that ends the turn here."""
        self._type(question, *self.ends)

    def allow(self, kind: str) -> None:
        self._type(kind, "\r" if kind == "review" else f"y{self.enter}")

    def refuse(self, kind: str, reason: str) -> None:
        self._type(kind, f"p{self.enter}", f"{reason}\r") if reason else self._type(
            kind, f"n{self.enter}"
        )

    def edit(self, kind: str, value: Any) -> None:
        """Say yes and type the edited text, or use an editor for it."""
        assert self.edited
        new = value if isinstance(value, str) else json.dumps(value)
        self.edited.write_text(new)
        as_json = () if isinstance(value, str) else (":j\r" if self.plain else _AS_JSON,)
        self._type(
            kind,
            f"e{self.enter}",
            *as_json,
            *((f"{new}\r",) if self.plain else (_TO_THE_EDITOR, "\r")),
        )

    def refusal(self, id: str) -> str:
        """Ask for the prompt of a closed question; return the refusal."""
        return " ".join(self.refused(id).split())

    tries = refusal

    def leave(self) -> None:
        """Close the window after the typed answer was accepted."""
        self.settle()
        if self.session:
            self.session.hang_up()
            self.session.child.wait()
            self.session = self.person = None

    def killed(self) -> None:
        """Wait until the program, which was killed, has ended."""
        assert self.session
        self.session.child.kill(signal.SIGKILL)
        self.session.child.wait()
        assert self.session.child.signalstatus == signal.SIGKILL
        self.session = self.person = None

    def return_(self) -> None:
        """Do nothing: the terminal is opened again when there is a prompt."""

    def settle(self) -> None:
        """Wait until the typed answer was accepted: the program has ended or asks the next
        question.
        """
        end = time.monotonic() + _PATIENCE
        while self.session and self.person and not any(map(self.person.is_asked, self._next())):
            assert time.monotonic() < end, self.session.text
            if not self.session.read():
                self._get_up()

    def end(self) -> int | None:
        """Wait until the program has ended."""
        self.settle()
        return self._get_up()

    def _get_up(self) -> int | None:
        session, self.session, self.person = self.session, None, None
        return session.wait_for_end() if session else None

    def _type(self, question: str, *keys: str) -> None:
        text = _APPROVALS[question] if question in _APPROVALS else self.asked[question]["text"]
        person = self._before(question, text)
        self._answered = text
        person.reply(text, keys[0])
        for more in keys[1:]:
            self._await_more(person)
            person.press(more)

    def _before(self, question: str, text: str) -> FormPerson:
        """Wait until a question can be answered. Start a program that has ended again."""
        end = time.monotonic() + _PATIENCE
        started = False
        while True:
            if self.session is None or self.person is None:
                started = True
                self.sit_down(self.start(question))
            assert self.session
            assert self.person
            if self.person.is_asked(text):
                return self.person
            shown = self.session.text
            if not self.session.read():
                assert self._get_up() is not None
                assert not started, f"{text!r} is not asked:\n{shown}"
            assert time.monotonic() < end, f"{text!r} is not asked:\n{shown}"

    def _await_more(self, person: FormPerson) -> None:
        """Wait for the next stage after the first key: a line to type, or an editor that has
        ended.
        """
        person.session.wait_until(
            lambda: any(words in person.new for words in _MORE), "what comes after a key"
        )

    def _next(self) -> list[str]:
        """Return the texts of the possible next questions.

        A drawn screen shows a question until its answer is accepted. Plain mode ends with the
        typed line.
        """
        texts = (*_APPROVALS.values(), *(question["text"] for question in self.asked.values()))
        return [text for text in texts if self.plain or text != self._answered]

    def _keys(self, kind: Mapping[str, Any], value: Any) -> str:
        """Return the keys of an answer: a letter, the number of an option, or a line."""
        match kind["type"]:
            case "boolean":
                return f"{'y' if value else 'n'}{self.enter}"
            case "select":
                return f"{kind['options'].index(value) + 1}{self.enter}"
            case _:
                return f"{value}\r"


_MORE = ("Type s again", "Your reply", "Why", "The reason", "Enter submits", "Type the new")


class AttachedAssistant(Assistant):
    """The assistant at a terminal. `midturn query` asks there, and later `midturn resume`.

    The detached policy is not configured. A question that was shown to the person still waits.
    """

    waits = ""

    def __init__(self, scene: Scene, directory: Path, *, plain: bool) -> None:
        super().__init__(scene, directory)
        self.plain = plain
        self.person = TerminalPerson(
            scene, plain=plain, start=lambda _: self._on_a_terminal("resume", self._conversation())
        )
        self.person.edited, self.editor = _editor(directory)

    def begin(self) -> None:
        """Ask and let the person answer."""
        self.person.sit_down(self._on_a_terminal("query", *self._typed(), "Go"))

    def go_on(self) -> None:
        """Continue without a terminal if the person has left; otherwise the turn is running."""
        if self.person.session is None:
            self.user.run("resume", "--ready", "--store", self.address)

    def outcome(self) -> Outcome:
        """Wait for the end of the running command; return the recorded outcome."""
        self.person.end()
        self.conversation = self._conversation()
        return super().outcome()

    def die(self) -> None:
        """Ask at a terminal and kill the process there. The person finds the question in the
        inbox.
        """
        self.begin()
        until(self.store.pending_sync, bool)
        self.person.killed()

    def _typed(self) -> tuple[str, ...]:
        return () if self.scene.schema is None else ("--schema", json.dumps(self.scene.schema))

    def _conversation(self) -> str:
        return self.store.ids_sync()[-1]

    def _on_a_terminal(self, command: str, *words: str) -> PtySession:
        return self.user.on_a_terminal(
            command, *words, "--store", self.address, plain=self.plain, EDITOR=self.editor
        )


class AnsweringTerminal:
    """A person who is asked by `midturn answer ID`, and the assistant without a terminal."""

    def __init__(self, scene: Scene, directory: Path, *, plain: bool) -> None:
        assistant = None if scene.inner else Assistant(scene, directory)
        self.asker = assistant or Program(scene, directory)
        self.user = assistant.user if assistant else CommandLine(directory)
        if not assistant:
            self.user.accept_keys_at_once()
        self.address = str(directory / "store")
        self.store = self.asker.store
        self.plain = plain
        self.person = TerminalPerson(scene, plain=plain, start=self._start)
        self.person.refused = self._refused
        self.person.ends = (
            f"s{self.person.enter}",
            f"s{self.person.enter}",
        )  # here, Ctrl-C leaves the question open
        self.person.edited, self.editor = _editor(directory)

    def begin(self) -> None:
        """Ask without a terminal."""
        self.asker.begin()

    def go_on(self) -> None:
        """Continue after the typed answer was accepted."""
        self.person.settle()
        self.asker.go_on()

    def again(self) -> None:
        self.asker.again()

    def change(self) -> None:
        self.asker.change()

    def die(self) -> None:
        self.asker.die()

    def begin_in_namespace(self) -> None:
        self.asker.begin_in_namespace()

    def end_in_namespace(self) -> None:
        self.person.settle()
        self.asker.end_in_namespace()

    def outcome(self) -> Outcome:
        self.person.end()
        return self.asker.outcome()

    def _refused(self, id: str) -> str:
        with self.user.on_a_terminal(
            "answer", id, "--store", self.address, size=(200, 40)
        ) as session:
            assert session.wait_for_end() == 1
            return session.text

    def _start(self, question: str) -> PtySession:
        id = OutsidePerson(self.asker.store).find(question).id
        return self.user.on_a_terminal(
            "answer", id, "--store", self.address, plain=self.plain, EDITOR=self.editor
        )


def _editor(directory: Path) -> tuple[Path, str]:
    """Return a file and the command of an editor that replaces the edited text with the
    content of this file.
    """
    edited, editor = directory / "edited", directory / "editor.py"
    editor.write_text(f"import shutil, sys; shutil.copy({str(edited)!r}, sys.argv[1])")
    return edited, f"{sys.executable} {editor}"
