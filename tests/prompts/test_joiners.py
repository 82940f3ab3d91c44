"""Unicode joiners are kept where they join characters.

This holds for questions, options, arguments and typed text.
"""

from __future__ import annotations

import pytest

from midturn.cli.question_rows import question_rows as inbox_rows
from midturn.events.prompt import CallSubject, Prompt, ResultSubject
from midturn.events.types import ToolCall
from midturn.question.answer_type import SelectOption
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.terminal.prompts.keys import label
from midturn.terminal.prompts.plain_scene import PromptBase
from support.pages import agent_with, asking, wait_for
from support.prompt_catalogue import PROMPTS
from support.rich_prompt_driver import RichPromptDriver

WANT = "می\u200cخواهید"  # noqa: RUF001  Persian
PERSIAN = f"{WANT}؟"
HINDI = "क्\u200dष?"
FAMILY = "Invite 👨\u200d👩\u200d👧?"


@pytest.mark.parametrize("text", [PERSIAN, HINDI, FAMILY])
def test_joiners_are_kept_in_questions(text: str) -> None:
    prompt = Prompt(question=Question.boolean("q", text, context=text), asked_by="deploy")
    waiting = wait_for(agent_with(MemoryStore(), asking(Question.boolean("q", text))))

    assert [row for row in PromptBase(prompt, 80).opening() if text in row][-2:] == [
        f"| {text}",
        text,
    ]
    assert str(inbox_rows(waiting)[0][1]).endswith(text)


def test_bidi_overrides_are_escaped_in_questions() -> None:
    prompt = Prompt(question=Question.boolean("q", "Delete a\u202etxt.exe?"), asked_by="deploy")

    assert "Delete a⟨U+202E⟩txt.exe?" in PromptBase(prompt, 80).opening()


@pytest.mark.parametrize(
    "text", [WANT, "क्\u200dष", "👨\u200d👩\u200d👧", "👩🏽\u200d💻", "⚠\ufe0f stop"]
)
def test_joiners_are_kept_in_choices_approvals_and_edits(text: str) -> None:
    call = ToolCall("e-1", "call", "deploy", {"note": text, "lines": f"{text}\n{text}"})
    approved = Prompt(
        question=Question.boolean("q", f"Run {text}?"),
        asked_by="deploy",
        kind="run",
        subject=CallSubject(call),
    )
    result = Prompt(
        question=Question.boolean("q", "Deliver?"),
        asked_by="deploy",
        kind="deliver",
        subject=ResultSubject(call, f"{text}\n", is_error=False),
    )
    shown = PromptBase(approved, 80).opening()

    assert label(SelectOption(text, text)) == text
    assert {f"Run {text}?", f"| note: {text}"} <= {*shown}
    assert [found.strip("| ") for found in shown].count(text) == 2
    assert f"| {text}" in PromptBase(result, 80).opening()
    assert RichPromptDriver(PROMPTS["text_empty"]).type(text).live[1] == f"> {text}"


def test_joiners_are_escaped_in_latin_text() -> None:
    """A person could not tell apart two options that differ only in a joiner."""
    assert label(SelectOption("pro\u200cduction")) == "pro⟨U+200C⟩duction"
    assert label(SelectOption("pro\u200dduction")) == "pro⟨U+200D⟩duction"
