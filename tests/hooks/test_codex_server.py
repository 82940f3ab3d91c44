"""`midturn hook codex-server`: Codex through its app server, as a separate process. Its
questions wait in the inbox.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.hooks import model_messages
from support.cli import CommandLine, Process
from support.floods import flood
from support.hooks import answers, stored, until, wait_for

SERVER = Path(__file__).parents[1] / "support" / "codex_app_server.py"
pytestmark = pytest.mark.timeout(600)


def start(midturn: CommandLine, prompt: str, *options: str) -> Process:
    """Start the command and wait until it asks."""
    return midturn.start(
        "hook", "codex-server", "-p", prompt, *options, "--", sys.executable, str(SERVER)
    )


def ended(run: Process, status: int = 0) -> str:
    """Wait for its end; return Codex's output."""
    said, errors = run.communicate(timeout=120)
    assert run.returncode == status, errors
    return said.strip()


def answered(midturn: CommandLine, prompt: str, *value: str) -> Any:
    """Answer the question; return what the server received, and the output after it."""
    run = start(midturn, prompt)
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], *value)
    sent, then = split_output(ended(run, 130 if value == ("--cancel",) else 0))
    return question, sent[0], then


def split_output(said: str) -> tuple[Any, str]:
    """Split the output: what the server received, and the text after it."""
    sent, end = json.JSONDecoder().raw_decode(said)
    return sent, said[end:]


@pytest.mark.parametrize(
    ("value", "decision", "then"),
    [
        (["always"], "acceptForSession", ""),
        (
            ["n", "--reason", "Keep it."],
            "decline",
            'heard: midturn: "touch made": The user said no: Keep it.',
        ),
        (["--cancel"], "cancel", ""),
    ],
)
def test_command_approval_is_answered_in_the_inbox(
    midturn: CommandLine, value: list[str], decision: str, then: str
) -> None:
    question, sent, said = answered(midturn, "command", *value)

    assert sent == {"decision": decision}
    assert said == then
    assert (question["tool"], question["arguments"]) == (
        "Bash",
        {"command": "touch made", "cwd": "/w"},
    )
    assert question["asker"]["name"] == "Codex"
    assert question["asker"]["session"] == "t1"
    assert stored(midturn)[0][-1]["type"] == "turn_end"


def test_answers_reach_the_server_in_its_format(midturn: CommandLine) -> None:
    change, allowed, _ = answered(midturn, "change", "y")
    assert change["arguments"]["changes"][0]["path"] == "a.txt", "the change itself is shown"
    assert allowed == {"decision": "accept"}
    assert answered(midturn, "permissions", "n")[1] == {"permissions": {}, "scope": "turn"}
    assert answered(midturn, "question", "--other", "staging")[1] == {
        "answers": {"env": {"answers": ["staging"]}}
    }
    assert answered(midturn, "form", "us")[1] == {"action": "accept", "content": {"region": "us"}}
    address, declined, _ = answered(midturn, "address", "n")
    assert "Host: `example.org`" in address["question"]["context"]
    assert declined == {"action": "decline"}


def test_parallel_requests_are_answered_in_any_order(midturn: CommandLine) -> None:
    run = start(midturn, "both")
    questions = {
        question["arguments"]["command"]: question["id"] for question in wait_for(midturn, 2)
    }

    midturn.ok("answer", questions["touch other"], "n")
    midturn.ok("answer", questions["touch made"], "y")

    assert json.loads(ended(run)) == [{"decision": "accept"}, {"decision": "decline"}]


@pytest.mark.parametrize(("prompt", "asked"), [("secret", "Which env?"), ("future", "")])
def test_unsupported_request_is_an_error_and_the_model_is_told(
    midturn: CommandLine, prompt: str, asked: str
) -> None:
    (error,), then = split_output(ended(start(midturn, prompt)))

    assert error["message"]
    assert "The user said no" not in error["message"]
    assert then.startswith(f'heard: midturn: "{asked}": {model_messages.FAILED}' if asked else "")
    assert stored(midturn) == []


def test_a_form_without_a_control_is_answered_as_json(midturn: CommandLine) -> None:
    run = start(midturn, "nested")
    (question,) = wait_for(midturn)
    assert question["question"]["answer_type"]["type"] == "schema"

    midturn.ok("answer", question["id"], '{"city": "Bonn"}')

    (heard,) = json.loads(ended(run))
    assert heard["action"] == "accept"
    assert [*heard["content"].values()] == ['{"city": "Bonn"}']


def test_too_many_requests_are_refused_and_the_model_is_told_once(midturn: CommandLine) -> None:
    """Codex itself reports such a call to its model as rejected."""
    flood(midturn, "Codex", "codex", "t1")
    (error, again), then = split_output(ended(start(midturn, "both")))

    for words_said in (error["message"], again["message"], then):
        assert "50 questions of this session of Codex wait for the user already" in words_said
        assert "nobody has decided. This is not a no." in words_said
        assert "The user said no" not in words_said
    first = ("touch made", "touch other")  # both are refused at the same time
    assert then.startswith(
        tuple(
            f'heard: midturn: "{words}" and 1 more: midturn could not ask the user'
            for words in first
        )
    )
    assert len(stored(midturn)) == 50


def test_decision_elsewhere_closes_without_a_responder(midturn: CommandLine) -> None:
    assert ended(start(midturn, "elsewhere")) == "it was decided elsewhere"

    assert midturn.ok("inbox", "--json").json == []
    assert [
        event.get("answered_by") for events in stored(midturn) for event in answers(events)
    ] in ([], [None])


def test_invalid_messages_are_ignored(midturn: CommandLine) -> None:
    assert ended(start(midturn, "garbage")) == "still here"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [("die", "ended (status 3) before its turn was complete"), ("fail", "the model is away")],
)
def test_a_server_that_fails_is_an_error(midturn: CommandLine, prompt: str, words: str) -> None:
    run = start(midturn, prompt)
    _, errors = run.communicate(timeout=120)

    assert run.returncode == 1
    assert words in errors


def test_killed_run_leaves_its_question_to_the_next(midturn: CommandLine) -> None:
    run = start(midturn, "command")
    (question,) = wait_for(midturn)
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=120)
    until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: not questions[0]["asker"]["waits"],
    )
    midturn.ok("answer", question["id"], "y")

    assert json.loads(ended(start(midturn, "command", "--session", "t1"))) == [
        {"decision": "accept"}
    ]
    assert len(stored(midturn)) == 1, "nothing was asked twice"


def test_stopped_run_decides_nothing(midturn: CommandLine) -> None:
    run = start(midturn, "command")
    wait_for(midturn)
    run.terminate()
    run.communicate(timeout=120)

    assert run.returncode == 143
    assert [answers(events) for events in stored(midturn)] == [[]]
