"""The document of the API, generated from its shapes."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from midturn import __version__
from midturn.web.gate import CookieAccess, Visitor
from midturn.web.shapes import WAYS, AnswerShape, ConversationShape, ErrorShape, QuestionShape, ReceiptShape, SummaryShape
from midturn.web.site import Site

_TYPES: Final = (AnswerShape, ConversationShape, ErrorShape, QuestionShape, ReceiptShape, SummaryShape)
_ERRORS: Final = {
    "400": "The body cannot be read.",
    "401": "Nobody is signed in.",
    "403": "Another site sent this; or the visitor may not answer this question; or a process would answer that a tool has started.",
    "404": "Nothing here has this id.",
    "409": "Somebody answered first; or it is a secret, is asked by a turn that was not begun here, or its conversation is being written.",
    "410": "It is closed, and has no answer: the message says why.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "422": "The answer does not fit; the question is still open.",
    "503": "The store cannot be read or written now: an answer was not recorded, and its question is still open. Try again.",
}


async def openapi(request: Request, visitor: Visitor, site: Site) -> Response:
    """Return the document."""
    del visitor
    base = str(request.scope.get("root_path", "")).rstrip("/")
    return JSONResponse(document(base, site.access.cookie if isinstance(site.access, CookieAccess) else None))


def document(base: str = "", cookie: str | None = None) -> dict[str, Any]:
    """Return the document for an API that is found under `base`."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    components["AnswerShape"]["oneOf"] = [{"required": [way]} for way in WAYS]
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "midturn", "version": __version__, "description": "The open questions of agents, and the way to answer them."},
        "servers": [{"url": base or "/"}],
        "paths": _paths(),
        "components": {"schemas": components},
    }
    if cookie:
        described["components"]["securitySchemes"] = {"cookie": {"type": "apiKey", "in": "cookie", "name": cookie}}
        described["security"] = [{"cookie": []}]
    return described


def _paths() -> dict[str, Any]:
    one, conversation = [_parameter("id", "path", "Its id.")], _parameter("conversation", "query", "Only those of this conversation.")
    before = _parameter("before", "query", "Only those that are older than this one.")
    body = {"required": True, "content": {"application/json": {"schema": _reference(AnswerShape)}}}
    return {
        "/api/questions": {"get": _operation("The open questions, the oldest first.", _list_of(QuestionShape), [conversation])},
        "/api/questions/{id}": {"get": _operation("One open question.", _reference(QuestionShape), one, "404", "409", "410")},
        "/api/questions/{id}/answer": {
            "post": {
                **_operation("Answer a question.", _reference(ReceiptShape), one, *(code for code in _ERRORS if code != "401")),
                "requestBody": body,
            }
        },
        "/api/conversations": {
            "get": _operation("The conversations, the newest first, a hundred at a time.", _list_of(SummaryShape), [before])
        },
        "/api/conversations/{id}": {"get": _operation("One conversation with its events.", _reference(ConversationShape), one, "404")},
        "/api/events": {"get": _stream()},
    }


def _operation(summary: str, schema: dict[str, Any], parameters: list[dict[str, Any]], *errors: str) -> dict[str, Any]:
    answers: dict[str, Any] = {"200": {"description": "Done.", "content": {"application/json": {"schema": schema}}}}
    for code in dict.fromkeys(("401", *errors, "503")):
        answers[code] = {"description": _ERRORS[code], "content": {"application/json": {"schema": _reference(ErrorShape)}}}
    return {"summary": summary, "parameters": parameters, "responses": answers}


def _stream() -> dict[str, Any]:
    said = "What changes: `asked`, `answered`, `withdrawn`, `turn_ended`. `Last-Event-ID` goes on where one was cut off."
    return {"summary": said, "responses": {"200": {"description": "Server-sent events.", "content": {"text/event-stream": {}}}}}


def _parameter(name: str, place: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "description": description, "schema": {"type": "string"}}


def _reference(kind: type[Any]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _list_of(kind: type[Any]) -> dict[str, Any]:
    return {"type": "array", "items": _reference(kind)}
