"""Jumps from the review to a question that the person chooses."""

from __future__ import annotations

from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.question import Question
from midturn.question.reply import WentBack
from midturn.terminal.prompts.keys import BackTo, Jump

PROMPT = Prompt(
    question=Question.boolean("sure", "Send?"),
    total=3,
    id="17-r",
    conversation="17",
    tool="plan",
    arguments={},
)
REVIEW = replace(PROMPT, kind="review")


def form_prompt(index: int, event: str, *, tool: str = "plan") -> Prompt:
    """Return a prompt as the runtime creates it.

    Its ID is an address that does not identify its form.
    """
    question = Question.text(f"q{index}", f"The {index}. thing?")
    return Prompt(
        question=question,
        index=index,
        total=3,
        id=f"17-{event}",
        conversation="17",
        tool=tool,
        arguments={},
        can_go_back=index > 1,
    )


def test_jumping_back_skips_the_questions_between() -> None:
    jump = Jump()

    assert jump.begin(REVIEW, BackTo(index=1)) == WentBack()

    assert [
        jump.passes(prompt)
        for prompt in (
            form_prompt(3, "e7"),
            form_prompt(2, "e5"),
            form_prompt(1, "e3"),
            form_prompt(2, "e9"),
        )
    ] == [
        True,
        True,
        False,
        False,
    ]


def test_a_question_of_another_tool_is_shown() -> None:
    jump = Jump()

    jump.begin(REVIEW, BackTo(index=1))

    assert not jump.passes(form_prompt(3, "e7", tool="deploy"))
    assert not jump.passes(form_prompt(3, "e7"))
