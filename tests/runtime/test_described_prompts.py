"""A prompter receives the description of each question, as other processes see it."""

from __future__ import annotations

import asyncio

import midturn as mt
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt
from midturn.question.form import Form
from midturn.question.reply import Answered, Reply
from midturn.turn.inputs import TurnRequested
from support.sessions import OneConversation


class RecordingPrompter(mt.Prompter):
    """Answers yes, and stores the descriptions it receives before each prompt."""

    def __init__(self) -> None:
        self.told: list[OpenQuestion] = []
        self.asked: list[Prompt] = []

    def about_to_ask(self, question: OpenQuestion) -> None:
        """Keep it."""
        self.told.append(question)

    async def prompt(self, prompt: Prompt) -> Reply:
        """Say yes."""
        self.asked.append(prompt)
        return Answered(True)


@mt.tool
def deploy(ctx: mt.ToolContext) -> Form | str:
    """Deploy."""
    return (
        "deployed"
        if ctx.answers
        else Form(
            (
                mt.Question.boolean("confirm", "Sure?"),
                mt.Question.boolean("announce", "Announce it?"),
            )
        )
    )


def test_each_prompt_is_described_as_an_open_question() -> None:
    """The description includes the form and the time of the question, as in the inbox."""
    conversation, prompter = OneConversation(), RecordingPrompter()
    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}])

    asyncio.run(
        conversation.session(model, [deploy], prompter=prompter).run(TurnRequested("Ship it"))
    )

    assert [question.id for question in prompter.told] == [prompt.id for prompt in prompter.asked]
    assert {question.kind for question in prompter.told} <= {"run", "tool"}
    asked = [question for question in prompter.told if question.kind == "tool"]
    assert [question.question.text for question in asked] == ["Sure?", "Announce it?"]
    assert all(question.form is not None and question.form.total == 2 for question in asked)
    assert all(question.asked_at.endswith("Z") for question in asked)
