"""A terminal that closes during a form or an approval: other commands do not ask again and do not
refuse anything.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

import midturn as mt
from support.cli import CommandLine, asks, calls
from support.pty_session import PtySession
from support.serving import free_port

FORM = [
    {"id": name, "text": f"{name.title()}?", "answer_type": "boolean"}
    for name in ("drain", "migrate")
]
POLICY = "[conversation.tools.'*'.detached]\nrun = {0}\ndeliver = {0}\ntool = {0}\n"
Resumer = Callable[[CommandLine], None]


def ready(midturn: CommandLine) -> None:
    """Resume the ready turns once."""
    midturn.run("resume", "--ready")


def by_id(midturn: CommandLine) -> None:
    """Resume the turn by its ID."""
    midturn.run("resume", "--non-interactive")


def on_a_terminal(midturn: CommandLine) -> None:
    """Resume the ready turns at a terminal without input."""
    with midturn.on_a_terminal("resume", "--ready") as terminal:
        terminal.wait_for_end()


def watch(midturn: CommandLine) -> None:
    """Watch, and resume a later turn."""
    _goes_on_with_a_later_turn(midturn, "resume", "--ready", "--watch")


def serve(midturn: CommandLine) -> None:
    """Serve the page, which resumes a later turn."""
    _goes_on_with_a_later_turn(midturn, "serve", "--port", str(free_port()))


RESUMERS = pytest.mark.parametrize("comes_by", [ready, by_id, on_a_terminal, watch, serve])


def _goes_on_with_a_later_turn(midturn: CommandLine, *command: str) -> None:
    """Run a command until it has resumed a turn that became ready last."""
    asked = {question["id"] for question in waiting(midturn)}
    midturn.run(
        "query", "-m", midturn.script(calls("later", ask=[asks()])), "--defer", "Something else"
    )
    (later,) = [question for question in waiting(midturn) if question["id"] not in asked]
    staying = midturn.start(*command)
    try:
        midturn.ok("answer", later["id"], "yes")
        while any(event["type"] != "turn_end" for event in midturn.events()[-1:]):
            assert staying.poll() is None, staying.communicate()
    finally:
        staying.send_signal(signal.SIGINT)
        staying.communicate(timeout=120)


def waiting(midturn: CommandLine) -> list[dict[str, Any]]:
    """Return the open questions."""
    return midturn.ok("inbox", "--json").json


@pytest.fixture
def begun(midturn: CommandLine) -> CommandLine:
    """Return a workspace with two tools whose prompts accept keys at once."""
    midturn.accept_keys_at_once()
    midturn.asker()
    midturn.asker("later")
    return midturn


def close_at(midturn: CommandLine, shown: str, *call: dict[str, Any], answers: int = 0) -> None:
    """Begin a turn at a terminal, answer yes this many times, and close the terminal when a text
    is shown.
    """
    with midturn.on_a_terminal("query", "-m", midturn.script(*call), "Go") as terminal:
        for number in range(answers):
            terminal.wait_for(f"question {number + 1} of")
            terminal.wait_at(": ")
            terminal.send("y\r")
        terminal.wait_for(shown)
        close(terminal)


def close(terminal: PtySession) -> None:
    terminal.wait_at(": ")
    terminal.hang_up()
    terminal.child.wait()


@RESUMERS
@pytest.mark.parametrize("policy", ["deny", "auto"])
def test_a_half_answered_form_stays_open(
    begun: CommandLine, comes_by: Resumer, policy: str
) -> None:
    with begun.config.open("a") as file:
        file.write(POLICY.format(f'"{policy}"'))
    close_at(begun, "Migrate?", calls("ask_user", questions=FORM), answers=1)
    (question,) = waiting(begun)
    assert question["question"]["text"] == "Migrate?"

    comes_by(begun)

    assert waiting(begun) == [question]
    begun.ok("answer", question["id"], "y")
    begun.run("resume", "--ready")
    (review,) = waiting(begun)
    assert review["kind"] == "review"
    begun.ok("answer", review["id"], "y")
    assert begun.ok("resume", "--ready").stdout == "Done.\n"


@RESUMERS
@pytest.mark.parametrize(
    ("shown", "keys"), [("Run deploy?", {"run": "ask"}), ("Deliver", {"result": "ask"})]
)
def test_an_approval_that_was_shown_stays_open(
    midturn: CommandLine, comes_by: Resumer, shown: str, keys: dict[str, str]
) -> None:
    midturn.accept_keys_at_once()
    midturn.asker(**keys)
    midturn.asker("later")
    with midturn.config.open("a") as file:
        file.write(POLICY.format('"deny"'))
    close_at(midturn, shown, calls("deploy", say="shipped"))
    (question,) = waiting(midturn)

    comes_by(midturn)

    assert waiting(midturn) == [question]
    midturn.ok("answer", question["id"], "y")
    assert midturn.ok("resume", "--ready").stdout == "Done.\n"


def test_a_review_that_was_shown_stays_open(begun: CommandLine) -> None:
    close_at(begun, "Press Enter to send", calls("ask_user", questions=FORM), answers=2)
    (review,) = waiting(begun)
    assert review["kind"] == "review"

    begun.run("resume", "--ready")
    begun.run("resume", "--non-interactive")

    assert waiting(begun) == [review]
    begun.ok("answer", review["id"], "y")
    assert begun.ok("resume", "--ready").stdout == "Done.\n"


def test_watch_with_pipes_opens_no_prompt(begun: CommandLine) -> None:
    begun.run("query", "-m", begun.script(calls("ask_user", questions=FORM)), "--defer", "Go")
    (question,) = waiting(begun)
    command = f"exec {' '.join(begun.program)} resume --ready --watch </dev/null | cat"
    with begun.on_a_terminal_run("/bin/sh", "-c", command) as terminal:
        terminal.wait_for(
            "midturn: continuing turns as their questions are answered. Press Ctrl-C to stop."
        )
        begun.ok("answer", question["id"], "y")
        terminal.wait_for("Migrate?")
        terminal.wait_for("midturn answer")
        (second,) = waiting(begun)
        begun.ok("answer", second["id"], "y")
        terminal.wait_until(
            lambda: terminal.text.count("the turn waits for an answer") == 2, "what waits next"
        )
        (review,) = waiting(begun)
        begun.ok("answer", review["id"], "y")
        terminal.wait_for("Done.")

    assert " asks, question 2 of 2" not in terminal.text


def test_question_is_answered_at_another_terminal_while_its_process_waits(
    begun: CommandLine,
) -> None:
    with begun.on_a_terminal(
        "query", "-m", begun.script(calls("deploy", ask=asks())), "Go"
    ) as asking:
        asking.wait_for("Deploy to staging?")
        (question,) = waiting(begun)
        with begun.on_a_terminal("answer", question["id"]) as answering:
            answering.wait_for("Deploy to staging?")
            answering.wait_at(": ")
            answering.send("y\r")
            assert answering.wait_for_end() == 0
        assert asking.wait_for_end() == 0

    assert answering.text.count("Deploy to staging?") == 1 + answering.text.count(
        "Deploy to staging? yes"
    )
    assert [event["answer"] for event in begun.events() if event["type"] == "inquiry_response"] == [
        True
    ]


def test_form_is_answered_with_back_at_another_terminal(begun: CommandLine) -> None:
    """The waiting process records each reply before the next question is shown here."""
    with begun.on_a_terminal(
        "query", "-m", begun.script(calls("ask_user", questions=FORM)), "Go"
    ) as asking:
        asking.wait_for("question 1 of 2")
        (question,) = waiting(begun)
        with begun.on_a_terminal("answer", question["id"]) as answering:
            for shown, keys in (("question 1 of 2", "y"), ("question 2 of 2", "b")):
                answering.wait_for(shown)
                answering.wait_at(": ")
                answering.send(f"{keys}\r")
            answering.wait_until(
                lambda: answering.text.count("question 1 of 2") == 2, "the first question again"
            )
            answering.wait_at(": ")
            answering.send("n\r")
            answering.wait_until(
                lambda: answering.text.count("question 2 of 2") == 2, "the second question again"
            )
            answering.wait_at(": ")
            answering.send("y\r")
            answering.wait_for("Press Enter to send")
            answering.wait_at(": ")
            answering.send("\r")
            assert answering.wait_for_end() == 0
        assert asking.wait_for_end() == 0

    told = [
        (event["outcome"], event.get("answer"))
        for event in begun.events()
        if event["type"] == "inquiry_response"
    ]
    assert told == [
        ("answered", True),
        ("cancelled", None),
        ("answered", False),
        ("answered", True),
    ]


def test_turn_cancelled_in_the_inbox_is_reported_as_cancelled(begun: CommandLine) -> None:
    begun.run("query", "-m", begun.script(calls("deploy", ask=asks())), "--defer", "Go")
    (question,) = waiting(begun)
    begun.ok("answer", question["id"], "--cancel")

    resumed = begun.run("resume", question["conversation"])
    late = begun.run("answer", question["id"], "yes")
    discarded = begun.run("resume", "--discard")

    assert (resumed.status, late.status, discarded.status) == (130, 1, 1)
    assert "was ended by ana (inbox)." in resumed.stderr
    assert "is closed: its turn was ended by ana (inbox)." in " ".join(late.stderr.split())


def test_resume_ready_skips_an_interrupted_turn(midturn: CommandLine) -> None:
    def down(_: mt.ModelRequest) -> str:
        raise mt.ModelError("It is down.")

    store = mt.open_store(midturn.store)
    with pytest.raises(mt.ModelError):
        mt.Agent(mt.FunctionModel(down), store=store).run_sync("Go.")
    assert store.ready_sync(interrupted=True) == store.ids_sync()

    finished = midturn.run("resume", "--ready")

    assert finished.stdout == ""
    assert store.ready_sync(interrupted=True) == store.ids_sync(), "the turn is still open"
