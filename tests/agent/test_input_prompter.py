"""`InputPrompter`, which reads answers with `input()`, and the prompt attributes that any
prompter can use.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator

import pytest

import midturn as mt

QUESTIONS = mt.Form(
    [
        mt.Question.boolean("sure", "Sure?"),
        mt.Question.select("region", "Which region?", ["eu-1", "us-2"]),
        mt.Question.text("note", "A note?", optional=True),
        mt.Question.number("count", "How many?", type=int),
        mt.Question.secret("token", "The token?"),
    ]
)


@mt.tool
async def ask_all(ctx: mt.ToolContext) -> str:
    """Ask everything."""
    await ctx.ask_form(QUESTIONS)
    return "Thank you."


def agent() -> mt.Agent:
    return mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "ask_all", "arguments": {}}]}, {"text": "Done."}]),
        tools=[ask_all],
    )


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines that `input()` and `getpass()` read."""
    lines: list[str] = []

    def reads(_: str = "") -> str:
        if not lines:
            raise EOFError
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", reads)
    monkeypatch.setattr("getpass.getpass", reads)
    return lines


MACHINE = {
    "type": "object",
    "properties": {"cpu": {"type": "integer"}, "burst": {"type": "boolean"}},
    "required": ["cpu"],
}


@mt.tool
async def build(ctx: mt.ToolContext) -> str:
    """Build on a machine."""
    return str(await ctx.ask(mt.Question.schema("machine", "Which machine?", MACHINE)))


def test_a_flat_object_is_answered_field_by_field_with_input(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += ["2", "yes", ""]
    made = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "build", "arguments": {}}]}, {"text": "Done."}]),
        tools=[build],
    )

    result = made.run_sync("Hello.", prompter=mt.InputPrompter()).raise_if_failed()

    ((_, response),) = made.store.read_sync(result.conversation).pairs()
    assert isinstance(response, mt.events.InquiryAnswered)
    assert response.answer == {"cpu": 2, "burst": True}
    assert "Which machine? · burst" in capsys.readouterr().out


def test_every_type_of_question_is_answered_with_input(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += ["y", "2", "calm", "7", "hunter2", "y"]
    made = agent()
    result = made.run_sync("Hello.", prompter=mt.InputPrompter()).raise_if_failed()

    pairs = made.store.read_sync(result.conversation).pairs()
    answered = [
        response.answer for _, response in pairs if isinstance(response, mt.events.InquiryAnswered)
    ]
    assert answered == [True, "us-2", "calm", 7]
    shown = capsys.readouterr().out
    assert "Which region?" in shown
    assert "hunter2" not in shown


def test_end_of_piped_input_suspends_the_turn(
    typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed == []
    for stdin in (io.StringIO(), None):
        monkeypatch.setattr("sys.stdin", stdin)
        result = agent().run_sync("Hello.", prompter=mt.InputPrompter())
        assert (result.status, len(result.pending)) == ("suspended", 1)


def test_the_end_of_input_at_a_terminal_ends_the_turn(
    typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        """Standard input that claims to be a terminal."""

        def isatty(self) -> bool:
            return True

    assert typed == []
    monkeypatch.setattr("sys.stdin", Terminal())
    assert agent().run_sync("Hello.", prompter=mt.InputPrompter()).status == "ended_by_user"


def test_closed_stdin_suspends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_input(_: str = "") -> str:
        raise OSError("reading from stdin while output is captured")

    monkeypatch.setattr("builtins.input", no_input)
    assert agent().run_sync("Hello.", prompter=mt.InputPrompter()).status == "suspended"


class Pages(mt.Prompter):
    """A prompter that sends questions to a browser. Its inherited methods do nothing."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        assert prompt.open is not None
        self.sent.append(prompt.open.to_json())
        return mt.Unavailable()


def test_a_prompter_finds_the_open_question_in_its_prompt() -> None:
    pages = Pages()
    made = agent()
    result = made.run_sync("Hello.", prompter=pages)

    assert pages.sent == [result.pending[0].to_json()]


def test_a_question_as_json_has_its_id_the_schema_of_its_answer_and_options_in_one_shape() -> None:
    made = agent()
    result = made.run_sync("Hello.")
    asked: dict[str, object] = {}
    for answer in (True, "eu-1", "calm", 7):
        (question,) = made.store.pending_sync(result.conversation)
        shape = question.to_json()
        asked[question.question_id] = shape["answer_schema"]
        form = shape["form"]
        assert isinstance(form, dict)
        questions = form["questions"]
        assert isinstance(questions, list)
        region = questions[1]
        assert isinstance(region, dict)
        assert region["answer_type"] == {
            "type": "select",
            "options": [{"value": "eu-1"}, {"value": "us-2"}],
        }
        assert shape["question_id"] == question.question_id
        made.store.answer_sync(question.id, answer)
        made.resume_sync(result.conversation)
    (secret,) = made.store.pending_sync(result.conversation)

    assert asked["sure"] == {"type": "boolean"}
    assert asked["region"] == {"enum": ["eu-1", "us-2"]}
    assert asked["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert asked["count"] == {"type": "integer"}
    assert secret.to_json()["answer_schema"] is None


def test_a_prompter_that_derives_from_the_base_class_has_its_defaults() -> None:
    pages = Pages()
    assert (getattr(pages, "concurrent"), getattr(pages, "via")) == (  # noqa: B009  checkers see what is needed only
        False,
        None,
    )


def test_input_prompter_works_under_run_sync(typed: list[str]) -> None:
    typed += ["n", "r", "Why?"]

    async def scene() -> Iterator[str]:
        result = await agent().run("Hello.", prompter=mt.InputPrompter())
        return iter([result.status])

    assert next(asyncio.run(scene())) == "completed"
