"""`midturn mcp` with the tool names of the conformance tests. Each tool is `ask_user` with
fixed questions.

Only names are translated: those of the tool and of the form, which the tests expect under a
certain key.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext

from midturn.clock import SYSTEM
from midturn.integrations.mcp_server.asking import ServerWait
from midturn.integrations.mcp_server.server import make_server
from midturn.stores.opening import FileStore
from support.serving import serve_here

_PREFIX = "test_input_required_result_"
_NAME = {"id": "name", "text": "What is your name?", "answer_type": "text"}
_OK = {"id": "ok", "text": "Please confirm", "answer_type": "boolean"}
_COLOR = {
    "id": "color",
    "text": "What is your favorite color?",
    "answer_type": "text",
    "when": {"question_id": "name", "equals": "Alice"},
}
_STATUS = {"options": ["active", "inactive", "pending"], "allow_other": False}
_DEFAULTS = (
    {"id": "name", "text": "Name?", "answer_type": "text", "default": "John Doe"},
    {
        "id": "age",
        "text": "Age?",
        "answer_type": "schema",
        "schema": {"type": "integer"},
        "default": 30,
    },
    {
        "id": "score",
        "text": "Score?",
        "answer_type": "schema",
        "schema": {"type": "number"},
        "default": 95.5,
    },
    {"id": "status", "text": "Status?", "answer_type": "select", **_STATUS, "default": "active"},
    {"id": "verified", "text": "Verified?", "answer_type": "boolean", "default": True},
)
_QUESTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "test_elicitation": ({"id": "username", "text": "Your name?", "answer_type": "text"},),
    "test_elicitation_sep1034_defaults": _DEFAULTS,
    f"{_PREFIX}elicitation": (_NAME,),
    f"{_PREFIX}request_state": (_OK,),
    f"{_PREFIX}multi_round": (_NAME, _COLOR),
    f"{_PREFIX}tampered_state": (_OK,),
}
_OURS, _THEIRS = "form", "user_name"


async def list_tools(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    del context, params
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=name, input_schema={"type": "object"})
            for name in _QUESTIONS
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Serve on loopback, with a store in a given directory; print the port."""
    store = FileStore(Path(tempfile.mkdtemp(dir=arguments[0])))
    server = make_server(store, {}, SYSTEM, ServerWait(slice=10, quickest=0))
    ask = server.get_request_handler("tools/call")
    assert ask is not None

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> Any:
        brought = {
            _OURS if key == _THEIRS else key: response
            for key, response in (params.input_responses or {}).items()
        }
        asked = {"questions": [dict(question) for question in _QUESTIONS[params.name]]}
        renamed = params.model_copy(
            update={"name": "ask_user", "arguments": asked, "input_responses": brought or None}
        )
        result = await ask.handler(context, renamed)
        if isinstance(result, types.InputRequiredResult) and result.input_requests:
            result.input_requests = {_THEIRS: result.input_requests[_OURS]}
        return result

    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    serve_here(server.streamable_http_app(host="127.0.0.1"))


if __name__ == "__main__":
    main(sys.argv[1:])
