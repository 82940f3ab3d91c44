"""A prompter that behaves like a chat."""

from __future__ import annotations

import asyncio

import midturn as mt


class Chat(mt.Prompter):
    """Shows any number of prompts at once. A test answers them by question ID."""

    concurrent = True
    via = "web"

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[mt.Reply]] = {}
        self.prompts: list[mt.Prompt] = []
        self.heard: list[tuple[str, str]] = []
        self.taken_away: list[str] = []

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        self.prompts.append(prompt)
        self.waiting[prompt.question.id] = asyncio.get_running_loop().create_future()
        try:
            return await self.waiting[prompt.question.id]
        except asyncio.CancelledError:
            self.taken_away.append(prompt.question.id)
            raise

    def withdrawn(self, id: str, by: str) -> None:
        """Record that somebody else answered."""
        self.heard.append((id, by))

    def says(self, question: str, reply: mt.Reply) -> None:
        self.waiting.pop(question).set_result(reply)
