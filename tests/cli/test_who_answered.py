"""Rows of a turn on the terminal: each question with its responder, and each result with the
outcome of its call.
"""

from __future__ import annotations

import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest

from midturn.config.places import own_name
from midturn.terminal.status_output import FRAMES
from support.cli import CommandLine, asks, calls

EDIT = {"path": "plan.md", "edits": [{"old": "2. Ship.", "new": "2. Ship slowly."}]}


def plan(midturn: CommandLine) -> None:
    """Create a file that can be changed."""
    (midturn.root / "plan.md").write_text("1. Build.\n2. Ship.\n")


def edits(times: int = 1) -> list[dict[str, Any]]:
    """Return replies that change the file repeatedly."""
    pairs = [("2. Ship.", "2. Ship slowly."), ("2. Ship slowly.", "2. Wait.")]
    return [
        calls("fs_modify_file", path="plan.md", edits=[{"old": old, "new": new}])
        for old, new in pairs[:times]
    ]


def test_flag_and_default_answers_have_rows(midturn: CommandLine) -> None:
    midturn.asker(detached="defaults")
    questions = [asks("confirm", "Deploy to staging?"), asks("loud", "With a bang?", default=False)]
    model = midturn.script(calls("deploy", ask=questions))

    finished = midturn.ok("query", "-m", model, "--answer", "deploy.confirm=yes", "Go")

    assert "Deploy to staging? yes  (--answer)" in finished.stderr
    assert "With a bang? no  (by default)" in finished.stderr


def test_approval_by_a_model_is_drawn_with_its_reason(midturn: CommandLine) -> None:
    plan(midturn)
    midturn.configure(
        '[conversation.tools.fs_modify_file.questions.apply_changes]\ntarget = "assistant"\n'
    )
    model = midturn.script(
        *edits(),
        inquiries=[{"tool": "fs_modify_file", "answers": [{"reason": "Fine.", "answer": True}]}],
    )

    finished = midturn.ok("query", "-m", model, "Go")

    warning, *said = finished.stderr.splitlines()
    assert warning.startswith(
        f"midturn: `fs_modify_file.apply_changes`: the main model `{model}` reviews its own calls."
    )
    assert said[0] == "· fs_modify_file plan.md"
    assert any(
        line.startswith("Apply the changes to plan.md? yes  (by ") and line.endswith(': "Fine.")')
        for line in said
    )
    assert "│ +2. Ship slowly." in said
    assert said[-2] == "· fs_modify_file plan.md: ok"


def test_different_reviewer_model_causes_no_warning(midturn: CommandLine) -> None:
    plan(midturn)
    midturn.configure(
        '[conversation.tools.fs_modify_file.questions.apply_changes]\ntarget = "assistant"\n'
    )
    review = {
        "replies": [],
        "inquiries": [
            {"tool": "*", "question": "*", "answers": [{"reason": "Fine.", "answer": True}]}
        ],
    }
    (midturn.root / "review.json").write_text(json.dumps(review))

    other = "conversation.inquiry.assistant.model.id=scripted:review.json"
    finished = midturn.ok("query", "-m", midturn.script(*edits()), "--cfg", other, "Go")

    assert "reviews its own calls" not in finished.stderr
    assert "answered without a person: 1 by a model" in finished.stderr


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('{ modl.id = "a/b" }', "Did you mean `model`"),
        ('{ model.idd = "a/b" }', "Did you mean `id`"),
        ('{ model.id = "" }', "expected a model such as"),
        ('"assistent"', 'expected "user", "assistant" or "assistant_with_escalation"'),
        ('{ model.id = "x/y" }', "Unknown provider `x`"),
    ],
)
@pytest.mark.parametrize("where", ["file", "flag"])
def test_a_reviewer_that_does_not_exist_ends_the_command_before_the_turn(
    midturn: CommandLine, where: str, value: str, says: str
) -> None:
    key = "conversation.tools.fs_modify_file.questions.apply_changes.target"
    flags = ["--cfg", f"{key}={value}"] if where == "flag" else []
    if not flags:
        midturn.configure(f"{key} = {value}\n")

    finished = midturn.run("query", "-m", midturn.script(*edits()), *flags, "Go")

    assert finished.status != 0
    assert says in finished.stderr
    assert midturn.ok("conversation", "ls").stdout == "No conversations yet.\n"


def test_remembered_yes_is_shown_with_the_call(midturn: CommandLine) -> None:
    plan(midturn)
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("query", "-m", midturn.script(*edits(2)), "Go") as terminal:
        terminal.wait_at(": ")
        terminal.send("always\r")
        assert terminal.wait_for_end() == 0

    assert "From now on yes to every apply_changes of fs_modify_file in this turn." in terminal.text
    assert "Apply the changes to plan.md? yes  (remembered)" in terminal.text
    assert "+2. Wait." in terminal.text
    assert "midturn: answered for you: 1 remembered." in terminal.text


def test_result_row_shows_the_outcome(midturn: CommandLine) -> None:
    plan(midturn)
    midturn.accept_keys_at_once()
    for keys, said in (
        ("n\r", "not changed: you said no"),
        ("r\rlater\r", "not run; your reply went to the assistant"),
    ):
        with midturn.on_a_terminal("query", "-m", midturn.script(*edits()), "Go") as terminal:
            terminal.wait_at(": ")
            terminal.send(keys[:2])
            if len(keys) > 2:
                terminal.wait_at("question): ")
                terminal.send(keys[2:])
            assert terminal.wait_for_end() == 0
        assert f"fs_modify_file plan.md: {said}" in " ".join(terminal.text.split())


def test_refused_call_and_withheld_result_have_rows(midturn: CommandLine) -> None:
    midturn.asker(run="ask", result="ask")
    midturn.accept_keys_at_once()
    for keys, said in ((["n"], "not run: you said no"), (["y", "n"], "ran; result withheld")):
        with midturn.on_a_terminal(
            "query", "-m", midturn.script(calls("deploy", say="x")), "Go"
        ) as terminal:
            for number, key in enumerate(keys):
                terminal.wait_for(("Run deploy?", "Deliver the result of deploy?")[number])
                terminal.wait_at("help: ")
                terminal.send(f"{key}\r")
            assert terminal.wait_for_end() == 0
        assert f"deploy x: {said}" in terminal.text


def overwriting(midturn: CommandLine) -> str:
    """Return a model that creates a file which already exists."""
    plan(midturn)
    midturn.accept_keys_at_once()
    return midturn.script(calls("fs_create_file", path="plan.md", content="1. Build.\n2. Wait.\n"))


def test_overwriting_a_file_is_asked_once_with_its_diff(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("query", "-m", overwriting(midturn), "Go") as terminal:
        terminal.wait_for("Overwrite plan.md?")
        terminal.wait_at(": ")
        assert "| -2. Ship.\n| +2. Wait.\n" in terminal.text
        assert "| plan.md (2 lines, 19 bytes)" in terminal.text
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert (midturn.root / "plan.md").read_text() == "1. Build.\n2. Wait.\n"
    recorded = [
        event for event in midturn.events() if event["type"] in ("inquiry_response", "approval")
    ]
    assert [
        (event["type"], event.get("state"), event.get("answered_by", {}).get("by"))
        for event in recorded
    ] == [
        ("approval", "waiting", None),
        ("approval", "approved", "user"),
        ("inquiry_response", None, "user"),
    ]


def test_inbox_asks_once_and_shows_the_diff(midturn: CommandLine) -> None:
    assert midturn.run("query", "-m", overwriting(midturn), "--defer", "Go").status == 3
    (question,) = midturn.ok("inbox", "--json").json
    assert question["kind"] == "run"
    assert question["question"]["text"] == "Overwrite plan.md?"
    assert "-2. Ship.\n+2. Wait.\n" in question["question"]["context"]
    assert "Overwrite plan.md?" in midturn.ok("inbox").stdout

    answered = midturn.run("answer", question["id"], "y", "--resume")

    assert answered.status == 0, answered.stderr
    assert (midturn.root / "plan.md").read_text() == "1. Build.\n2. Wait.\n"
    shown = midturn.ok("conversation", "show").stdout
    assert shown.count("Overwrite plan.md?  yes  (answered by ") == 1
    assert shown.count("+2. Wait.") == 1
    assert "Run fs_create_file?" not in shown


def test_file_changed_before_the_inbox_is_asked_about_again(midturn: CommandLine) -> None:
    assert midturn.run("query", "-m", overwriting(midturn), "--defer", "Go").status == 3
    (question,) = midturn.ok("inbox", "--json").json
    (midturn.root / "plan.md").write_text("mine\n")

    assert midturn.run("answer", question["id"], "y", "--resume").status in (3, 4)
    assert (midturn.root / "plan.md").read_text() == "mine\n"


def test_file_changed_during_the_question_is_asked_about_again(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("query", "-m", overwriting(midturn), "Go") as terminal:
        terminal.wait_for("Overwrite plan.md?")
        terminal.wait_at(": ")
        (midturn.root / "plan.md").write_text("mine\n")
        terminal.send("y\r")
        terminal.wait_for("| -mine")
        terminal.wait_at(": ")
        terminal.send("n\r")
        assert terminal.wait_for_end() == 0

    assert (midturn.root / "plan.md").read_text() == "mine\n"


def test_detached_refusal_is_not_shown_as_a_default_answer(midturn: CommandLine) -> None:
    midturn.asker(run="ask")

    finished = midturn.run("query", "-m", midturn.script(calls("deploy", say="x")), "Go")

    assert finished.status == 4
    assert finished.stderr.startswith(
        "Run deploy? no  (no one was there to ask)\n· deploy x: not run: no one was there to allow"
        " it\n"
    )
    assert "(by default)" not in finished.stderr
    assert "Run deploy?  no  (no one was there to ask)" in midturn.ok("conversation", "show").stdout


def test_refusal_by_the_configuration_is_no_failure(midturn: CommandLine) -> None:
    model = midturn.script(calls("deploy", say="x"))
    midturn.asker()

    withheld = midturn.ok(
        "query", "-m", model, "--cfg", "conversation.tools.deploy.result=skip", "Go"
    )
    assert "· deploy x: ran; result withheld\n" in withheld.stderr
    skipped = midturn.ok("query", "-m", model, "--cfg", "conversation.tools.deploy.run=skip", "Go")
    assert "· deploy x: not run: switched off by configuration\n" in skipped.stderr


def test_context_of_a_remembered_yes_is_drawn_without_fences(midturn: CommandLine) -> None:
    plan(midturn)
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(*edits(2)), "Go", plain=False
    ) as terminal:
        terminal.wait_for("all keys")
        terminal.send("Y")
        assert terminal.wait_for_end() == 0

    assert "(remembered)\n│ --- a/plan.md\n│ +++ b/plan.md\n" in terminal.text
    assert "```" not in terminal.text
    trail = midturn.ok("conversation", "show", "--inquiries").stdout
    asked = re.search(
        r"  (\d\d:\d\d:\d\d)  fs_modify_file asks: .*\n +answered true by user ana via terminal\n",
        trail,
    )
    assert asked
    assert f"answered true (remembered from {asked[1]})" in trail


def test_audit_trail_shows_when_a_permission_was_remembered(midturn: CommandLine) -> None:
    midturn.accept_keys_at_once()
    midturn.asker(run="ask")

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", say="x"), calls("deploy", say="y")), "Go"
    ) as terminal:
        terminal.wait_at(": ")
        terminal.send("Y\r")
        assert terminal.wait_for_end() == 0

    trail = midturn.ok("conversation", "show", "--inquiries").stdout
    granted = re.search(
        r"  (\d\d:\d\d:\d\d)  run deploy: approved by user ana via terminal\n", trail
    )
    assert granted
    assert f"run deploy: approved (remembered from {granted[1]})\n" in trail


def test_answer_command_records_the_configured_name_or_the_login(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("MIDTURN_CFG_USER__NAME", raising=False)
    monkeypatch.setenv("LOGNAME", "somebody-else")
    assert own_name(os.environ) == pwd.getpwuid(os.getuid()).pw_name
    (tmp_path / "midturn").mkdir()
    (tmp_path / "midturn" / "config.toml").write_text('[user]\nname = "ana"\n')
    assert own_name(os.environ) == "ana"
    (tmp_path / "midturn" / "config.toml").write_text("broken = [")
    assert own_name(os.environ) == pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.parametrize("plain", [True, False])
def test_terminal_of_a_turn_records_the_name(midturn: CommandLine, *, plain: bool) -> None:
    """For a permission, an answer, and the end of the turn."""
    midturn.accept_keys_at_once()
    midturn.asker(run="ask")
    asked = [asks("first", "First?"), asks("second", "Second?")]

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=asked)), "Go", plain=plain
    ) as terminal:
        for place, keys in (
            ("Run deploy?", "y"),
            ("1 of 2" if plain else "[1/2]", "y"),
            ("2 of 2" if plain else "[2/2]", "\x03"),
        ):
            terminal.wait_for(place)
            terminal.wait_at(": ") if plain else terminal.wait_for("all keys")
            terminal.send(f"{keys}\r" if plain and keys == "y" else keys)
        terminal.wait_for("again to end the turn")  # the form has answers
        terminal.send("\x03")
        assert terminal.wait_for_end() == 130

    given = [
        event[key]
        for event in midturn.events()
        for key in ("answered_by", "ended_by")
        if key in event
    ]
    assert given == [{"by": "user", "via": "terminal", "user": "ana"}] * 3


@pytest.mark.parametrize(
    "how", [("yes",), ("--reply", "Not today."), ("yes", "--reason", "It is late.")]
)
def test_every_interface_records_the_name_and_a_workspace_cannot_change_it(
    midturn: CommandLine, how: tuple[str, ...]
) -> None:
    midturn.asker()
    midturn.run("query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "Go")
    (waiting,) = midturn.ok("inbox", "--json").json
    midturn.workspace_file('[user]\nname = "mallory"\n')
    midturn.ok("answer", waiting["id"], *how)
    late = midturn.run("answer", waiting["id"], "no")
    if "--reply" in how:
        assert "closed" in late.stderr
    else:
        (answered,) = [event for event in midturn.events() if event["type"] == "inquiry_response"]
        assert answered["answered_by"] == {"by": "user", "via": "inbox", "user": "ana"}
        assert "was answered before, by ana (inbox)" in late.stderr


def test_form_at_the_terminal_records_the_name_with_each_answer(midturn: CommandLine) -> None:
    midturn.asker()
    questions = [asks("first", "First?"), asks("second", "Second?")]
    midturn.run("query", "-m", midturn.script(calls("deploy", ask=questions)), "--defer", "Go")
    (waiting,) = midturn.ok("inbox", "--json").json
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal("answer", waiting["id"]) as answering:
        for number, keys in ((1, "y"), (2, "n")):
            answering.wait_for(f"question {number} of 2")
            answering.wait_at(": ")
            answering.send(f"{keys}\r")
        answering.wait_for_end()
    given = [
        event["answered_by"] for event in midturn.events() if event["type"] == "inquiry_response"
    ]
    assert given == [{"by": "user", "via": "inbox", "user": "ana"}] * 2


@pytest.mark.parametrize("answer", [True, False])
def test_waiting_row_disappears_after_the_models_answer(
    midturn: CommandLine, *, answer: bool
) -> None:
    midturn.asker(questions={"go": {"target": "assistant"}})
    # milliseconds; a busy machine needs longer for the first frame
    for delay in (800, 8_000, 60_000):
        answers = [
            {
                "tool": "deploy",
                "answers": [{"answer": answer, "reason": "Fine.", "delay_ms": delay}],
            }
        ]
        model = midturn.script(calls("deploy", ask=asks("go", "Go on?")), inquiries=answers)
        with midturn.on_a_terminal("query", "-m", model, "Ship it", plain=False) as session:
            assert session.wait_for_end(delay / 1_000 + 120) == 0
        if f"{FRAMES[0]} deploy, asking scripted".encode() in session.raw:
            break
    else:
        pytest.fail("the row that counts seconds was never drawn")

    said = "yes" if answer else "no"
    assert session.rows[-5:] == [
        f'Go on? {said}  (by scripted: "Fine.")',
        "· deploy: ok",
        "",
        "Done.",
        "midturn: answered for you: 1 by a model.",
    ]
    assert not set(session.text) & set(FRAMES)
