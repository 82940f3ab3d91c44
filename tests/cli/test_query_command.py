"""`midturn query`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli import CommandLine, asks, calls


def test_stdout_carries_the_assistants_words_and_nothing_else(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script({"text": "I will deploy.", **calls("deploy", say="deployed")})

    finished = midturn.ok("query", "-m", model, "Ship", "it")

    assert finished.stdout == "I will deploy.\n\nDone.\n"
    assert finished.stderr == "· deploy deployed\n· deploy deployed: ok\n"
    assert [event["content"] for event in midturn.events() if event["type"] == "chat_request"] == ["Ship it"]


def test_several_words_in_one_argument_are_a_query(midturn: CommandLine) -> None:
    model = midturn.script()

    assert midturn.ok("two words", "-m", model).stdout == "Done.\n"
    assert midturn.ok("q", "-m", model, "word").stdout == "Done.\n"


def test_what_is_piped_into_stdin_is_added_to_the_words(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "Explain:", stdin="a trace\nof two lines\n")

    assert next(event["content"] for event in midturn.events() if event["type"] == "chat_request") == "Explain:\n\na trace\nof two lines\n"


def test_stdin_alone_is_a_request(midturn: CommandLine) -> None:
    assert midturn.ok("query", "-m", midturn.script(), stdin="Ship it").stdout == "Done.\n"


def test_stdin_that_is_no_text_is_a_usage_error(midturn: CommandLine) -> None:
    finished = midturn.run("query", "-m", midturn.script(), stdin=b"\xff\xfe")

    assert finished.status == 2
    assert "is not UTF-8 text (byte 0)" in finished.stderr


def test_a_new_query_begins_a_conversation_and_c_goes_on_with_it(midturn: CommandLine) -> None:
    model = midturn.script({"text": "One."}, {"text": "Two."})

    midturn.ok("query", "-m", model, "first")
    midturn.ok("query", "-c", "second")
    midturn.ok("query", "-m", model, "third")

    first, second = midturn.conversations()
    assert [event["content"] for event in midturn.events(first) if event["type"] == "chat_request"] == ["first", "second"]
    assert [event["content"] for event in midturn.events(second) if event["type"] == "chat_request"] == ["third"]


def test_id_goes_on_with_any_conversation_and_makes_it_the_current_one(midturn: CommandLine) -> None:
    model = midturn.script({"text": "One."}, {"text": "Two."}, {"text": "Three."})
    midturn.ok("query", "-m", model, "first")
    midturn.ok("query", "-m", model, "other")
    first = midturn.conversations()[0]

    midturn.ok("query", "--id", first.name.split("-")[0], "second")
    midturn.ok("query", "-c", "third")

    assert [event["content"] for event in midturn.events(first) if event["type"] == "chat_request"] == ["first", "second", "third"]


def test_c_does_not_take_the_id_of_a_conversation_as_a_message(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "One")
    (first,) = (conversation["id"] for conversation in midturn.ok("conversation", "ls", "--json").json)
    midturn.ok("query", "-m", midturn.script(), "Two")

    refused = midturn.run("query", "-c", first, "Three", "-m", midturn.script())

    assert refused.status == 2
    assert f"`-c` continues the current conversation and takes no ID. Use `--id {first}` instead." in refused.stderr
    midturn.ok("query", "-c", "42", "is a number", "-m", midturn.script({"text": "One."}, {"text": "Two."}))


def test_output_json_is_one_object(midturn: CommandLine) -> None:
    model = midturn.script({"text": "Hello.", "usage": {"input_tokens": 7, "output_tokens": 2}})

    printed = midturn.ok("query", "-m", model, "--output", "json", "hi").json

    assert list(printed) == ["conversation", "status", "text", "structured", "pending", "refused", "usage"]
    assert (printed["status"], printed["text"], printed["pending"], printed["refused"]) == ("completed", "Hello.", [], [])
    assert (printed["usage"]["input_tokens"], printed["usage"]["output_tokens"]) == (7, 2)
    assert midturn.conversations()[0].name.startswith(printed["conversation"])


def test_output_jsonl_is_the_events_as_they_are_recorded(midturn: CommandLine) -> None:
    printed = midturn.ok("query", "-m", midturn.script({"text": "Hello."}), "--output", "jsonl", "hi").lines

    assert [event["type"] for event in printed] == ["turn_start", "config_delta", "chat_request", "chat_response", "turn_end"]
    on_disk_alone = {"more"}  # how a batch was written
    recorded = [{key: value for key, value in event.items() if key not in on_disk_alone} for event in midturn.events()]
    assert [{key: value for key, value in event.items() if key not in on_disk_alone} for event in printed] == recorded


def test_a_schema_makes_the_answer_json_on_stdout(midturn: CommandLine) -> None:
    model = midturn.script({"text": '{"ok": true}'})
    schema = '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}'

    assert midturn.ok("query", "-m", model, "--schema", schema, "Is it?").json == {"ok": True}
    (midturn.root / "shape.json").write_text(schema)
    assert midturn.ok("query", "-m", model, "--schema", "shape.json", "--output", "json", "Is it?").json["structured"] == {"ok": True}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nothing.json", "cannot be read: No such file or directory"),
        ("{no", "not valid JSON"),
        ('{"$id": "x"}', "this schema cannot be used"),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_usage_error(midturn: CommandLine, schema: str, said: str) -> None:
    finished = midturn.run("query", "-m", midturn.script(), "--schema", schema, "hi")

    assert finished.status == 2
    assert said in finished.stderr


def test_a_dry_run_prints_the_request_and_leaves_nothing_behind(midturn: CommandLine) -> None:
    midturn.configure('[assistant]\nmodel = { id = "anthropic/claude-sonnet-5-5", parameters = { temperature = 0.2 } }\n')

    printed = midturn.ok("query", "--dry-run", "Ship it", ANTHROPIC_API_KEY="sk-very-secret")

    assert list(printed.json) == ["model", "system", "messages", "tools", "tool_choice", "parameters"]
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

    assert [event["outcome"] for event in midturn.events() if event["type"] == "inquiry_response"] == ["redacted"]
    printed = midturn.ok("query", "-c", "--dry-run", "And now?").stdout
    assert "[redacted]" in printed
    assert "hunter2" not in printed


def test_toggles_apply_in_the_order_given(midturn: CommandLine) -> None:
    def offered(*flags: str) -> list[str]:
        return [tool["name"] for tool in midturn.ok("query", "--dry-run", "hi", *flags).json["tools"]]

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
        (("-t", "fs_raed_file"), "there is no such tool. Did you mean `fs_read_file`?"),
        (("-T", "describe_tools"), "this tool is locked by"),
    ],
)
def test_a_toggle_that_cannot_be_is_a_usage_error(midturn: CommandLine, toggles: tuple[str, ...], said: str) -> None:
    finished = midturn.run("query", "-m", midturn.script(), "hi", *toggles)

    assert finished.status == 2
    assert said in finished.stderr
    assert midturn.conversations() == []


def test_toggles_hold_for_the_conversation(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "hi", "-T")

    assert len(midturn.ok("query", "-c", "--dry-run", "again").json["tools"]) == 2


def test_what_is_wrong_is_found_before_a_conversation_is_begun(midturn: CommandLine) -> None:
    for arguments in (["hi"], ["-m", "nobody/x", "hi"], ["-m", "scripted:none.json", "hi"], ["--cfg", "limits.cyles=3", "hi"]):
        finished = midturn.run("query", *arguments)
        assert finished.status == 2, finished
        assert "Traceback" not in finished.stderr
    assert midturn.conversations() == []


def test_an_answer_is_used_before_anybody_is_asked(midturn: CommandLine) -> None:
    midturn.asker()

    midturn.ok("query", "-m", midturn.script(calls("deploy", ask=asks())), "--answer", "deploy.confirm=yes", "Ship it")

    answered = next(event for event in midturn.events() if event["type"] == "inquiry_response")
    assert (answered["answer"], answered["answered_by"]) == (True, {"by": "static", "origin": "--answer"})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("depoly.confirm=yes", "there is no tool `depoly`. Did you mean `deploy`?"),
        ("fs_modify_file.confirm=yes", "`fs_modify_file` never asks `confirm`; it asks `apply_changes`."),
        ("fs_read_file.confirm=yes", "it asks nothing."),
        ("deploy", "write TOOL.QUESTION=VALUE"),
    ],
)
def test_an_answer_that_nobody_can_ask_for_is_a_usage_error(midturn: CommandLine, answer: str, said: str) -> None:
    midturn.asker()

    finished = midturn.run("query", "-m", midturn.script(), "--answer", answer, "hi")

    assert finished.status == 2
    assert said in finished.stderr


def test_an_answer_that_no_question_used_is_named_at_the_end(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))

    finished = midturn.ok(
        "query", "-m", model, "--answer", "deploy.confirm=yes", "--answer", "deploy.region=eu-1", "--answer", "ask_user.*=x", "Ship it"
    )

    assert "midturn: no question used the --answer for deploy.region, ask_user.*." in finished.stderr


def test_an_answer_that_no_question_has_used_is_named_where_the_turn_waits_too(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))

    finished = midturn.run("query", "-m", model, "--answer", "deploy.confrim=yes", "--defer", "Ship it")

    assert finished.status == 3
    assert "midturn: no question used the --answer for deploy.confrim so far." in finished.stderr


def test_an_answer_that_does_not_fit_is_named_with_its_question_and_counts_as_used(midturn: CommandLine) -> None:
    question = {"question": "Proceed?", "answer_type": "boolean"}
    model = midturn.script(calls("ask_user", **question))

    finished = midturn.run("query", "-m", model, "--answer", "ask_user.answer=maybe", "Ship it")

    assert "ask_user.answer: the configured answer \"maybe\" does not fit the question 'Proceed?'" in finished.stderr
    assert "no question used" not in finished.stderr


def test_a_known_secret_is_not_taken_from_the_command_line(midturn: CommandLine) -> None:
    midturn.asker(questions={"token": {"answer": "configured"}})
    question = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}
    midturn.ok("query", "-m", midturn.script(calls("deploy", ask=question)), "Ship it")

    finished = midturn.run("query", "-c", "--answer", "deploy.token=hunter2", "Again")

    assert finished.status == 2
    assert "this is a secret" in finished.stderr
    assert "hunter2" not in (midturn.conversations()[0] / "events.jsonl").read_text()


def test_words_that_turn_out_to_be_a_secret_stand_in_nothing_but_the_flags_of_the_conversation(midturn: CommandLine) -> None:
    midturn.asker()
    question = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}
    model = midturn.script(calls("deploy", ask=[question, asks()], say="x"))

    finished = midturn.run("query", "-m", model, "--answer", "deploy.token=hunter2", "--defer", "Ship it", MIDTURN_LOG="debug")

    assert finished.status == 3
    assert "deploy.token: a secret is not taken from the command line" in finished.stderr.replace("\n", " ")
    assert "hunter2" not in finished.stderr
    files = [path for path in (*midturn.root.rglob("*"), *midturn.home.rglob("*")) if path.is_file()]
    assert len(files) > 4
    (log,) = [path for path in files if b"hunter2" in path.read_bytes()]
    assert log.parent.parent == midturn.store
    assert [event["type"] for event in midturn.events() if "hunter2" in json.dumps(event)] == ["config_delta"]


def test_a_resumed_turn_has_the_answers_that_were_given_with_the_request(midturn: CommandLine) -> None:
    midturn.asker()
    region = {"id": "region", "text": "Which region?", "answer_type": {"type": "text"}}
    model = midturn.script(calls("deploy", ask=region), calls("deploy", ask=asks()))
    midturn.run("query", "-m", model, "--answer", "deploy.confirm=yes", "--defer", "Ship it")

    midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "eu-1", "--resume")

    answered = [event for event in midturn.events() if event["type"] == "inquiry_response"]
    assert [(event["answer"], event["answered_by"]["by"]) for event in answered] == [("eu-1", "user"), (True, "static")]


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


def test_the_request_is_under_the_flags_of_earlier_turns(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "--cfg", "assistant.system_prompt=Be brief.", "hi")

    assert midturn.ok("query", "-c", "--dry-run", "again").json["system"] == "Be brief."


def test_a_built_in_tool_is_described_as_configured(midturn: CommandLine) -> None:
    midturn.configure('[conversation.tools.fs_read_file]\nsummary = "Read."\ndescription = "All of it."\n')

    tools = {tool["name"]: tool for tool in midturn.ok("query", "--dry-run", "hi").json["tools"]}

    assert tools["fs_read_file"]["description"] == "Read."
    assert "`fs_read_file`" in tools["describe_tools"]["description"]
    assert json.dumps(tools["fs_read_file"]["parameters"]).count("start_line") >= 1


def test_no_tool_may_ask_under_the_header_of_the_model(midturn: CommandLine) -> None:
    midturn.asker("assistant")

    finished = midturn.run("query", "-m", midturn.script(calls("assistant", ask=asks())), "Ship it")

    assert finished.status == 2
    assert "`assistant` is not a name for a tool: questions that the model asks are headed `Assistant`" in finished.stderr
    assert midturn.conversations() == []


def test_an_answer_of_another_shape_is_an_error_and_nothing_on_stdout(midturn: CommandLine) -> None:
    schema = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}'

    finished = midturn.run("query", "-m", midturn.script({"text": "First."}), "--schema", schema, "hi")

    assert (finished.status, finished.stdout) == (1, "")
    assert "the answer does not have the shape that was asked for" in finished.stderr

    for_a_program = midturn.run("query", "-m", midturn.script({"text": "First."}), "--schema", schema, "--output", "json", "hi")

    assert for_a_program.status == 1
    assert for_a_program.json["status"] == "failed"
    assert "the answer does not have the shape that was asked for" in for_a_program.stderr


def test_json_that_does_not_fit_the_schema_is_an_error_and_nothing_on_stdout(midturn: CommandLine) -> None:
    schema = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}'
    model = midturn.script({"text": '{"city": 7}'})

    finished = midturn.run("query", "-m", model, "--schema", schema, "hi")
    for_a_program = midturn.run("query", "-m", model, "--schema", schema, "--output", "json", "hi")

    assert (finished.status, finished.stdout) == (1, "")
    assert "the answer does not have the shape that was asked for:\n" in finished.stderr
    assert "/city: must be a string" in finished.stderr
    assert for_a_program.status == 1
    assert (for_a_program.json["status"], for_a_program.json["structured"]) == ("failed", None)


def test_without_words_the_editor_asks_for_them(midturn: CommandLine) -> None:
    editor = midturn.root / "editor"
    editor.write_text('#!/bin/sh\nsed -n "/What do you want to ask/p" "$1" > seen\nprintf "Good\\nmorning\\n# nothing" > "$1"\n')
    editor.chmod(0o755)

    with midturn.on_a_terminal("query", "-m", midturn.script(), VISUAL=str(editor), EDITOR=str(editor)) as session:
        assert session.wait_for_end() == 0
        assert session.text.endswith("Done.")

    assert (midturn.root / "seen").read_text().startswith("# What do you want to ask?")
    assert next(event["content"] for event in midturn.events() if event["type"] == "chat_request") == "Good\nmorning"


def test_an_editor_in_which_nothing_is_written_asks_nothing(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("query", "-m", midturn.script(), VISUAL="true", EDITOR="true") as session:
        assert session.wait_for_end() == 2
        assert "There is nothing to ask." in session.text

    assert midturn.conversations() == []


def test_outside_of_a_workspace_conversations_are_the_users_own(tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path, workspace=False)
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))

    assert midturn.run("query", "-m", model, "--defer", "Ship it").status == 3
    question = midturn.ok("inbox", "--json").json[0]["id"]
    assert midturn.ok("answer", question, "yes", "--resume").stdout == "Done.\n"
    assert [row["title"] for row in midturn.ok("conversation", "ls", "--json").json] == ["Ship it"]
    assert not (midturn.root / ".midturn").exists()


def test_a_refused_ask_is_shown_as_a_failed_call(midturn: CommandLine) -> None:
    model = midturn.script(calls("ask_user", questions=[{"id": "a", "text": "A?", "answer_type": "boolean", "when": {"equals": True}}]))

    finished = midturn.run("query", "-m", model, "Ship it")

    assert "· ask_user failed: nothing was asked: /questions/0/when/question_id: `question_id` is missing" in finished.stderr
    shown = midturn.ok("conversation", "show").stdout
    assert "· ask_user\n" in shown
    assert "  ! ask_user: nothing was asked, because the arguments are wrong." in shown
