"""A form of four questions that the model asks in one call of `ask_user`.

Two of them depend on earlier answers.

`python examples/four_questions.py` asks you at this terminal (`b` goes back). With `--script` a
script answers and goes back once.
"""

from __future__ import annotations

import sys

import midturn as mt

FORM = {
    "questions": [
        {"id": "apply", "text": "Apply the migration?", "answer_type": "boolean"},
        {
            "id": "env",
            "text": "Which environment?",
            "answer_type": "select",
            "options": ["staging", {"value": "production", "description": "The real one."}],
            "allow_other": False,
            "when": {"question_id": "apply", "equals": True},
        },
        {
            "id": "backup",
            "text": "Make a backup first?",
            "answer_type": "boolean",
            "default": True,
            "when": {"question_id": "env", "equals": "production"},
        },
        {
            "id": "note",
            "text": "Anything that I should know?",
            "answer_type": "text",
            "optional": True,
        },
    ]
}
MODEL = mt.ScriptedModel(
    [
        {
            "text": "Some questions before I start.",
            "calls": [{"name": "ask_user", "arguments": FORM}],
        },
        {"text": "Thank you. I know what to do."},
    ]
)
ANSWERS = {
    "ask_user.apply": True,
    "ask_user.env": ["staging", "production"],  # the second value is used after Back
    "ask_user.backup": True,
    "ask_user.note": [mt.WentBack(), None],
}


class Shown(mt.ScriptedPrompter):
    """A scripted prompter that prints every step."""

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Reply as scripted."""
        reply = await super().prompt(prompt)
        print(f"[{prompt.index}/{prompt.total}] {prompt.question.text}  {said(reply)}")
        return reply


def said(reply: mt.Reply) -> str:
    """Return a reply as text."""
    match reply:
        case mt.Answered(value):
            return str(value)
        case mt.WentBack():
            return "(back)"
        case _:
            return f"({type(reply).__name__})"


def main(prompter: mt.Prompter) -> None:
    """Run the turn and print the result for the model."""
    agent = mt.Agent(MODEL, tools=[mt.ask_user])
    result = agent.run_sync("Migrate the database.", prompter=prompter)
    print(result.text)
    for event in agent.store.read_sync(result.conversation).events:
        if isinstance(event, mt.events.ToolCallResponse):
            print(event.content)


if __name__ == "__main__":
    main(Shown(ANSWERS) if "--script" in sys.argv else mt.TerminalPrompter())
