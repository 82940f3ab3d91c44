"""`midturn hook codex-server`: Codex through its app server, as a process of its own; what it asks waits in the inbox."""

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
pytestmark = pytest.mark.timeout(120)


def start(midturn: CommandLine, prompt: str, *options: str) -> Process:
    """Run it, and let it wait."""
    return midturn.start("hook", "codex-server", "-p", prompt, *options, "--", sys.executable, str(SERVER))


def ended(run: Process, status: int = 0) -> str:
    """Wait for its end; return what Codex said."""
    said, errors = run.communicate(timeout=90)
    assert run.returncode == status, errors
    return said.strip()


def answered(midturn: CommandLine, prompt: str, *value: str) -> Any:
    """Answer what is asked; return what the server was sent, and what was said afterwards."""
    run = start(midturn, prompt)
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], *value)
    sent, then = said_and_then(ended(run, 130 if value == ("--cancel",) else 0))
    return question, sent[0], then


def said_and_then(said: str) -> tuple[Any, str]:
    """Return what the server was sent, which it says, and what it said afterwards."""
    sent, end = json.JSONDecoder().raw_decode(said)
    return sent, said[end:]


@pytest.mark.parametrize(
    ("value", "decision", "then"),
    [
        (["always"], "acceptForSession", ""),
        (["n", "--reason", "Keep it."], "decline", 'heard: midturn: "touch made": The user said no: Keep it.'),
        (["--cancel"], "cancel", ""),
    ],
)
def test_a_command_is_decided_in_the_inbox(midturn: CommandLine, value: list[str], decision: str, then: str) -> None:
    question, sent, said = answered(midturn, "command", *value)

    assert sent == {"decision": decision}
    assert said == then
    assert (question["tool"], question["arguments"]) == ("Bash", {"command": "touch made", "cwd": "/w"})
    assert question["asker"]["name"] == "Codex"
    assert question["asker"]["session"] == "t1"
    assert stored(midturn)[0][-1]["type"] == "turn_end"


def test_what_is_asked_reaches_the_server_in_its_own_words(midturn: CommandLine) -> None:
    change, allowed, _ = answered(midturn, "change", "y")
    assert change["arguments"]["changes"][0]["path"] == "a.txt", "the change itself is shown"
    assert allowed == {"decision": "accept"}
    assert answered(midturn, "permissions", "n")[1] == {"permissions": {}, "scope": "turn"}
    assert answered(midturn, "question", "--other", "staging")[1] == {"answers": {"env": {"answers": ["staging"]}}}
    assert answered(midturn, "form", "us")[1] == {"action": "accept", "content": {"region": "us"}}
    address, declined, _ = answered(midturn, "address", "n")
    assert "Host: `example.org`" in address["question"]["context"]
    assert declined == {"action": "decline"}


def test_two_at_once_are_answered_in_the_other_order(midturn: CommandLine) -> None:
    run = start(midturn, "both")
    questions = {question["arguments"]["command"]: question["id"] for question in wait_for(midturn, 2)}

    midturn.ok("answer", questions["touch other"], "n")
    midturn.ok("answer", questions["touch made"], "y")

    assert json.loads(ended(run)) == [{"decision": "accept"}, {"decision": "decline"}]


@pytest.mark.parametrize(("prompt", "asked"), [("secret", "Which env?"), ("future", "")])
def test_what_cannot_be_asked_is_an_error_there_and_nothing_here_and_its_model_reads_that_nobody_was_asked(
    midturn: CommandLine, prompt: str, asked: str
) -> None:
    (error,), then = said_and_then(ended(start(midturn, prompt)))

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


def test_a_flood_is_not_asked_and_its_model_reads_once_that_nobody_was(midturn: CommandLine) -> None:
    """Codex itself tells its model that such a call was rejected."""
    flood(midturn, "Codex", "codex", "t1")
    (error, again), then = said_and_then(ended(start(midturn, "both")))

    for words_said in (error["message"], again["message"], then):
        assert "50 questions of this session of Codex wait for the user already" in words_said
        assert "nobody has decided. This is not a no." in words_said
        assert "The user said no" not in words_said
    assert then.startswith('heard: midturn: "touch made" and 1 more: midturn could not ask the user')
    assert len(stored(midturn)) == 50


def test_what_was_decided_elsewhere_is_closed_without_a_name(midturn: CommandLine) -> None:
    assert ended(start(midturn, "elsewhere")) == "it was decided elsewhere"

    assert midturn.ok("inbox", "--json").json == []
    assert [event.get("answered_by") for events in stored(midturn) for event in answers(events)] in ([], [None])


def test_what_is_no_message_disturbs_nothing(midturn: CommandLine) -> None:
    assert ended(start(midturn, "garbage")) == "still here"


@pytest.mark.parametrize(("prompt", "words"), [("die", "ended (status 3) before its turn did"), ("fail", "the model is away")])
def test_a_server_that_fails_is_an_error(midturn: CommandLine, prompt: str, words: str) -> None:
    run = start(midturn, prompt)
    _, errors = run.communicate(timeout=90)

    assert run.returncode == 1
    assert words in errors


def test_a_run_that_was_killed_leaves_its_question_and_the_next_takes_it_up(midturn: CommandLine) -> None:
    run = start(midturn, "command")
    (question,) = wait_for(midturn)
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=90)
    until(lambda: midturn.ok("inbox", "--json").json, lambda questions: not questions[0]["asker"]["waits"])
    midturn.ok("answer", question["id"], "y")

    assert json.loads(ended(start(midturn, "command", "--session", "t1"))) == [{"decision": "accept"}]
    assert len(stored(midturn)) == 1, "nothing was asked twice"


def test_a_run_that_is_stopped_decides_nothing(midturn: CommandLine) -> None:
    run = start(midturn, "command")
    wait_for(midturn)
    run.terminate()
    run.communicate(timeout=90)

    assert run.returncode == 143
    assert [answers(events) for events in stored(midturn)] == [[]]
