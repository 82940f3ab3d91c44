"""Going back from a review to a question of the person's choice."""

from __future__ import annotations

from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.question import Question
from midturn.question.reply import WentBack
from midturn.terminal.prompts.keys import BackTo, Jump

PROMPT = Prompt(question=Question.boolean("sure", "Send?"), total=3, id="17-r", conversation="17", tool="plan", arguments={})
REVIEW = replace(PROMPT, kind="review")


def asked(index: int, event: str, *, tool: str = "plan") -> Prompt:
    """Return a prompt as the runtime hands it on: its id is an address, which says nothing of its form."""
    question = Question.text(f"q{index}", f"The {index}. thing?")
    return Prompt(
        question=question, index=index, total=3, id=f"17-{event}", conversation="17", tool=tool, arguments={}, can_go_back=index > 1
    )


def test_the_questions_on_the_way_back_are_passed() -> None:
    jump = Jump()

    assert jump.begin(REVIEW, BackTo(index=1)) == WentBack()

    assert [jump.passes(prompt) for prompt in (asked(3, "e7"), asked(2, "e5"), asked(1, "e3"), asked(2, "e9"))] == [
        True,
        True,
        False,
        False,
    ]


def test_the_question_of_another_tool_is_shown() -> None:
    jump = Jump()

    jump.begin(REVIEW, BackTo(index=1))

    assert not jump.passes(asked(3, "e7", tool="deploy"))
    assert not jump.passes(asked(3, "e7"))
