"""An agent with one tool that asks two questions: whether to deploy, and where.

`python examples/first_agent.py` runs it with a scripted model. You answer at this terminal;
without a terminal, a script answers. Pass a model ID (`… anthropic/claude-sonnet-5-5`) to use a
real model.
"""

from __future__ import annotations

import sys

import midturn as mt


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:  # noqa: D417  the model does not see `ctx`
    """Deploy the service.

    Args:
        env: Target environment.
    """
    if not await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?", exclusive=True)):
        raise mt.Rejected("Not deployed.")
    region = await ctx.ask(
        mt.Question.select("region", "Which region?", ["eu-1", "us-2"], default="eu-1")
    )
    return f"{env} is live in {region}."


SCRIPT = mt.ScriptedModel(
    [
        {
            "text": "I will deploy it.",
            "calls": [{"name": "deploy", "arguments": {"env": "staging"}}],
        },
        {"text": "That is all."},
    ]
)


class Person(mt.Prompter):
    """The user at this terminal or, without one, a script."""

    def __init__(self) -> None:
        self._terminal = mt.TerminalPrompter()
        self._script = mt.ScriptedPrompter({"deploy.confirm": True, "deploy.region": "us-2"})

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Ask the user first."""
        reply = await self._terminal.prompt(prompt)
        return await self._script.prompt(prompt) if isinstance(reply, mt.Unavailable) else reply


def main(model: mt.Model | str) -> None:
    """Run one turn and print its result."""
    agent = mt.Agent(model, tools=[deploy], instructions="You run our services.")
    result = agent.run_sync("Ship it.", prompter=Person())
    print(result.text)
    for request, response in agent.store.read_sync(result.conversation).pairs():
        match response:
            case mt.events.InquiryAnswered(answer=answer):
                print(f"{request.question.text} {answer}")
            case _:
                print(f"{request.question.text} (no answer)")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else SCRIPT)
