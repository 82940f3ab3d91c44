"""Interrupts of LangChain's `HumanInTheLoopMiddleware` and the decisions that it takes, by their shape: LangChain is not imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import InquirerCall
from midturn.errors import CallEnded
from midturn.integrations.langgraph_values import fields, json_object
from midturn.question.json_value import Json, JsonObject, json_equal
from midturn.question.question import Question
from midturn.runtime.external_loop import CallContent
from midturn.tools.returned import Rejected

RESPONSE = "response"
"""The id of the question where a person answers on behalf of a tool."""


class Action(Struct, frozen=True):
    """A call that a person decides about; `allowed` are the decisions that the middleware takes."""

    name: str
    arguments: JsonObject
    allowed: frozenset[str]
    description: str = ""
    schema: JsonObject | None = None
    """JSON Schema of the arguments, where the interrupt has it."""


class LangchainReview(Struct, frozen=True):
    """The calls of one interrupt. `is_single`: its answer is one decision, and not a list of them."""

    actions: tuple[Action, ...]
    is_single: bool = False


def review_of(value: object, schema: object) -> LangchainReview | None:
    """Return what an interrupt of the middleware asks; None of another interrupt."""
    asked = fields(value)
    if asked.get("type") == "tool_approval" and isinstance(asked.get("name"), str):
        return LangchainReview((_action(asked, frozenset(_decisions_in(schema)), _edited_schema(schema)),), is_single=True)
    requests, configs = asked.get("action_requests"), asked.get("review_configs")
    if not isinstance(requests, list) or not isinstance(configs, list) or not requests:
        return None
    allowed = {
        str(fields(config).get("action_name")): fields(config).get("allowed_decisions", ()) for config in cast("list[object]", configs)
    }
    named = [fields(request) for request in cast("list[object]", requests)]
    return LangchainReview(tuple(_action(request, frozenset(map(str, allowed.get(str(request.get("name")), ())))) for request in named))


async def decided(inquirer: Inquirer, action: Action, call_id: str, schema: JsonObject | None) -> dict[str, Json]:
    """Return a person's decision about a call, as the middleware takes it: asked as a permission, whose arguments may be edited.

    An edit that does not fit `schema`, the JSON Schema of the arguments, is refused to its author.

    Raises:
        Suspended: It is not decided yet.
        CallEnded: A person has ended the turn, or has said no where the middleware takes no rejection.
    """
    if not action.allowed & {"approve", "edit"}:
        return await _responded(inquirer, action, call_id)

    async def run(call: InquirerCall) -> dict[str, Json]:
        arguments = call.context.arguments
        is_edited = not json_equal(arguments, action.arguments)
        if is_edited and "edit" not in action.allowed:
            raise Rejected(f"The arguments of `{action.name}` were edited, which is not among its allowed decisions. It did not run.")
        if is_edited or "approve" not in action.allowed:
            return {"type": "edit", "edited_action": {"name": action.name, "args": arguments}}
        return {"type": "approve"}

    content = await inquirer.run(action.name, call_id, action.arguments, run, occurrence=1, permission=True, schema=schema)
    if content.turn_ended:
        raise _ended(content)
    if not content.is_error:
        return _read(content)
    if "reject" not in action.allowed:
        allow = f"{content} The middleware takes no rejection of `{action.name}`: add `reject` to its `allowed_decisions`. Nothing runs."
        raise CallEnded(allow, is_error=True)
    return {"type": "reject", "message": str(content)}


async def _responded(inquirer: Inquirer, action: Action, call_id: str) -> dict[str, Json]:
    """Ask a person for the result of a tool that people answer for."""
    question = Question.text(RESPONSE, f"What is the result of `{action.name}`?", context=action.description or None)

    async def run(call: InquirerCall) -> dict[str, Json]:
        return {"type": "respond", "message": await call.ask(question)}

    content = await inquirer.run(action.name, call_id, action.arguments, run, occurrence=1)
    if content.turn_ended:
        raise _ended(content)
    return _read(content) if not content.is_error else {"type": "respond", "message": str(content)}


def _ended(content: CallContent) -> CallEnded:
    return CallEnded(content, is_error=content.is_error, turn_ended=True)


def _read(content: CallContent) -> dict[str, Json]:
    (decision,) = (line for line in content.split("\n") if line.startswith("{"))  # the note about an edit comes before it
    return msgspec.json.decode(decision, type=dict[str, Any])


def _action(request: Mapping[str, Any], allowed: frozenset[str], schema: JsonObject | None = None) -> Action:
    description = request.get("description")
    arguments = json_object(request.get("args", request.get("arguments")))
    return Action(str(request["name"]), arguments, allowed, description if isinstance(description, str) else "", schema)


def _decisions_in(schema: object) -> Sequence[str]:
    """Return the kinds of decisions that a JSON Schema allows: the constants of the property `type`, one in each of its branches."""
    found: list[str] = []
    for branch in _branches(schema):
        kind = fields(fields(branch.get("properties")).get("type"))
        found += [str(kind["const"])] if "const" in kind else [str(value) for value in kind.get("enum", ())]
    return found


def _edited_schema(schema: object) -> JsonObject | None:
    """Return the JSON Schema of the arguments of an edit, if the schema of the decisions has it."""
    for branch in _branches(schema):
        action = _target(schema, fields(branch.get("properties")).get("edited_action"))
        arguments = _target(schema, fields(action.get("properties")).get("args"))
        if "properties" in arguments:
            return json_object({**arguments, "$defs": fields(schema).get("$defs", {})})
    return None


def _branches(schema: object) -> Sequence[Mapping[str, Any]]:
    known = fields(schema)
    return [_target(schema, branch) for branch in [*known.get("oneOf", ()), *known.get("anyOf", ())] or [known]]


def _target(schema: object, part: object) -> Mapping[str, Any]:
    """Return a part of a schema, or the definition that it refers to."""
    named = str(fields(part).get("$ref", "")).rpartition("/")[2]
    return fields(fields(fields(schema).get("$defs")).get(named)) or fields(part)
