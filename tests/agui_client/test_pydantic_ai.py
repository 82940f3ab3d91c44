"""An agent of Pydantic AI, served by its AG-UI adapter. It keeps nothing between runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

pytest.importorskip("ag_ui", reason="needs the development dependency `ag-ui-protocol`")
pytest.importorskip("pydantic_ai", reason="needs the extra `pydantic-ai`")

from pydantic_ai import Agent, DeferredToolRequests, ToolReturnPart
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter

from midturn.integrations import agui
from support.a2a_remote import listening
from support.agui import call, scripted


def _deployer(paid: list[int]) -> Any:
    async def respond(
        messages: list[ModelMessage], _: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            yield f"Result: {last.content}"
        else:
            yield {0: DeltaToolCall(name="pay", json_args='{"amount": 500}', tool_call_id="c1")}

    model = FunctionModel(stream_function=respond)
    agent: Any = Agent(model, output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    async def run(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return Starlette(routes=[Route("/", run, methods=["POST"])])


@pytest.mark.parametrize(
    ("decisions", "expected", "amounts"),
    [
        (["approve"], "paid 500", [500]),
        (["approve with other arguments", {"amount": 5}], "paid 5", [5]),
        (["refuse"], "Result: ", []),
    ],
)
def test_approval_of_pydantic_ai(decisions: list[Any], expected: str, amounts: list[int]) -> None:
    async def scene() -> None:
        paid: list[int] = []
        async with listening(_deployer(paid)) as url:
            remote = agui.tool(f"{url}/", name="remote", description="Pays.")
            script = (call("remote", message="Pay."), {"text": "Done."})
            agent = scripted(*script, tools=[remote])
            ended = await agent.run("Go.")
            assert ended.status == "suspended"
            assert '{"amount":500}' in (ended.pending[0].question.context or "")
            for decision in decisions:
                assert paid == []
                (question,) = ended.pending
                await agent.store.answer(question, decision)
                ended = await agent.resume(ended.conversation)
            assert ended.status == "completed"
            assert paid == amounts
            events: Any = (await agent.store.read(ended.conversation)).events
            found = next(each for each in events if each.type == "tool_call_response")
            assert expected in found.content

    asyncio.run(scene())
