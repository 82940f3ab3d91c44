"""Scripted agents in the OpenAI Agents SDK. The state of a waiting run, or the items, are kept
between two runs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, cast

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputImage,
    function_tool,
)
from agents.testing import ScriptedModel, assistant_message, function_call

from midturn.integrations.openai_agents import Asking
from midturn.stores.sync_forms import in_a_loop
from midturn.testing.adapters.program import Capability, Entry, Outcome, Program, ProgramTool, Saved

_CONFIG = RunConfig(tracing_disabled=True)


class Harness:
    """See `AdapterHarness`."""

    name = "OpenAI Agents SDK"
    missing: Mapping[Capability, str] = {
        "equal ids": "the SDK treats two calls with the same id as one call"
    }

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the agent through `Asking`, or without midturn."""
        if entry.inquirer is None:
            result = await Runner.run(
                _agent(program, None), entry.text, context=program.context, run_config=_CONFIG
            )
            return Outcome(str(result.final_output))
        asking = Asking(entry.inquirer)
        agent = _agent(program, asking)
        given = await _given(agent, saved, entry)
        options = _options(program, given, entry)
        if not entry.is_stream:
            return _outcome(saved, await asking.run(agent, given, **options))
        async with asking.stream(agent, given, **options) as events:
            seen: list[object] = [event async for event in events]
        return _outcome(saved, events.result, seen)

    def run_sync(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the agent through `run_sync`."""
        assert entry.inquirer is not None
        asking = Asking(entry.inquirer)
        agent = _agent(program, asking)
        given = in_a_loop(_given(agent, saved, entry))
        return _outcome(saved, asking.run_sync(agent, given, **_options(program, given, entry)))

    def image(self, data: bytes) -> object:
        return ToolOutputImage(image_url=f"data:image/png;base64,{base64.b64encode(data).decode()}")


def _options(program: Program, given: object, entry: Entry) -> dict[str, Any]:
    is_state = isinstance(given, RunState)
    return {
        "context": program.context,
        "key": entry.key,
        "author": entry.author,
        "text": entry.text if is_state and entry.is_new else "",
        "on_open": entry.on_open,
        "run_config": _CONFIG,
    }


async def _given(agent: Agent[Any], saved: Saved, entry: Entry) -> Any:
    kept: dict[str, Any] = json.loads(saved.content) if saved.content else {}
    if "state" in kept:
        return await RunState.from_json(agent, kept["state"])
    items = kept.get("items", [])
    return [*items, {"role": "user", "content": entry.text}] if items else entry.text


def _outcome(saved: Saved, result: Any, events: Sequence[object] = ()) -> Outcome:
    if result.interruptions:
        saved.content = json.dumps({"state": result.to_state().to_json()}).encode()
        return Outcome(None, events)
    saved.content = json.dumps({"items": result.to_input_list()}).encode()
    return Outcome(str(result.final_output), events)


class _ProgramModel(Model):
    """A model that replies according to the program."""

    def __init__(self, program: Program) -> None:
        self._program = program

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        return await self._next(_input(args, options)).get_response(*args, **options)

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Reply as a stream of chunks."""
        async for event in self._next(_input(args, options)).stream_response(*args, **options):
            yield event

    def _next(self, given: str | Sequence[Mapping[str, Any]]) -> ScriptedModel:
        items = [{"role": "user"}] if isinstance(given, str) else given
        last = max(place for place, item in enumerate(items) if item.get("role") == "user")
        turn = items[last + 1 :]
        read = [
            _text(item["output"]) for item in turn if item.get("type") == "function_call_output"
        ]
        said = self._program.reply(_replies(turn), read)
        calls = [
            function_call(call.tool, dict(call.arguments), call_id=call.id) for call in said.calls
        ]
        return ScriptedModel([[*([assistant_message(said.text)] if said.text else []), *calls]])


def _input(args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return options["input"] if "input" in options else args[1]


def _replies(turn: Sequence[Mapping[str, Any]]) -> int:
    """Count the replies of the model: calls followed by their results."""
    kinds = [item.get("type") for item in turn]
    return sum(
        kind == "function_call" and (place == 0 or kinds[place - 1] != "function_call")
        for place, kind in enumerate(kinds)
    )


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return "".join(_part(part) for part in output)


def _part(part: Mapping[str, Any]) -> str:
    if part.get("type") == "input_image":
        return f" [image of {len(base64.b64decode(part['image_url'].partition(',')[2]))} bytes]"
    return str(part.get("text"))


def _agent(program: Program, asking: Asking | None) -> Agent[Any]:
    tools = [_tool(tool, asking) for tool in program.tools]
    if program.context_tool is not None:
        tools.append((asking.tool if asking else function_tool)(_context_tool(program)))
    return Agent[Any](name="Shop", model=_ProgramModel(program), tools=tools)


def _tool(tool: ProgramTool, asking: Asking | None) -> Any:
    options: dict[str, Any] = {"name_override": tool.name, "strict_mode": False}
    if tool.refuse:
        options["tool_input_guardrails"] = [_guardrail(tool)]
    if asking is None:
        return cast("Any", function_tool)(**options)(tool.function)
    return asking.tool(tool.function, needs_approval=tool.needs_approval, **options)


def _guardrail(tool: ProgramTool) -> ToolInputGuardrail[Any]:
    async def judge(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        assert tool.refuse is not None
        reason = tool.refuse(json.loads(data.context.tool_arguments))
        return (
            ToolGuardrailFunctionOutput.reject_content(reason)
            if reason
            else ToolGuardrailFunctionOutput.allow()
        )

    return ToolInputGuardrail(guardrail_function=judge, name="judge")


def _context_tool(program: Program) -> Callable[..., Any]:
    async def whoami(ctx: RunContextWrapper[Any]) -> str:
        """Say who runs this."""
        assert program.context_tool is not None
        return await program.context_tool(ctx.context)

    return whoami
