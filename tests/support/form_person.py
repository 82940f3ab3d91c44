"""Answers the prompts of a form on a pseudo terminal, in plain or rich mode."""

from __future__ import annotations

import signal

from support.pty_session import PtySession

_ENDS = (":", ">")  # the possible ends of the last row of a plain prompt
_KEYS = (
    "? all keys",
    "F1 help",
    "Esc menu",
)  # parts of the key row of a rich prompt, which is drawn last


class FormPerson:
    """Waits for each question before it presses a key."""

    def __init__(self, session: PtySession, *, plain: bool = True) -> None:
        self.session = session
        self._plain = plain
        self._seen = 0

    def reply(self, question: str, keys: str) -> None:
        """Wait for a question and press the keys."""
        self.look(question)
        self.press(keys)

    def press(self, keys: str) -> None:
        self._seen = len(self.session.raw)
        self.session.send(keys)

    def look(self, question: str) -> None:
        """Wait until the question can be answered."""
        self.session.wait_until(lambda: self.is_asked(question), f"the prompt {question!r}")

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.session.child.kill(signal.SIGKILL)
        self.session.child.wait()

    @property
    def new(self) -> str:
        """The output since the last keys."""
        return self.session.raw[self._seen :].decode("utf-8", "replace")

    def is_asked(self, question: str) -> bool:
        """Return whether a question can be answered now."""
        if self._plain:
            return question in self.new and self.new.rstrip(" ").endswith(_ENDS)
        shown = self.session.rows[-8:]
        live = (
            place
            for place, row in enumerate(shown)
            if row.startswith(question) and _is_live(row.removeprefix(question))
        )
        return any(keys in row for place in live for row in shown[place:] for keys in _KEYS)


def _is_live(beside: str) -> bool:
    """Return whether a question is open, given the text after it: an answered question is
    followed by its answer.
    """
    return not beside or beside.startswith((" [", " (hidden;")) or " · " in beside
