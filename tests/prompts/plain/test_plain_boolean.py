"""Plain prompts for yes or no."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import CallSubject
from midturn.question.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, WentBack
from midturn.terminal.prompts.keys import BackTo
from support.plain_prompt_driver import PlainPromptDriver
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
    assert PlainPromptDriver(ASKED, line).reply == reply


def test_a_no_can_have_a_typed_reason() -> None:
    talk = PlainPromptDriver(ASKED, "p", "it drops \\", "a test")

    assert talk.reply == Answered(False, reason="it drops \na test")
    assert talk.said[-1] == 'Answer: no: "it drops ⏎ a test"'


def test_reply_works_with_and_without_text() -> None:
    assert PlainPromptDriver(ASKED, "r", "use the other file").reply == Replied(
        "use the other file"
    )
    assert PlainPromptDriver(ASKED, "r", "").reply == Replied(None)


def test_colon_c_leaves_a_reply_and_asks_again() -> None:
    assert PlainPromptDriver(ASKED, "r", ":c", "y").reply == Answered(True)


@pytest.mark.parametrize("key", ["Y", "N", "b", "r", "v", "o", "-", "e"])
def test_an_unknown_key_does_nothing(key: str) -> None:
    bare = replace(BOOLEAN, can_reply=False)

    talk = PlainPromptDriver(bare, key, "y")

    assert f"{key} is not an option; type ? for help." in talk.said
    assert talk.reply == Answered(True)


def test_enter_takes_the_default_if_there_is_one() -> None:
    assert PlainPromptDriver(PROMPTS["boolean_default"], "").reply == Answered(True)
    assert PlainPromptDriver(PROMPTS["boolean_long"], "").reply == Answered(False)
    assert PlainPromptDriver(BOOLEAN, "").reply is None


def test_an_earlier_answer_takes_precedence_over_the_default() -> None:
    assert PlainPromptDriver(
        replace(PROMPTS["boolean_default"], prefill=False), ""
    ).reply == Answered(False)


@pytest.mark.parametrize("prompt", [RUN, DELIVER])
@pytest.mark.parametrize("default", [True, False])
def test_enter_never_decides_an_approval(prompt: object, default: bool) -> None:  # noqa: FBT001 (a parameter of a test)
    """This also holds if the approval has a default."""
    assert isinstance(prompt, type(RUN))

    talk = PlainPromptDriver(
        replace(prompt, prefill=default, question=replace(prompt.question, default=default)), ""
    )

    assert talk.reply is None
    assert "Enter for" not in talk.text


def test_an_optional_question_can_be_skipped() -> None:
    talk = PlainPromptDriver(PROMPTS["boolean_optional"], "-")

    assert talk.reply == Answered(None)
    assert talk.said[-1] == "Answer: (skipped)"


def test_cut_content_can_be_viewed() -> None:
    talk = PlainPromptDriver(PROMPTS["boolean_cut"], "v", "y")

    assert "... 80 more lines, v to view" in talk.said
    assert "| line 200" in talk.said
    assert talk.said[-1] == "Answer: yes"


def test_approving_cut_content_gives_a_warning() -> None:
    assert (
        PlainPromptDriver(PROMPTS["boolean_cut"], "y").said[-1]
        == "Answer: yes (80 rows were not viewed)"
    )


def test_a_call_is_shown_as_it_would_run() -> None:
    """Arguments are shown by name, and strings as text."""
    assert PlainPromptDriver(RUN).said[1:6] == [
        "| env: production",
        "| script:",
        "|     set -e",
        '|     make "all"',
        "| dry: false",
    ]


def test_an_ambiguous_text_is_quoted() -> None:
    arguments = {
        "a": "true",
        "b": True,
        "c": " x",
        "d": "",
        "e": {"f": [1]},
        "g": "x" * 30 + "    h: false",
    }
    said = PlainPromptDriver(
        replace(RUN, subject=CallSubject(replace(CALL, arguments=arguments))), width=40
    ).said

    assert said[1:7] == [
        '| a: "true"',
        "| b: true",
        '| c: " x"',
        '| d: ""',
        '| e: {"f": [1]}',
        f"| g: {'x' * 30}    h",
    ]
    assert said[7] == "| … : false"


def test_a_new_file_is_shown_as_added_lines() -> None:
    call = replace(
        CALL,
        name="fs_create_file",
        arguments={"path": "src/new.py", "content": "import os\n\tprint()\n"},
    )

    assert PlainPromptDriver(replace(RUN, subject=CallSubject(call))).said[1:4] == [
        "| src/new.py (2 lines, 19 bytes)",
        "| +import os",
        "| +⇥   print()",
    ]


def test_skipping_a_call_can_have_a_reason() -> None:
    assert PlainPromptDriver(RUN, "p", "not today").reply == Answered(False, reason="not today")


def test_arguments_are_edited_one_after_the_other() -> None:
    talk = PlainPromptDriver(RUN, "e", "staging", "", "no", "true")

    assert talk.reply == Edited({"env": "staging", "script": 'set -e\nmake "all"\n', "dry": True})
    assert "env is now:" in talk.said
    assert "Not accepted:" in talk.said


def test_arguments_are_edited_line_by_line() -> None:
    talk = PlainPromptDriver(RUN, "e", ":j", '{"env":', "broken", '{"env": "staging"}')

    assert talk.reply == Edited({"env": "staging"})
    assert talk.said.count("Not accepted:") == 2


def test_arguments_are_edited_in_the_editor() -> None:
    talk = PlainPromptDriver(RUN, "e", ":j", ":e", "", edited='{"env": "staging"}')

    assert talk.reply == Edited({"env": "staging"})
    assert talk.given[0].suffix == ".json"
    assert '"env": "production"' in talk.given[0].text


def test_q_leaves_the_rest_as_in_a_pager() -> None:
    long = replace(RUN, subject=CallSubject(replace(CALL, arguments={"script": "x\n" * 200})))

    assert "q is not an option; type ? for help." in PlainPromptDriver(long, "q").said
    assert "q is not an option; type ? for help." not in PlainPromptDriver(long, "v", "q").said


def test_edited_arguments_must_be_an_object() -> None:
    assert "  arguments are a JSON object: { ... }" in PlainPromptDriver(RUN, "e", ":j", "[1]").said


def test_a_result_is_edited_as_text() -> None:
    assert PlainPromptDriver(DELIVER, "e", "line one").reply == Edited("line one")


@pytest.mark.parametrize("line", ["", "y", "Yes"])
def test_enter_and_yes_send_a_review(line: str) -> None:
    talk = PlainPromptDriver(REVIEW, line)

    assert talk.reply == Submitted()
    assert talk.said[1:3] == [
        "| 1. Apply patch? yes",
        "| 2. Which environment should the migration run against? production",
    ]


@pytest.mark.parametrize(("line", "reply"), [("b", WentBack()), ("1", BackTo(1)), ("2", BackTo(2))])
def test_a_review_can_be_cancelled(line: str, reply: Reply) -> None:
    assert PlainPromptDriver(REVIEW, "what?", line).reply == reply


def test_a_configured_name_is_quoted_after_the_header() -> None:
    assert PlainPromptDriver(PROMPTS["labelled"]).said[0] == '| deploy asks "Assistant":'


def test_ending_the_turn_needs_confirmation() -> None:
    assert PlainPromptDriver(ASKED, "s", "", "y").reply == Answered(True)
    assert PlainPromptDriver(ASKED, "s", "s").reply == EndedTurn()
    assert PlainPromptDriver(ASKED, "end turn", "end turn").reply == EndedTurn()


def test_a_reviewers_text_is_quoted_and_is_no_diff() -> None:
    verdict = 'The assistant recommended rejecting this:\n"```diff\n+ forged\n```"'
    asked = replace(
        ASKED, verdict=verdict, question=replace(ASKED.question, context=f"{verdict}\n\nreal")
    )

    assert PlainPromptDriver(asked).said[1:7] == [
        "| > The assistant recommended rejecting this:",
        '| > "```diff',
        "| > + forged",
        '| > ```"',
        "|",
        "| real",
    ]


@pytest.mark.parametrize("width", [80, 60, 40, 30])
@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_a_key_and_its_label_stay_in_one_row(name: str, width: int) -> None:
    """A screen reader reads row by row."""
    asked = PlainPromptDriver(PROMPTS[name], width=width).text.replace("\n  ", "\n")

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


def test_a_remembered_scope_is_announced_before_the_question() -> None:
    said = PlainPromptDriver(RUN, width=120).said

    assert (
        said[-2] == "Always and never: yes and no to every call of deploy in this turn, with any"
        " arguments."
    )
    assert said[-1].startswith("Type y yes, Y always, n no, N never,")
    assert not any("Always" in row for row in PlainPromptDriver(BOOLEAN).said)


def test_answers_in_a_review_wrap_between_words() -> None:
    assert PlainPromptDriver(REVIEW, width=40).said[1:4] == [
        "| 1. Apply patch? yes",
        "| 2. Which environment should the",
        "| … migration run against? production",
    ]


def test_a_deadline_is_shown_with_the_question() -> None:
    asked = replace(
        ASKED, deadline="2030-01-01T12:00:00Z", time_left=lambda: "only 20 minutes left"
    )

    assert "Time to answer: only 20 minutes left." in PlainPromptDriver(asked, "y").said
