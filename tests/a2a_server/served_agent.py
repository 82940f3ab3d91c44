"""A server that a test kills and starts again: `python served_agent.py STORE PORT`."""

from __future__ import annotations

import sys

import uvicorn

import midturn as mt
from midturn.integrations import a2a


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"deployed to {await ctx.ask(mt.Question.text('where', 'Where to?'))}"


def main(store: str, port: int) -> None:
    """Serve the agent until killed."""
    model = mt.ScriptedModel([{"calls": [{"name": "deploy", "arguments": {}}]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[deploy], store=mt.open_store(store))
    card = {"name": "D", "description": "Deploys.", "url": f"http://127.0.0.1:{port}"}
    app = a2a.app(agent, user=lambda request: request.headers.get("x-user"), card=card)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
