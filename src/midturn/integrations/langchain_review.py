"""Reads the interrupts of LangChain's `HumanInTheLoopMiddleware`, and returns the decisions that
this middleware expects. Does not import LangChain.
"""

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
"""Id of the question that asks a person for the result of a tool."""


class ReviewedCall(Struct, frozen=True):
    """A call that needs a person's decision. `allowed` contains the kinds of decisions that the
    middleware accepts for it.
    """

    name: str
    arguments: JsonObject
    allowed: frozenset[str]
    description: str = ""
    schema: JsonObject | None = None
    """JSON Schema of the arguments, if the interrupt contains it."""


class LangchainReview(Struct, frozen=True):
    """The calls of one interrupt. If `is_single` is true, the interrupt expects one decision, not a
    list.
    """

    actions: tuple[ReviewedCall, ...]
    is_single: bool = False


def review_of(value: object, schema: object) -> LangchainReview | None:
    """Return the calls of an interrupt by the middleware, or None for any other interrupt."""
    asked = fields(value)
    if asked.get("type") == "tool_approval" and isinstance(asked.get("name"), str):
        return LangchainReview(
            (_reviewed_call(asked, frozenset(_allowed_decisions(schema)), _edited_schema(schema)),),
            is_single=True,
        )
    requests, configs = asked.get("action_requests"), asked.get("review_configs")
    if not isinstance(requests, list) or not isinstance(configs, list) or not requests:
        return None
    allowed = {
        str(fields(config).get("action_name")): fields(config).get("allowed_decisions", ())
        for config in cast("list[object]", configs)
    }
    named = [fields(request) for request in cast("list[object]", requests)]
    return LangchainReview(
        tuple(
            _reviewed_call(request, frozenset(map(str, allowed.get(str(request.get("name")), ()))))
            for request in named
        )
    )


async def decide(
    inquirer: Inquirer, action: ReviewedCall, call_id: str, schema: JsonObject | None
) -> dict[str, Json]:
    """Ask for permission to run a call, and return the decision in the middleware's format. The
    person may edit the arguments. The edited arguments must match the JSON Schema `schema`.

    Raises:
        Suspended: The call is not decided yet.
        CallEnded: A person ended the turn, or refused the call although the middleware does not
            accept a rejection.
    """
    if not action.allowed & {"approve", "edit"}:
        return await _ask_for_result(inquirer, action, call_id)

    async def run(call: InquirerCall) -> dict[str, Json]:
        arguments = call.context.arguments
        is_edited = not json_equal(arguments, action.arguments)
        if is_edited and "edit" not in action.allowed:
            raise Rejected(
                f"The arguments of `{action.name}` were edited, which is not among its allowed"
                " decisions. It did not run."
            )
        if is_edited or "approve" not in action.allowed:
            return {"type": "edit", "edited_action": {"name": action.name, "args": arguments}}
        return {"type": "approve"}

    content = await inquirer.run(
        action.name, call_id, action.arguments, run, occurrence=1, permission=True, schema=schema
    )
    if content.turn_ended:
        raise _turn_ended(content)
    if not content.is_error:
        return _read_decision(content)
    if "reject" not in action.allowed:
        allow = (
            f"{content} The middleware does not accept a rejection of `{action.name}`, so no call"
            " runs. Add `reject` to its `allowed_decisions`."
        )
        raise CallEnded(allow, is_error=True)
    return {"type": "reject", "message": str(content)}


async def _ask_for_result(
    inquirer: Inquirer, action: ReviewedCall, call_id: str
) -> dict[str, Json]:
    """Ask a person for the result of a tool whose only allowed decision is a response."""
    question = Question.text(
        RESPONSE, f"What is the result of `{action.name}`?", context=action.description or None
    )

    async def run(call: InquirerCall) -> dict[str, Json]:
        return {"type": "respond", "message": await call.ask(question)}

    content = await inquirer.run(action.name, call_id, action.arguments, run, occurrence=1)
    if content.turn_ended:
        raise _turn_ended(content)
    return (
        _read_decision(content)
        if not content.is_error
        else {"type": "respond", "message": str(content)}
    )


def _turn_ended(content: CallContent) -> CallEnded:
    return CallEnded(content, is_error=content.is_error, turn_ended=True)


def _read_decision(content: CallContent) -> dict[str, Json]:
    (decision,) = (
        line for line in content.split("\n") if line.startswith("{")
    )  # the content may start with a note about an edit
    return msgspec.json.decode(decision, type=dict[str, Any])


def _reviewed_call(
    request: Mapping[str, Any], allowed: frozenset[str], schema: JsonObject | None = None
) -> ReviewedCall:
    description = request.get("description")
    arguments = json_object(request.get("args", request.get("arguments")))
    return ReviewedCall(
        str(request["name"]),
        arguments,
        allowed,
        description if isinstance(description, str) else "",
        schema,
    )


def _allowed_decisions(schema: object) -> Sequence[str]:
    """Return the kinds of decisions that a JSON Schema allows: the constants of the property
    `type` in its branches.
    """
    found: list[str] = []
    for branch in _branches(schema):
        kind = fields(fields(branch.get("properties")).get("type"))
        found += (
            [str(kind["const"])]
            if "const" in kind
            else [str(value) for value in kind.get("enum", ())]
        )
    return found


def _edited_schema(schema: object) -> JsonObject | None:
    """Return the JSON Schema of edited arguments, if the schema of the decisions contains it."""
    for branch in _branches(schema):
        action = _resolve(schema, fields(branch.get("properties")).get("edited_action"))
        arguments = _resolve(schema, fields(action.get("properties")).get("args"))
        if "properties" in arguments:
            return json_object({**arguments, "$defs": fields(schema).get("$defs", {})})
    return None


def _branches(schema: object) -> Sequence[Mapping[str, Any]]:
    known = fields(schema)
    return [
        _resolve(schema, branch)
        for branch in [*known.get("oneOf", ()), *known.get("anyOf", ())] or [known]
    ]


def _resolve(schema: object, part: object) -> Mapping[str, Any]:
    """Return a part of a schema. If the part is a reference, return the referenced definition."""
    named = str(fields(part).get("$ref", "")).rpartition("/")[2]
    return fields(fields(fields(schema).get("$defs")).get(named)) or fields(part)
