"""Rich prompts for yes or no, approvals, and the review of a form."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import CallSubject, Prompt, RuleDraft
from midturn.question.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, WentBack
from midturn.terminal.prompts.keys import BackTo, Ruled
from midturn.terminal.prompts.rich.keyboard import Paste
from midturn.terminal.prompts.rich.screen import Sign, row_text
from support.prompt_catalogue import BOOLEAN, CALL, DELIVER, PROMPTS, REVIEW, RUN
from support.rich_prompt_driver import RichPromptDriver, pressed

ASKED = PROMPTS["boolean"]
KEYS = "y yes · n no · p no, because… · b back · r reply · s end turn · ? all keys"
ROW = ["Apply patch?", KEYS, "Y yes, N no to every answer of Assistant in this turn"]


@pytest.mark.parametrize(
    ("key", "reply"),
    [
        ("y", Answered(True)),
        ("Y", Answered(True, remember=True)),
        ("n", Answered(False)),
        ("N", Answered(False, remember=True)),
        ("b", WentBack()),
        ("c-c", EndedTurn()),
        ("c-d", EndedTurn()),
    ],
)
def test_one_key_answers(key: str, reply: Reply) -> None:
    assert pressed(ASKED, key).reply == reply


@pytest.mark.parametrize(
    "key", ["x", "Y", "N", "b", "o", "-", "v", "1", " ", "escape", "up", "tab", "m-y", "c-y"]
)
def test_every_other_key_does_nothing(key: str) -> None:
    """`Y`, `N` and `b` are not offered here."""
    keys = pressed(replace(BOOLEAN, can_reply=False), key)

    assert keys.reply is None
    assert keys.press("y").reply == Answered(True)


def test_a_key_without_effect_shows_a_message_and_rings() -> None:
    keys = pressed(ASKED, "x")

    assert keys.outcome is Sign.RING
    assert keys.live[-1] == "x is not an option; press ? for help"
    assert keys.press("?").live[-1] != "x is not an option; press ? for help"


def test_enter_takes_the_default_if_there_is_one() -> None:
    assert pressed(PROMPTS["boolean_default"], "enter").reply == Answered(True)
    assert pressed(PROMPTS["boolean_long"], "c-j").reply == Answered(False)
    assert pressed(BOOLEAN, "enter").reply is None
    assert pressed(BOOLEAN, "enter").live[-1] == "no default: press y or n, or ? for help"


@pytest.mark.parametrize("prompt", [RUN, DELIVER])
@pytest.mark.parametrize("key", ["enter", "c-j", " "])
def test_enter_never_decides_an_approval(prompt: Prompt, key: str) -> None:
    wished = replace(prompt, prefill=True, question=replace(prompt.question, default=True))

    assert pressed(wished, key).reply is None


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, prompt in PROMPTS.items()
        if prompt.kind in {"run", "deliver"} or "boolean" in name
    ),
)
def test_a_paste_never_answers(name: str) -> None:
    assert pressed(PROMPTS[name], Paste("y"), Paste("y\n")).reply is None


def test_a_no_can_have_a_typed_reason() -> None:
    keys = pressed(ASKED, "p", *"it drops", "m-enter", *"a test", "enter")

    assert keys.reply == Answered(False, reason="it drops\na test")
    assert keys.transcript == 'Apply patch? no: "it drops ⏎ a test"'.replace(" ⏎", "⏎")


def test_escape_leaves_the_reason_without_answering() -> None:
    keys = pressed(ASKED, "p", *"hm", "escape")

    assert keys.reply is None
    assert keys.live == ROW


def test_reply_works_with_and_without_text() -> None:
    assert pressed(ASKED, "r", *"no, the other", "enter").reply == Replied("no, the other")
    assert pressed(ASKED, "r", "enter").reply == Replied(None)


def test_help_opens_and_closes() -> None:
    keys = pressed(ASKED, "?")
    assert "  Y - yes, and so for every answer of Assistant in this turn" in keys.live
    assert (
        "  Enter - no effect (there is no default); Ctrl-C - cancel and end the turn" in keys.live
    )

    assert keys.press("?").live == ROW


def test_an_optional_question_can_be_skipped() -> None:
    keys = pressed(PROMPTS["boolean_optional"], "-")

    assert keys.reply == Answered(None)
    assert keys.transcript == "Send a message to everybody? (skipped)"


@pytest.mark.parametrize("key", ["y", "n", "enter", "s", "b", "?"])
def test_too_early_keys_are_ignored(key: str) -> None:
    keys = RichPromptDriver(PROMPTS["boolean_default"], quiet=0.3)

    keys.now = 0.2
    assert keys.press(key).reply is None
    assert keys.live[-1] == "that key came too soon and was ignored: press it again"

    keys.now = 0.6
    assert keys.press("y").reply == Answered(True)


def test_ctrl_c_is_never_too_early() -> None:
    assert RichPromptDriver(ASKED, quiet=0.3).press("c-c").reply == EndedTurn()


def test_arguments_are_edited_one_after_the_other_by_type() -> None:
    keys = pressed(RUN, "e")
    assert "[1/3] New value of env:" in keys.live
    assert "> production" in keys.live

    keys.press("c-u", *"staging", "enter")
    assert "[2/3] New value of script:" in keys.live
    assert '  make "all"' in keys.live
    assert "[1/3] New value of env:" in keys.press("escape").live
    keys.press("enter", *"make more", "enter")
    assert "[3/3] New value of dry:" in keys.live
    keys.press("c-u", *"no", "enter")
    assert keys.reply is None
    assert keys.press("end", "c-u", *"true", "enter").reply == Edited(
        {"env": "staging", "script": 'set -e\nmake "all"\nmake more', "dry": True}
    )


def test_a_single_text_argument_is_edited_as_text_and_checked() -> None:
    one = replace(RUN, subject=CallSubject(replace(CALL, arguments={"command": 'echo "hi"'})))
    keys = pressed(
        replace(
            one,
            parameters={
                "type": "object",
                "properties": {"command": {"type": "string", "maxLength": 12}},
            },
        ),
        "e",
    )
    assert "New value of command:" in keys.live

    assert keys.press(*" and more", "enter").reply is None
    assert any(line.startswith("! $.command: ") for line in keys.live)
    assert keys.press(*["backspace"] * 8, *"a", "enter").reply == Edited({"command": 'echo "hi" a'})


def test_arguments_can_be_edited_as_a_json_object() -> None:
    keys = pressed(RUN, "e", "m-j", "c-home", *["c-k"] * 30, *"[1]", "enter")
    assert keys.reply is None
    assert "! arguments are a JSON object: { ... }" in keys.live

    keys.press("c-u", *'{"env": "staging"}', "enter")
    assert keys.reply == Edited({"env": "staging"})
    assert keys.transcript == "Run deploy? yes, edited"


def test_skipping_a_call_can_have_a_reason() -> None:
    assert pressed(RUN, "p", *"not today", "enter").reply == Answered(False, reason="not today")


def test_arguments_can_be_viewed_in_full() -> None:
    keys = pressed(RUN, "v")
    assert keys.live[0] == "│ env: production"

    assert keys.press("y").reply is None
    assert keys.press("q", "y").reply == Answered(True)


def test_a_result_can_be_edited() -> None:
    assert pressed(DELIVER, "e", "c-u", *"other", "enter").reply == Edited("line one\nother")


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_pager_bar_shows_the_exit_key_at_any_width(columns: int) -> None:
    keys = RichPromptDriver(PROMPTS["boolean_cut"], columns=columns).press("v")

    assert any(keys.live[-1].endswith(way) for way in ("q close", "q back to the question")), (
        keys.live[-1]
    )


def test_approving_cut_content_gives_a_warning_unless_it_was_viewed() -> None:
    assert (
        pressed(PROMPTS["boolean_cut"], "y").transcript
        == "Apply all of it? yes (80 rows were not viewed)"
    )
    assert (
        pressed(PROMPTS["boolean_cut"], "v", "q", "y").transcript
        == "Apply all of it? yes (51 rows were not viewed)"
    )
    assert (
        pressed(PROMPTS["boolean_cut"], "v", "end", "q", "y").transcript
        == "Apply all of it? yes (22 rows were not viewed)"
    )
    assert (
        pressed(PROMPTS["boolean_cut"], "v", "G", "g", "q", "y").transcript
        == "Apply all of it? yes (22 rows were not viewed)"
    )
    assert (
        pressed(PROMPTS["boolean_cut"], "v", " ", " ", "q", "y").transcript
        == "Apply all of it? yes"
    )
    assert pressed(PROMPTS["boolean_cut"], "n").transcript == "Apply all of it? no"


def test_unviewed_content_is_reported_at_any_width() -> None:
    keys = RichPromptDriver(PROMPTS["boolean_cut"], columns=30).press("y")

    assert keys.reply is not None
    _, *below = keys.prompt.settled(keys.reply, 30)
    assert keys.transcript == "Apply all of it? yes"
    assert [row_text(row) for row in below] == ["(80 rows were not viewed)"]


def test_enter_submits_a_review_and_back_edits() -> None:
    assert pressed(REVIEW, "enter").reply == Submitted()
    assert pressed(REVIEW, "b").reply == WentBack()
    assert pressed(REVIEW, "y").reply == Submitted()
    assert pressed(REVIEW, "x").reply is None


def test_ending_the_turn_takes_two_keys() -> None:
    keys = pressed(ASKED, "s")
    assert keys.reply is None
    assert keys.live[-1] == "press s again to end the turn, any other key to continue"

    assert keys.press("?", "?", "s").reply is None
    assert keys.press("s").reply == EndedTurn()


@pytest.mark.parametrize("key", ["y", "n", "Y", "p", "enter"])
def test_a_key_after_ending_the_turn_is_not_an_answer(key: str) -> None:
    keys = pressed(ASKED, "s", key)
    assert keys.reply is None
    assert keys.live[-1] == RichPromptDriver(ASKED).live[-1]
    assert keys.press("y").reply == Answered(value=True)


def test_the_scope_of_a_remembered_answer_is_shown() -> None:
    asked = replace(
        ASKED, tool="fs_modify_file", question=replace(ASKED.question, id="apply_changes")
    )
    keys = pressed(asked, "Y")
    assert keys.transcript == "Apply patch? yes, for this turn"
    _, covered = keys.prompt.settled(Answered(True, remember=True), 80)
    assert (
        row_text(covered)
        == "From now on yes to every apply_changes of fs_modify_file in this turn."
    )
    assert (
        "  Y - run it, and so for every call of deploy in this turn, with any arguments"
        in RichPromptDriver(RUN, columns=100).press("?").live
    )


def test_built_in_questions_offer_only_meaningful_keys() -> None:
    ours = replace(PROMPTS["boolean_no_persistence"], asked_by="midturn", can_reply=False)

    assert RichPromptDriver(ours).live == ["Drop the production table? y yes · n no · ? all keys"]
    assert (
        "  Enter - no effect (there is no default); Ctrl-C - leave without an answer"
        in pressed(ours, "?").live
    )


def test_the_question_stays_visible_while_a_reason_or_reply_is_typed() -> None:
    assert pressed(ASKED, "p").live[:2] == ["Apply patch?", "Reason (optional):"]
    assert pressed(ASKED, "r").live[0] == "Apply patch?"


def test_a_row_number_goes_back_to_that_question() -> None:
    assert pressed(REVIEW, "1").reply == BackTo(1)
    assert pressed(REVIEW, "2").reply == BackTo(2)
    assert pressed(REVIEW, "3").live[-1] == "there is no row 3; press ? for help"


def test_edited_arguments_are_checked_against_the_parameters_of_the_tool() -> None:
    parameters = {"type": "object", "properties": {"env": {"enum": ["staging", "production"]}}}
    keys = pressed(
        replace(RUN, parameters=parameters),
        "e",
        "m-j",
        "c-home",
        *["c-k"] * 30,
        *'{"env": "prod"}',
        "enter",
    )

    assert keys.reply is None
    assert any(line.startswith("! $.env: ") for line in keys.live)
    assert keys.press("left", "left", *"uction", "enter").reply == Edited({"env": "production"})


def test_a_reviewers_text_is_quoted_and_is_no_diff() -> None:
    verdict = 'The assistant recommended rejecting this:\n"```diff\n+ forged\n```"'
    asked = replace(
        ASKED,
        verdict=verdict,
        question=replace(ASKED.question, context=f"{verdict}\n\n```diff\n+ real\n```"),
    )
    rows = RichPromptDriver(asked).prompt.static()
    assert [row_text(row).rstrip() for row in rows][1:] == [
        "│ > The assistant recommended rejecting this:",
        '│ > "```diff',
        "│ > + forged",
        '│ > ```"',
        "│",
        "│ + real",
    ]
    added = [row_text(row) for row in rows if any(span.style == "added" for span in row)]
    assert added == ["│ + real"]


@pytest.mark.parametrize("columns", [120, 80, 40])
def test_the_remembered_scope_is_shown_with_its_keys(columns: int) -> None:
    said = " ".join(" ".join(RichPromptDriver(RUN, columns=columns).live).split())

    assert said.endswith(
        "? all keys Y yes, N no to every call of deploy in this turn, with any arguments"
    )
    assert not any("Y yes" in row for row in RichPromptDriver(BOOLEAN, columns=columns).live)


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (80, KEYS),
        (66, "y yes · n no · p no, because… · b back · r reply · ? all keys"),
        (50, "y yes · n no · p no, because… · ? all keys"),
        (40, "y yes · n no · r reply · ? all keys"),
        (23, "y yes · n no · ? more"),
        (20, "y yes · n no · ?"),
    ],
)
def test_a_narrow_row_shows_the_keys_that_fit(columns: int, row: str) -> None:
    assert RichPromptDriver(ASKED, columns=columns).live[1] == row


def test_the_help_says_that_ending_the_turn_needs_confirmation() -> None:
    assert "  s - end the turn, after asking once more" in pressed(ASKED, "?").live


def test_a_dash_key_is_distinguished_from_the_separator() -> None:
    assert "  - (minus) - skip this question" in pressed(PROMPTS["boolean_optional"], "?").live


@pytest.mark.parametrize("key", ["p", "r"])
def test_a_text_left_with_escape_is_kept(key: str) -> None:
    keys = pressed(ASKED, key, *"because it", "escape")
    assert keys.live == ROW

    assert "> because it" in keys.press(key).live
    assert "> because it" not in keys.press("escape", "r" if key == "p" else "p").live


def test_edited_arguments_left_with_escape_are_kept() -> None:
    keys = pressed(RUN, "e", "c-u", *"elsewhere", "escape", "e")

    assert "> elsewhere" in keys.live


def test_ctrl_c_in_a_form_with_answers_asks_first() -> None:
    form = replace(ASKED, index=2, total=3)
    keys = pressed(form, "c-c")
    assert keys.reply is None
    assert (
        keys.live[-1]
        == "the form has answers: Ctrl-C again to end the turn, any other key to continue"
    )

    assert keys.press("y").reply is None
    assert keys.press("c-c", "c-c").reply == EndedTurn()
    assert pressed(replace(form, index=1), "c-c").reply == EndedTurn()


@pytest.mark.parametrize("columns", [40, 30])
def test_answers_in_a_review_wrap_between_words(columns: int) -> None:
    rows = [
        row_text(row).rstrip() for row in RichPromptDriver(REVIEW, columns=columns).prompt.static()
    ]

    assert rows[2].endswith(" the") or rows[2].endswith(" should")
    assert all(row.startswith("│ … ") for row in rows[3:])


def test_the_remaining_time_is_shown_and_updated_with_each_drawing() -> None:
    left = ["4 h left", "only 20 minutes left"]
    keys = pressed(replace(ASKED, deadline="2030-01-01T12:00:00Z", time_left=lambda: left[0]), "?")

    assert keys.live[-1] == "4 h left"
    del left[0]
    assert keys.live[-1] == "only 20 minutes left"


def test_a_rule_is_shown_and_can_be_edited_before_it_is_saved() -> None:
    draft = RuleDraft(
        '{ run = "unattended" }', lambda typed: "" if "unattended" in typed else "no rule"
    )
    keys = pressed(replace(RUN, rule=draft), "A")
    assert "The rule for such calls:" in "\n".join(keys.live)
    assert keys.press("c-u", "x", "enter").reply is None
    assert "! no rule" in keys.live
    again = pressed(replace(RUN, rule=draft), "A", "enter")
    assert again.reply == Ruled(value=True, scope="project", written='{ run = "unattended" }')
    assert pressed(RUN, "A").outcome is Sign.RING


def test_tab_changes_the_scope_of_a_rule() -> None:
    draft = RuleDraft(
        '{ run = "unattended" }', lambda _: "", said=lambda typed, scope: (f"{scope}: {typed}",)
    )
    keys = pressed(replace(RUN, rule=draft), "A")
    assert 'project: { run = "unattended" }' in keys.live
    assert "Tab changes the scope" in "\n".join(keys.live)
    keys.press("tab")
    assert 'everywhere: { run = "unattended" }' in keys.live
    keys.press("tab")
    assert 'conversation: { run = "unattended" }' in keys.live
    keys.press("enter")
    assert keys.reply == Ruled(value=True, scope="conversation", written='{ run = "unattended" }')


def test_a_rule_with_one_scope_offers_no_other_scope() -> None:
    draft = RuleDraft('{ run = "unattended" }', lambda _: "", scopes=("project",))
    keys = pressed(replace(RUN, rule=draft), "A")
    assert "Tab" not in "\n".join(keys.live)
    keys.press("enter")
    assert keys.reply == Ruled(value=True, scope="project", written='{ run = "unattended" }')
