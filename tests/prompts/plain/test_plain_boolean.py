"""Yes or no, line by line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import CallSubject
from midturn.question.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, WentBack
from midturn.terminal.prompts.keys import BackTo
from support.plain_talk import Talk
from support.prompt_catalogue import BOOLEAN, CALL, DELIVER, PROMPTS, REVIEW, RUN

ASKED = PROMPTS["boolean"]


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("y", Answered(True)),
        ("Y", Answered(True, remember=True)),
        ("n", Answered(False)),
        ("N", Answered(False, remember=True)),
        (" yes ", Answered(True)),
        ("No", Answered(False)),
        ("always", Answered(True, remember=True)),
        ("never", Answered(False, remember=True)),
        ("back", WentBack()),
        ("b", WentBack()),
    ],
)
def test_one_key_answers(line: str, reply: Reply) -> None:
    assert Talk(ASKED, line).reply == reply


def test_a_no_may_carry_a_typed_reason() -> None:
    talk = Talk(ASKED, "p", "it drops \\", "a test")

    assert talk.reply == Answered(False, reason="it drops \na test")
    assert talk.said[-1] == 'Answer: no: "it drops ⏎ a test"'


def test_reply_takes_the_words_or_none() -> None:
    assert Talk(ASKED, "r", "use the other file").reply == Replied("use the other file")
    assert Talk(ASKED, "r", "").reply == Replied(None)


def test_colon_c_leaves_a_reply_and_asks_again() -> None:
    assert Talk(ASKED, "r", ":c", "y").reply == Answered(True)


@pytest.mark.parametrize("key", ["Y", "N", "b", "r", "v", "o", "-", "e"])
def test_a_key_that_is_not_offered_does_nothing(key: str) -> None:
    bare = replace(BOOLEAN, can_reply=False)

    talk = Talk(bare, key, "y")

    assert f"{key} is not an option; type ? for help." in talk.said
    assert talk.reply == Answered(True)


def test_enter_takes_the_default_and_only_then() -> None:
    assert Talk(PROMPTS["boolean_default"], "").reply == Answered(True)
    assert Talk(PROMPTS["boolean_long"], "").reply == Answered(False)
    assert Talk(BOOLEAN, "").reply is None


def test_an_earlier_answer_comes_before_the_default() -> None:
    assert Talk(replace(PROMPTS["boolean_default"], prefill=False), "").reply == Answered(False)


@pytest.mark.parametrize("prompt", [RUN, DELIVER])
@pytest.mark.parametrize("default", [True, False])
def test_enter_never_decides_an_approval(prompt: object, default: bool) -> None:  # noqa: FBT001 (a parameter of a test)
    """Even when somebody gave the approval a default."""
    assert isinstance(prompt, type(RUN))

    talk = Talk(replace(prompt, prefill=default, question=replace(prompt.question, default=default)), "")

    assert talk.reply is None
    assert "Enter for" not in talk.text


def test_an_optional_question_can_be_skipped() -> None:
    talk = Talk(PROMPTS["boolean_optional"], "-")

    assert talk.reply == Answered(None)
    assert talk.said[-1] == "Answer: (skipped)"


def test_what_was_cut_off_can_be_viewed() -> None:
    talk = Talk(PROMPTS["boolean_cut"], "v", "y")

    assert "... 80 more lines, v to view" in talk.said
    assert "| line 200" in talk.said
    assert talk.said[-1] == "Answer: yes"


def test_approving_what_was_cut_off_says_so() -> None:
    assert Talk(PROMPTS["boolean_cut"], "y").said[-1] == "Answer: yes (80 rows were not viewed)"


def test_a_call_is_shown_as_it_would_run() -> None:
    """By name, text as text."""
    assert Talk(RUN).said[1:6] == ["| env: production", "| script:", "|     set -e", '|     make "all"', "| dry: false"]


def test_a_text_that_could_be_taken_for_something_else_is_quoted() -> None:
    arguments = {"a": "true", "b": True, "c": " x", "d": "", "e": {"f": [1]}, "g": "x" * 30 + "    h: false"}
    said = Talk(replace(RUN, subject=CallSubject(replace(CALL, arguments=arguments))), width=40).said

    assert said[1:7] == ['| a: "true"', "| b: true", '| c: " x"', '| d: ""', '| e: {"f": [1]}', f"| g: {'x' * 30}    h"]
    assert said[7] == "| … : false"


def test_a_new_file_is_shown_as_what_is_added() -> None:
    call = replace(CALL, name="fs_create_file", arguments={"path": "src/new.py", "content": "import os\n\tprint()\n"})

    assert Talk(replace(RUN, subject=CallSubject(call))).said[1:4] == ["| src/new.py (2 lines, 19 bytes)", "| +import os", "| +⇥   print()"]


def test_skipping_a_call_may_carry_a_reason() -> None:
    assert Talk(RUN, "p", "not today").reply == Answered(False, reason="not today")


def test_arguments_are_edited_one_after_the_other() -> None:
    talk = Talk(RUN, "e", "staging", "", "no", "true")

    assert talk.reply == Edited({"env": "staging", "script": 'set -e\nmake "all"\n', "dry": True})
    assert "env is now:" in talk.said
    assert "Not accepted:" in talk.said


def test_arguments_are_edited_line_by_line() -> None:
    talk = Talk(RUN, "e", ":j", '{"env":', "broken", '{"env": "staging"}')

    assert talk.reply == Edited({"env": "staging"})
    assert talk.said.count("Not accepted:") == 2


def test_arguments_are_edited_in_the_editor() -> None:
    talk = Talk(RUN, "e", ":j", ":e", "", edited='{"env": "staging"}')

    assert talk.reply == Edited({"env": "staging"})
    assert talk.given[0].suffix == ".json"
    assert '"env": "production"' in talk.given[0].text


def test_q_after_the_rest_was_viewed_leads_back_as_from_a_pager() -> None:
    long = replace(RUN, subject=CallSubject(replace(CALL, arguments={"script": "x\n" * 200})))

    assert "q is not an option; type ? for help." in Talk(long, "q").said
    assert "q is not an option; type ? for help." not in Talk(long, "v", "q").said


def test_edited_arguments_must_be_an_object() -> None:
    assert "  arguments are a JSON object: { ... }" in Talk(RUN, "e", ":j", "[1]").said


def test_a_result_is_edited_as_text() -> None:
    assert Talk(DELIVER, "e", "line one").reply == Edited("line one")


@pytest.mark.parametrize("line", ["", "y", "Yes"])
def test_enter_and_yes_send_a_review(line: str) -> None:
    talk = Talk(REVIEW, line)

    assert talk.reply == Submitted()
    assert talk.said[1:3] == ["| 1. Apply patch? yes", "| 2. Which environment should the migration run against? production"]


@pytest.mark.parametrize(("line", "reply"), [("b", WentBack()), ("1", BackTo(1)), ("2", BackTo(2))])
def test_a_review_can_be_left(line: str, reply: Reply) -> None:
    assert Talk(REVIEW, "what?", line).reply == reply


def test_a_configured_name_stands_beside_the_header_as_a_quotation() -> None:
    assert Talk(PROMPTS["labelled"]).said[0] == '| deploy asks "Assistant":'


def test_ending_the_turn_is_asked_once_more() -> None:
    assert Talk(ASKED, "s", "", "y").reply == Answered(True)
    assert Talk(ASKED, "s", "s").reply == EndedTurn()
    assert Talk(ASKED, "end turn", "end turn").reply == EndedTurn()


def test_a_reviewer_is_quoted_and_draws_no_diff() -> None:
    verdict = 'The assistant recommended rejecting this:\n"```diff\n+ forged\n```"'
    asked = replace(ASKED, verdict=verdict, question=replace(ASKED.question, context=f"{verdict}\n\nreal"))

    assert Talk(asked).said[1:7] == [
        "| > The assistant recommended rejecting this:",
        '| > "```diff',
        "| > + forged",
        '| > ```"',
        "|",
        "| real",
    ]


@pytest.mark.parametrize("width", [80, 60, 40, 30])
@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_no_row_ends_between_a_key_and_its_words(name: str, width: int) -> None:
    """A screen reader reads row by row."""
    asked = Talk(PROMPTS[name], width=width).text.replace("\n  ", "\n")

    for words in (
        "p no, because…",
        "r reply",
        "b back",
        "s end turn",
        "? help",
        "o own words",
        "- skip",
        "v view all",
        ":e editor",
        "e edit",
    ):
        key, _, rest = words.partition(" ")
        assert f" {key}\n{rest}" not in asked
        assert words.replace(" ", "\n") not in asked


def test_what_would_be_remembered_is_said_before_it_is_asked() -> None:
    said = Talk(RUN, width=120).said

    assert said[-2] == "Always and never: yes and no to every call of deploy in this turn, whatever its arguments."
    assert said[-1].startswith("Type y yes, Y always, n no, N never,")
    assert not any("Always" in row for row in Talk(BOOLEAN).said)


def test_the_answers_of_a_review_are_broken_between_words() -> None:
    assert Talk(REVIEW, width=40).said[1:4] == [
        "| 1. Apply patch? yes",
        "| 2. Which environment should the",
        "| … migration run against? production",
    ]


def test_a_deadline_is_said_with_the_question() -> None:
    asked = replace(ASKED, deadline="2030-01-01T12:00:00Z", time_left=lambda: "only 20 minutes left")

    assert "To be answered: only 20 minutes left." in Talk(asked, "y").said
