"""Programs answer with Python values of the question's type: `Enum` members, dataclasses, dates,
Pydantic models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pydantic
import pytest

import midturn as mt


class Reason(Enum):
    """A reason."""

    LATE = "late"
    BROKEN = "broken"


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(Enum):
    """A level."""

    LOW = 1
    HIGH = 2


@dataclass
class Parcel:
    """A parcel."""

    weight: float
    reason: Reason


class Address(pydantic.BaseModel):
    """An address."""

    town: str


CASES: list[tuple[mt.Question[Any], object]] = [
    (mt.Question.select("q", "Why?", Reason), Reason.LATE),
    (mt.Question.select("q", "Which level?", Level), Level.HIGH),
    (mt.Question.select("q", "Which colour?", Colour), Colour.RED),
    (mt.Question.multi_select("q", "Which reasons?", Reason), [Reason.LATE, Reason.BROKEN]),
    (mt.Question.schema("q", "Which reasons?", list[Reason]), [Reason.BROKEN]),
    (mt.Question.schema("q", "Which parcel?", Parcel), Parcel(1.5, Reason.LATE)),
    (mt.Question.schema("q", "Which day?", date), date(2026, 11, 29)),
    (mt.Question.schema("q", "Which address?", Address), Address(town="Berlin")),
]
IDS = ["enum", "enum of numbers", "enum of texts", "several", "list", "dataclass", "date", "model"]


def agent_asking(question: mt.Question[Any], returned: list[object], **settings: Any) -> mt.Agent:
    @mt.tool
    async def ship(ctx: mt.ToolContext) -> str:
        """Ship it."""
        returned.append(await ctx.ask(question))
        return "shipped"

    return mt.Agent(
        settings.pop("model", mt.ScriptedModel([{"calls": [{"name": "ship"}]}, {"text": "Done."}])),
        tools=[ship],
        **settings,
    )


def from_store(question: mt.Question[Any], answer: object, returned: list[object]) -> None:
    agent = agent_asking(question, returned)
    suspended = agent.run_sync("Ship it.")
    agent.store.answer_sync(suspended.pending[0], answer, user="ana")
    agent.resume_sync(suspended.conversation)


def from_prompter(question: mt.Question[Any], answer: object, returned: list[object]) -> None:
    agent_asking(question, returned).run_sync(
        "Ship it.",
        prompter=mt.ScriptedPrompter({"ship.q": mt.Answered(answer)}),  # type: ignore[arg-type]
    )


def from_script(question: mt.Question[Any], answer: object, returned: list[object]) -> None:
    agent_asking(question, returned).run_sync(
        "Ship it.", prompter=mt.ScriptedPrompter({"ship.q": answer})
    )


def from_rules(question: mt.Question[Any], answer: object, returned: list[object]) -> None:
    agent_asking(question, returned).run_sync(
        "Ship it.", prompter=mt.Rules({"ship.q": {"answer": answer}})
    )


def from_routes(question: mt.Question[Any], answer: object, returned: list[object]) -> None:
    agent_asking(question, returned, routes={"ship.q": {"answer": answer}}).run_sync("Ship it.")


def from_model(question: mt.Question[Any], answer: object, returned: list[object]) -> None:
    def reply(request: mt.ModelRequest) -> dict[str, Any]:
        if request.inquiry:
            return {"answer": answer, "reason": "It says so."}
        is_done = isinstance(request.events[-1], mt.events.ToolCallResponse)
        return {"text": "Done."} if is_done else {"calls": [{"name": "ship"}]}

    other = mt.FunctionModel(reply, name="other")
    agent_asking(
        question,
        returned,
        model=mt.FunctionModel(reply),
        routes={"ship.q": mt.Target("assistant", {"model": other})},
    ).run_sync("Go.")


@pytest.mark.parametrize(
    "source", [from_store, from_prompter, from_script, from_rules, from_routes, from_model]
)
@pytest.mark.parametrize(("question", "answer"), CASES, ids=IDS)
def test_typed_answer_reaches_the_tool(
    source: Callable[[mt.Question[Any], object, list[object]], None],
    question: mt.Question[Any],
    answer: object,
) -> None:
    returned: list[object] = []
    source(question, answer, returned)
    assert returned[-1] == answer
    assert type(returned[-1]) is type(answer)


@pytest.mark.parametrize(("question", "answer"), CASES, ids=IDS)
def test_typed_answer_is_queued_for_the_process_that_holds_the_conversation(
    tmp_path: Path, question: mt.Question[Any], answer: object
) -> None:
    async def scene() -> None:
        returned: list[object] = []
        agent = agent_asking(question, returned, store=mt.open_store(tmp_path))
        suspended = await agent.run("Ship it.")
        async with await agent.store.open(suspended.conversation):
            receipt = await mt.open_store(tmp_path).answer(suspended.pending[0], answer, user="ana")
        assert receipt.held
        await agent.resume(suspended.conversation)
        assert returned[-1] == answer

    asyncio.run(scene())


def test_enum_member_satisfies_a_form_condition() -> None:
    reason = mt.Question.select("reason", "Why?", Reason)
    details = mt.Question.text("details", "What is broken?", when=mt.When("reason", Reason.BROKEN))  # type: ignore[arg-type]
    form = mt.Form([reason, details])
    assert form.to_json()[1]["when"] == {"question_id": "reason", "equals": "broken"}


def test_enum_member_that_is_no_option_is_refused() -> None:
    with pytest.raises(mt.AnswerError, match='"red" is not one of the options'):
        mt.Question.select("q", "Why?", Reason).check(Colour.RED)


def test_value_without_json_is_still_refused() -> None:
    with pytest.raises(mt.AnswerError, match="a Python object is not JSON"):
        mt.Question.text("q", "Which name?").check(object())


def test_recorded_text_is_plain() -> None:
    assert type(mt.Question.text("q", "Which colour?").check(Colour.RED)) is str
