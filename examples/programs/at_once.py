"""Two calls of one turn ask at once, and one tool asks three people at once.

$ python examples/programs/at_once.py
"""

from __future__ import annotations

import asyncio

import midturn as mt

WHO = ("Ada", "Bob", "Eve")


@mt.tool
async def invite(to: str) -> str:
    """Invite everybody."""

    async def ask(name: str) -> str | None:
        match await mt.try_ask(
            mt.Question.boolean(name.lower(), f"{name}, will you come to the {to}?")
        ):
            case mt.Answer(value):
                return name if value else None
            case mt.Unanswered(_, reply):
                return f"{name} ({reply})"

    coming = await asyncio.gather(*map(ask, WHO))
    return f"To the {to} come: {', '.join(name for name in coming if name) or 'nobody'}."


class Phones(mt.Prompter):
    """Simulates three people with a phone each, with any number of open questions."""

    concurrent = True
    via = "phone"

    def __init__(self, at_once: int) -> None:
        self.ringing = asyncio.Barrier(at_once)

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Wait until every phone has its question."""
        await self.ringing.wait()
        return (
            mt.Replied("only for the cake")
            if prompt.question.id == "eve"
            else mt.Answered(prompt.question.id == "ada")
        )


def main() -> None:
    """Let the model call the tool twice at once."""
    calls = [{"name": "invite", "arguments": {"to": to}} for to in ("party", "meeting")]
    phones, agent = (
        Phones(len(calls) * len(WHO)),
        mt.Agent(
            mt.ScriptedModel([{"calls": calls}, {"text": "Everybody is asked."}]), tools=[invite]
        ),
    )
    result = agent.run_sync("Invite everybody.", prompter=phones)
    events = agent.store.read_sync(result.conversation).events
    print(
        *(event.content for event in events if isinstance(event, mt.events.ToolCallResponse)),
        result.text,
        sep="\n",
    )
    print(f"{phones.ringing.parties} questions were open at once.")


if __name__ == "__main__":
    main()
