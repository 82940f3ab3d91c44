"""What a person asked to have remembered for the rest of the turn: two maps that never mix."""

from __future__ import annotations

from midturn.core.json_value import Json


class Memory:
    """Remembered answers, keyed `<tool>.<question_id>`, and remembered permissions, keyed `<tool>.__permission__`."""

    def __init__(self) -> None:
        self.answers: dict[str, Json] = {}
        self.permissions: dict[str, str] = {}
        self._set_by: dict[str, str] = {}  # the inquiry behind each answer

    def remember_answer(self, key: str, value: Json, inquiry: str) -> None:
        """Keep an answer, and which inquiry it came from."""
        self.answers[key] = value
        self._set_by[key] = inquiry

    def forget(self, inquiry: str) -> None:
        """Drop what was remembered with an answer that is being revised."""
        for key in [key for key, set_by in self._set_by.items() if set_by == inquiry]:
            del self._set_by[key], self.answers[key]

    def remember_permission(self, tool: str, granted: str) -> None:
        """Keep `y` or `n` for every further call of the tool."""
        self.permissions[permission_key(tool)] = granted


def answer_key(tool: str, question_id: str) -> str:
    """Return the key under which an answer is remembered."""
    return f"{tool}.{question_id}"


def permission_key(tool: str) -> str:
    """Return the key under which a permission is remembered."""
    return f"{tool}.__permission__"
