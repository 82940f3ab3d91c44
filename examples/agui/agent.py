"""An agent with a page: it asks a form, an approval with arguments that can be edited, and a
question with a deadline. The model is scripted, so no key is needed.

$ python examples/agui/agent.py
"""

from __future__ import annotations

import argparse
import getpass
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import uvicorn
from page_server import read_token, site

import midturn as mt

PLAN = mt.Form(
    [
        mt.Question.text(
            "version",
            "Which version?",
            pattern=r"^\d+\.\d+$",
            max_length=20,
            context="Two numbers, such as 2.4.",
        ),
        mt.Question.select(
            "where",
            "Where to?",
            [
                mt.SelectOption("staging", "for the team"),
                mt.SelectOption("production", "for all customers"),
            ],
            allow_other=True,
        ),
        mt.Question.multi_select(
            "checks", "Which checks?", ["tests", "load", "security"], min=1, max=2
        ),
        mt.Question.number("percent", "Per cent of users first?", type=int, min=1, max=100),
        mt.Question.schema("day", "On which day?", {"type": "string", "format": "date"}),
        mt.Question.boolean("tell", "Tell the customers?"),
        mt.Question.text(
            "words", "What shall we tell them?", when=mt.When("tell", equals=True), optional=True
        ),
    ]
)
SCRIPT = (
    {"text": "Let us plan the release first.", "calls": [{"name": "plan"}]},
    {
        "text": "The plan is complete. I would run this now:",
        "calls": [
            {
                "name": "deploy",
                "arguments": {"service": "shop", "replicas": 3, "region": "eu", "dry_run": False},
            }
        ],
    },
    {"text": "One more question, and it has a deadline.", "calls": [{"name": "announce"}]},
    {"text": "That is all. Send another message to start again."},
)


@mt.tool
async def plan(ctx: mt.ToolContext) -> str:
    """Plan a release with the user."""
    answers = await ctx.ask_form(PLAN)
    return json.dumps(answers.to_json())


@mt.tool(run="ask")
async def deploy(
    service: str,
    replicas: Annotated[int, msgspec.Meta(ge=1, le=9)],
    region: Literal["eu", "us"],
    *,
    dry_run: bool,
) -> str:
    """Deploy a service. The user approves each call, and can change its arguments."""
    return f"{service} runs {replicas} times in {region}{' (dry run)' if dry_run else ''}."


def announcement(deadline: str) -> mt.FunctionTool[..., Any]:
    """Return the tool that asks a question with a deadline."""

    @mt.tool
    async def announce(ctx: mt.ToolContext) -> str:
        """Announce the release."""
        question = mt.Question.boolean("now", "Announce the release now?", deadline=deadline)
        try:
            is_wanted = await ctx.ask(question)
        except mt.NotAnswered:
            return "Nobody answered in time. Nothing is announced."
        return "Announced." if is_wanted else "Not announced."

    return announce


def main() -> None:
    """Serve the page until the process is stopped."""
    parser = argparse.ArgumentParser(description="Serve an agent with a page")
    parser.add_argument("--port", type=int, default=7480)
    parser.add_argument("--folder", type=Path, default=Path("agui-data"))
    parser.add_argument("--user", default=getpass.getuser(), help="name recorded with answers")
    parser.add_argument("--deadline", default="2m", help="time limit of the last question")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    replies = [{**reply, "chunk": 4, "delay_ms": 400} for reply in SCRIPT]
    agent = mt.Agent(
        mt.ScriptedModel(replies * 100),  # the user can start again
        tools=[plan, deploy, announcement(options.deadline)],
        store=mt.open_store(options.folder / "conversations"),
    )
    token = read_token(options.folder / "token")
    app = site(agent, user=options.user, token=token)
    print(f"http://127.0.0.1:{options.port}/?token={token}", flush=True)
    uvicorn.run(app, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
