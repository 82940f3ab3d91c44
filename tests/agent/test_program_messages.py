"""Messages to a program: retries in the log, an invalid way to answer, a turn of another
program.
"""

from __future__ import annotations

import logging
from typing import Annotated, Any, cast

import msgspec
import pytest
from pydantic import Field

import midturn as mt
from support.agents import ship


def test_each_retry_of_a_model_is_a_warning_of_one_logger(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[None] = []

    def flaky(_: mt.ModelRequest) -> str:
        tries.append(None)
        if len(tries) == 1:
            raise mt.ModelError("it is overloaded.", status=529, retry_after=0.01, transient=True)
        return "Done."

    with caplog.at_level(logging.WARNING, logger="midturn"):
        result = mt.Agent(mt.FunctionModel(flaky)).run_sync("My password is hunter2.")

    assert result.text == "Done."
    (record,) = [record for record in caplog.records if record.name == "midturn.models"]
    assert record.levelname == "WARNING"
    assert "it is overloaded. Retrying in 0.0 s (retry 1 of 4)." in record.getMessage()
    assert "hunter2" not in caplog.text


@mt.tool(run="ask")
def build() -> str:
    """Build it."""
    return "built"


@pytest.mark.parametrize(
    ("tool", "way", "message"),
    [
        (
            "ship",
            {"approve": True},
            (
                "A question cannot be answered with `approve`. Pass its `value`, which is true or"
                " false for a yes/no question."
            ),
        ),
        (
            "ship",
            {"arguments": {}},
            "A question cannot be answered with `arguments`. Pass its `value`",
        ),
        (
            "ship",
            {"approve": True, "content": "x"},
            "A question cannot be answered with `approve` and `content`.",
        ),
        (
            "build",
            {"content": "x"},
            (
                "The approval of a call cannot be answered with `content`. Pass `approve`, or the"
                " `arguments` to run with"
            ),
        ),
    ],
)
def test_invalid_way_to_answer_is_refused_by_name(
    tool: str, way: dict[str, Any], message: str
) -> None:
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": tool}]}, {"text": "Done."}]), tools=[ship, build]
    )
    (question,) = agent.run_sync("Go.").pending

    with pytest.raises(mt.AnswerError) as refused:
        agent.store.answer_sync(question.id, **way)
    assert message in str(refused.value)
    assert [one.id for one in agent.store.pending_sync()] == [question.id]
    if tool == "ship":
        agent.store.answer_sync(question.id, value=True)
    else:
        agent.store.answer_sync(question.id, approve=True)


def test_parameter_descriptions_reach_the_model() -> None:
    @mt.tool
    def order(  # noqa: D417  the others are described where they are typed
        number: Annotated[int, Field(description="How many.", ge=1)],
        colour: Annotated[str, msgspec.Meta(description="Which colour.")] = "red",
        size: int = Field(3, description="Which size."),
        name: str = "",
    ) -> str:
        """Order.

        Args:
            name: Whose.
        """
        return f"{number} {colour} {size} {name}"

    properties = cast("dict[str, dict[str, object]]", order.definition.parameters["properties"])
    assert {name: described["description"] for name, described in properties.items()} == {
        "number": "How many.",
        "colour": "Which colour.",
        "size": "Which size.",
        "name": "Whose.",
    }
