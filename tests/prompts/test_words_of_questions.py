"""What people read in a prompt is whole; what they choose or approve is shown character by character."""

from __future__ import annotations

import pytest

from midturn.cli.question_rows import question_rows as inbox_rows
from midturn.prompts.keys import label
from midturn.prompts.plain_scene import Scene
from midturn.question.answer_type import SelectOption
from midturn.question.question import Question
from midturn.record.prompt import Prompt
from midturn.store.memory_conversations import MemoryStore
from support.pages import agent_with, asking, wait_for

WANT = "می\u200cخواهید"  # noqa: RUF001  Persian
PERSIAN = f"{WANT}؟"
HINDI = "क्\u200dष?"
FAMILY = "Invite 👨\u200d👩\u200d👧?"


@pytest.mark.parametrize("text", [PERSIAN, HINDI, FAMILY])
def test_joiners_stay_in_what_is_asked(text: str) -> None:
    prompt = Prompt(question=Question.boolean("q", text, context=text), asked_by="deploy")
    waiting = wait_for(agent_with(MemoryStore(), asking(Question.boolean("q", text))))

    assert [row for row in Scene(prompt, 80).opening() if text in row][-2:] == [f"| {text}", text]
    assert str(inbox_rows(waiting)[0][1]).endswith(text)


def test_an_override_of_the_direction_is_a_code_in_what_is_asked() -> None:
    prompt = Prompt(question=Question.boolean("q", "Delete a\u202etxt.exe?"), asked_by="deploy")

    assert "Delete a⟨U+202E⟩txt.exe?" in Scene(prompt, 80).opening()


def test_joiners_are_codes_in_what_is_chosen_or_approved() -> None:
    """Two options, or two calls, never look the same."""
    option = SelectOption(WANT)
    approved = Prompt(question=Question.boolean("q", f"Run {WANT}?"), asked_by="deploy", kind="run")

    assert label(option) == WANT.replace("\u200c", "⟨U+200C⟩")
    assert f"Run {label(option)}?" in Scene(approved, 80).opening()
