"""Reads request bodies (forms and JSON), and builds error responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MAX_FIELDS = 1_000


PROBLEM = "application/problem+json"


def problem(status: int, error: str, message: str, **fields: Json) -> JSONResponse:
    """Return an error response (RFC 9457), with a code for programs, a message for people, and
    additional fields.
    """
    told = {
        "title": error.replace("_", " ").capitalize(),
        "status": status,
        "detail": message,
        "error": error,
        "message": message,
    }
    return JSONResponse({**told, **fields}, status, media_type=PROBLEM)


class Fields:
    """The fields of a submitted form. A field may have several values."""

    def __init__(self, fields: Mapping[str, tuple[str, ...]]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def one(self, name: str) -> str | None:
        """Return the first value of a field. None if the field was not sent."""
        values = self._fields.get(name)
        return values[0] if values else None

    def text(self, name: str) -> str:
        r"""Return a text field as it was typed, with `\n` line breaks."""
        return (self.one(name) or "").replace("\r\n", "\n")

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a field."""
        return self._fields.get(name, ())

    def pairs(self) -> list[tuple[str, str]]:
        """Return all fields as pairs of name and value, for submitting them again."""
        return [(name, value) for name, values in self._fields.items() for value in values]


async def read_fields(request: Request) -> Fields:
    """Read a form.

    Raises:
        HTTPException: The body is not a form (415) or is malformed (400).
    """
    _expect(request, FORM)
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MAX_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise HTTPException(400, "The form is malformed.") from None
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value)
    return Fields(fields)


async def read_object(request: Request) -> Mapping[str, Json]:
    """Read a JSON object.

    Raises:
        HTTPException: The body is not JSON (415) or is malformed (400).
    """
    _expect(request, JSON)
    try:
        value = read_json((await request.body()).decode("utf-8"))
    except (NotJson, UnicodeDecodeError) as error:
        raise HTTPException(400, f"The body is not valid JSON: {error}.") from None
    if not isinstance(value, Mapping):
        raise HTTPException(400, "The body must be a JSON object.")
    return cast("Mapping[str, Json]", value)


def _expect(request: Request, media_type: str) -> None:
    sent = request.headers.getlist("content-type")
    if len(sent) != 1 or sent[0].partition(";")[0].strip().lower() != media_type:
        raise HTTPException(415, f"The Content-Type must be {media_type}.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "The body must not be compressed.")
