"""The question layer in your own loop, without midturn's models or agents.

    $ python examples/own_loop.py var/conversations

The fake framework makes one tool call. No one is there to answer, so it stops. After somebody has
answered, the same call is made again and continues.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import midturn as mt

CONFIRM = mt.Question.boolean("confirm", "Deploy to staging?", exclusive=True)
REGION = mt.Question.select("region", "Which region?", ["eu-1", "us-2"])


async def deploy(call: mt.InquirerCall) -> str:
    """A tool of your framework."""
    if not await call.ask(CONFIRM):
        raise mt.Rejected("Not deployed.")
    return f"{call.context.arguments['env']} is live in {await call.ask(REGION)}."


async def framework(inquirer: mt.Inquirer) -> str | None:
    """A fake framework loop: one turn with one call. Returns the text for the model."""
    try:
        async with inquirer.turn("Ship it."):
            return await inquirer.run("deploy", "call_1", {"env": "staging"}, deploy)
    except mt.Suspended as suspended:
        print("waits for:", *(question.question.text for question in suspended.pending))
        return None


async def main(directory: Path) -> None:
    """Run until the turn is over. Each iteration could be in another process, on another day."""
    store = mt.open_store(directory)
    conversation = await store.new("Ship it.")
    answers = iter((True, "us-2"))
    while (result := await framework(mt.Inquirer(store, conversation))) is None:
        (question,) = await store.pending()
        await store.answer(question.id, next(answers), user="u42")
    print(result)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())))
