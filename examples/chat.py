"""Questions in a chat: several users, any number of open questions, and the first answer wins.

$ python examples/chat.py
"""

from __future__ import annotations

import asyncio

import midturn as mt


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service to an environment."""
    if not await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    return f"{env} is live."


class Chat(mt.Prompter):
    """A fake chat service: a message with two buttons for each question."""

    concurrent = True
    via = "chat"

    def __init__(self) -> None:
        self.messages: dict[str, asyncio.Future[mt.Reply]] = {}
        self.posted: asyncio.Queue[mt.Prompt] = asyncio.Queue()

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Post the question and wait until a user presses a button."""
        print(f"{prompt.asked_by}: {prompt.question.text}  [yes] [no]")
        self.posted.put_nowait(prompt)
        self.messages[prompt.question.text] = asyncio.get_running_loop().create_future()
        return await self.messages[prompt.question.text]

    async def withdrawn(self, id: str, by: str) -> None:
        """Remove the buttons, because the question was answered elsewhere."""
        del id  # each text has one message here
        print(f"(answered by {by})")

    def press(self, text: str, reply: mt.Reply) -> None:
        """Press a button under a message."""
        self.messages.pop(text).set_result(reply)


async def people(agent: mt.Agent, chat: Chat) -> None:
    """Simulate two users: one presses a button, the other answers on a web page, in another
    program.
    """
    staging, production = await chat.posted.get(), await chat.posted.get()
    await agent.store.answer(production.id, False, reason="Not on a Friday.", user="ada", via="web")
    chat.press(staging.question.text, mt.Answered(value=True))


async def main() -> None:
    """Run a turn in which two calls ask at once."""
    calls = [{"name": "deploy", "arguments": {"env": env}} for env in ("staging", "production")]
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": calls}, {"text": "One of the two is live."}]), tools=[deploy]
    )
    chat = Chat()
    answering = asyncio.create_task(people(agent, chat))
    async with agent.stream("Ship it.", prompter=chat) as events:
        async for event in events:
            if isinstance(event, mt.ToolFinished):
                print(event.content)
            elif isinstance(event, mt.TurnEnded):
                print(event.result.text)
    await answering


if __name__ == "__main__":
    asyncio.run(main())
