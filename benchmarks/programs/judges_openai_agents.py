# pyright: basic
"""An evaluation with several judges on the OpenAI Agents SDK: an approval per ticket, a run per
judge.

An approval is yes or no, so the verdict is passed to the tool in the context of the run.
"""

import asyncio
import json
from collections import Counter

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

TICKETS = {
    "T1": "I was charged twice for my order.",
    "T2": "The app closes when I open a photo.",
    "T3": "How do I change my address?",
    "T4": "My invoice shows the wrong name, and I can't change it.",
}
KINDS = ["billing", "bug", "how-to"]
JUDGES = {
    "ana": {"T1": "billing", "T2": "bug", "T3": "how-to", "T4": "billing"},
    "bo": {"T1": "billing", "T2": "bug", "T3": "how-to", "T4": "bug"},
    "cy": {"T1": "bug", "T2": "bug", "T3": "how-to", "T4": "billing"},
}
QUIET = RunConfig(tracing_disabled=True)


@function_tool(needs_approval=True)
def judge(context: ToolContext[dict[str, str]], ticket: str) -> str:
    """Return the verdict on a ticket."""
    return context.context[ticket]


def ask(name: str, ticket: str) -> str:
    """Ask a judge. An invalid verdict is asked for again."""
    kind = ""
    while kind not in KINDS:
        kind = JUDGES[name][ticket]
    return kind


async def judged(name: str) -> dict[str, str]:
    """Ask a judge about every ticket; return the verdicts by ticket."""
    calls = [function_call("judge", {"ticket": ticket}, call_id=ticket) for ticket in TICKETS]
    said: dict[str, str] = {}
    agent = Agent(
        name="Judge", model=ScriptedModel([calls, [assistant_message("Judged.")]]), tools=[judge]
    )
    result = await Runner.run(agent, "Judge these tickets.", context=said, run_config=QUIET)
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            ticket = json.loads(item.arguments or "{}")["ticket"]
            said[ticket] = ask(name, ticket)
            state.approve(item)
        result = await Runner.run(agent, state, run_config=QUIET)
    return said


async def main() -> None:
    """Ask every judge about every ticket, and compare."""
    record = dict(
        zip(JUDGES, await asyncio.gather(*(judged(name) for name in JUDGES)), strict=True)
    )
    most = {
        ticket: Counter(said[ticket] for said in record.values()).most_common(1)[0][0]
        for ticket in TICKETS
    }
    for name, said in record.items():
        agreed = sum(said[ticket] == most[ticket] for ticket in TICKETS)
        print(f"{name} agrees with most about {agreed} of {len(TICKETS)} tickets")


if __name__ == "__main__":
    asyncio.run(main())
