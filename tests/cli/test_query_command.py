"""`midturn query`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli import CommandLine, asks, calls


def test_stdout_has_only_the_assistants_text(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script({"text": "I will deploy.", **calls("deploy", say="deployed")})

    finished = midturn.ok("query", "-m", model, "Ship", "it")

    assert finished.stdout == "I will deploy.\n\nDone.\n"
    assert finished.stderr == "· deploy deployed\n· deploy deployed: ok\n"
    assert [event["content"] for event in midturn.events() if event["type"] == "chat_request"] == [
        "Ship it"
    ]


def test_several_words_in_one_argument_are_a_query(midturn: CommandLine) -> None:
    model = midturn.script()

    assert midturn.ok("two words", "-m", model).stdout == "Done.\n"
    assert midturn.ok("q", "-m", model, "word").stdout == "Done.\n"


def test_piped_stdin_is_added_to_the_message(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "Explain:", stdin="a trace\nof two lines\n")

    assert (
        next(event["content"] for event in midturn.events() if event["type"] == "chat_request")
        == "Explain:\n\na trace\nof two lines\n"
    )


def test_stdin_alone_is_a_request(midturn: CommandLine) -> None:
    assert midturn.ok("query", "-m", midturn.script(), stdin="Ship it").stdout == "Done.\n"


def test_binary_stdin_is_a_usage_error(midturn: CommandLine) -> None:
    finished = midturn.run("query", "-m", midturn.script(), stdin=b"\xff\xfe")

    assert finished.status == 2
    assert "stdin is not UTF-8 text (at byte 0)" in finished.stderr


def test_query_begins_a_conversation_and_continue_flag_continues_it(midturn: CommandLine) -> None:
    model = midturn.script({"text": "One."}, {"text": "Two."})

    midturn.ok("query", "-m", model, "first")
    midturn.ok("query", "-c", "second")
    midturn.ok("query", "-m", model, "third")

    first, second = midturn.conversations()
    assert [
        event["content"] for event in midturn.events(first) if event["type"] == "chat_request"
    ] == ["first", "second"]
    assert [
        event["content"] for event in midturn.events(second) if event["type"] == "chat_request"
    ] == ["third"]


def test_id_continues_any_conversation_and_makes_it_current(midturn: CommandLine) -> None:
    model = midturn.script({"text": "One."}, {"text": "Two."}, {"text": "Three."})
    midturn.ok("query", "-m", model, "first")
    midturn.ok("query", "-m", model, "other")
    first = midturn.conversations()[0]

    midturn.ok("query", "--id", first.name.split("-")[0], "second")
    midturn.ok("query", "-c", "third")

    assert [
        event["content"] for event in midturn.events(first) if event["type"] == "chat_request"
    ] == ["first", "second", "third"]


def test_continue_flag_does_not_take_an_id_as_message(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "One")
    (first,) = (
        conversation["id"] for conversation in midturn.ok("conversation", "ls", "--json").json
    )
    midturn.ok("query", "-m", midturn.script(), "Two")

    refused = midturn.run("query", "-c", first, "Three", "-m", midturn.script())

    assert refused.status == 2
    assert (
        f"`-c` continues the current conversation and takes no ID. Use `--id {first}` instead."
        in refused.stderr
    )
    midturn.ok(
        "query", "-c", "42", "is a number", "-m", midturn.script({"text": "One."}, {"text": "Two."})
    )


def test_output_json_is_one_object(midturn: CommandLine) -> None:
    model = midturn.script({"text": "Hello.", "usage": {"input_tokens": 7, "output_tokens": 2}})

    printed = midturn.ok("query", "-m", model, "--output", "json", "hi").json

    assert list(printed) == [
        "conversation",
        "status",
        "text",
        "structured",
        "pending",
        "refused",
        "usage",
    ]
    assert (printed["status"], printed["text"], printed["pending"], printed["refused"]) == (
        "completed",
        "Hello.",
        [],
        [],
    )
    assert (printed["usage"]["input_tokens"], printed["usage"]["output_tokens"]) == (7, 2)
    assert midturn.conversations()[0].name.startswith(printed["conversation"])


def test_output_jsonl_is_the_events_as_they_are_recorded(midturn: CommandLine) -> None:
    printed = midturn.ok(
        "query", "-m", midturn.script({"text": "Hello."}), "--output", "jsonl", "hi"
    ).lines

    assert [event["type"] for event in printed] == [
        "turn_start",
        "config_delta",
        "chat_request",
        "chat_response",
        "turn_end",
    ]
    on_disk_alone = {"more"}  # describes how a batch was written
    recorded = [
        {key: value for key, value in event.items() if key not in on_disk_alone}
        for event in midturn.events()
    ]
    assert [
        {key: value for key, value in event.items() if key not in on_disk_alone}
        for event in printed
    ] == recorded


def test_a_schema_makes_the_answer_json_on_stdout(midturn: CommandLine) -> None:
    model = midturn.script({"text": '{"ok": true}'})
    schema = '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}'

    assert midturn.ok("query", "-m", model, "--schema", schema, "Is it?").json == {"ok": True}
    (midturn.root / "shape.json").write_text(schema)
    assert midturn.ok(
        "query", "-m", model, "--schema", "shape.json", "--output", "json", "Is it?"
    ).json["structured"] == {"ok": True}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nothing.json", "--schema nothing.json: cannot read the file: No such file or directory"),
        ("{no", "not valid JSON"),
        ('{"$id": "x"}', ": the schema is not supported."),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_usage_error(
    midturn: CommandLine, schema: str, said: str
) -> None:
    finished = midturn.run("query", "-m", midturn.script(), "--schema", schema, "hi")

    assert finished.status == 2
    assert said in finished.stderr


def test_a_dry_run_prints_the_request_and_leaves_nothing_behind(midturn: CommandLine) -> None:
    midturn.configure(
        '[assistant]\nmodel = { id = "anthropic/claude-sonnet-5-5", parameters = { temperature ='
        " 0.2 } }\n"
    )

    printed = midturn.ok("query", "--dry-run", "Ship it", ANTHROPIC_API_KEY="sk-very-secret")

    assert list(printed.json) == [
        "model",
        "system",
        "messages",
        "tools",
        "tool_choice",
        "parameters",
    ]
    assert printed.json["model"] == "anthropic/claude-sonnet-5-5"
    assert printed.json["messages"] == [{"type": "chat_request", "content": "Ship it"}]
    assert printed.json["parameters"] == {"temperature": 0.2}
    assert {"name", "description", "parameters"} == printed.json["tools"][0].keys()
    assert "sk-very-secret" not in printed.stdout
    assert midturn.conversations() == []


def test_a_dry_run_shows_no_answer_to_a_secret(midturn: CommandLine) -> None:
    midturn.asker(questions={"token": {"answer": "hunter2-configured"}})
    question = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}
    midturn.ok("query", "-m", midturn.script(calls("deploy", ask=question)), "Ship it")

    assert [
        event["outcome"] for event in midturn.events() if event["type"] == "inquiry_response"
    ] == ["redacted"]
    printed = midturn.ok("query", "-c", "--dry-run", "And now?").stdout
    assert "[redacted]" in printed
    assert "hunter2" not in printed


def test_toggles_apply_in_the_order_given(midturn: CommandLine) -> None:
    def offered(*flags: str) -> list[str]:
        return [
            tool["name"] for tool in midturn.ok("query", "--dry-run", "hi", *flags).json["tools"]
        ]

    always = ["ask_user", "describe_tools"]
    assert offered("-T") == always
    assert offered("-T", "-t", "fs_read_file") == ["ask_user", "fs_read_file", "describe_tools"]
    assert offered("-t", "fs_read_file", "-T") == always
    assert offered("-T", "-T", "ask_user") == ["describe_tools"]
    assert "fs_move_file" in offered("-T", "-t")


def test_a_bare_toggle_is_followed_by_another_option_or_two_dashes(midturn: CommandLine) -> None:
    printed = midturn.ok("query", "--dry-run", "-T", "--", "just", "words").json

    assert printed["messages"] == [{"type": "chat_request", "content": "just words"}]
    assert len(printed["tools"]) == 2


@pytest.mark.parametrize(
    ("toggles", "said"),
    [
        (("-t", "fs_raed_file"), "-t fs_raed_file: no such tool. Did you mean `fs_read_file`?"),
        (("-T", "describe_tools"), ": this tool cannot be toggled because of `conversation.tools."),
    ],
)
def test_invalid_toggle_is_a_usage_error(
    midturn: CommandLine, toggles: tuple[str, ...], said: str
) -> None:
    finished = midturn.run("query", "-m", midturn.script(), "hi", *toggles)

    assert finished.status == 2
    assert said in finished.stderr
    assert midturn.conversations() == []


def test_toggles_apply_to_the_whole_conversation(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "hi", "-T")

    assert len(midturn.ok("query", "-c", "--dry-run", "again").json["tools"]) == 2


def test_errors_are_found_before_a_conversation_is_created(midturn: CommandLine) -> None:
    for arguments in (
        ["hi"],
        ["-m", "nobody/x", "hi"],
        ["-m", "scripted:none.json", "hi"],
        ["--cfg", "limits.cyles=3", "hi"],
    ):
        finished = midturn.run("query", *arguments)
        assert finished.status == 2, finished
        assert "Traceback" not in finished.stderr
    assert midturn.conversations() == []


def test_an_answer_is_used_before_anybody_is_asked(midturn: CommandLine) -> None:
    midturn.asker()

    midturn.ok(
        "query",
        "-m",
        midturn.script(calls("deploy", ask=asks())),
        "--answer",
        "deploy.confirm=yes",
        "Ship it",
    )

    answered = next(event for event in midturn.events() if event["type"] == "inquiry_response")
    assert (answered["answer"], answered["answered_by"]) == (
        True,
        {"by": "static", "origin": "--answer"},
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("depoly.confirm=yes", "--answer depoly.confirm: no tool `depoly`. Did you mean `deploy`?"),
        (
            "fs_modify_file.confirm=yes",
            "`fs_modify_file` never asks `confirm`. Its questions: `apply_changes`.",
        ),
        ("fs_read_file.confirm=yes", "`fs_read_file` never asks `confirm`. It asks no questions."),
        ("deploy", ": expected TOOL.QUESTION=VALUE, for example deploy.confirm=yes"),
    ],
)
def test_answer_flag_for_no_possible_question_is_a_usage_error(
    midturn: CommandLine, answer: str, said: str
) -> None:
    midturn.asker()

    finished = midturn.run("query", "-m", midturn.script(), "--answer", answer, "hi")

    assert finished.status == 2
    assert said in finished.stderr


def test_unused_answer_flag_is_reported_at_the_end(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))

    finished = midturn.ok(
        "query",
        "-m",
        model,
        "--answer",
        "deploy.confirm=yes",
        "--answer",
        "deploy.region=eu-1",
        "--answer",
        "ask_user.*=x",
        "Ship it",
    )

    assert (
        "midturn: no question used the --answer for deploy.region, ask_user.*." in finished.stderr
    )


def test_unused_answer_flag_is_reported_when_suspended(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))

    finished = midturn.run(
        "query", "-m", model, "--answer", "deploy.confrim=yes", "--defer", "Ship it"
    )

    assert finished.status == 3
    assert "midturn: no question used the --answer for deploy.confrim so far." in finished.stderr


def test_invalid_answer_flag_is_reported_with_its_question(midturn: CommandLine) -> None:
    question = {"question": "Proceed?", "answer_type": "boolean"}
    model = midturn.script(calls("ask_user", **question))

    finished = midturn.run("query", "-m", model, "--answer", "ask_user.answer=maybe", "Ship it")

    assert (
        "ask_user.answer: the configured answer \"maybe\" does not fit the question 'Proceed?'"
        in finished.stderr
    )
    assert "no question used" not in finished.stderr


def test_a_known_secret_is_not_taken_from_the_command_line(midturn: CommandLine) -> None:
    midturn.asker(questions={"token": {"answer": "configured"}})
    question = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}
    midturn.ok("query", "-m", midturn.script(calls("deploy", ask=question)), "Ship it")

    finished = midturn.run("query", "-c", "--answer", "deploy.token=hunter2", "Again")

    assert finished.status == 2
    assert "this question asks for a secret" in finished.stderr
    assert "hunter2" not in (midturn.conversations()[0] / "events.jsonl").read_text()


def test_answer_flag_used_for_a_secret_is_stored_only_in_the_flags(midturn: CommandLine) -> None:
    midturn.asker()
    question = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}
    model = midturn.script(calls("deploy", ask=[question, asks()], say="x"))

    finished = midturn.run(
        "query",
        "-m",
        model,
        "--answer",
        "deploy.token=hunter2",
        "--defer",
        "Ship it",
        MIDTURN_LOG="debug",
    )

    assert finished.status == 3
    assert "deploy.token: a secret is not accepted on the command line" in finished.stderr.replace(
        "\n", " "
    )
    assert "hunter2" not in finished.stderr
    files = [
        path for path in (*midturn.root.rglob("*"), *midturn.home.rglob("*")) if path.is_file()
    ]
    assert len(files) > 4
    (log,) = [path for path in files if b"hunter2" in path.read_bytes()]
    assert log.parent.parent == midturn.store
    assert [event["type"] for event in midturn.events() if "hunter2" in json.dumps(event)] == [
        "config_delta"
    ]


def test_resumed_turn_keeps_answer_flags(midturn: CommandLine) -> None:
    midturn.asker()
    region = {"id": "region", "text": "Which region?", "answer_type": {"type": "text"}}
    model = midturn.script(calls("deploy", ask=region), calls("deploy", ask=asks()))
    midturn.run("query", "-m", model, "--answer", "deploy.confirm=yes", "--defer", "Ship it")

    midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "eu-1", "--resume")

    answered = [event for event in midturn.events() if event["type"] == "inquiry_response"]
    assert [(event["answer"], event["answered_by"]["by"]) for event in answered] == [
        ("eu-1", "user"),
        (True, "static"),
    ]


def test_store_keeps_a_conversation_elsewhere(midturn: CommandLine) -> None:
    model = midturn.script()

    midturn.ok("query", "-m", model, "--store", "../elsewhere", "hi")

    assert midturn.conversations() == []
    assert midturn.ok("conversation", "ls", "--json").json == []
    assert len(midturn.ok("conversation", "ls", "--json", "--store", "../elsewhere").json) == 1


def test_a_limit_of_cycles_ends_the_turn(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", say="1"), calls("deploy", say="2"))

    finished = midturn.run("query", "-m", model, "--max-cycles", "1", "hi")

    assert finished.status == 1
    assert "limits.cycles" in finished.stderr


def test_flags_of_earlier_turns_apply(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "--cfg", "assistant.system_prompt=Be brief.", "hi")

    assert midturn.ok("query", "-c", "--dry-run", "again").json["system"] == "Be brief."


def test_a_built_in_tool_is_described_as_configured(midturn: CommandLine) -> None:
    midturn.configure(
        '[conversation.tools.fs_read_file]\nsummary = "Read."\ndescription = "All of it."\n'
    )

    tools = {tool["name"]: tool for tool in midturn.ok("query", "--dry-run", "hi").json["tools"]}

    assert tools["fs_read_file"]["description"] == "Read."
    assert "`fs_read_file`" in tools["describe_tools"]["description"]
    assert json.dumps(tools["fs_read_file"]["parameters"]).count("start_line") >= 1


def test_tool_cannot_ask_as_the_model(midturn: CommandLine) -> None:
    midturn.asker("assistant")

    finished = midturn.run("query", "-m", midturn.script(calls("assistant", ask=asks())), "Ship it")

    assert finished.status == 2
    assert (
        "`assistant` is not a valid tool name, because `Assistant` is the header of questions asked"
        " by the model." in finished.stderr
    )
    assert midturn.conversations() == []


def test_answer_without_json_is_an_error_without_stdout(midturn: CommandLine) -> None:
    schema = (
        '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],'
        ' "additionalProperties": false}'
    )

    finished = midturn.run(
        "query", "-m", midturn.script({"text": "First."}), "--schema", schema, "hi"
    )

    assert (finished.status, finished.stdout) == (1, "")
    assert "the response does not match the requested schema" in finished.stderr

    for_a_program = midturn.run(
        "query",
        "-m",
        midturn.script({"text": "First."}),
        "--schema",
        schema,
        "--output",
        "json",
        "hi",
    )

    assert for_a_program.status == 1
    assert for_a_program.json["status"] == "failed"
    assert "the response does not match the requested schema" in for_a_program.stderr


def test_answer_that_violates_the_schema_is_an_error_without_stdout(midturn: CommandLine) -> None:
    schema = (
        '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],'
        ' "additionalProperties": false}'
    )
    model = midturn.script({"text": '{"city": 7}'})

    finished = midturn.run("query", "-m", model, "--schema", schema, "hi")
    for_a_program = midturn.run("query", "-m", model, "--schema", schema, "--output", "json", "hi")

    assert (finished.status, finished.stdout) == (1, "")
    assert "the response does not match the requested schema:\n" in finished.stderr
    assert "/city: must be a string" in finished.stderr
    assert for_a_program.status == 1
    assert (for_a_program.json["status"], for_a_program.json["structured"]) == ("failed", None)


def test_query_without_a_message_opens_the_editor(midturn: CommandLine) -> None:
    editor = midturn.root / "editor"
    editor.write_text(
        '#!/bin/sh\nsed -n "/Write your message/p" "$1" > seen\nprintf "Good\\nmorning\\n# nothing"'
        ' > "$1"\n'
    )
    editor.chmod(0o755)

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(), VISUAL=str(editor), EDITOR=str(editor)
    ) as session:
        assert session.wait_for_end() == 0
        assert session.text.endswith("Done.")

    assert (
        (midturn.root / "seen")
        .read_text()
        .startswith("# Write your message. Lines that start with # are ignored.")
    )
    assert (
        next(event["content"] for event in midturn.events() if event["type"] == "chat_request")
        == "Good\nmorning"
    )


def test_empty_editor_sends_nothing(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(), VISUAL="true", EDITOR="true"
    ) as session:
        assert session.wait_for_end() == 2
        assert (
            'The message is empty. Run `midturn query "…"`, or pipe text to stdin.' in session.text
        )

    assert midturn.conversations() == []


def test_conversations_outside_a_workspace_are_in_the_users_store(tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path, workspace=False)
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))

    assert midturn.run("query", "-m", model, "--defer", "Ship it").status == 3
    question = midturn.ok("inbox", "--json").json[0]["id"]
    assert midturn.ok("answer", question, "yes", "--resume").stdout == "Done.\n"
    assert [row["title"] for row in midturn.ok("conversation", "ls", "--json").json] == ["Ship it"]
    assert not (midturn.root / ".midturn").exists()


def test_a_refused_ask_is_shown_as_a_failed_call(midturn: CommandLine) -> None:
    model = midturn.script(
        calls(
            "ask_user",
            questions=[
                {"id": "a", "text": "A?", "answer_type": "boolean", "when": {"equals": True}}
            ],
        )
    )

    finished = midturn.run("query", "-m", model, "Ship it")

    assert (
        "· ask_user failed: nothing was asked: /questions/0/when/question_id: `question_id` is"
        " missing" in finished.stderr
    )
    shown = midturn.ok("conversation", "show").stdout
    assert "· ask_user\n" in shown
    assert "  ! ask_user: nothing was asked, because the arguments are wrong." in shown
