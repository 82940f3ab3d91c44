"""An evaluation with several judges who answer the same questions.

Their agreement is computed from the log.

$ python examples/programs/judges.py

The judges are scripted here. `mt.TerminalPrompter()` asks a person instead; a route to the
assistant asks a model.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import midturn as mt

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


@mt.tool
async def judge(ticket: str) -> str:
    """Have a ticket judged."""
    return await mt.ask(
        mt.Question.select("kind", f"{ticket}: {TICKETS[ticket]} What is it about?", KINDS)
    )


def scripted(name: str) -> mt.ScriptedPrompter:
    """Return a judge with scripted verdicts."""
    return mt.ScriptedPrompter(
        {"judge.kind": lambda prompt: mt.Answered(JUDGES[name][str(prompt.arguments["ticket"])])},
        user=name,
    )


async def main() -> None:
    """Ask every judge about every ticket, and compare."""
    calls = [{"name": "judge", "arguments": {"ticket": ticket}} for ticket in TICKETS]
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": calls}, {"text": "Judged."}]),
        tools=[judge],
        store=mt.MemoryStore(),
    )
    runs = await asyncio.gather(
        *(agent.run("Judge these tickets.", prompter=scripted(name)) for name in JUDGES)
    )
    said: dict[str, dict[str, object]] = defaultdict(dict)  # each judge's verdicts, by ticket
    for result in runs:
        for pair in (await agent.store.read(result.conversation)).pairs():
            if isinstance(pair.response, mt.events.InquiryAnswered) and pair.response.answered_by:
                said[pair.request.question.text.partition(":")[0]][
                    pair.response.answered_by.user or ""
                ] = pair.response.answer
    most = {
        ticket: Counter(answers.values()).most_common(1)[0][0] for ticket, answers in said.items()
    }
    for name in JUDGES:
        agreed = sum(answers[name] == most[ticket] for ticket, answers in said.items())
        print(f"{name} agrees with most about {agreed} of {len(said)} tickets")


if __name__ == "__main__":
    asyncio.run(main())
