"""An agent that asks before it deploys.

The two applications in this directory show its questions on a page.
"""

from __future__ import annotations

import midturn as mt


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service to an environment."""
    if not await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?", exclusive=True)):
        raise mt.Rejected("Not deployed.")
    region = await ctx.ask(
        mt.Question.select("region", "Which region?", ["eu-1", "us-2"], default="eu-1")
    )
    return f"{env} is live in {region}."


def build_agent() -> mt.Agent:
    """Return the agent.

    A real one names a model and stores its conversations:
    `store=mt.open_store("var/conversations")`.
    """
    model = mt.ScriptedModel(
        [
            {
                "text": "I deploy it.",
                "calls": [{"name": "deploy", "arguments": {"env": "production"}}],
            },
            {"text": "It is live."},
        ]
    )
    return mt.Agent(model, tools=[deploy], store=mt.MemoryStore())
