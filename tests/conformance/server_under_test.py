"""A server built from the parts of `midturn mcp`, with the tools that the conformance tests
call.

The questions become forms through our own code. Requests that midturn never makes (sampling,
roots) and the old form format are written out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from midturn import Question
from midturn.errors import AnswerError
from midturn.protocol_forms import Outgoing
from support.serving import serve_here

_KEY = secrets.token_bytes(32)
_PREFIX = "test_input_required_result_"
_NAME = Question.text("name", "What is your name?")
_COLOR = Question.text("color", "What is your favorite color?")
_OK = Question.boolean("ok", "Please confirm")
_CONTEXT = Question.text("context", "What context should the prompt use?")
_INFORMATION = (
    Question.text("username", "User's response"),
    Question.text("email", "User's email address"),
)
_DEFAULTS = (
    Question.text("name", "Name?", default="John Doe"),
    Question.schema("age", "Age?", {"type": "integer"}, default=30),
    Question.schema("score", "Score?", {"type": "number"}, default=95.5),
    Question.select("status", "Status?", ["active", "inactive", "pending"], default="active"),
    Question.boolean("verified", "Verified?", default=True),
)
_ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {
        "type": "string",
        "oneOf": [
            {"const": "value1", "title": "First Option"},
            {"const": "value2", "title": "Second"},
        ],
    },
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {
        "type": "array",
        "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
    },
    "titledMulti": {
        "type": "array",
        "items": {
            "anyOf": [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]
        },
    },
}
_TOOLS = (
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    *(
        f"{_PREFIX}{name}"
        for name in (
            "elicitation",
            "sampling",
            "list_roots",
            "request_state",
            "multiple_inputs",
            "multi_round",
            "tampered_state",
            "capabilities",
        )
    ),
)
_SAMPLING = types.CreateMessageRequest(
    params=types.CreateMessageRequestParams(
        messages=[
            types.SamplingMessage(
                role="user",
                content=types.TextContent(type="text", text="What is the capital of France?"),
            )
        ],
        max_tokens=100,
    )
)
_ROOTS = types.ListRootsRequest()


class InputRequired(Exception):  # noqa: N818  it is what comes next
    """Input that the client has to send before the call continues."""

    def __init__(self, requests: Mapping[str, Any], state: str | None = None) -> None:
        super().__init__("input required")
        self.result = types.InputRequiredResult(
            input_requests=dict(requests), request_state=_sealed(state) if state else None
        )


async def list_tools(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    del context, params
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=name, input_schema={"type": "object"})
            for name in _TOOLS
        ]
    )


async def list_prompts(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    del context, params
    return types.ListPromptsResult(prompts=[types.Prompt(name=f"{_PREFIX}prompt")])


async def get_prompt(
    context: ServerRequestContext[Any], params: types.GetPromptRequestParams
) -> Any:
    del context
    try:
        words = _answer(params.input_responses, "user_context", _CONTEXT)
    except InputRequired as asked:
        return asked.result
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=words))
    return types.GetPromptResult(messages=[message])


async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    if not params.name.startswith(_PREFIX):
        return await _pushed(context, params)
    state = _opened(params.request_state)
    try:
        return _text(
            _said(params.name.removeprefix(_PREFIX), params.input_responses, state, context)
        )
    except InputRequired as asked:
        return asked.result


def _said(  # noqa: PLR0911  one return a tool
    name: str, brought: Mapping[str, Any] | None, state: str, context: ServerRequestContext[Any]
) -> str:
    match name:
        case "elicitation":
            return f"Hello, {_answer(brought, 'user_name', _NAME)}!"
        case "sampling":
            return f"{_brought(brought, 'capital_question', _SAMPLING)}"
        case "list_roots":
            return f"{_brought(brought, 'client_roots', _ROOTS)}"
        case "request_state" | "tampered_state":
            return f"state-ok {_answer(brought, 'confirm', _OK, state='confirming')}"
        case "multiple_inputs":
            wanted = {"user_name": _form(_NAME), "greeting": _SAMPLING, "client_roots": _ROOTS}
            if any(key not in (brought or {}) for key in wanted):
                raise InputRequired(wanted, "several")
            return f"{brought}"
        case "multi_round":
            if state.startswith("name:"):
                return f"{state} {_answer(brought, 'step2', _COLOR, state=state)}"
            raise InputRequired(
                {"step2": _form(_COLOR)}, f"name:{_answer(brought, 'step1', _NAME, state='first')}"
            )
        case _:
            capabilities = context.session.client_capabilities
            wanted: dict[str, Any] = (
                {"user_name": _form(_NAME)} if capabilities and capabilities.elicitation else {}
            )
            wanted |= (
                {"capital_question": _SAMPLING} if capabilities and capabilities.sampling else {}
            )
            if wanted and not brought:
                raise InputRequired(wanted)
            return "Nothing to ask."


async def _pushed(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    if params.name == "test_elicitation_sep1330_enums":
        said = await context.session.elicit_form(
            "Choose.",
            {"type": "object", "properties": _ENUMS},
            related_request_id=context.request_id,
        )
        return _text(f"Elicitation completed: action={said.action}, content={said.content}")
    form = Outgoing.of(
        _DEFAULTS if params.name == "test_elicitation_sep1034_defaults" else _INFORMATION
    )
    message = str((params.arguments or {}).get("message", "Please answer."))
    said = await context.session.elicit_form(
        message, form.schema, related_request_id=context.request_id
    )
    content = form.answers(said.content) if said.action == "accept" else None
    return _text(f"Elicitation completed: action={said.action}, content={content}")


def _answer(
    brought: Mapping[str, Any] | None,
    key: str,
    question: Question[Any],
    *,
    state: str | None = None,
) -> str:
    """Return a checked answer, or ask for it."""
    response = _brought(brought, key, _form(question), state)
    try:
        return str(Outgoing.of([question]).answers(getattr(response, "content", None))[question.id])
    except AnswerError:
        raise InputRequired({key: _form(question)}, state) from None


def _brought(
    brought: Mapping[str, Any] | None, key: str, request: Any, state: str | None = None
) -> Any:
    if key not in (brought or {}):
        raise InputRequired({key: request}, state)
    return (brought or {})[key]


def _form(*questions: Question[Any]) -> types.ElicitRequest:
    params = types.ElicitRequestFormParams(
        message=questions[0].text, requested_schema=Outgoing.of(questions).schema
    )
    return types.ElicitRequest(params=params)


def _sealed(state: str) -> str:
    return f"{state}|{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def _opened(sealed: str | None) -> str:
    state = (sealed or "").rpartition("|")[0]
    if sealed and not hmac.compare_digest(_sealed(state), sealed):
        raise MCPError(-32602, "Invalid or expired requestState")
    return state


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def main(arguments: Sequence[str]) -> None:
    """Serve on loopback; print the port. It keeps no state."""
    del arguments
    server: Server[Any] = Server(
        "midturn",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    serve_here(server.streamable_http_app(host="127.0.0.1"))


if __name__ == "__main__":
    main(sys.argv[1:])
