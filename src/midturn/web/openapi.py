"""The document of the API, generated from its shapes."""

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
from midturn.web.app_state import Site
from midturn.web.body import PROBLEM
from midturn.web.gate import CookieAccess, Visitor

# ----------------------------------------------------------------------------------------------------------------------
# The shapes of the API: what its document is generated from, and what bodies are read as


WAYS = ("value", "approve", "arguments", "content", "reply", "back", "cancel", "pass_to", "take_back")
"""The ways to answer; each request takes exactly one."""


class FormShape(Struct):
    """The whole form that a question belongs to; `questions` are objects as tools write them."""

    total: int
    questions: list[dict[str, Any]]


class AskerShape(Struct):
    """Another program's agent that asks; `waits` says whether its process waits for the answer.

    `cwd` is the directory that it works in, `said` what it said last, `subagent` which of its own agents asks, `always` what it offers to
    keep of a yes.
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
    """An open question. `question` is what is asked, `arguments` those of the call that asks.

    `answer_schema` is the JSON Schema of an answer; a result under approval has its `content`, and `is_error`. `problem` is what
    the tool had against the answer before.

    An approval has the `digest` of what is decided on; `about` is its older name. `edit` is an edit of the call that people decide on: by
    whom, the new and the original `arguments`, and whether its rules were read (`checked`). `refused_before` lists refusals of equal calls
    earlier in the turn: by whom, the `reason`, and when.
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
    """An answer, in exactly one way.

    `value` is the answer (of a form, an object by question id), `approve` a decision, `arguments` what a call shall run with instead,
    `content` what shall be delivered instead of a result, `reply` words for the model instead of an answer, `back` asks the question before
    this one again, `cancel` ends the turn. `pass_to` puts the question to other people or groups, `take_back` takes back a yes of the
    visitor that waits for those of others. `remember` keeps a yes or a no for the rest of the turn; of the
    call of another agent, it is one of what that offers to keep (`asker.always`). `digest` is that of the question as it was
    shown, or at least its first 8 characters: a yes or an edit counts only if this is still what is asked. `about` is its older
    name; send one of the two.
    `scope` (`conversation`, `project`, `everywhere`) has a yes to a call count for later calls with equal arguments; with the `value` of
    a question that allows it, `conversation` has the answer remembered for the conversation. It is refused where certain people decide.
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
    """The answer is safe; `held` says whether a process runs the turn now, `votes` how many have said yes, of how many.

    `standing` says where a permission for later calls was written, or why it was not. `proposed` says that an edit is recorded and decides
    nothing yet: other people decide about it, or the process that runs the turn reads its rules first.
    """

    conversation: str
    id: str
    held: bool
    votes: str | UnsetType = UNSET
    standing: str | UnsetType = UNSET
    proposed: bool | UnsetType = UNSET


class ProblemShape(Struct):
    """What is wrong, and where (a JSON pointer into the body that was sent)."""

    pointer: str
    message: str


class ErrorShape(Struct, omit_defaults=True):
    """An error (RFC 9457), with a word for programs.

    `problems` say why an answer does not fit, `answered_by` who was faster. With `digest_mismatch`, `question` is what is asked now, and
    `digest` its digest.
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
    """One conversation in the list."""

    id: str
    title: str


class ConversationShape(Struct):
    """A conversation with its events, as they are recorded."""

    id: str
    title: str
    labels: list[str]
    events: list[dict[str, Any]]


_TYPES: Final = (AnswerShape, ConversationShape, ErrorShape, QuestionShape, ReceiptShape, SummaryShape)
MOST_ON_A_PAGE: Final = 1_000
"""How many questions a page of the API may hold."""
_ERRORS: Final = {
    "400": "The body, or a parameter, cannot be read.",
    "401": "Nobody is signed in.",
    "403": "Another site sent this; or the visitor may not answer this question; or a process would answer that a tool has started.",
    "404": "Nothing here has this id.",
    "409": "Somebody answered first; or a yes does not name what is asked now (`digest_mismatch`)"
    "; or it is a secret, is asked by a turn that was not begun here, or its conversation is being written.",
    "410": "It is closed, and has no answer: the message says why. `deadline_passed`, with the `deadline`, where no one answered in time.",
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
    components["AnswerShape"]["not"] = {"required": ["digest", "about"]}
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
    after = _parameter("after", "query", "The page after the question with this id: pages go by conversation, the oldest first.")
    limit = _parameter("limit", "query", "How many questions are on a page.")
    limit["schema"] = {"type": "integer", "minimum": 1, "maximum": MOST_ON_A_PAGE}
    paged = [conversation, after, limit]
    before = _parameter("before", "query", "Only those that are older than this one.")
    every = [code for code in _ERRORS if code != "401"]
    repeated = _parameter("Idempotency-Key", "header", "Sent again with the same key and the same answer, it is recorded once.")
    repeated["schema"] = {"type": "string", "minLength": 1, "maxLength": 255}
    body = {"required": True, "content": {"application/json": {"schema": _reference(AnswerShape)}}}
    return {
        "/api/questions": {"get": _operation("The open questions, the oldest first.", _list_of(QuestionShape), paged, "400")},
        "/api/questions/{id}": {"get": _operation("One open question.", _reference(QuestionShape), one, "404", "409", "410")},
        "/api/questions/{id}/answer": {
            "post": {
                **_operation("Answer a question.", _reference(ReceiptShape), [*one, repeated], *every),
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
    answers |= {code: _error(code) for code in dict.fromkeys(("401", *errors, "503"))}
    return {"summary": summary, "parameters": parameters, "responses": answers}


def _error(code: str) -> dict[str, Any]:
    return {"description": _ERRORS[code], "content": {PROBLEM: {"schema": _reference(ErrorShape)}}}


def _stream() -> dict[str, Any]:
    said = (
        "What changes: `asked`, `answered`, `withdrawn`, `turn_ended`, and of one conversation each event (`recorded`). "
        "`Last-Event-ID` goes on where one was cut off."
    )
    one = _parameter("conversation", "query", "Only this conversation, with each event that is recorded.")
    after = _parameter("after", "query", "Begin behind so many events of the conversation.")
    after["schema"] = {"type": "integer", "minimum": 0}
    streamed: dict[str, Any] = {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
    refused = {code: _error(code) for code in ("400", "401", "404", "503")}
    return {"summary": said, "parameters": [one, after], "responses": {"200": streamed, **refused}}


def _parameter(name: str, place: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "description": description, "schema": {"type": "string"}}


def _reference(kind: type[Any]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _list_of(kind: type[Any]) -> dict[str, Any]:
    return {"type": "array", "items": _reference(kind)}
