"""`midturn inbox` and `midturn answer`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from midturn.stores.opening import FileStore
from support.channels.sentences import CONDITIONAL, NOT_A_DECISION
from support.cli import CommandLine, asks, calls
from support.hooks import until
from support.stored import asking, keep

REGION = {
    "id": "region",
    "text": "Which region?",
    "answer_type": {"type": "select", "options": ["eu-1", "us-2"]},
    "default": "eu-1",
}
FORM = [
    asks("apply", "Apply the migration?"),
    {
        "id": "env",
        "text": "Where?",
        "answer_type": {"type": "text"},
        "when": {"question_id": "apply", "equals": True},
    },
    {"id": "note", "text": "Anything else?", "answer_type": {"type": "text"}, "optional": True},
]


def suspended(midturn: CommandLine, *questions: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Suspend a turn on questions; return its first inbox entry."""
    midturn.asker(**keys)
    model = midturn.script(calls("deploy", ask=list(questions)))
    finished = midturn.run("query", "-m", model, "--defer", "Ship it")
    assert finished.status == 3, finished
    return midturn.ok("inbox", "--json").json[0]


def responses(midturn: CommandLine) -> list[tuple[str, Any]]:
    """Return every recorded response: its outcome, and the answer or the reason."""
    found = [event for event in midturn.events() if event["type"] == "inquiry_response"]
    return [(event["outcome"], event.get("answer", event.get("reason"))) for event in found]


def test_answer_without_an_id_names_the_inbox_command(midturn: CommandLine) -> None:
    said = midturn.run("answer")

    assert said.status == 2
    assert "Run `midturn inbox` to list open questions" in said.stderr


def test_inbox_lists_asker_text_age_and_place(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())

    shown = midturn.ok("inbox").stdout

    assert shown.startswith(f"{question['id']}  deploy asks: Deploy to staging?\n")
    assert f"in conversation {question['conversation']}, since " in shown


def test_inbox_json_has_the_documented_question_format(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())

    keys = (
        "id conversation kind source question_id question answer_schema form tool arguments"
        " asked_at"
    )
    assert list(question) == keys.split()
    assert question["source"] == {"source": "tool", "name": "deploy"}
    assert (question["kind"], question["form"], question["tool"]) == ("tool", None, "deploy")


def test_an_empty_inbox_says_so(midturn: CommandLine) -> None:
    assert midturn.ok("inbox").stdout == "No open questions.\n"
    assert midturn.ok("inbox", "--json").json == []


def test_suspended_answered_and_resumed(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())

    answered = midturn.ok("answer", question["id"][:5], "yes", "--reason", "All is quiet.")
    resumed = midturn.ok("resume")

    said = f"midturn: answered. To continue the turn: `midturn resume {question['conversation']}`\n"
    assert answered.stderr == f"Deploy to staging?  yes\n{said}"
    assert resumed.stdout == "Done.\n"
    response = next(event for event in midturn.events() if event["type"] == "inquiry_response")
    assert (response["answer"], response["reason"]) == (True, "All is quiet.")
    assert response["answered_by"] == {"by": "user", "via": "inbox", "user": "ana"}


def test_answer_can_resume_the_turn(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())

    assert midturn.ok("answer", question["id"], "n", "--resume").stdout == "Done.\n"
    assert responses(midturn) == [("answered", False)]


@pytest.mark.parametrize(("value", "answer"), [("us-2", "us-2"), ('"us-2"', "us-2")])
def test_value_is_json_if_valid_or_else_text(midturn: CommandLine, value: str, answer: str) -> None:
    question = suspended(midturn, REGION)

    midturn.ok("answer", question["id"], value)

    assert responses(midturn) == [("answered", answer)]


def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    midturn: CommandLine,
) -> None:
    question = suspended(midturn, REGION)

    finished = midturn.run("answer", question["id"], "mars")

    assert finished.status == 1
    assert "mars" in finished.stderr
    assert len(midturn.ok("inbox", "--json").json) == 1


def test_second_answer_is_told_that_it_is_late(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())
    midturn.ok("answer", question["id"], "yes")

    finished = midturn.run("answer", question["id"], "no")

    assert finished.status == 1
    assert "was answered before, by ana (inbox). That answer stands." in finished.stderr


def test_unknown_id_is_an_error(midturn: CommandLine) -> None:
    finished = midturn.run("answer", "zzzz", "yes")

    assert finished.status == 1
    assert "`midturn inbox` to list open questions." in finished.stderr


def test_a_whole_form_is_answered_by_a_map(midturn: CommandLine) -> None:
    question = suspended(midturn, *FORM)
    assert question["form"]["total"] == 3

    midturn.ok(
        "answer", question["id"], '{"apply": true, "env": "staging", "note": null}', "--resume"
    )

    assert responses(midturn) == [("answered", True), ("answered", "staging"), ("answered", None)]
    result = next(event for event in midturn.events() if event["type"] == "tool_call_response")
    assert result["content"] == '{"apply": true, "env": "staging", "note": null}'


def test_every_problem_of_a_map_is_named(midturn: CommandLine) -> None:
    question = suspended(midturn, *FORM)

    finished = midturn.run("answer", question["id"], '{"apply": "perhaps", "evn": "x"}')

    assert finished.status == 1
    assert "/apply" in finished.stderr
    assert "/evn" in finished.stderr


def test_map_that_names_a_question_twice_is_refused(midturn: CommandLine) -> None:
    question = suspended(midturn, *FORM)

    finished = midturn.run("answer", question["id"], '{"apply": true, "apply": false}')

    assert finished.status == 1
    assert 'Invalid JSON: the key "apply" appears twice in one object.' in finished.stderr


def test_form_is_answered_at_the_terminal_with_back(midturn: CommandLine) -> None:
    question = suspended(midturn, *FORM)
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("answer", question["id"]) as terminal:
        terminal.wait_for("question 1 of 3")
        terminal.wait_at(": ")
        terminal.send("n\r")
        terminal.wait_for("question 3 of 3")
        terminal.wait_at("> ")
        terminal.send(":b\r")
        terminal.wait_until(
            lambda: terminal.text.count("question 1 of 3") == 2, "the first question again"
        )
        terminal.wait_at(": ")
        terminal.send("y\r")
        terminal.wait_for("question 2 of 3")
        terminal.wait_at("> ")
        terminal.send("staging\r")
        terminal.wait_until(
            lambda: terminal.text.count("question 3 of 3") == 2, "the last question again"
        )
        terminal.wait_at("> ")
        terminal.send("slowly\r")
        assert terminal.wait_for_end() == 0

    assert "Press Enter to send" not in terminal.text, "its tool wants no review"
    assert responses(midturn) == [
        ("answered", False),
        ("cancelled", "back"),
        ("answered", True),
        ("answered", "staging"),
        ("answered", "slowly"),
    ]
    midturn.ok("resume", question["conversation"])
    result = next(event for event in midturn.events() if event["type"] == "tool_call_response")
    assert result["content"] == '{"apply": true, "env": "staging", "note": "slowly"}'


def test_answers_are_kept_if_the_terminal_closes(midturn: CommandLine) -> None:
    question = suspended(midturn, *FORM)
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("answer", question["id"]) as terminal:
        terminal.wait_for("question 1 of 3")
        terminal.wait_at(": ")
        terminal.send("y\r")
        terminal.wait_for("question 2 of 3")
        terminal.child.kill(signal.SIGKILL)
        terminal.child.wait()

    assert responses(midturn) == [("answered", True)]


def test_back_at_a_review_that_waits_asks_again_here(midturn: CommandLine) -> None:
    questions = [
        {"id": text.lower(), "text": f"{text}?", "answer_type": "boolean"}
        for text in ("First", "Second")
    ]
    midturn.run(
        "query", "-m", midturn.script(calls("ask_user", questions=questions)), "--defer", "Go"
    )
    (question,) = midturn.ok("inbox", "--json").json
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal("answer", question["id"]) as terminal:
        for number, keys in ((1, "y"), (2, "y")):
            terminal.wait_for(f"question {number} of 2")
            terminal.wait_at(": ")
            terminal.send(f"{keys}\r")
        terminal.wait_for("Press Enter to send")
        terminal.wait_at(": ")
        terminal.send("b\r")
        terminal.wait_until(
            lambda: terminal.text.count("question 2 of 2") == 2, "the last question again"
        )
        terminal.wait_at(": ")
        terminal.send("n\r")
        terminal.wait_until(
            lambda: terminal.text.count("Press Enter to send") == 2, "the review again"
        )
        terminal.wait_at(": ")
        terminal.send("\r")
        assert terminal.wait_for_end() == 0

    assert responses(midturn) == [("answered", True), ("answered", True), ("answered", False)]
    assert midturn.ok("inbox", "--json").json == []


def test_a_review_is_listed_with_its_answers_and_sent_with_its_reason(midturn: CommandLine) -> None:
    questions = [
        {"id": "env", "text": "Where?", "answer_type": "text"},
        {"id": "sure", "text": "Sure?", "answer_type": "boolean"},
    ]
    midturn.run(
        "query", "-m", midturn.script(calls("ask_user", questions=questions)), "--defer", "Ship it"
    )
    for value in ("staging", "y"):
        midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], value)
        midturn.run("resume")
    (review,) = midturn.ok("inbox", "--json").json

    shown = midturn.ok("inbox").stdout
    refused = midturn.run("answer", review["id"], "n")
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal("answer", review["id"], "--reason", "I looked twice.") as terminal:
        terminal.wait_for("Press Enter to send")
        terminal.wait_at(": ")
        terminal.send("\r")
        assert terminal.wait_for_end() == 0

    assert "[y | --reply TEXT]" in shown
    assert "Where?: staging" in shown
    assert refused.status == 1
    assert (
        "These are the answers to a form. y sends them, `--reply TEXT` sends a message instead. To"
        " change an answer, omit VALUE." in refused.stderr
    )
    assert "reason: I looked twice.\n" in midturn.ok("conversation", "show", "--inquiries").stdout


def test_reply_completes_the_call(midturn: CommandLine) -> None:
    question = suspended(midturn, *FORM)

    midturn.ok("answer", question["id"], "--reply", "Ask me tomorrow.", "--resume")

    assert responses(midturn) == [("cancelled", "reply")]
    result = next(event for event in midturn.events() if event["type"] == "tool_call_response")
    assert result["content"] == '{"cancelled": true, "answered": {}, "reply": "Ask me tomorrow."}'


def test_cancel_ends_the_turn(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())

    finished = midturn.ok("answer", question["id"], "--cancel")

    assert "was ended" in finished.stderr
    assert midturn.events()[-1]["status"] == "ended_by_user"
    resumed = midturn.run("resume")
    assert resumed.status == 130
    assert "was ended by" in resumed.stderr


def test_end_turn_at_the_terminal_ends_the_turn(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())

    midturn.accept_keys_at_once()
    with midturn.on_a_terminal("answer", question["id"]) as terminal:
        terminal.wait_at(": ")
        terminal.send("s\r")
        terminal.wait_for("Type s again")
        terminal.wait_at(": ")
        terminal.send("s\r")
        assert terminal.wait_for_end() == 130

    assert midturn.events()[-1]["status"] == "ended_by_user"


def test_without_a_terminal_and_without_a_value_nothing_is_answered(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())

    finished = midturn.run("answer", question["id"])

    assert finished.status == 2
    assert "No terminal is available. Pass a VALUE: `midturn answer" in finished.stderr
    assert responses(midturn) == []


def test_without_a_terminal_a_secret_is_not_asked_for_as_a_value(midturn: CommandLine) -> None:
    question = suspended(midturn, asks(answer_type={"type": "secret"}))

    finished = midturn.run("answer", question["id"])

    assert finished.status == 2
    assert "No terminal is available. Pass a VALUE: `midturn answer" not in finished.stderr
    assert "` at a terminal. A VALUE would stay in the history of your shell" in finished.stderr
    assert responses(midturn) == []


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("y", "shipped"),
        ("n", "deploy was skipped by the user."),
        (
            '{"edit": {"say": "carefully"}}',
            (
                'The user edited the arguments of this call. It ran with: {"say":'
                ' "carefully"}\ncarefully'
            ),
        ),
    ],
)
def test_an_approval_takes_yes_no_or_an_edit(midturn: CommandLine, value: str, result: str) -> None:
    midturn.asker(run="ask")
    midturn.run("query", "-m", midturn.script(calls("deploy", say="shipped")), "--defer", "Ship it")
    approval = midturn.ok("inbox", "--json").json[0]
    assert (approval["kind"], approval["arguments"]) == ("run", {"say": "shipped"})

    finished = midturn.ok("answer", approval["id"], value, "--resume")

    assert finished.stdout == "Done.\n"
    assert (
        next(event for event in midturn.events() if event["type"] == "tool_call_response")[
            "content"
        ]
        == result
    )


def test_edited_arguments_are_checked_at_the_prompt(midturn: CommandLine) -> None:
    midturn.configure(
        """[conversation.tools.ship]
        command = ["cat"]
        protocol = "outcome"
        parameters.env = { type = "string", enum = ["staging", "production"] }
        """
    )
    midturn.run("query", "-m", midturn.script(calls("ship", env="staging")), "--defer", "Ship it")
    id = midturn.ok("inbox", "--json").json[0]["id"]

    for edit, wrong in (
        ({"env": "prod"}, "/env"),
        ("prod", 'The edit of arguments must be an object: {"edit": {"NAME": …}}.'),
        ({"nosuch": 1}, "nosuch"),
    ):
        finished = midturn.run("answer", id, json.dumps({"edit": edit}))
        assert finished.status == 1
        assert wrong in finished.stderr
    assert [event["state"] for event in midturn.events() if event["type"] == "approval"] == [
        "waiting"
    ]

    midturn.accept_keys_at_once()
    with midturn.on_a_terminal("answer", id) as terminal:
        terminal.wait_at(": ")
        terminal.send("e\r")
        terminal.wait_for("env is now:")
        terminal.wait_at("> ")
        terminal.send("prod\r")
        terminal.wait_for("$.env: must be one of")
        terminal.wait_at("> ")
        terminal.send("production\r")
        assert terminal.wait_for_end() == 0
    assert midturn.events()[-1]["arguments"] == {"env": "production"}


def test_an_approval_takes_nothing_else(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.run("query", "-m", midturn.script(calls("deploy", say="shipped")), "--defer", "Ship it")
    approval = midturn.ok("inbox", "--json").json[0]

    finished = midturn.run("answer", approval["id"], "maybe")

    assert finished.status == 1
    assert (
        'This is an approval. Expected y, n, always, never, or {"edit": …} with a replacement.'
        in finished.stderr
    )


@pytest.mark.parametrize("kind", ["run", "tool"])
def test_text_after_a_decision_is_refused_and_the_question_stays_open(
    midturn: CommandLine, kind: str
) -> None:
    question = _yes_or_no(midturn, kind)
    for words in (*CONDITIONAL, *NOT_A_DECISION):
        refused = midturn.run("answer", question["id"], words)
        assert refused.status != 0
        assert "recorded" not in refused.stdout
        if words in CONDITIONAL:
            assert (
                "and continues, so nothing was recorded. The question is still open."
                in refused.stderr
            )
            assert "--reason TEXT" in refused.stderr
    assert [one["id"] for one in midturn.ok("inbox", "--json").json] == [question["id"]]
    midturn.ok("answer", question["id"], "Yes.", "--reason", "only after the backup")
    decided = [
        event
        for event in midturn.events()
        if event.get("state") == "approved" or event.get("outcome") == "answered"
    ]
    assert [event["reason"] for event in decided] == ["only after the backup"]


@pytest.mark.parametrize("kind", ["run", "tool"])
@pytest.mark.parametrize("words", ["no, because it is Friday", "no: it is Friday"])
def test_a_no_may_have_its_reason(midturn: CommandLine, kind: str, words: str) -> None:
    question = _yes_or_no(midturn, kind)
    twice = midturn.run("answer", question["id"], words, "--reason", "another")
    assert "The answer contains a reason, and `--reason` is another. Use only one." in twice.stderr
    midturn.ok("answer", question["id"], words)
    decided = [
        event
        for event in midturn.events()
        if event.get("state") == "skipped" or event.get("outcome") == "answered"
    ]
    assert [event["reason"] for event in decided] == ["it is Friday"]


def _yes_or_no(midturn: CommandLine, kind: str) -> dict[str, Any]:
    """Suspend a turn on a yes-or-no question; return the inbox entry."""
    if kind == "tool":
        return suspended(midturn, asks("go", "Deploy?"))
    midturn.asker(run="ask")
    assert (
        midturn.run("query", "-m", midturn.script(calls("deploy")), "--defer", "Ship it").status
        == 3
    )
    (question,) = midturn.ok("inbox", "--json").json
    return question


def test_approval_at_the_terminal_shows_the_call(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.run("query", "-m", midturn.script(calls("deploy", say="shipped")), "--defer", "Ship it")
    approval = midturn.ok("inbox", "--json").json[0]
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("answer", approval["id"], "--resume") as terminal:
        terminal.wait_for("say: shipped")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert terminal.text.endswith("Done.")


def test_a_result_that_waits_is_edited(midturn: CommandLine) -> None:
    midturn.asker(result="ask")
    midturn.run(
        "query", "-m", midturn.script(calls("deploy", say="42 secrets")), "--defer", "Ship it"
    )
    approval = midturn.ok("inbox", "--json").json[0]
    assert approval["kind"] == "deliver"

    midturn.ok("answer", approval["id"], '{"edit": "nothing to see"}', "--resume")

    assert (
        next(event for event in midturn.events() if event["type"] == "tool_call_response")[
            "content"
        ]
        == "nothing to see"
    )


SECRET = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}


def test_a_secret_is_not_taken_as_a_value(midturn: CommandLine) -> None:
    question = suspended(midturn, SECRET)

    finished = midturn.run("answer", question["id"], "hunter2")

    assert finished.status == 2
    assert (
        f"Secrets cannot be passed as VALUE. Run `midturn answer {question['id']}` at a terminal."
        in finished.stderr
    )
    assert "hunter2" not in finished.stderr


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ({"id": "note", "text": "Anything else?", "answer_type": {"type": "text"}}, "[VALUE]"),
        (
            {
                "id": "note",
                "text": "Anything else?",
                "answer_type": {"type": "text"},
                "optional": True,
            },
            "[VALUE | null]",
        ),
        (SECRET, "[a secret: omit VALUE and answer at a terminal]"),
    ],
)
def test_inbox_shows_the_answer_command_of_every_question(
    midturn: CommandLine, question: dict[str, Any], row: str
) -> None:
    suspended(midturn, question)

    assert row in [line.strip() for line in midturn.ok("inbox").stdout.splitlines()]


def test_secret_is_answered_where_the_turn_resumes(midturn: CommandLine) -> None:
    question = suspended(midturn, SECRET)
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("answer", question["id"]) as terminal:
        terminal.wait_for("The token?")
        terminal.wait_at(": ")
        terminal.send("hunter2\r")
        assert terminal.wait_for_end() == 0

    assert "hunter2" not in terminal.raw.decode()
    assert responses(midturn)[-1][0] == "redacted"
    assert "hunter2" not in (midturn.conversations()[0] / "events.jsonl").read_text()


def wait_for_lines(midturn: CommandLine, count: int) -> list[Any]:
    """Poll the inbox until it has this many questions."""
    found: list[Any] = []
    for _ in range(100):
        found = midturn.ok("inbox", "--json").json
        if len(found) == count:
            break
    assert len(found) == count
    return found


def test_wait_blocks_until_an_answer_and_resumes_the_turn(midturn: CommandLine) -> None:
    midturn.asker()
    waiting = midturn.start(
        "query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "--wait", "Ship it"
    )
    try:
        question = wait_for_lines(midturn, 1)[0]
        assert waiting.stderr is not None
        said = ""
        while (
            "Waiting for answers. Press Ctrl-C to stop waiting; the turn stays open." not in said
        ):  # it holds the lock again and waits
            line = waiting.stderr.readline()
            assert line, said
            said += line
        answered = midturn.ok("answer", question["id"], "yes")
        out, _ = waiting.communicate(timeout=120)
    finally:
        waiting.kill()

    assert (
        f"The process that runs conversation {question['conversation']} continues it."
        in answered.stderr
    )
    assert (waiting.returncode, out) == (0, "Done.\n")


def test_a_question_is_answered_while_its_agent_waits_at_another_terminal(
    midturn: CommandLine,
) -> None:
    midturn.asker()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=asks())), "Ship it"
    ) as terminal:
        terminal.wait_for("Deploy to staging?")
        question = wait_for_lines(midturn, 1)[0]
        midturn.ok("answer", question["id"], "yes")
        assert terminal.wait_for_end() == 0

    assert "Deploy to staging? yes  (answered by ana in the inbox)" in terminal.text
    assert terminal.text.endswith("Done.")


@pytest.mark.parametrize("plain", [True, False])
def test_context_is_drawn_once_at_another_terminal(midturn: CommandLine, *, plain: bool) -> None:
    midturn.asker()
    model = midturn.script(
        calls("deploy", ask={**asks(), "context": "Two migrations run **first**."})
    )

    with midturn.on_a_terminal("query", "-m", model, "Ship it", plain=plain) as terminal:
        terminal.wait_for("Deploy to staging?")
        question = wait_for_lines(midturn, 1)[0]
        midturn.ok("answer", question["id"], "yes")
        assert terminal.wait_for_end() == 0

    assert "Deploy to staging? yes  (answered by ana in the inbox)" in terminal.text
    assert terminal.text.count("Two migrations run") == 1


def test_reply_from_elsewhere_is_shown_at_the_waiting_terminal(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=[asks()])), "Ship it", plain=False
    ) as terminal:
        terminal.wait_for("all keys")
        (question,) = midturn.ok("inbox", "--json").json
        midturn.ok("answer", question["id"], "--reply", "Not before Monday.")
        assert terminal.wait_for_end() == 0

    assert (
        terminal.text.count("Deploy to staging? (reply) Not before Monday.  (said elsewhere)") == 1
    )
    assert "· deploy: not run; the reply went to the assistant" in terminal.text


def test_ready_resumes_every_answered_turn(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))
    for request in ("one", "two", "three"):
        midturn.run("query", "-m", model, "--defer", request)
    first, second, third = midturn.ok("inbox", "--json").json
    midturn.ok("answer", first["id"], "yes")
    midturn.ok("answer", third["id"], "yes")

    finished = midturn.ok("resume", "--ready")

    assert finished.stdout == "Done.\nDone.\n"
    assert [question["id"] for question in midturn.ok("inbox", "--json").json] == [second["id"]]
    assert "no turn is ready" in midturn.ok("resume", "--ready").stderr


def test_watch_resumes_turns_when_they_are_answered(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())
    watching = midturn.start("resume", "--ready", "--watch")
    try:
        midturn.ok("answer", question["id"], "yes")
        assert watching.stdout is not None
        assert watching.stdout.readline() == "Done.\n"
        assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=120)
    finally:
        watching.kill()

    assert watching.returncode == 130
    assert midturn.events()[-1]["status"] == "completed"


def test_watch_does_not_retry_an_unchanged_turn(midturn: CommandLine) -> None:
    """The check runs after it has continued a later turn."""
    midturn.ok("answer", suspended(midturn, asks())["id"], "yes")
    script = midturn.root / "play.json"
    script.rename(midturn.root / "later.json")  # so the first turn cannot continue
    watching = midturn.start("resume", "--ready", "--watch")
    try:
        assert watching.stderr is not None
        assert watching.stdout is not None
        heard = [watching.stderr.readline()]
        while "play.json" not in heard[-1]:
            heard.append(watching.stderr.readline())
        midturn.run(
            "query", "-m", f"scripted:{midturn.root / 'later.json'}", "--defer", "Ship it, too"
        )
        midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "yes")
        assert watching.stdout.readline() == "Done.\n"
    finally:
        watching.send_signal(signal.SIGINT)
        _, rest = watching.communicate(timeout=120)

    assert "play.json" not in rest


def test_finished_conversation_cannot_be_resumed(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "hi")

    for flags in ([], ["--discard"]):
        finished = midturn.run("resume", *flags)
        assert finished.status == 1
        assert "has no open turn. To find one: `midturn conversation ls`" in finished.stderr


def test_discard_ends_the_open_turn(midturn: CommandLine) -> None:
    suspended(midturn, asks())

    midturn.ok("resume", "--discard")

    assert midturn.events()[-1]["status"] == "ended_by_user"
    assert responses(midturn) == [("cancelled", "user")]
    assert midturn.ok("inbox", "--json").json == []


def test_continue_flag_on_an_open_turn_asks_and_continues_with_both(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()), {"text": "First."}, {"text": "Second."})
    midturn.run("query", "-m", model, "--defer", "Ship it")
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("query", "-c", "And then?") as terminal:
        terminal.wait_for("has an open turn. What do you want to do with it?")
        terminal.wait_at(": ")
        terminal.send("1\r")
        terminal.wait_for("Deploy to staging?")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert [event["content"] for event in midturn.events() if event["type"] == "chat_request"] == [
        "Ship it",
        "And then?",
    ]
    assert terminal.text.endswith("First.\nSecond.")


def test_continue_flag_on_an_open_turn_can_discard_it(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.run(
        "query",
        "-m",
        midturn.script(calls("deploy", ask=asks()), {"text": "Next."}),
        "--defer",
        "Ship it",
    )
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("query", "-c", "And then?") as terminal:
        terminal.wait_for("has an open turn. What do you want to do with it?")
        terminal.wait_at(": ")
        terminal.send("discard\r")
        assert terminal.wait_for_end() == 0

    assert [event["status"] for event in midturn.events() if event["type"] == "turn_end"] == [
        "ended_by_user",
        "completed",
    ]


def test_event_id_prefix_names_a_question(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())
    event = question["id"].partition("-")[2]

    midturn.ok("answer", event[:5], "yes")

    assert responses(midturn) == [("answered", True)]


def test_ambiguous_prefix_lists_the_questions(midturn: CommandLine) -> None:
    first = suspended(midturn, asks())
    second = midturn.run(
        "query",
        "-m",
        midturn.script(calls("deploy", ask=[asks()])),
        "--defer",
        "--output",
        "json",
        "Again",
    ).json["pending"][0]

    finished = midturn.run("answer", first["id"][:3], "yes")

    assert finished.status == 1
    assert "matches 2 questions" in finished.stderr
    assert ". Use the part after the dash, or a longer prefix." in finished.stderr
    assert second["conversation"] in finished.stderr


def test_very_ambiguous_prefix_lists_the_oldest_questions(midturn: CommandLine) -> None:
    for _ in range(7):
        keep(FileStore(midturn.store), asking()[0])

    finished = midturn.run("answer", "e4", "yes")

    assert finished.status == 1
    assert 'midturn: "e4" matches 7 questions: ' in finished.stderr
    assert finished.stderr.count("-e4") == 5
    assert len(midturn.run("answer", "x" * 10_000, "yes").stderr) < 300


def test_inbox_limit_reports_that_there_are_more(midturn: CommandLine) -> None:
    for number in range(3):
        keep(FileStore(midturn.store), asking(f"e{number}.")[0])
    listed = midturn.ok("inbox", "--json").json

    assert midturn.ok("inbox", "--limit", "2", "--json").json == listed[:2]
    shown = midturn.ok("inbox", "--limit", "2")
    assert listed[1]["id"] in shown.stdout
    assert listed[2]["id"] not in shown.stdout
    assert "More questions are open. To see them, raise or omit `--limit`." in shown.stderr
    assert (
        "More questions are open. To see them, raise or omit `--limit`."
        not in midturn.ok("inbox", "--limit", "3").stderr
    )
    assert midturn.run("inbox", "--limit", "2", "--watch").status == 2


def test_a_whole_id_of_a_closed_question_says_who_answered(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())
    midturn.ok("answer", question["id"], "yes")

    finished = midturn.run("answer", question["id"], "no")

    assert finished.status == 1
    assert "was answered before, by ana (inbox)" in finished.stderr


def test_conversation_of_another_program_is_found_with_all(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())
    (midturn.store / "open" / question["conversation"]).unlink()

    assert midturn.ok("inbox", "--json").json == []
    assert midturn.ok("inbox", "--all", "--json").json == [
        {**question, "workspace": str(midturn.root.resolve())}
    ]
    assert midturn.ok("inbox", "--json").json == [question]


def test_inbox_of_all_used_workspaces(midturn: CommandLine, tmp_path: Path) -> None:
    other = CommandLine(tmp_path / "other")
    other.home = midturn.home
    for place, text in ((midturn, "Which tea?"), (other, "Which coffee?")):
        (midturn.home / "config" / "midturn" / "config.toml").unlink(missing_ok=True)
        midturn.asker()
        assert (
            place.run(
                "query", "-m", place.script(calls("deploy", ask=asks(text=text))), "--defer", "Brew"
            ).status
            == 3
        )

    shown = midturn.ok("inbox", "--all").stdout

    assert [row for row in shown.splitlines() if row.startswith("In ")] == [
        f"In {midturn.root}:",
        f"In {other.root}:",
    ]
    assert shown.index("Which tea?") < shown.index("Which coffee?")
    assert "Which coffee?" not in midturn.ok("inbox").stdout
    other.root.rename(tmp_path / "moved away")
    assert "Which coffee?" in midturn.ok("inbox", "--all").stdout, (
        "what is asked does not go away with its directory"
    )


def test_listing_shows_the_context(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    finished = midturn.run(
        "query",
        "-m",
        midturn.script(calls("deploy", say="production")),
        "--defer",
        "Ship it, slowly",
    )

    said = ["deploy asks: Run deploy?", "| say: production", '[y | n | {"edit": …}]']
    assert all(text in finished.stderr for text in said)
    shown = midturn.ok("inbox").stdout
    assert all(text in shown for text in said)
    assert shown.endswith(" (Ship it, slowly)\n")


EDIT = {"path": "plan.md", "edits": [{"old": "2. Ship.", "new": "2. Wait."}]}


def test_a_change_to_a_file_is_drawn_in_listings_and_where_it_is_answered(
    midturn: CommandLine,
) -> None:
    (midturn.root / "plan.md").write_text("1. Plan.\n2. Ship.\n")

    finished = midturn.run(
        "query", "-m", midturn.script(calls("fs_modify_file", **EDIT)), "--defer", "Wait"
    )

    drawn = ["| --- a/plan.md", "| -2. Ship.", "| +2. Wait."]
    assert all(f" {row}\n" in finished.stderr for row in drawn), finished
    shown = midturn.ok("inbox").stdout
    assert all(f" {row}\n" in shown for row in drawn)
    assert "```" not in shown
    answered = midturn.ok(
        "answer", midturn.ok("inbox", "--json").json[0]["id"], "y"
    ).stderr.splitlines()
    assert [row.strip() for row in drawn] == [row for row in answered if row in drawn]
    assert answered.index("Apply the changes to plan.md?  yes") > answered.index(drawn[-1])


def test_long_diff_is_shortened_in_listings_and_complete_at_answer(midturn: CommandLine) -> None:
    content = "".join(f"row {number}\n" for number in range(40))
    midturn.run(
        "query",
        "-m",
        midturn.script(calls("fs_create_file", path="new.md", content=content)),
        "--defer",
        "Write",
    )

    shown = midturn.ok("inbox").stdout

    assert "| new.md (40 lines, 270 bytes)" in shown
    assert "| +row 0\n" in shown
    assert "\\n" not in shown
    assert "row 39" not in shown
    assert "(33 more lines; to see all: `midturn answer ID`)" in shown
    answered = midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "y").stderr
    assert "| +row 39\nRun fs_create_file?  yes\n" in answered


def test_answer_to_a_permission_is_confirmed_with_the_call(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.run(
        "query", "-m", midturn.script(calls("deploy", say="production")), "--defer", "Ship it"
    )

    answered = midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "y").stderr

    assert answered.startswith("| say: production\nRun deploy?  yes\n")


def test_form_is_listed_with_its_questions_and_the_answer_command(midturn: CommandLine) -> None:
    question = suspended(midturn, *FORM, REGION)

    shown = midturn.ok("inbox").stdout

    assert "deploy asks: Apply the migration? (question 1 of 4 in a form)\n" in shown
    assert ' [y | n | {"apply": …, "env": …, "note": …, "region": …}]\n' in shown
    assert ' 2. Where? (if "apply" is true)\n' in shown
    assert " 3. Anything else? (optional)\n" in shown
    assert " 4. Which region? [1 eu-1 | 2 us-2]\n" in shown
    answered = midturn.ok("answer", question["id"], "y").stderr
    assert (
        "midturn: this was question 1 of 4 in a form. The rest is asked when the turn continues.\n"
        in answered
    )


def test_result_under_approval_is_listed_with_its_text(midturn: CommandLine) -> None:
    midturn.asker(result="ask")
    midturn.run(
        "query", "-m", midturn.script(calls("deploy", say="all\nis well")), "--defer", "Look"
    )

    shown = midturn.ok("inbox").stdout
    assert shown.count(" | all\n") == 1
    edited = midturn.ok(
        "answer", midturn.ok("inbox", "--json").json[0]["id"], '{"edit": "Nothing to see."}'
    ).stderr
    assert edited.startswith("| Nothing to see.\nDeliver the result of deploy?  yes, edited\n")


def test_confirmation_of_an_edit_shows_the_edited_call(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.run(
        "query", "-m", midturn.script(calls("deploy", say="production")), "--defer", "Ship it"
    )

    edited = midturn.ok(
        "answer", midturn.ok("inbox", "--json").json[0]["id"], '{"edit": {"say": "staging"}}'
    ).stderr

    assert edited.startswith("| say: staging\nRun deploy?  yes, edited\n")


def test_the_inbox_is_watched(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())
    watching = midturn.start("inbox", "--watch", "--json")
    assert watching.stdout
    asked = json.loads(watching.stdout.readline())
    assert (asked["kind"], asked["question"]) == ("asked", question)

    midturn.ok("answer", question["id"], "yes")
    answered = json.loads(watching.stdout.readline())
    assert (answered["kind"], answered["id"], answered["answered_by"]["via"]) == (
        "answered",
        question["id"],
        "inbox",
    )
    midturn.ok("resume")
    assert json.loads(watching.stdout.readline()) == {
        "kind": "turn_ended",
        "conversation": question["conversation"],
    }

    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=120)
    assert watching.returncode == 0


def test_inbox_watch_shows_answered_questions_and_interfaces(midturn: CommandLine) -> None:
    question = suspended(midturn, asks())
    with midturn.on_a_terminal("inbox", "--watch", size=(120, 20)) as watching:
        watching.wait_for("Press Ctrl-C to stop.")
        watching.wait_for("since")
        assert any(row.endswith(" (Ship it)") for row in watching.rows), watching.text

        midturn.ok("answer", question["id"], "yes")

        watching.wait_for(
            f"{question['id']}  Deploy to staging?  yes  (answered by ana in the inbox)"
        )
        watching.send("\x03")
        assert watching.wait_for_end() == 0


@pytest.mark.parametrize(
    ("flags", "row"),
    [
        (
            ("n", "--reason", "Not on a Friday."),
            'no  (answered by ana in the inbox: "Not on a Friday.")',
        ),
        (("--reply", "Ask Ada first."), "(reply) Ask Ada first."),
    ],
)
def test_inbox_watch_shows_the_answers(
    midturn: CommandLine, flags: tuple[str, ...], row: str
) -> None:
    question = suspended(midturn, asks())
    with midturn.on_a_terminal("inbox", "--watch", size=(140, 20)) as watching:
        watching.wait_for("since")
        midturn.ok("answer", question["id"], *flags)
        watching.wait_for(f"{question['id']}  Deploy to staging?  {row}")


CHOICE = {
    "id": "it",
    "text": "Which database?",
    "answer_type": {"type": "select", "options": ["main", "backup"], "allow_other": True},
}


def waiting(midturn: CommandLine, question: dict[str, Any]) -> str:
    """Leave a question in the inbox; return its ID."""
    midturn.asker()
    assert (
        midturn.run(
            "query", "-m", midturn.script(calls("deploy", ask=question)), "--defer", "Go"
        ).status
        == 3
    )
    (found,) = midturn.ok("inbox", "--json").json
    return found["id"]


def test_typo_is_refused_with_the_options(midturn: CommandLine) -> None:
    id = waiting(midturn, CHOICE)

    finished = midturn.run("answer", id, "bakcup")

    assert finished.status == 1
    assert "'bakcup' is not one of the options. They are: 1 main, 2 backup." in " ".join(
        finished.stderr.split()
    )
    assert "--other TEXT" in " ".join(finished.stderr.split())
    assert len(midturn.ok("inbox", "--json").json) == 1


@pytest.mark.parametrize(
    ("value", "answer", "said"),
    [
        (["2"], "backup", "Which database?  backup"),
        (["BACKUP"], "backup", "Which database?  backup"),
        (["--other", "the lab's"], {"other": "the lab's"}, "Which database?  the lab's"),
        (['{"other": "y"}'], {"other": "y"}, "Which database?  y"),
    ],
)
def test_recorded_answer_is_confirmed(
    midturn: CommandLine, value: list[str], answer: object, said: str
) -> None:
    id = waiting(midturn, CHOICE)

    finished = midturn.ok("answer", id, *value)

    assert said in finished.stderr.splitlines()
    midturn.ok("resume")
    assert [
        event["answer"] for event in midturn.events() if event["type"] == "inquiry_response"
    ] == [answer]


WATCHES = [
    (("resume", "--ready", "--watch"), "Press Ctrl-C to stop.", "Done.", 130),
    (("inbox", "--watch"), "Deploy to staging?", "answered by", 0),
]


@pytest.mark.parametrize(("command", "begun", "seen", "status"), WATCHES)
def test_leaving_a_watch_echoes_no_key(
    midturn: CommandLine, command: tuple[str, ...], begun: str, seen: str, status: int
) -> None:
    question = suspended(midturn, asks())

    with midturn.on_a_terminal(*command, plain=False) as terminal:
        terminal.wait_for(begun)
        midturn.ok("answer", question["id"], "y")
        terminal.wait_for(seen)
        terminal.send("\x03")
        assert terminal.wait_for_end() == status
        assert terminal.read_settings() == terminal.settings

    assert "^C" not in terminal.text


def test_a_deadline_is_shown_with_its_question_and_past_it_an_answer_is_refused(
    midturn: CommandLine,
) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks(deadline_seconds=7200)))
    assert midturn.run("query", "-m", model, "Ship it.", "--defer").status == 3
    (question,) = midturn.ok("inbox", "--json").json
    assert question["deadline"] > question["asked_at"]
    shown = midturn.ok("inbox").stdout
    assert "Answer by 20" in shown
    assert " (1 h 59 min left)." in shown
    midturn.ok("answer", question["id"], "yes")

    midturn.configure(
        midturn.config.read_text() + "[conversation.tools.deploy.questions.confirm]\ndeadline = 1\n"
    )
    (waiting,) = midturn.run("query", "-m", model, "Ship it.", "--defer", "--output", "json").json[
        "pending"
    ]
    until(lambda: midturn.ok("inbox", "--json").json, lambda questions: questions == [])
    refused = midturn.run("answer", waiting["id"], "yes")
    assert refused.status == 1
    assert "its deadline has passed, at 20" in refused.stderr
    assert midturn.events()[-1]["reason"] == "deadline"
    midturn.ok("resume", "--ready")
    told = [event["content"] for event in midturn.events() if event["type"] == "tool_call_response"]
    assert told == [
        'deploy: nobody answered "Deploy to staging?" before its deadline. This is not a no.'
    ]


def test_permission_expires_at_the_tools_deadline(midturn: CommandLine) -> None:
    midturn.asker(run="ask", deadline=1)
    model = midturn.script(calls("deploy", say="shipped"))
    (waiting,) = midturn.run("query", "-m", model, "Ship it.", "--defer", "--output", "json").json[
        "pending"
    ]
    assert waiting["deadline"] > waiting["asked_at"]
    until(lambda: midturn.ok("inbox", "--json").json, lambda questions: questions == [])
    refused = midturn.run("answer", waiting["id"], "yes")
    assert refused.status == 1
    assert f"its deadline has passed, at {waiting['deadline']}" in refused.stderr
    midturn.ok("resume", "--ready")
    assert [event["state"] for event in midturn.events() if event["type"] == "approval"] == [
        "waiting",
        "expired",
    ]
    told = [event["content"] for event in midturn.events() if event["type"] == "tool_call_response"]
    assert told == ["deploy: nobody allowed it before its deadline. This is not a no."]


def test_command_tool_with_a_deadline_runs_again_without_the_answer(midturn: CommandLine) -> None:
    asked = json.dumps({"type": "needs_input", "question": asks(deadline_seconds=1)})
    said = json.dumps({"type": "success", "content": "Left for tomorrow."})
    script = f"""case $(cat) in *'"unanswered":{{"confirm":"deadline"}}'*) echo '{said}' ;; *) echo '{asked}' ;; esac"""
    midturn.configure(
        f'[conversation.tools.deploy]\ncommand = """{script}"""\nshell = true\nprotocol ='
        ' "outcome"\nrun = "unattended"\ndeadlines = true\n'
    )
    assert (
        midturn.run("query", "-m", midturn.script(calls("deploy")), "Ship it.", "--defer").status
        == 3
    )
    until(lambda: midturn.ok("inbox", "--json").json, lambda questions: questions == [])
    midturn.ok("resume", "--ready")
    assert [
        event["content"] for event in midturn.events() if event["type"] == "tool_call_response"
    ] == ["Left for tomorrow."]
