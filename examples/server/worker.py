"""A worker of a web server, without the web: each line of stdin is a request, each line of stdout
is a message for a browser.

    $ python examples/server/worker.py var/conversations
    {"do": "run", "text": "Ship it"}
    {"conversation": "1795267601123456", "status": "suspended", "questions": [{"id":
    "1795267601123456-gxmmdckrm7q4", …}]} {"do": "answer", "id": "1795267601123456-gxmmdckrm7q4",
    "value": true, "user": "u42"} {"do": "resume", "conversation": "1795267601123456"}

The turn waits on disk: any worker, including one started later, can take the answer and resume. A
request with `"stay": true` keeps its turn running instead: it shows questions when they are asked
and is notified when another worker has taken the answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import midturn as mt

HERE = Path(__file__).parent


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service to an environment."""
    if not await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?", exclusive=True)):
        raise mt.Rejected("Not deployed.")
    region = await ctx.ask(
        mt.Question.select("region", "Which region?", ["eu-1", "us-2"], default="eu-1")
    )
    return f"{env} is live in {region}."


def may_answer(question: mt.OpenQuestion, user: str | None) -> bool:
    """Only signed-in users may answer, and only release managers may allow a deployment."""
    return user is not None and (user.startswith("rm-") or not question.question.exclusive)


class Page(mt.Prompter):
    """The page of the user who sent the request, while it is open.

    It shows any number of questions at once.
    """

    concurrent = True
    via = "web"

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Show the question. The answer arrives as a separate request, to this worker or
        another.
        """
        show({"asked": prompt.id, "text": prompt.question.text})
        await asyncio.Event().wait()
        return mt.Unavailable()

    def withdrawn(self, id: str, by: str) -> None:
        """Remove the question from the page and show the responder."""
        show({"withdrawn": id, "by": by})


class Worker:
    """Handles requests. All lasting state is in the store."""

    def __init__(self, conversations: str, model: str) -> None:
        self.agent = mt.Agent(
            model, tools=[deploy], store=mt.open_store(conversations, may_answer=may_answer)
        )

    async def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Handle a request."""
        match request:
            case {"do": "run", "text": str(text)}:
                page = Page() if request.get("stay") else None
                return shown(await self.agent.run(text, author=request.get("user"), prompter=page))
            case {"do": "questions"}:
                return {
                    "questions": [
                        question.to_json() for question in await self.agent.store.pending()
                    ]
                }
            case {"do": "answer", "id": str(id), "value": value}:
                receipt = await self.agent.store.answer(
                    id, value, user=request.get("user"), via="web"
                )
                return {"answered": receipt.id, "conversation": receipt.conversation}
            case {"do": "resume", "conversation": str(conversation)}:
                return shown(await self.agent.resume(conversation))
            case _:
                return {"error": f"unknown request: {request}"}

    async def handle_line(self, line: bytes) -> None:
        """Handle one line; errors of a request are sent to the browser."""
        try:
            show(await self.handle(json.loads(line)))
        except (mt.MidturnError, ValueError) as error:
            show({"error": type(error).__name__, "message": str(error)})


def shown(result: mt.RunResult) -> dict[str, Any]:
    """Return the message for the browser about a turn."""
    questions = [question.to_json() for question in result.pending]
    return {
        "conversation": result.conversation,
        "status": result.status,
        "text": result.text,
        "questions": questions,
    }


def show(message: dict[str, Any]) -> None:
    """Send a message to the browser."""
    print(json.dumps(message), flush=True)


async def serve(worker: Worker) -> None:
    """Handle the lines of stdin concurrently until it is closed."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    async with asyncio.TaskGroup() as requests:
        async for line in lines:
            requests.create_task(worker.handle_line(line))


if __name__ == "__main__":
    conversations, model = [*sys.argv[1:], f"scripted:{HERE / 'play.toml'}"][:2]
    asyncio.run(serve(Worker(conversations, model)))
