"""The streaming formats of four model APIs: OpenAI chat, OpenAI Responses, Anthropic, Google."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from support.providers.answers import Fails, Says, ToolUse

Wire: TypeAlias = Literal["chat", "responses", "anthropic", "google"]
USAGE = {"input": 100, "cached": 60, "output": 7}


def wire_of(path: str) -> Wire | None:
    """Return the wire of a path."""
    endings: Mapping[str, Wire] = {
        "/chat/completions": "chat",
        "/responses": "responses",
        "/messages": "anthropic",
        ":streamGenerateContent": "google",
    }
    bare = path.partition("?")[0]
    return next((wire for ending, wire in endings.items() if bare.endswith(ending)), None)


def stream(wire: Wire, says: Says) -> list[bytes]:
    """Return the answer as the chunks of an event stream."""
    return [chunk.encode() for chunk in _WIRES[wire](says)]


def failure(wire: Wire, fails: Fails) -> bytes:
    """Return the body of an error in the provider's format."""
    shapes: dict[Wire, Any] = {
        "chat": {
            "error": {
                "message": fails.message,
                "type": fails.code,
                "param": None,
                "code": fails.code,
            }
        },
        "responses": {
            "error": {
                "message": fails.message,
                "type": fails.code,
                "param": None,
                "code": fails.code,
            }
        },
        "anthropic": {
            "type": "error",
            "error": {"type": fails.code, "message": fails.message},
            "request_id": "req_1",
        },
        "google": {"error": {"code": fails.status, "message": fails.message, "status": fails.code}},
    }
    return json.dumps(shapes[wire]).encode()


def words(text: str) -> list[str]:
    """Split a text into pieces that end with a space."""
    return [f"{word} " for word in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []


def _arguments(call: ToolUse) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _data(payload: Any, event: str | None = None) -> str:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(payload)}\n\n"


def _chat(says: Says) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _data(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "wire",
                "choices": [choice],
            }
        )

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": word}) for word in words(says.reasoning))
    yield from (chunk({"content": word}) for word in words(says.text))
    for index, call in enumerate(says.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk(
            {
                "tool_calls": [
                    {"index": index, "id": call.id, "type": "function", "function": function}
                ]
            }
        )
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": _arguments(call)}}]})
    yield chunk(
        {},
        {"stop": "stop", "length": "length", "refusal": "content_filter"}[says.stop]
        if not says.calls
        else "tool_calls",
    )
    usage = {
        "prompt_tokens": USAGE["input"],
        "completion_tokens": USAGE["output"],
        "total_tokens": USAGE["input"] + USAGE["output"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
    }
    yield _data(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "wire",
            "choices": [],
            "usage": usage,
        }
    )
    yield "data: [DONE]\n\n"


def _anthropic(says: Says) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return _data({"type": kind, **fields}, kind)

    usage = {
        "input_tokens": USAGE["input"] - USAGE["cached"],
        "cache_read_input_tokens": USAGE["cached"],
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    empty: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "wire",
        "stop_reason": None,
        "stop_sequence": None,
    }
    yield event("message_start", message={**empty, "usage": usage})
    index = 0
    if says.reasoning:
        yield event(
            "content_block_start",
            index=index,
            content_block={"type": "thinking", "thinking": "", "signature": ""},
        )
        for word in words(says.reasoning):
            yield event(
                "content_block_delta",
                index=index,
                delta={"type": "thinking_delta", "thinking": word},
            )
        yield event(
            "content_block_delta",
            index=index,
            delta={"type": "signature_delta", "signature": says.signature},
        )
        yield event("content_block_stop", index=index)
        index += 1
    if says.text:
        yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for word in words(says.text):
            yield event(
                "content_block_delta", index=index, delta={"type": "text_delta", "text": word}
            )
        yield event("content_block_stop", index=index)
        index += 1
    for call in says.calls:
        yield event(
            "content_block_start",
            index=index,
            content_block={"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
        )
        yield event(
            "content_block_delta",
            index=index,
            delta={"type": "input_json_delta", "partial_json": _arguments(call)},
        )
        yield event("content_block_stop", index=index)
        index += 1
    stop = (
        {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}[says.stop]
        if not says.calls
        else "tool_use"
    )
    yield event(
        "message_delta",
        delta={"stop_reason": stop, "stop_sequence": None},
        usage={"output_tokens": USAGE["output"]},
    )
    yield event("message_stop")


def _google(says: Says) -> Iterator[str]:
    def chunk(part: dict[str, Any] | None, finish: str | None = None) -> str:
        candidate: dict[str, Any] = {
            "content": {"parts": [part] if part else [], "role": "model"},
            "index": 0,
        }
        if finish:
            candidate["finishReason"] = finish
        usage = {
            "promptTokenCount": USAGE["input"],
            "cachedContentTokenCount": USAGE["cached"],
            "candidatesTokenCount": USAGE["output"],
            "totalTokenCount": USAGE["input"] + USAGE["output"],
        }
        return _data(
            {
                "candidates": [candidate],
                "usageMetadata": usage,
                "modelVersion": "wire",
                "responseId": "resp_1",
            }
        )

    yield from (chunk({"text": word, "thought": True}) for word in words(says.reasoning))
    pieces = words(says.text)
    for number, word in enumerate(pieces):
        signed = (
            {"thoughtSignature": says.signature}
            if says.reasoning and number == len(pieces) - 1 and not says.calls
            else {}
        )
        yield chunk({"text": word, **signed})
    for number, call in enumerate(says.calls):
        signed = {"thoughtSignature": says.signature} if says.reasoning and number == 0 else {}
        yield chunk({"functionCall": {"name": call.name, "args": call.arguments}, **signed})
    yield chunk(None, {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}[says.stop])


def _responses(says: Says) -> Iterator[str]:
    number = 0

    def event(kind: str, **fields: Any) -> str:
        nonlocal number
        number += 1
        return _data({"type": kind, "sequence_number": number, **fields}, kind)

    yield event("response.created", response=_response("in_progress", []))
    items: list[dict[str, Any]] = []
    if says.reasoning:
        summary = [{"type": "summary_text", "text": says.reasoning}]
        item: dict[str, Any] = {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": None,
        }
        place: dict[str, Any] = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        yield event("response.output_item.added", output_index=0, item=item)
        yield event(
            "response.reasoning_summary_part.added",
            **place,
            part={"type": "summary_text", "text": ""},
        )
        yield from (
            event("response.reasoning_summary_text.delta", **place, delta=word)
            for word in words(says.reasoning)
        )
        yield event("response.reasoning_summary_text.done", **place, text=says.reasoning)
        items.append({**item, "summary": summary, "encrypted_content": says.signature})
        yield event("response.output_item.done", output_index=0, item=items[-1])
    if says.text:
        index = len(items)
        item = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        place = {"item_id": "msg_1", "output_index": index, "content_index": 0}
        yield event("response.output_item.added", output_index=index, item=item)
        yield event(
            "response.content_part.added",
            **place,
            part={"type": "output_text", "text": "", "annotations": []},
        )
        yield from (
            event("response.output_text.delta", **place, delta=word, logprobs=[])
            for word in words(says.text)
        )
        yield event("response.output_text.done", **place, text=says.text, logprobs=[])
        content: list[dict[str, Any]] = [
            {"type": "output_text", "text": says.text, "annotations": []}
        ]
        items.append({**item, "status": "completed", "content": content})
        yield event("response.output_item.done", output_index=index, item=items[-1])
    for call in says.calls:
        index = len(items)
        item = {
            "type": "function_call",
            "id": f"fc_{index}",
            "call_id": call.id,
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
            **({"namespace": call.namespace} if call.namespace else {}),
        }
        yield event("response.output_item.added", output_index=index, item=item)
        yield event(
            "response.function_call_arguments.delta",
            item_id=item["id"],
            output_index=index,
            delta=_arguments(call),
        )
        items.append({**item, "arguments": _arguments(call), "status": "completed"})
        yield event("response.output_item.done", output_index=index, item=items[-1])
    reasons = {"length": {"reason": "max_output_tokens"}, "refusal": {"reason": "content_filter"}}
    if says.stop in reasons:
        yield event(
            "response.incomplete",
            response={**_response("incomplete", items), "incomplete_details": reasons[says.stop]},
        )
    else:
        yield event("response.completed", response=_response("completed", items))


def _response(status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": USAGE["input"],
        "input_tokens_details": {"cached_tokens": USAGE["cached"]},
        "output_tokens": USAGE["output"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": USAGE["input"] + USAGE["output"],
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "wire",
        "status": status,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": usage if status != "in_progress" else None,
    }


_WIRES: Mapping[Wire, Callable[[Says], Iterator[str]]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "google": _google,
}
