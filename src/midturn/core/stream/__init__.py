"""A conversation as a value: its turns, its pairs, what a provider sees. All pure, all linear in what they get."""

from midturn.core.stream.open_question import OpenQuestion, holds_secret, recorded_at, secrets_of_form
from midturn.core.stream.pairing import CallPair, InquiryPair, agreed_before, calls, pairs
from midturn.core.stream.provider_view import provider_view
from midturn.core.stream.refused import refused
from midturn.core.stream.sanitize import INTERRUPTED, Repairs, sanitize
from midturn.core.stream.window import Window, last_turn, open_turn, turns

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
