"""A secret answer in memory."""

from __future__ import annotations

from typing import NoReturn


class SecretValue:
    """Holds a secret so that `repr`, `str`, formatting, pickle, copies and JSON never show it. `reveal()` gives it to a tool.

    Args:
        text: The secret.
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """Return the secret itself: only for the tool that asked for it."""
        return self.__text

    def __repr__(self) -> str:
        return "SecretValue(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretValue) and self.__text == other.reveal()

    __hash__ = None  # type: ignore[assignment]  # a hash would be a fingerprint of the secret

    def to_json(self) -> NoReturn:
        """Refuse: no event, log or request may hold a secret."""
        raise TypeError("A secret cannot be written as JSON.")

    def __getstate__(self) -> NoReturn:
        raise TypeError("The state of a secret cannot be taken out.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret cannot be pickled, copied or sent to another process.")
