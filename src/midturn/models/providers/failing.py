"""What the library raises, in our words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pydantic_ai import exceptions as failed

from midturn.errors import ModelError
from midturn.models.failures import Failure, Report, WhatWasAsked, explain
from midturn.models.nearest import suggested_models
from midturn.models.profiles import ModelSpec

_KINDS: Sequence[tuple[type[Exception], Failure]] = (
    (failed.ModelContextWindowExceededError, "too_long"),
    (failed.ModelAuthenticationError, "key"),
    (failed.ModelNotFoundError, "unknown_model"),
    (failed.ModelQuotaExceededError, "quota"),
    (failed.ModelRateLimitError, "busy"),
    (failed.ModelUnavailableError, "busy"),
    (failed.ModelServerError, "server"),
    (failed.ModelTimeoutError, "silent"),
    (failed.ModelRequestTimeout, "silent"),
    (failed.ModelConnectionError, "broken"),
    (failed.ContentFilterError, "filtered"),
    (failed.ModelHTTPError, "rejected"),
    (failed.ModelAPIError, "broken"),
    (failed.UserError, "rejected"),
    (Exception, "garbled"),
)


def explained(error: Exception, place: WhatWasAsked, spec: ModelSpec) -> ModelError:
    """Say in our words what the library raised; what it has no class for is an answer that could not be read."""
    detail = _detail(error).replace(spec.key.reveal(), "[key]") if spec.key else _detail(error)
    failure: Failure = next(kind for type_, kind in _KINDS if isinstance(error, type_))
    status = error.status_code if isinstance(error, failed.ModelHTTPError) else None
    if isinstance(error, failed.ModelConnectionError) and error.phase == "connect":
        failure = "unreachable"
    if status in {408, 409}:
        failure = "busy"
    suggestion = suggested_models(place.model) if failure == "unknown_model" else ""
    retry_after = error.retry_after if isinstance(error, failed.ModelAPIError) else None
    return explain(failure, place, Report(detail=detail, status=status, retry_after=retry_after, suggestion=suggestion))


def _detail(error: Exception) -> str:
    """Return the provider's own words, without the library's frame around them."""
    body = getattr(error, "body", None)
    for _ in range(2):
        if isinstance(body, dict):
            inner = cast("dict[str, Any]", body)
            body = inner.get("error") or inner.get("message")
    if isinstance(body, str) and body:
        return body
    if isinstance(error, failed.ModelHTTPError):
        return f"status {error.status_code}"
    return str(error) or type(error).__name__
