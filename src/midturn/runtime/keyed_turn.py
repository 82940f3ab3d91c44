"""Turns with a key, which is the caller's id for a message. If the message is sent several times
with the same key, only one turn begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from midturn.errors import ConfigError
from midturn.events import types as ev
from midturn.events.window import Window, turns
from midturn.question.text import check_text


def keyed_turn(events: Sequence[ev.Event], key: str, text: str) -> Window | None:
    """Return the turn that began with a key, or None.

    Args:
        events: The events of the conversation.
        key: The key.
        text: The message. Empty if it is not known.

    Raises:
        ConfigError: The key belongs to a different message, or is not valid.
    """
    check_key(key)
    found = next(
        (turn for turn in reversed(turns(events)) if key in ev.turn_keys(turn.events)), None
    )
    began = first_message(found) if found else ""
    if began and text not in ("", began):
        raise ConfigError(
            f"The `key` {key!r} belongs to the turn that began with {began!r}, but the new message"
            f" is {text!r}. It was not recorded. Use a new key for each message. To repeat a"
            " message, send the same text."
        )
    return found


def first_message(turn: Window) -> str:
    """Return the user message that began a turn. Empty if it is not known."""
    return next((request.content for request in ev.user_requests(turn.events)), "")


def check_key(key: str) -> None:
    """Check a key.

    Raises:
        ConfigError: The key is empty, or it cannot be encoded as UTF-8.
        TypeError: The key is not a string.
    """
    check_text("key", key)
    if not key:
        raise ConfigError("`key` is empty. Pass the id of the message, or None if there is none.")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"`key` {key!r} contains a lone surrogate, which is not valid text. Pass the id of the"
            " message."
        ) from None
