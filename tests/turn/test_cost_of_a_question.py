"""Cost of a question in the state machine, measured in Python calls.

It stays small and does not grow with the turn.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import midturn
from midturn.events.outcome import Success
from midturn.question.json_value import Limits
from midturn.question.question import Question
from midturn.turn.inputs import ToolDone
from support.turns import Played, settings

PACKAGE = str(Path(midturn.__file__).parent)
MOST = 265
"""Maximum number of calls for a question that a tool returns and a person answers.

Raise it only for a good reason.
"""


def calls_for_each(questions: int) -> list[int]:
    """Play a turn in which one call asks several questions.

    Returns the number of Python calls for each.
    """
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


def test_a_question_costs_no_more_than_before() -> None:
    """The second question is measured, because the first one also fills caches of the process."""
    assert calls_for_each(3)[1] <= MOST


def test_the_hundredth_question_costs_no_more_than_the_second() -> None:
    """The machine never searches all earlier questions."""
    counted = calls_for_each(100)
    assert counted[-1] <= 1.2 * counted[1]
