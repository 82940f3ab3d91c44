"""A conversation as a value: its turns, its pairs, what a provider sees. All pure, all linear in what they get.

What is said of open questions is loaded by the first who looks at one.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from midturn.core.stream.pairing import CallPair, InquiryPair, agreed_before, calls, pairs
from midturn.core.stream.provider_view import provider_view
from midturn.core.stream.refused import refused
from midturn.core.stream.sanitize import INTERRUPTED, Repairs, sanitize
from midturn.core.stream.window import Window, last_turn, open_turn, turns

if TYPE_CHECKING:
    from midturn.core.stream.open_question import OpenQuestion, holds_secret, recorded_at, secrets_of_form

__all__ = [
    "INTERRUPTED",
    "CallPair",
    "InquiryPair",
    "OpenQuestion",
    "Repairs",
    "Window",
    "agreed_before",
    "calls",
    "holds_secret",
    "last_turn",
    "open_turn",
    "pairs",
    "provider_view",
    "recorded_at",
    "refused",
    "sanitize",
    "secrets_of_form",
    "turns",
]

_OF_OPEN_QUESTIONS = frozenset({"OpenQuestion", "holds_secret", "recorded_at", "secrets_of_form"})


def __getattr__(name: str) -> object:
    """Load a name of open questions from where it is."""
    if name not in _OF_OPEN_QUESTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(".open_question", __name__), name)
    globals()[name] = value
    return value
