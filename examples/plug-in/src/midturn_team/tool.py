"""A tool for every configuration: `[conversation.tools.on_call] plugin = "on_call"`."""

import midturn as mt


@mt.tool
async def on_call(ctx: mt.ToolContext) -> str:
    """Say who is on call, once a person has agreed to wake them."""
    if not await ctx.ask(mt.Question.boolean("wake", "Wake the person on call?")):
        return "The person on call is left alone."
    return "ana is on her way."
