"""A program that asked with `input()` in its helpers and now uses midturn.

Three helpers became three lines.

$ python examples/programs/migrated.py
"""

from __future__ import annotations

import enum

import midturn as mt


class Size(enum.Enum):
    """The sizes on offer."""

    SMALL = "small"
    LARGE = "large"


# Before: return input(f"{text} [y/n] ") == "y"
def yes(text: str) -> bool:
    """Ask for yes or no."""
    return mt.ask_sync(mt.Question.boolean("yes", text))


# Before: a loop around int(input(text))
def number(text: str, most: int) -> int:
    """Ask for an integer."""
    return mt.ask_sync(mt.Question.number("number", text, type=int, min=1, max=most))


# Before: a printed list, and a loop around the number of an item
def choose(text: str) -> Size:
    """Ask for one of several options."""
    return mt.ask_sync(mt.Question.select("size", text, Size, default=Size.SMALL))


def packing() -> str:
    """Ask for the details of an order, in a nested helper."""
    size = choose("Which size?")
    return f"{number(f'How many {size.value} ones?', most=9)} {size.value}"


@mt.tool
def order(what: str) -> str:
    """Order something."""
    ordered = f"{packing()} {what}"
    if not yes(f"Order {ordered}?"):
        raise mt.Rejected("Nothing was ordered.")
    return f"Ordered: {ordered}."


if __name__ == "__main__":
    model = mt.ScriptedModel(
        [{"calls": [{"name": "order", "arguments": {"what": "boxes"}}]}, {"text": "Thank you."}]
    )
    agent = mt.Agent(model, tools=[order], prompter=mt.InputPrompter())
    turn = agent.run_sync("I need boxes.").raise_if_failed()
    print(
        *(
            e.content
            for e in agent.store.read_sync(turn.conversation).events
            if isinstance(e, mt.events.ToolCallResponse)
        ),
        turn.text,
    )
