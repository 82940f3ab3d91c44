"""Every exit status and its message on stderr."""

from __future__ import annotations

import re

import pytest

from support.cli import CommandLine, asks, calls

SECRET = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}


def test_status_0_completed_turn(midturn: CommandLine) -> None:
    finished = midturn.ok("query", "-m", midturn.script(), "hi")

    assert (finished.stdout, finished.stderr) == ("Done.\n", "")


def test_status_1_failure(midturn: CommandLine) -> None:
    finished = midturn.run(
        "query", "-m", midturn.script({"text": "x", "expect": "something else"}), "hi"
    )

    assert finished.status == 1
    assert "midturn: the turn failed: " in finished.stderr
    assert midturn.events()[-1]["status"] == "failed"


def test_status_1_unavailable_model_names_resume_and_keeps_the_turn_open(
    midturn: CommandLine,
) -> None:
    model = midturn.script(
        {"error": {"status": 400, "message": "no such deployment"}}, {"text": "Here I am."}
    )

    finished = midturn.run("query", "-m", model, "--output", "json", "hi")

    number = midturn.conversations()[0].name.split("-")[0]
    assert finished.status == 1
    assert (
        f"no such deployment\nThe turn is still open. To continue it: `midturn resume {number}`"
        in finished.stderr
    )
    assert (finished.json["status"], finished.json["conversation"]) == ("open", number)
    assert midturn.events()[-1]["type"] == "chat_request"


@pytest.mark.parametrize(
    "arguments",
    [
        ("query",),
        ("query", "--no-such-option", "hi"),
        ("query", "--wait", "hi"),
        ("query", "--max-cycles", "0", "hi"),
        ("query", "-c", "--id", "1", "hi"),
        ("answer",),
        ("answer", "x", "y", "--cancel"),
        ("resume", "--watch"),
        ("resume", "--ready", "17"),
        ("conversation", "show", "--inquiries", "--usage"),
        ("conversation", "grep", "("),
        ("conversation", "frobnicate"),
        ("config", "get", "no.such.key"),
        ("config", "set", "limits.cycles", "many"),
        ("tools", "show", "no_such_tool"),
        ("frobnicate",),
        (),
    ],
)
def test_status_2_usage_error(midturn: CommandLine, arguments: tuple[str, ...]) -> None:
    finished = midturn.run(*arguments)

    assert finished.status == 2, finished
    assert finished.stdout == ""
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("arguments", [("-c",), ("-c", "hello", "world")])
def test_status_2_names_the_command_of_a_misplaced_option(
    midturn: CommandLine, arguments: tuple[str, ...]
) -> None:
    finished = midturn.run(*arguments)

    assert finished.status == 2
    assert (
        "midturn: `-c` is an option of a command. Run `midturn chat -c` or `midturn query -c`."
        in finished.stderr
    )


def test_status_2_lists_valid_values_in_one_line(midturn: CommandLine) -> None:
    finished = midturn.run("completions")

    assert finished.status == 2
    assert "Choose from: bash, zsh, fish" in finished.stderr


def test_status_2_names_file_and_line_of_a_configuration_error(midturn: CommandLine) -> None:
    midturn.workspace_file(
        '[assistant]\nname = "x"\n\n[conversation.tools.deploy]\ncommand = ["x"]\nprotocl ='
        ' "outcome"\n'
    )

    finished = midturn.run("query", "hi")

    assert finished.status == 2
    assert (
        finished.stderr
        == "midturn: .midturn/config.toml:6: unknown key `conversation.tools.deploy.protocl`. Did"
        " you mean `protocol`?\n"
    )


def test_status_2_outside_a_workspace(midturn: CommandLine) -> None:
    """Questions of other agents are in the user's own inbox, which needs no workspace."""
    (midturn.root / ".midturn").rmdir()

    finished = midturn.run("config", "set", "limits.cycles", "3")

    assert finished.status == 2
    assert "Run `midturn init` to create one" in finished.stderr


def test_status_3_prints_open_questions_and_the_command_to_answer(midturn: CommandLine) -> None:
    midturn.asker()

    finished = midturn.run(
        "query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "Ship it"
    )

    request = next(event for event in midturn.events() if event["type"] == "inquiry_request")
    number = midturn.conversations()[0].name.split("-")[0]
    assert finished.status == 3
    assert f"-{request['event_id']}  deploy asks: Deploy to staging?\n" in finished.stderr
    assert f"midturn answer {number}-{request['event_id']} [VALUE]\n" in finished.stderr
    assert f"midturn resume {number}\n" in finished.stderr


def test_status_3_json_lists_open_questions_like_the_inbox(midturn: CommandLine) -> None:
    midturn.asker()

    finished = midturn.run(
        "query",
        "-m",
        midturn.script(calls("deploy", ask=asks())),
        "--defer",
        "--output",
        "json",
        "Ship it",
    )

    assert (finished.status, finished.json["status"]) == (3, "suspended")
    assert finished.json["pending"] == midturn.ok("inbox", "--json").json


def test_status_4_call_refused_in_a_detached_run(midturn: CommandLine) -> None:
    midturn.asker()

    finished = midturn.run(
        "query", "-m", midturn.script(calls("deploy", ask=asks(exclusive=True))), "Ship it"
    )

    assert finished.status == 4
    assert finished.stdout == "Done.\n"
    assert "midturn: refused because no one was there to ask: deploy." in finished.stderr


def test_status_4_counts_calls_without_permission(midturn: CommandLine) -> None:
    midturn.asker(run="ask")

    finished = midturn.run(
        "query", "-m", midturn.script(calls("deploy", say="x")), "--output", "json", "Ship it"
    )

    assert (finished.status, finished.json["refused"]) == (4, ["deploy"])


def test_a_detached_run_ends_with_one_line_that_counts_who_answered(midturn: CommandLine) -> None:
    midturn.asker(
        detached="defaults",
        questions={"region": {"answer": "eu-1"}, "sure": {"target": "assistant"}},
    )
    region = {"id": "region", "text": "Which region?", "answer_type": {"type": "text"}}
    questions = [asks(default=True), region, asks("sure", "Sure?")]
    inquiries = [
        {"tool": "deploy", "question": "sure", "answers": [{"reason": "Yes.", "answer": True}]}
    ]
    model = midturn.script(calls("deploy", ask=questions), inquiries=inquiries)

    finished = midturn.ok("query", "-m", model, "Ship it")

    assert (
        finished.stderr.splitlines()[-1]
        == "midturn: answered without a person: 1 by a model, 1 by default, 1 by the configuration."
    )


def test_no_summary_without_questions(midturn: CommandLine) -> None:
    assert (
        "answered without a person" not in midturn.ok("query", "-m", midturn.script(), "hi").stderr
    )


def test_secret_in_a_detached_run_is_refused(midturn: CommandLine) -> None:
    midturn.asker()

    assert (
        midturn.run("query", "-m", midturn.script(calls("deploy", ask=SECRET)), "Ship it").status
        == 4
    )


def test_new_message_does_not_discard_an_open_turn(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.run("query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "Ship it")

    finished = midturn.run("query", "-c", "something else")

    assert finished.status == 1
    assert re.search(
        "has an open turn\\. To continue it: `midturn resume \\d+`\\. To end it: `midturn resume"
        " \\d+ --discard`",
        finished.stderr,
    )


def test_lock_error_names_conversation_and_holder(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", sleep=30, note=str(midturn.root / "note")))
    running = midturn.start("query", "-m", model, "Ship it")
    try:
        while not (midturn.root / "note").exists():
            assert running.poll() is None
        finished = midturn.run("query", "-c", "me too")
    finally:
        running.terminate()
        running.communicate()

    assert finished.status == 1
    assert str(running.pid) in finished.stderr
