"""The OpenAPI document, generated from the types of the API."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from midturn import __version__
from midturn.events.open_question import PromptKind
from midturn.events.types import AnsweredBy, Source
from midturn.question.reply import Scope
from midturn.web.app_state import AppState
from midturn.web.body import PROBLEM
from midturn.web.request_checks import CookieAccess, Visitor

# --------------------------------------------------------------------------------------------------
# Types of the API, from which the document is generated


WAYS = (
    "value",
    "approve",
    "arguments",
    "content",
    "reply",
    "back",
    "cancel",
    "pass_to",
    "take_back",
)
"""The ways to answer. Each request contains exactly one of them."""


class FormShape(Struct):
    """The form that contains the question. `questions` have the format that tools write."""

    total: int
    questions: list[dict[str, Any]]


class AskerShape(Struct):
    """The agent from another program that asks.

    `waits` is whether the agent's process waits for the answer. `cwd` is its working directory,
    `said` its last message, and `subagent` the name of the sub-agent that asks. `always` lists the
    permissions that the agent offers to remember after an approval.
    """

    name: str
    session: str
    waits: bool
    cwd: str | UnsetType = UNSET
    said: str | UnsetType = UNSET
    subagent: str | UnsetType = UNSET
    always: list[str] | UnsetType = UNSET
    refused: bool | UnsetType = UNSET
    keeps_dialog: bool | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET


class QuestionShape(Struct):
    """An open question. `question` is the question itself, and `arguments` are the arguments of the
    call that asks it.

    `answer_schema` is the JSON Schema of an answer. If a result has to be approved, `content` and
    `is_error` describe the result. `problem` is the tool's objection to the previous answer.

    An approval has the `digest` of its subject; `about` is the old name of `digest`. `edit` is a
    proposed edit of the call: its author, the new and the original `arguments`, and whether the
    rules were checked for the edited call (`checked`). `refused_before` lists earlier denials of
    the same call in this turn: the responder, the `reason`, and the time.
    """

    id: str
    conversation: str
    kind: PromptKind
    source: Source
    question_id: str
    question: dict[str, Any]
    answer_schema: dict[str, Any] | None
    form: FormShape | None
    tool: str
    arguments: Any
    asked_at: str
    problem: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    asker: AskerShape | UnsetType = UNSET
    people: dict[str, Any] | UnsetType = UNSET
    edit: dict[str, Any] | UnsetType = UNSET
    refused_before: list[dict[str, Any]] | UnsetType = UNSET
    about: str | UnsetType = UNSET
    digest: str | UnsetType = UNSET


class AnswerShape(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An answer. It has exactly one of the properties in the next paragraph.

    `value` is the answer (for a form, an object by question ID). `approve` is a decision.
    `arguments` are edited arguments of a call, and `content` is an edited result. `reply` is a
    message to the model instead of an answer. `back` asks the previous question again. `cancel`
    ends the turn. `pass_to` reassigns the question to other people or groups. `take_back` withdraws
    the visitor's approval while others still have to approve.

    `remember` applies an approval or a denial for the rest of the turn. For the call of another
    agent, it is one of the offers in `asker.always`. `digest` is the digest of the question as it
    agent, it is one of the offers in `asker.always`. `digest` is the digest of the question that
    was shown, or at least its first 8 characters. An approval or an edit counts only if the
    question has not changed. `about` is the old name of `digest`; send only one of the two.

    `scope` (`conversation`, `project`, `everywhere`) also allows later calls with equal arguments.
    With the `value` of a question that allows it, the scope `conversation` remembers the answer for
    the conversation. A scope is rejected if only named people may decide.
    """

    value: Any = UNSET
    approve: bool | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reply: str | UnsetType = UNSET
    back: Literal[True] | UnsetType = UNSET
    cancel: Literal[True] | UnsetType = UNSET
    pass_to: list[str] | UnsetType = UNSET
    take_back: Literal[True] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    remember: bool | str | UnsetType = UNSET
    digest: str | UnsetType = UNSET
    about: str | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


class ReceiptShape(Struct):
    """The answer is stored.

    `held` is whether a process is running the turn now, and `votes` the number of people who
    approved. `standing` says where a permission for later calls was written, or why it was not
    written.

    `proposed` is true if an edit was recorded but is not decided yet: other people have to decide
    it, or the process that runs the turn has to check the rules for it first.
    """

    conversation: str
    id: str
    held: bool
    votes: str | UnsetType = UNSET
    standing: str | UnsetType = UNSET
    proposed: bool | UnsetType = UNSET


class ProblemShape(Struct):
    """One validation error. `pointer` is a JSON Pointer to the invalid part of the request body."""

    pointer: str
    message: str


class ErrorShape(Struct, omit_defaults=True):
    """An error (RFC 9457), with a code for programs.

    `problems` lists the reasons why an answer is invalid. `answered_by` is the person or model that
    answered first. With `digest_mismatch`, `question` is the current question and `digest` its
    digest.
    """

    title: str
    status: int
    detail: str
    error: str
    message: str
    problems: list[ProblemShape] | UnsetType = UNSET
    answered_by: AnsweredBy | UnsetType = UNSET
    digest: str | UnsetType = UNSET
    question: QuestionShape | UnsetType = UNSET


class SummaryShape(Struct):
    """A conversation in the list."""

    id: str
    title: str


class ConversationShape(Struct):
    """A conversation with its recorded events."""

    id: str
    title: str
    labels: list[str]
    events: list[dict[str, Any]]


_TYPES: Final = (
    AnswerShape,
    ConversationShape,
    ErrorShape,
    QuestionShape,
    ReceiptShape,
    SummaryShape,
)
MOST_ON_A_PAGE: Final = 1_000
"""Maximum number of questions on a page of the API."""
_ERRORS: Final = {
    "400": "The body or a parameter is invalid.",
    "401": "Not signed in.",
    "403": (
        "The request came from another site, the visitor may not answer this question, or the"
        " process was started by a tool."
    ),
    "404": "There is no question or conversation with this ID.",
    "409": (
        "Another answer came first, the question changed (`digest_mismatch`), the answer is a"
        " secret, the turn was started elsewhere, or the conversation is locked."
    ),
    "410": (
        "The question was closed without an answer. The message says why. `deadline_passed`"
        " includes the `deadline`."
    ),
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "422": "The answer is invalid. The question is still open.",
    "503": (
        "The store is unavailable. An answer was not recorded, and its question is still open. Try"
        " again."
    ),
}


async def openapi(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Return the OpenAPI document."""
    del visitor
    base = str(request.scope.get("root_path", "")).rstrip("/")
    return JSONResponse(
        document(base, site.access.cookie if isinstance(site.access, CookieAccess) else None)
    )


def document(base: str = "", cookie: str | None = None) -> dict[str, Any]:
    """Return the OpenAPI document of an API under `base`."""
    _, components = msgspec.json.schema_components(
        _TYPES, ref_template="#/components/schemas/{name}"
    )
    components["AnswerShape"]["oneOf"] = [{"required": [way]} for way in WAYS]
    components["AnswerShape"]["not"] = {"required": ["digest", "about"]}
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "midturn",
            "version": __version__,
            "description": "The open questions from agents, and how to answer them.",
        },
        "servers": [{"url": base or "/"}],
        "paths": _paths(),
        "components": {"schemas": components},
    }
    if cookie:
        described["components"]["securitySchemes"] = {
            "cookie": {"type": "apiKey", "in": "cookie", "name": cookie}
        }
        described["security"] = [{"cookie": []}]
    return described


def _paths() -> dict[str, Any]:
    one, conversation = (
        [_parameter("id", "path", "The ID.")],
        _parameter("conversation", "query", "Only questions in this conversation."),
    )
    after = _parameter(
        "after",
        "query",
        "Return the questions after this ID. Pages are sorted by conversation, oldest first.",
    )
    limit = _parameter("limit", "query", "Maximum number of questions.")
    limit["schema"] = {"type": "integer", "minimum": 1, "maximum": MOST_ON_A_PAGE}
    paged = [conversation, after, limit]
    before = _parameter("before", "query", "Only conversations older than this one.")
    every = [code for code in _ERRORS if code != "401"]
    repeated = _parameter(
        "Idempotency-Key",
        "header",
        "A retry with the same key and the same answer is recorded once.",
    )
    repeated["schema"] = {"type": "string", "minLength": 1, "maxLength": 255}
    body = {"required": True, "content": {"application/json": {"schema": _reference(AnswerShape)}}}
    return {
        "/api/questions": {
            "get": _operation(
                "List the open questions, oldest first.", _list_of(QuestionShape), paged, "400"
            )
        },
        "/api/questions/{id}": {
            "get": _operation(
                "Get an open question.", _reference(QuestionShape), one, "404", "409", "410"
            )
        },
        "/api/questions/{id}/answer": {
            "post": {
                **_operation(
                    "Answer a question.", _reference(ReceiptShape), [*one, repeated], *every
                ),
                "requestBody": body,
            }
        },
        "/api/conversations": {
            "get": _operation(
                "List the conversations, newest first, 100 per page.",
                _list_of(SummaryShape),
                [before],
            )
        },
        "/api/conversations/{id}": {
            "get": _operation(
                "Get a conversation with its events.", _reference(ConversationShape), one, "404"
            )
        },
        "/api/events": {"get": _stream()},
    }


def _operation(
    summary: str, schema: dict[str, Any], parameters: list[dict[str, Any]], *errors: str
) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "200": {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    }
    answers |= {code: _error(code) for code in dict.fromkeys(("401", *errors, "503"))}
    return {"summary": summary, "parameters": parameters, "responses": answers}


def _error(code: str) -> dict[str, Any]:
    return {"description": _ERRORS[code], "content": {PROBLEM: {"schema": _reference(ErrorShape)}}}


def _stream() -> dict[str, Any]:
    said = (
        "Stream changes: `asked`, `answered`, `withdrawn`, `turn_ended` and, for one conversation,"
        " each event (`recorded`). `Last-Event-ID` continues after an interruption."
    )
    one = _parameter("conversation", "query", "Only this conversation, with each recorded event.")
    after = _parameter("after", "query", "Skip this number of events of the conversation.")
    after["schema"] = {"type": "integer", "minimum": 0}
    streamed: dict[str, Any] = {
        "description": "Server-sent events.",
        "content": {"text/event-stream": {}},
    }
    refused = {code: _error(code) for code in ("400", "401", "404", "503")}
    return {"summary": said, "parameters": [one, after], "responses": {"200": streamed, **refused}}


def _parameter(name: str, place: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": {"type": "string"},
    }


def _reference(kind: type[Any]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _list_of(kind: type[Any]) -> dict[str, Any]:
    return {"type": "array", "items": _reference(kind)}
