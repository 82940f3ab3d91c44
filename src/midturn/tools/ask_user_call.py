"""One call of `ask_user`: its arguments are asked, and the answers go back as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from midturn.core.json_text import compact
from midturn.core.json_value import Json, JsonObject
from midturn.core.names import ASK_USER
from midturn.core.outcome import Outcome, Success, ToolError
from midturn.core.question import Question
from midturn.core.secret import SecretValue
from midturn.core.source import ASSISTANT
from midturn.core.turn.effects import Given, GivenAnswer
from midturn.core.turn.inputs import FormToAsk
from midturn.errors import AnswerError, QuestionError
from midturn.ports import ToolRun
from midturn.tools.ask_user_arguments import SINGLE_ID, QuestionList, SingleQuestion, read_arguments

MISMATCH = "the accumulated answer does not match the requested answer type"


async def asked_by_model(run: ToolRun) -> Outcome:
    """Ask, and return the answers as JSON; arguments that cannot be asked come back as an error that says how to correct them."""
    try:
        asked = read_arguments(cast("JsonObject", run.call.arguments), run.limits)
    except QuestionError as error:
        return ToolError(_explain(error))
    given = await run.ask(FormToAsk(asked.form, ASSISTANT))
    try:
        answers = {question.id: _answer(question, given) for question in asked.form.questions}
    except AnswerError:
        return ToolError(MISMATCH)
    match asked:
        case QuestionList():
            return Success(compact(answers))
        case SingleQuestion(answer_type=answer_type):
            return Success(compact({"answer_type": answer_type, "answer": answers[SINGLE_ID], **_reason(given)}))


def _answer(question: Question[Any], given: Given) -> Json:
    """Return the answer once more checked: whoever routed it, the model gets what it asked for.

    Raises:
        AnswerError: The arguments are wrong.
    """
    answer = given[question.id]
    if not isinstance(answer, GivenAnswer) or isinstance(answer.value, SecretValue):
        raise AnswerError(())
    if answer.value is None and question.when is not None:
        return None
    return cast("Json", question.check(answer.value))  # `ask_user` has no secrets


def _reason(given: Given) -> Mapping[str, Json]:
    """Return what the person typed with the answer, if anything."""
    match given[SINGLE_ID]:
        case GivenAnswer(by="user", reason=str(reason)):
            return {"reason": reason}
        case _:
            return {}


def _explain(error: QuestionError) -> str:
    problems = "\n".join(f"- {problem}" for problem in error.problems)
    return f"{ASK_USER}: nothing was asked, because the arguments are wrong. Correct them and call it again.\n{problems}"
