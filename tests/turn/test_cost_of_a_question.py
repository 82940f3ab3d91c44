"""What the machine does for a question, counted in calls of Python: the cost is kept small, and does not grow with the turn."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import midturn
from midturn.events.outcome import Success
from midturn.question.json_value import Limits
from midturn.question.question import Question
from midturn.turn.step import ToolDone
from support.turns import Played, settings

PACKAGE = str(Path(midturn.__file__).parent)
MOST = 292
"""Calls for a question that a tool returns and a person answers, and for the rests in between: it rises for a reason only."""


def calls_for_each(questions: int) -> list[int]:
    """Play a turn in which one call asks so many questions; return how many calls each of them took."""
    asked = [Question.boolean(f"q{number}", f"Deploy {number}?") for number in range(questions)]
    played = Played(settings(limits=Limits(shown=questions)))
    (call,) = played.model_calls("deploy")
    counted = [_calls_of(played, call, question) for question in asked]
    played.step(ToolDone(call, Success("ok")))
    return counted


def _calls_of(played: Played, call: str, question: Question[bool]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call") and frame.f_code.co_filename.startswith(PACKAGE)

    sys.setprofile(count)
    try:
        played.asks(call, question)
        played.answer(True)
    finally:
        sys.setprofile(None)
    return calls


def test_a_question_costs_what_it_cost_before() -> None:
    """The second question is looked at: the first also fills what is kept for the whole process."""
    assert calls_for_each(3)[1] <= MOST


def test_the_hundredth_question_costs_no_more_than_the_first() -> None:
    """Nothing in the machine looks through everything that was asked before."""
    counted = calls_for_each(100)
    assert counted[-1] <= 1.2 * counted[1]
