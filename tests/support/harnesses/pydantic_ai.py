"""Scripted agents in pydantic-ai. The messages are kept between two runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, ModelRetry, RunContext, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from midturn.integrations import pydantic_ai as adapter
from midturn.testing.adapters.program import (
    Capability,
    Entry,
    ModelReply,
    Outcome,
    Program,
    ProgramTool,
    Saved,
)


class Harness:
    """See `AdapterHarness`."""

    name = "pydantic-ai"
    missing: Mapping[Capability, str] = {}

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the agent through `run`, `stream`, or `agent.run` without midturn."""
        agent = _agent(program)
        options: dict[str, Any] = {"deps": program.context}
        if entry.inquirer is None:
            return Outcome(str((await agent.run(entry.text, **options)).output))
        given = _given(saved, entry)
        if not entry.is_stream:
            return _outcome(saved, await adapter.run(agent, entry.inquirer, **given, **options))
        async with adapter.stream(agent, entry.inquirer, **given, **options) as events:
            seen: list[object] = [event async for event in events]
        return _outcome(saved, events.result, seen)

    def run_sync(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the agent through `run_sync`."""
        assert entry.inquirer is not None
        return _outcome(
            saved,
            adapter.run_sync(
                _agent(program), entry.inquirer, **_given(saved, entry), deps=program.context
            ),
        )

    def image(self, data: bytes) -> object:
        return BinaryContent(data, media_type="image/png")


def _given(saved: Saved, entry: Entry) -> dict[str, Any]:
    messages = ModelMessagesTypeAdapter.validate_json(saved.content) if saved.content else []
    goes_on = not entry.is_new and saved.content is not None
    return {
        "text": None if goes_on else entry.text,
        "message_history": messages,
        "key": entry.key,
        "author": entry.author,
        "on_open": entry.on_open,
    }


def _outcome(saved: Saved, result: Any, events: Sequence[object] = ()) -> Outcome:
    saved.content = result.all_messages_json()
    return Outcome(result.output if isinstance(result.output, str) else None, events)


def _agent(program: Program) -> Agent[Any, Any]:
    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        said = _said(program, messages)
        calls = [
            ToolCallPart(call.tool, dict(call.arguments), tool_call_id=call.id)
            for call in said.calls
        ]
        return ModelResponse(parts=[*([TextPart(said.text)] if said.text else []), *calls])

    async def stream(
        messages: list[ModelMessage], _: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        said = _said(program, messages)
        if said.text:
            yield said.text
        for place, call in enumerate(said.calls):
            args = ToolCallPart(call.tool, dict(call.arguments)).args_as_json_str()
            yield {place: DeltaToolCall(name=call.tool, json_args=args, tool_call_id=call.id)}

    tools = [_tool(tool) for tool in program.tools]
    if program.context_tool is not None:
        tools.append(_context_tool(program))
    return Agent(
        FunctionModel(respond, stream_function=stream),
        deps_type=str,
        output_type=[str, DeferredToolRequests],
        tools=tools,
    )


def _tool(tool: ProgramTool) -> Tool[Any]:
    refuse = tool.refuse

    def validate(ctx: RunContext[Any], **arguments: Any) -> None:
        _ = ctx
        if refuse and (reason := refuse(arguments)):
            raise ModelRetry(reason)

    return Tool(
        tool.function,
        name=tool.name,
        requires_approval=tool.needs_approval,
        args_validator=validate if refuse else None,
    )


def _context_tool(program: Program) -> Tool[Any]:
    async def whoami(ctx: RunContext[str]) -> str:
        """Say who runs this."""
        assert program.context_tool is not None
        return await program.context_tool(ctx.deps)

    return Tool(whoami)


def _said(program: Program, messages: Sequence[Any]) -> ModelReply:
    last = max(
        place
        for place, message in enumerate(messages)
        if any(_is_of_the_user(part) for part in message.parts)
    )
    turn = messages[last:]
    parts = [part for message in turn for part in message.parts]
    files = "".join(
        f" [image of {len(item.data)} bytes]" for part in parts for item in _images(part)
    )
    read = [
        _text(part) + files for part in parts if part.part_kind in ("tool-return", "retry-prompt")
    ]
    return program.reply(sum(isinstance(message, ModelResponse) for message in turn), read)


def _is_of_the_user(part: Any) -> bool:
    return isinstance(part, UserPromptPart) and isinstance(part.content, str)


def _text(part: Any) -> str:
    return str(
        part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
    )


def _images(part: Any) -> Sequence[BinaryContent]:
    items = (
        part.files
        if isinstance(part, ToolReturnPart)
        else part.content
        if isinstance(part, UserPromptPart)
        else ()
    )
    return [item for item in items if isinstance(item, BinaryContent)]
