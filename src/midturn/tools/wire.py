"""The JSON that goes to a local command, and the outcome that comes back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import msgspec
from msgspec import Struct

from midturn.errors import Problem, QuestionError
from midturn.ports import ToolRun
from midturn.question.form import Form
from midturn.record.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.values.json_value import Json, JsonObject, json_problem, read_json
from midturn.values.limits import DEFAULT_LIMITS, Limits
from midturn.values.secret import SecretValue

_SHOWN = 300  # characters of an unreadable output in a message
_FIELDS: Mapping[str, frozenset[str]] = {
    "success": frozenset({"content"}),
    "error": frozenset({"message", "trace", "transient"}),
    "needs_input": frozenset({"question", "questions"}),
}


class WireError(Exception):
    """A command's output is not an outcome; the message says what was wrong and what is expected."""


class WireWorkspace(Struct, frozen=True):
    """Where a command runs, as its `context` says."""

    root: str
    id: str = ""


def request_document(run: ToolRun, workspace: WireWorkspace) -> bytes:
    """Write what a command reads on its standard input. The only place where a secret is spelled out."""
    answers = {name: value.reveal() if isinstance(value, SecretValue) else value for name, value in run.answers.items()}
    unanswered: JsonObject = {"unanswered": dict(run.unanswered)} if run.unanswered else {}
    document: JsonObject = {
        "tool": {"name": run.call.name, "arguments": run.call.arguments, "answers": answers, **unanswered},
        "context": {"root": workspace.root, "action": "run", "workspace_id": workspace.id, "conversation_id": run.conversation},
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def read_outcome(stdout: bytes, limits: Limits = DEFAULT_LIMITS) -> Outcome:
    """Read exactly one outcome document.

    Raises:
        WireError: It is not an outcome: not JSON, more than one document, an unknown field, a malformed question.
    """
    document = _document(stdout, limits)
    kind = document.get("type")
    allowed = _FIELDS.get(kind) if isinstance(kind, str) else None
    if allowed is None:
        raise WireError(f"/type: must be one of {', '.join(_FIELDS)}; found {_shown(document.get('type'))}.")
    for key in document.keys() - allowed - {"type"}:
        raise WireError(f"/{key}: unknown field; `{kind}` has {', '.join(sorted(allowed))}.")
    match kind:
        case "success":
            return Success(_text(document, "content"))
        case "error":
            return ToolError(_text(document, "message"), _trace(document), _flag(document, "transient"))
        case _:
            return NeedsInput(_form(document, limits))


def is_question(text: str) -> bool:
    """Whether a text is a document of `needs_input` without a mistake: what a command writes that means to ask."""
    if '"needs_input"' not in text:
        return False
    try:
        return isinstance(read_outcome(text.encode("utf-8", "replace")), NeedsInput)
    except WireError:
        return False


def taken_as_data(tool: str) -> str:
    """Say what became of a question of a command that is not declared to ask, and what declares it."""
    key = f"conversation.tools.{tool}.protocol"
    return f'it wrote a question, which was taken as data, and nobody was asked. If it is to ask, set `{key} = "outcome"`.'


def _document(stdout: bytes, limits: Limits) -> JsonObject:
    """Decode strictly: UTF-8, one object, no duplicate key, no NaN, no lone surrogate, not too deep."""
    if not stdout.strip():
        raise WireError("nothing was written.")
    try:
        found = read_json(stdout.decode())
    except ValueError as error:  # it is not UTF-8, or not JSON
        raise WireError(f"{error}; it begins {_begin(stdout)}") from None
    if not isinstance(found, dict):
        raise WireError(f"it must be one JSON object; found {_shown(found)}.")
    if problem := json_problem(found, limits.json_depth):
        raise WireError(str(problem))
    return cast("JsonObject", found)


def _form(document: JsonObject, limits: Limits) -> Form:
    """Read the questions.

    Raises:
        WireError: They are malformed; every problem is named with its JSON pointer.
    """
    if len(document.keys() & {"question", "questions"}) != 1:
        raise WireError("`needs_input` has exactly one of `question` and `questions`.")
    try:
        if "questions" in document:
            return Form.from_json(document["questions"], limits=limits)
        return Form.from_json([document["question"]], limits=limits)
    except QuestionError as error:
        problems = [Problem(_pointer(problem.pointer, document), problem.message) for problem in error.problems]
        raise WireError("the question is malformed:\n" + "\n".join(map(str, problems))) from None


def _pointer(pointer: str, document: JsonObject) -> str:
    """Point into what was written: one `question` is checked as a list of one."""
    return pointer if "questions" in document else pointer.replace("/questions/0", "/question", 1)


def _text(document: JsonObject, key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise WireError(f"/{key}: must be a string; found {_shown(value) if key in document else 'nothing'}.")
    return value


def _flag(document: JsonObject, key: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise WireError(f"/{key}: must be true or false; found {_shown(value)}.")
    return value


def _trace(document: JsonObject) -> tuple[str, ...]:
    value = document.get("trace", [])
    lines = value if isinstance(value, list) else [None]
    if not all(isinstance(line, str) for line in lines):
        raise WireError(f"/trace: must be an array of strings; found {_shown(value)}.")
    return tuple(str(line) for line in lines)


def _shown(value: Json) -> str:
    text = msgspec.json.encode(value).decode() if not isinstance(value, float) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _begin(stdout: bytes) -> str:
    text = stdout.decode(errors="replace")
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
