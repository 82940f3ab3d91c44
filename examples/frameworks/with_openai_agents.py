"""An agent of the OpenAI Agents SDK with a tool that asks and a tool that needs approval.

The state between two runs is JSON.

    $ python examples/frameworks/with_openai_agents.py

No one is there to answer, so each run ends at a question, and the next run continues.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, RunConfig, RunState, ToolCallOutputItem
from agents.testing import ScriptedModel, assistant_message, function_call

import midturn as mt
from midturn.integrations.openai_agents import Asking

CALLS = [
    function_call("deploy", {"env": "staging"}, call_id="call_1"),
    function_call("drop", {"table": "old"}, call_id="call_2"),
]
MODEL = ScriptedModel([CALLS, [assistant_message("Both are done.")]])


async def deploy(env: str) -> str:
    """Deploy the service."""
    region = await mt.ask(mt.Question.select("region", f"Where does {env} go?", ["eu-1", "us-2"]))
    return f"{env} is live in {region}."


def drop(table: str) -> str:
    """Drop a table."""
    return f"{table} is gone."


async def main() -> None:
    """Run until the turn is over. Each run could be in another process, on another day."""
    store = mt.MemoryStore()
    conversation, saved = await store.new("Ship it."), ""
    answers = {"region": "us-2", "__run__": True}
    while True:
        asking = Asking(mt.Inquirer(store, conversation))
        agent = Agent[Any](
            name="Shop",
            model=MODEL,
            tools=[asking.tool(deploy), asking.tool(drop, needs_approval=True)],
        )
        given = await RunState.from_json(agent, json.loads(saved)) if saved else "Ship it."
        result = await asking.run(agent, given, run_config=RunConfig(tracing_disabled=True))
        if not result.interruptions:
            print(
                *(item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)),
                result.final_output,
            )
            return
        saved = json.dumps(result.to_state().to_json())
        for question in await store.pending(conversation):
            print(f"{question.tool}: {question.question.text}")
            await store.answer(question.id, answers[question.question_id], user="u42")


if __name__ == "__main__":
    asyncio.run(main())
