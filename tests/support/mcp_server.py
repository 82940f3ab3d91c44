"""An MCP server for tests: its tools ask, fail, crash or return text. Run it with `python`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import _serve_legacy_stream
from mcp.server.stdio import stdio_server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

FORGOTTEN = Path("forgotten")
ASKING = ("ask", "ask_nested", "ask_address", "ask_or_fail", "ask_or_die", "ask_slowly", "forget")
HEARD = Path("heard")
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "re gion": {
            "type": "string",
            "title": "Which region?",
            "enum": ["eu-1", "us-2"],
            "default": "eu-1",
        },
        "count": {"type": "integer", "title": "How many?", "minimum": 1, "maximum": 5},
        "dry": {"type": "boolean", "title": "Only try?"},
    },
    "required": ["re gion", "dry"],
}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {"deep": {"type": "object", "properties": {}}},
}


async def list_tools(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    del context, params
    names = ("echo", "fail", "die", "sleep", "picture", "deploy", *ASKING)
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=name, input_schema={"type": "object"})
            for name in names
        ]
    )


async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    match params.name:
        case "fail":
            return types.CallToolResult(content=[_text("It does not work.")], is_error=True)
        case "die":
            sys.stderr.write("I am dying.\n")
            sys.stderr.flush()
            os._exit(3)
        case "sleep":
            await asyncio.sleep(float((params.arguments or {})["seconds"]))
        case "picture":
            image = types.ImageContent(type="image", data="AAAA", mime_type="image/png")
            page = types.TextResourceContents(uri="file:///page", text="A page.")
            return types.CallToolResult(
                content=[image, types.EmbeddedResource(type="resource", resource=page)]
            )
        case "deploy":
            return await _deploy(context, params)
        case name if name in ASKING:
            return await _ask(context, params)
        case _:
            pass
    return types.CallToolResult(content=[_text(f"{params.name}: {params.arguments}")])


async def _deploy(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    """Ask the questions in the arguments, or `changed.ask` if its file exists, and return the
    answers. Without questions, return `say`.
    """
    arguments: Any = params.arguments or {}
    asked = _asked_now(arguments)
    if not asked:
        return types.CallToolResult(content=[_text(arguments["say"])])
    properties = {
        question["id"]: {"title": question["text"], **_shape(question["answer_type"])}
        for question in asked
    }
    form = {"type": "object", "properties": properties, "required": list(properties)}
    request = types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message="Before this is deployed:", requested_schema=form
        )
    )
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        said: Any = await context.session.send_request(request, types.ElicitResult)
    elif params.input_responses is None:
        return types.InputRequiredResult(input_requests={"q": request}, request_state="state")
    else:
        said = params.input_responses["q"]
    return types.CallToolResult(
        content=[_text(said.action if said.content is None else json.dumps(said.content))]
    )


def _asked_now(arguments: Any) -> Any:
    changed = arguments.get("changed")
    return changed["ask"] if changed and Path(changed["file"]).exists() else arguments.get("ask")


def _shape(kind: dict[str, Any]) -> dict[str, Any]:
    """Return an answer type as JSON Schema."""
    return {"boolean": {"type": "boolean"}, "text": {"type": "string"}}.get(kind["type"]) or {
        "type": "string",
        "enum": kind["options"],
    }


async def _ask(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    asked: Any = (
        types.ElicitRequestURLParams(
            message="Log in.", url="https://xn--pple-43d.example/login?a=b", elicitation_id="1"
        )
        if params.name == "ask_address"
        else types.ElicitRequestFormParams(message="Where?", requested_schema=_form(params))
    )
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if params.name == "forget" and params.request_state and _forgets():
            raise _invalid()
        if params.input_responses is None:
            return types.InputRequiredResult(
                input_requests={"q": types.ElicitRequest(params=asked)}, request_state="state-ä=1"
            )
        assert params.request_state == "state-ä=1"
        said: Any = params.input_responses["q"]
    else:
        said = await context.session.send_request(
            types.ElicitRequest(params=asked), types.ElicitResult
        )

    if params.name == "ask_slowly" and _is_first(said.action):
        await asyncio.sleep(60)
    if said.action != "accept" and params.name == "ask_or_die":
        os._exit(3)
    if said.action != "accept" and params.name == "ask_or_fail":
        return types.CallToolResult(content=[_text("It wanted a yes.")], is_error=True)
    return types.CallToolResult(content=[_text(f"{said.action} {said.content}")])


def _form(params: types.CallToolRequestParams) -> dict[str, Any]:
    """Return the schema in the arguments, or the tool's own."""
    given: dict[str, Any] = params.arguments or {}
    return given.get("schema") or (NESTED if params.name == "ask_nested" else FORM)


def _is_first(heard: str) -> bool:
    """Return True for the first call in any process, and record its process and answer."""
    if HEARD.exists():
        return False
    new = HEARD.with_name("heard.new")
    new.write_text(f"{os.getpid()} {heard}")
    new.replace(HEARD)
    return True


def _forgets() -> bool:
    """Return True once in any process."""
    has_forgotten = FORGOTTEN.exists()
    FORGOTTEN.touch()
    return not has_forgotten


def _invalid() -> Exception:
    from mcp.shared.exceptions import MCPError

    return MCPError(-32602, "Invalid or expired requestState")


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


async def main() -> None:
    server: Server[Any] = Server("probe", on_list_tools=list_tools, on_call_tool=call_tool)
    options = server.create_initialization_options()
    async with stdio_server() as (reading, writing):
        if "legacy" in sys.argv:  # a server older than protocol version 2026-07-28
            await _serve_legacy_stream(
                server,
                reading,
                writing,
                lifespan_state={},
                session_id=None,
                init_options=options,
                raise_exceptions=False,
            )
        else:
            await server.run(reading, writing, options)


if __name__ == "__main__":
    asyncio.run(main())
