from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from midturn.events.outcome import NeedsInput, Success, ToolError
from midturn.events.types import Source
from midturn.question.form import Form
from midturn.question.json_value import Limits, SecretValue
from midturn.question.question import Question
from midturn.tools.asking import ToolContext
from midturn.tools.function import tool
from midturn.tools.returned import Rejected
from support.tool_running import ToolEnvironment, execute

CONFIRM = Question.boolean("confirm", "Deploy?")


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        ("as it is", Success("as it is")),
        ({"a": [1, None, True]}, Success('{"a":[1,null,true]}')),
        (None, Success("null")),
        ("ünï", Success("ünï")),
        (["ü"], Success('["ü"]')),
        (Success("done"), Success("done")),
        (ToolError("no", ("trace",), transient=True), ToolError("no", ("trace",), transient=True)),
        (CONFIRM, NeedsInput(Form((CONFIRM,)))),
        (Form((CONFIRM,)), NeedsInput(Form((CONFIRM,)))),
        (NeedsInput(CONFIRM), NeedsInput(Form((CONFIRM,)))),
    ],
)
def test_return_values_are_interpreted_by_type(returned: object, outcome: object) -> None:
    @tool
    def give() -> object:
        return returned

    assert execute(give, {}) == outcome


def test_a_value_without_json_is_an_error_with_its_type() -> None:
    @tool
    def give() -> object:
        return {"it": object()}

    outcome = execute(give, {})

    assert isinstance(outcome, ToolError)
    assert "`dict`" in outcome.message
    assert "`object`" in outcome.message


def test_a_returned_question_is_answered_by_running_again() -> None:
    @tool
    def deploy(ctx: ToolContext) -> str | NeedsInput:
        if "confirm" not in ctx.answers:
            return NeedsInput(CONFIRM)
        return f"confirmed: {ctx.answers['confirm']}"

    assert isinstance(execute(deploy, {}), NeedsInput)
    assert execute(deploy, {}, {"confirm": True}) == Success("confirmed: True")


def test_a_rejection_is_an_error_with_the_tools_text() -> None:
    @tool
    async def deploy() -> str:
        raise Rejected("Not deployed.")

    assert execute(deploy, {}) == ToolError("Not deployed.")


def test_an_exception_is_an_error_with_type_message_and_traceback() -> None:
    @tool
    def deploy() -> str:
        raise ValueError("no such host")

    outcome = execute(deploy, {})

    assert isinstance(outcome, ToolError)
    assert outcome.message == "ValueError: no such host"
    assert any("raise ValueError" in line for line in outcome.trace)


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        StopIteration(1),
        asyncio.CancelledError("inside"),
        ExceptionGroup("g", [ValueError("x")]),
    ],
)
def test_no_exception_escapes_from_a_tool(error: BaseException) -> None:
    @tool
    async def waits() -> str:
        await asyncio.sleep(0)
        raise error

    @tool
    def blocks() -> str:
        raise error

    assert isinstance(execute(waits, {}), ToolError)
    assert isinstance(execute(blocks, {}), ToolError)


def test_a_secret_is_removed_from_results_messages_and_tracebacks() -> None:
    """A tool may include its secret in a result or an exception by accident."""
    secret = SecretValue("hunter2-hunter2")

    @tool
    def login(ctx: ToolContext, *, fail: bool) -> object:
        password = ctx.answers["passphrase"]
        assert isinstance(password, SecretValue)
        if fail:
            raise ValueError(f"cannot log in with {password.reveal()}")
        return {"used": password.reveal(), "held": password}

    failed = execute(login, {"fail": True}, {"passphrase": secret})

    assert execute(login, {"fail": False}, {"passphrase": secret}) == Success(
        '{"used":"[redacted]","held":"[redacted]"}'
    )
    assert isinstance(failed, ToolError)
    assert failed.message == "ValueError: cannot log in with [redacted]"
    assert "hunter2" not in "\n".join(failed.trace)


def test_a_long_result_is_cut_and_saved_in_full(tmp_path: object) -> None:
    @tool
    def log() -> str:
        return "begin " + "x" * 10_000 + " end"

    around = ToolEnvironment(str(tmp_path), limits=Limits(tool_output=2_000))
    outcome = execute(log, {}, around=around)

    assert isinstance(outcome, Success)
    assert len(outcome.content.encode()) <= 2_000
    assert outcome.content.startswith("begin x")
    assert outcome.content.endswith("x end")
    assert "the whole output is in /" in outcome.content


def test_a_callable_object_or_partial_can_be_a_tool() -> None:
    class Greeter:
        async def __call__(self, name: str) -> str:
            return f"Hello {name}"

    def greet(greeting: str, name: str) -> str:
        return f"{greeting} {name}"

    assert execute(tool(name="greet")(Greeter()), {"name": "Ann"}) == Success("Hello Ann")
    assert execute(tool(name="hi")(partial(greet, "Hi")), {"name": "Ann"}) == Success("Hi Ann")


def test_a_generator_is_refused() -> None:
    async def stream() -> AsyncIterator[str]:
        yield "x"

    with pytest.raises(TypeError, match="generator"):
        tool(stream)


def test_the_source_is_always_the_tool_itself() -> None:
    @tool(name="user")
    def pretend() -> str:
        return ""

    assert pretend.inquiry_source() == Source.tool("user")
