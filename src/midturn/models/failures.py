"""What went wrong at a provider, in words that say what to do."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from midturn.errors import ContextTooLong, ModelError
from midturn.models.retry import WORTH_ANOTHER_TRY, Failure

_TEXTS: Final[dict[Failure, str]] = {
    "key": "{model}: {host} refused the API key{said}. Check {key}.",
    "quota": "{model}: the quota or the credit of the account is used up{said}. Top it up, or use another model.",
    "busy": "{model} is busy{said}.",
    "server": "{model}: {host} failed{said}.",
    "unknown_model": "{model}: {host} knows no such model{said}.{near}",
    "too_long": "{model}: the conversation is longer than the model can read{said}. Start a new one, or use a larger model.",
    "filtered": "{model}: the provider's content filter stopped the answer{said}. Put it in other words.",
    "unreachable": "Cannot reach {host}{said}. Check the network and the address.",
    "broken": "The connection to {host} broke{said}.",
    "silent": "{host} stopped answering{said}.",
    "garbled": "{host} sent something that is not an answer{said}.",
    "rejected": "{model}: {host} rejected the request{said}.",
}
_SHOWN = 300


class WhatWasAsked(Struct, frozen=True):
    """Whom was asked: the model's id, the server's address, and where its key comes from."""

    model: str
    host: str
    key: str = ""


class Report(Struct, frozen=True, kw_only=True):
    """What the provider said about it: its message, the HTTP status, how long to wait, and a sentence that suggests a model."""

    detail: str = ""
    status: int | None = None
    retry_after: float | None = None
    suggestion: str = ""


def explain(failure: Failure, place: WhatWasAsked, report: Report) -> ModelError:
    """Return the error: what happened where, and what to do."""
    text = _TEXTS[failure].format(
        model=place.model,
        host=place.host,
        key=place.key or "the key",
        said=f" ({one_line(report.detail)})" if report.detail else "",
        near=report.suggestion,
    )
    kind = ContextTooLong if failure == "too_long" else ModelError
    error = kind(text, status=report.status, retry_after=report.retry_after, transient=failure in WORTH_ANOTHER_TRY)
    error.failure = failure
    return error


def one_line(text: str) -> str:
    """Fold a provider's message into one line of bounded length."""
    folded = " ".join(text.split())
    return folded if len(folded) <= _SHOWN else f"{folded[:_SHOWN]}…"
