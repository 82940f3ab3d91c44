"""`ask_user`: the model asks the user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from midturn.core.exchange import ToolDefinition
from midturn.core.json_value import Json, JsonObject
from midturn.core.names import ASK_USER
from midturn.core.outcome import Outcome, Success, ToolError
from midturn.core.question import Question
from midturn.core.secret import SecretValue
from midturn.core.source import ASSISTANT, Source
from midturn.core.turn.effects import Given, GivenAnswer
from midturn.core.turn.inputs import FormToAsk
from midturn.errors import AnswerError, QuestionError
from midturn.ports import ToolRun
from midturn.tools.ask_user_arguments import SINGLE_ID, QuestionList, SingleQuestion, read_arguments
from midturn.tools.ask_user_schema import DESCRIPTION, PARAMETERS

MISMATCH = "the accumulated answer does not match the requested answer type"


class AskUserTool:
    """The built-in tool whose questions come from the assistant. Only a human answers them, every time anew."""

    @property
    def definition(self) -> ToolDefinition:
        """What is sent to the model, with every request."""
        return ToolDefinition(ASK_USER, DESCRIPTION, PARAMETERS)

    def inquiry_source(self) -> Source:
        """It is the assistant who asks."""
        return ASSISTANT

    async def execute(self, run: ToolRun) -> Outcome:
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
                return Success(_text(answers))
            case SingleQuestion(answer_type=answer_type):
                return Success(_text({"answer_type": answer_type, "answer": answers[SINGLE_ID], **_reason(given)}))


ask_user = AskUserTool()
"""The tool itself, for the `tools` of an agent: it lets the model ask the user something. No agent has it unless it is put there."""


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


def _text(result: Mapping[str, Json]) -> str:
    return json.dumps(result, ensure_ascii=False)
