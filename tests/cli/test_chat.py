"""`midturn chat`, on a real terminal: turns, commands, a crash in the middle, and going on."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from midturn.cli.chat import COMMANDS
from midturn.terminal.prompts.rich.screen import POINTER
from support.cli import CommandLine, asks, calls
from support.pty_session import PtySession


def script(midturn: CommandLine, *replies: dict[str, Any]) -> str:
    """Write a script whose replies are these; return the model's name."""
    file = midturn.root / "play.json"
    file.write_text(json.dumps({"replies": [*replies]}))
    return f"scripted:{file}"


def ready(session: PtySession, said: str, count: int = 1) -> None:
    """Wait for an answer, and for the next line to be typed."""
    session.wait_until(lambda: session.text.count(said) >= count, f"{said!r} {count} times")
    session.wait_until(lambda: bool(session.rows) and session.rows[-1] == POINTER.strip(), "a line to type in")


def say(session: PtySession, words: str) -> None:
    session.send(words)
    session.wait_for(words)
    session.send("\r")


def histories(midturn: CommandLine) -> list[Path]:
    """Return the files of what was said."""
    return sorted((midturn.state / "history").iterdir())


@pytest.mark.skipif(os.name != "posix", reason="terminals are POSIX here")
def test_a_whole_session_with_a_crash_in_the_middle(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.hasty()
    secret = {"id": "token", "text": "Which token?", "answer_type": {"type": "secret"}}
    ship = calls("deploy", ask=[asks(), secret], say="shipped")
    model = script(midturn, {"text": "Hello."}, ship, {"text": "Shipped."}, {"text": "Bye."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "/help lists the commands")
        say(session, "Good morning")
        ready(session, "Hello.")
        say(session, "/nosuch")
        ready(session, "There is no command /nosuch.")
        say(session, '/model "un')
        ready(session, "/model: no closing quotation.")
        say(session, "/model")
        ready(session, "`/model PROVIDER/MODEL` names another")
        say(session, "Ship it")
        session.wait_for("Deploy to staging?")
        session.wait_for("all keys")
        session.child.kill(signal.SIGKILL)
        session.wait_for_end()

    with midturn.on_a_terminal("chat", "-c", plain=False) as session:
        session.wait_for("has an open turn. What about it?")
        assert ": Good morning" in session.text
        assert "your new request" not in session.text
        session.wait_for("Enter picks")
        session.send("\r")
        session.wait_for("Deploy to staging?")
        session.wait_for("all keys")
        session.send("y")
        session.wait_for("Which token?")
        session.send("hunter2\r")
        ready(session, "Shipped.")
        say(session, "Thanks")
        ready(session, "Bye.")
        say(session, "/quit now")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings

    (conversation,) = midturn.conversations()
    said = [event["content"] for event in midturn.events(conversation) if event["type"] == "chat_request"]
    assert said == ["Good morning", "Ship it", "Thanks"]
    (history,) = histories(midturn)
    assert history.stat().st_mode & 0o777 == 0o600
    assert "Good morning" in history.read_text()
    assert "hunter2" not in history.read_text()


def test_ctrl_c_ends_the_turn_and_not_the_chat(midturn: CommandLine) -> None:
    model = script(midturn, {"text": "word word\n\n" * 200, "chunk": 11, "delay_ms": 60_000}, {"text": "Fine."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "/help lists the commands")
        say(session, "Speak")
        session.wait_for("word word")
        session.send("\x03")
        ready(session, "the turn was ended")
        session.send("half a thought\x03")
        ready(session, "Ctrl-D leaves.", 2)
        session.send("\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings


def test_after_an_error_one_key_tries_again_and_what_was_typed_is_kept_and_sent_then(midturn: CommandLine) -> None:
    midturn.hasty()
    down = {"error": {"status": 401, "message": "no credit today"}}
    model = script(midturn, down)

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "/help lists the commands")
        say(session, "Good morning")
        session.wait_for("The turn is not finished. Try again?")
        assert "`/retry` goes on with it." in session.text
        session.wait_for("Enter picks")
        session.send("3")
        ready(session, "Try again? leave it open")
        say(session, "How are you?")
        session.wait_for("your new request comes after it")
        session.wait_for("Enter picks")
        session.send("\r")
        session.wait_until(lambda: session.text.count("The turn is not finished. Try again?") >= 2, "the offer again")
        session.wait_for("Enter picks")
        script(midturn, {"text": "Hello."}, {"text": "Fine."})
        session.send("\r")
        ready(session, "Fine.")
        assert session.text.index("Hello.") < session.text.index("Fine.")
        say(session, "/retry")
        ready(session, "No turn is open in this conversation.")
        say(session, "/clear")
        ready(session, "begins a new conversation")
        say(session, "And you?")
        ready(session, "Hello.", 2)
        session.send("\x04")
        assert session.wait_for_end() == 0

    said = [[event["content"] for event in midturn.events(one) if event["type"] == "chat_request"] for one in midturn.conversations()]
    assert sorted(said) == [["And you?"], ["Good morning", "How are you?"]]


@pytest.mark.parametrize("plain", [True, False])
def test_words_that_were_not_sent_stand_in_the_next_line(midturn: CommandLine, *, plain: bool) -> None:
    midturn.hasty()
    down = {"error": {"status": 401, "message": "no credit today"}}
    model = script(midturn, down, {"text": "Hello."}, {"text": "Fine."})

    with midturn.on_a_terminal("chat", "-m", model, plain=plain) as session:
        session.wait_for("/help lists the commands")
        session.wait_until(lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in")
        session.send("Good morning\r")
        session.wait_for("Enter picks" if not plain else "(Enter for 1):")
        session.send("3\r" if plain else "3")
        session.wait_until(lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in")
        session.send("How are you?\r")
        session.wait_for("your new request comes after it")
        session.wait_until(lambda: session.text.count("Enter picks" if not plain else "(Enter for 1):") > plain, "the keys")
        session.send("3\r" if plain else "3")
        again = "Not sent yet (Enter sends it): How are you?" if plain else f"{POINTER}How are you?"
        session.wait_until(lambda: session.text.count(again) > (not plain), "the words again")  # the editor's own row stays above
        session.send("\x04" if plain else "\x15\x04")
        assert session.wait_for_end() == 0


@pytest.mark.parametrize(
    ("said", "after", "plain"),
    [
        ("Speak", "the turn was ended", False),
        ("Good morning", "Hello.", False),
        ("/help", "Tab completes", False),
        ("/help", "Enter sends", True),
        ("Good morning", "Hello.", True),
    ],
)
def test_a_key_between_two_lines_is_not_lost(midturn: CommandLine, said: str, after: str, *, plain: bool) -> None:
    slow = {"text": "word word\n\n" * 200, "chunk": 11, "delay_ms": 60_000}
    model = script(midturn, slow if said == "Speak" else {"text": "Hello."})

    with midturn.on_a_terminal("chat", "-m", model, plain=plain) as session:
        session.wait_for("/help lists the commands")
        session.wait_until(lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in")
        session.send(f"{said}\r")
        if said == "Speak":
            session.wait_for("word word")
            session.send("\x03")
        session.wait_for(after)
        session.send("\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings


def test_what_is_typed_while_a_turn_runs_stands_in_the_next_plain_line_and_is_not_sent(midturn: CommandLine) -> None:
    midturn.asker()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    model = script(midturn, calls("deploy", note=str(gate), say="shipped"), {"text": "Hello."}, {"text": "Fine."})

    with midturn.on_a_terminal("chat", "-m", model, plain=True) as session:
        session.wait_for("/help lists the commands")
        session.wait_until(lambda: session.rows[-1] == ">", "a line to type in")
        session.send("Good morning\r")
        session.wait_for("· deploy")
        session.send("\r\rHow are yoi\x7fu\r")
        gate.read_text()
        session.wait_for("> How are you")
        session.send("\x7f\x7f\x7f\x7fwe?\r")
        session.wait_for("Fine.")
        session.send("\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings

    (conversation,) = midturn.conversations()
    said = [event["content"] for event in midturn.events(conversation) if event["type"] == "chat_request"]
    assert [" ".join(words.split()) for words in said] == ["Good morning", "How are we?"]


def typed_meanwhile(midturn: CommandLine) -> tuple[str, Path]:
    """Return a model whose first turn runs until its gate is read, and the gate."""
    midturn.asker()
    midturn.hasty()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    return script(midturn, calls("deploy", note=str(gate), say="shipped"), *({"text": f"Answer {n}."} for n in range(4))), gate


def said_in(midturn: CommandLine) -> list[str]:
    (conversation,) = midturn.conversations()
    return [event["content"] for event in midturn.events(conversation) if event["type"] == "chat_request"]


@pytest.mark.parametrize("columns", [80, 40])
def test_a_line_below_a_running_turn_is_seen_edited_queued_and_taken_back(midturn: CommandLine, columns: int) -> None:
    model, gate = typed_meanwhile(midturn)

    with midturn.on_a_terminal("chat", "-m", model, plain=False, size=(columns, 40)) as session:
        ready(session, "Ctrl-D")
        say(session, "Good morning")
        session.wait_for("· deploy")
        session.send("How are yoi\x7fu?")
        session.wait_at("How are you?")
        session.send("\r")
        session.wait_for("1 message queued" if columns == 80 else "1 queued")
        session.send("\x1b[200~" + "\r".join(f"row {n}" for n in range(200)) + "\x1b[201~ and more")
        session.wait_at("[200 lines] and more")
        session.send("\r")
        session.wait_for("2 messages queued" if columns == 80 else "2 queued")
        session.send("\x1b[A")
        session.wait_at("[200 lines] and more")
        session.send("!\r")
        session.wait_for("2 messages queued" if columns == 80 else "2 queued")
        session.send("begun")
        session.wait_at("begun")
        session.resize(columns - 5, 30)
        gate.read_text()
        session.wait_for("Answer 2.")
        session.wait_until(lambda: session.rows[-1] == f"{POINTER}begun", "the line that was begun")
        assert "> [200 lines] and more!" in session.text
        session.send("\x15\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings

    assert session.raw.rindex(b"\x1b[?2004l") > session.raw.rindex(b"\x1b[?2004h")
    first, second, third = said_in(midturn)
    assert [first, second] == ["Good morning", "How are you?"]
    assert third == "\n".join(f"row {n}" for n in range(200)) + " and more!"


def test_ctrl_c_ends_the_turn_and_what_was_typed_stands_in_the_next_line(midturn: CommandLine) -> None:
    model, _ = typed_meanwhile(midturn)

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "Ctrl-D")
        say(session, "Good morning")
        session.wait_for("· deploy")
        session.send("one\r")
        session.wait_for("1 message queued")
        session.send("two")
        session.wait_at("two")
        session.send("\x03")
        session.wait_for("the turn was ended")
        session.wait_until(lambda: session.rows[-1].strip() == "two", "the next line")
        assert session.rows[-2] == f"{POINTER}one"
        session.send("\r")
        ready(session, "Answer 0.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert said_in(midturn) == ["Good morning", "one\ntwo"]


def test_in_plain_lines_ctrl_c_keeps_what_was_typed_before_it(midturn: CommandLine) -> None:
    model, _ = typed_meanwhile(midturn)

    with midturn.on_a_terminal("chat", "-m", model) as session:
        session.wait_at("> ")
        session.send("Good morning\r")
        session.wait_for("· deploy")
        session.send("one thing\x03")
        session.wait_for("the turn was ended")
        session.wait_at("> one thing")
        session.send("\r")
        session.wait_for("Answer 0.")
        session.wait_at("> ")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert said_in(midturn) == ["Good morning", "one thing"]


def test_what_was_typed_ahead_answers_no_prompt_and_is_there_after_it(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.hasty()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    model = script(midturn, calls("deploy", note=str(gate)), calls("deploy", ask=asks()), {"text": "Done."}, {"text": "More."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "Ctrl-D")
        say(session, "Good morning")
        session.wait_for("· deploy")
        session.send("yyy")
        session.wait_at("yyy")
        gate.read_text()
        session.wait_for("Deploy to staging?")
        session.wait_for("all keys")
        session.send("n")
        session.wait_for("Done.")
        session.wait_until(lambda: session.rows[-1] == f"{POINTER}yyy", "the line")
        session.send("\x15\x04")
        assert session.wait_for_end() == 0

    assert [event["answer"] for event in midturn.events() if event["type"] == "inquiry_response"] == [False]


def test_lines_that_are_pasted_at_once_are_one_message_where_the_terminal_does_not_mark_them(midturn: CommandLine) -> None:
    model, gate = typed_meanwhile(midturn)

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "Ctrl-D")
        say(session, "Good morning")
        session.wait_for("· deploy")
        session.send(b"one\rtwo\r")
        session.wait_for("one⏎ two")
        session.send(" three\r")
        session.wait_for("1 message queued")
        gate.read_text()
        ready(session, "Answer 1.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert said_in(midturn) == ["Good morning", "one\ntwo three"]


def test_lines_that_are_pasted_into_the_line_without_marks_are_one_message(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "One."}), plain=False) as session:
        ready(session, "Ctrl-D")
        session.send(b"one\rtwo\r\nthree\r")
        session.wait_for("three")
        session.send("\r")
        ready(session, "One.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert said_in(midturn) == ["one\ntwo\nthree"]


def test_a_long_paste_into_the_line_is_folded_and_sent_whole(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "One."}), plain=False) as session:
        ready(session, "Ctrl-D")
        session.send("see \x1b[200~" + "\r".join(f"row {n}" for n in range(200)) + "\x1b[201~")
        session.wait_at("see [200 lines]")
        session.send("\x1b[D\x1b[C!")
        session.wait_at("see [200 lines]!")
        session.send("\r")
        ready(session, "One.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert said_in(midturn) == ["see " + "\n".join(f"row {n}" for n in range(200)) + "!"]
    assert "+row 199!\n" in histories(midturn)[0].read_text()


def test_a_paste_of_thousands_of_lines_is_one_message(midturn: CommandLine) -> None:
    model, gate = typed_meanwhile(midturn)
    pasted = "\x1b[200~" + "\r".join(f"row {n}" for n in range(5_000)) + "\x1b[201~"

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "Ctrl-D")
        session.send(f"first {pasted}")
        session.wait_at("first [5000 lines]")
        session.send("\r")
        session.wait_for("· deploy")
        session.send(f"then {pasted}")
        session.wait_at("then [5000 lines]")
        session.send("\r")
        session.wait_for("1 message queued")
        gate.read_text()
        ready(session, "Answer 1.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    rows = "\n".join(f"row {n}" for n in range(5_000))
    assert said_in(midturn) == [f"first {rows}", f"then {rows}"]


def test_ctrl_z_stops_a_chat_and_what_was_typed_is_there_when_it_goes_on(midturn: CommandLine) -> None:
    """Between two turns, and while one runs."""
    model, gate = typed_meanwhile(midturn)
    shell = ["/bin/bash", "--norc", "--noprofile", "-i"]
    with midturn.on_a_terminal_run(*shell, TERM="xterm-256color", PS1="shell$ ") as session:
        session.wait_at("shell$ ")
        session.send(f"python -m midturn chat -m {model}\r")
        ready(session, "Ctrl-D")
        for typed, more, said in (("half a", " line", ""), ("next", " words", "· deploy")):
            if said:
                session.send("\r")
                session.wait_for(said)
            session.send(typed)
            session.wait_at(typed)
            stopped = session.text.count("Stopped")
            session.send("\x1a")
            session.wait_until(lambda: session.text.count("Stopped") > stopped, "a stopped job")  # noqa: B023  it is called at once
            session.wait_at("shell$ ")
            session.send("fg\r")
            session.wait_at(f"{POINTER}{typed}")
            session.send(more)
            session.wait_at(f"{POINTER}{typed}{more}")
        gate.read_text()
        session.wait_for("Answer 0.")
        session.wait_until(lambda: session.rows[-1] == f"{POINTER}next words", "the line that was begun")
        session.send("\x15\x04")
        session.wait_at("shell$ ")
        session.send("exit\r")
        assert session.wait_for_end() == 0

    assert said_in(midturn) == ["half a line"]


@pytest.mark.parametrize("plain", [True, False])
def test_a_signal_that_ends_a_chat_leaves_the_terminal_as_it_was(midturn: CommandLine, *, plain: bool) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=plain) as session:
        session.wait_for("/help lists the commands")
        session.wait_until(lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in")
        session.child.kill(signal.SIGTERM)
        assert session.wait_for_end() in (-signal.SIGTERM, 143)
        assert session.read_settings() == session.settings


def test_what_waits_elsewhere_is_announced_and_a_chat_can_be_forked_and_undone(midturn: CommandLine) -> None:
    midturn.asker()
    assert midturn.run("query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "Go").status == 3
    model = script(midturn, {"text": "One."}, {"text": "Two."}, {"text": "Three."})

    with midturn.on_a_terminal("chat", "-m", model) as session:
        session.wait_for("deploy asks in another conversation: Deploy to staging?")
        session.wait_at("> ")
        for words, heard in (("first", "One."), ("second", "Two."), ("/undo", "stays as it is"), ("/fork", "stays as it is")):
            session.send(f"{words}\r")
            session.wait_until(lambda: heard in " ".join(session.text.partition(words)[2].split()), heard)  # noqa: B023  it is called at once
            session.wait_until(lambda: session.text.endswith("\n>"), "a line to type in")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert session.text.count("deploy asks in another conversation") == 1
    assert len(midturn.conversations()) == 4


@pytest.mark.parametrize("command", ["/fork", "/undo"])
def test_a_copy_of_a_conversation_keeps_the_flags_that_its_person_gave(midturn: CommandLine, command: str) -> None:
    model = script(midturn, {"text": "One."}, {"text": "Two."}, {"text": "Three."}, {"text": "Four."})

    with midturn.on_a_terminal("chat", "-m", model, "-T", "fs_read_file", plain=False) as session:
        ready(session, "/help lists the commands")
        for words, heard in (("first", "One."), ("second", "Two."), (command, "going on in conversation")):
            say(session, words)
            ready(session, heard)
        say(session, "/model")
        ready(session, f"midturn: {model[:9]}")
        say(session, "third")
        ready(session, *(("Two.", 2) if command == "/undo" else ("Three.", 1)))
        say(session, "/quit")
        assert session.wait_for_end() == 0

    assert "not known to be yours" not in session.text
    assert "fs_read_file" not in midturn.ok("query", "-c", "--dry-run", "more").stdout


def test_in_plain_lines_a_backslash_goes_on_and_what_was_said_is_kept(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "One."})) as session:
        session.wait_at("> ")
        session.send("/help\r")
        session.wait_for("end a line with \\ to go on in the next.")
        session.wait_until(lambda: session.text.endswith("`!`.\n>"), "a line to type in")
        session.send("first \\\r")
        session.wait_until(lambda: session.text.endswith("> first \\\n>"), "the next line to type in")
        session.send("and second\r")
        session.wait_until(lambda: session.text.endswith("One.\n>"), "a line to type in")
        session.send("/quit\r")
        assert session.wait_for_end() == 0

    assert next(event["content"] for event in midturn.events() if event["type"] == "chat_request") == "first \nand second"
    (history,) = histories(midturn)
    assert "+first \n+and second\n" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_a_tab_in_a_line_is_seen_as_one(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "One."}), plain=False) as session:
        ready(session, "/help lists the commands")
        session.send("\x1b[200~a\tb\x1b[201~")
        session.wait_for(f"{POINTER}a⇥  b")
        session.send("\r")
        ready(session, "One.")

    assert next(event["content"] for event in midturn.events() if event["type"] == "chat_request") == "a\tb"


def test_a_window_that_is_closed_ends_the_chat(midturn: CommandLine) -> None:
    for plain in (True, False):
        with midturn.on_a_terminal("chat", "-m", midturn.script(), plain=plain) as session:
            session.wait_for("/help lists the commands")
            session.wait_for(">" if plain else POINTER.strip())
            session.hang_up()
            session.child.wait()
            assert (session.child.exitstatus or 128 + (session.child.signalstatus or 0)) == 129


def test_without_a_terminal_a_chat_says_what_to_do(midturn: CommandLine) -> None:
    finished = midturn.run("chat")

    assert finished.status == 2
    assert 'A chat needs a terminal. `midturn query "…"` asks without one.' in finished.stderr


def test_midturn_alone_opens_a_chat_where_a_model_is_set_and_else_says_how_to_start(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(size=(100, 40)) as session:
        session.wait_for("No model is set. How do you want to start?")
        session.wait_for("`midturn demo`")
        session.wait_for("`midturn init`")
        session.send("\x03")
        assert session.wait_for_end() == 130
    midturn.configure(f'[assistant]\nmodel.id = "{midturn.script()}"\n')
    with midturn.on_a_terminal() as session:
        session.wait_for("/help lists the commands")
        session.wait_at("> ")
        session.send("\x04")
        assert session.wait_for_end() == 0


def test_a_first_run_leads_in_two_keys_to_a_question(tmp_path: Path) -> None:
    fresh = CommandLine(tmp_path, workspace=False)
    fresh.hasty()
    with fresh.on_a_terminal(size=(100, 40), plain=False) as session:
        session.wait_for("No model is set. How do you want to start?")
        session.wait_for("Enter picks")
        session.send("1")
        session.wait_for("Apply the changes to plan.md?")
        session.wait_for("all keys")
        session.send("y")
        session.wait_for("Apply the changes to plan.md? yes")
        session.child.kill(signal.SIGKILL)
        session.wait_for_end()


def test_a_first_run_sets_up_the_model_that_is_at_hand_and_talks(tmp_path: Path) -> None:
    fresh = CommandLine(tmp_path, workspace=False)
    fresh.hasty()
    with fresh.on_a_terminal(size=(100, 40), plain=False, ANTHROPIC_API_KEY="sk-x") as session:
        session.wait_for("How do you want to start?")
        session.wait_for("Enter picks")
        session.send("2")
        session.wait_for("because ANTHROPIC_API_KEY is set")
        session.wait_for("/help lists the commands")
        session.wait_until(lambda: session.rows[-1] == POINTER.strip(), "a line to type in")
        session.send("\x04")
        assert session.wait_for_end() == 0


def test_a_first_run_without_any_key_names_the_command_that_helps(tmp_path: Path) -> None:
    fresh = CommandLine(tmp_path, workspace=False)
    fresh.hasty()
    with fresh.on_a_terminal(size=(100, 40), plain=False) as session:
        session.wait_for("How do you want to start?")
        session.wait_for("Enter picks")
        session.send("2")
        assert session.wait_for_end() == 2
    named = re.findall(r"`(midturn [^`]+)`", " ".join(session.text.split()))
    commands = [one for one in named if "config set" in one or one == "midturn demo"]
    assert len({*commands}) == 2
    for command in commands:
        fresh.ok(*command.split()[1:])


def test_a_file_that_is_not_trusted_is_said_to_name_the_model(midturn: CommandLine) -> None:
    midturn.workspace_file(f'[assistant]\nmodel.id = "{midturn.script({"text": "Hello."})}"\n')
    said = "The model that .midturn/config.toml names answers once you have approved the file: `midturn trust`."

    with midturn.on_a_terminal(size=(160, 40)) as session:
        assert session.wait_for_end() == 2
        assert said in session.text
        assert "No model is set" not in session.text
    with midturn.on_a_terminal("chat", size=(160, 40)) as session:
        session.wait_for(said)
        for count in (2, 3):
            session.wait_at("> ")
            session.send("Good morning\r")
            session.wait_until(lambda: session.text.count(said) == count, said)  # noqa: B023  it is called at once
        session.wait_at("> ")
        session.send("\x04")
        assert session.wait_for_end() == 0
    assert session.text.count("is not trusted, so") == 1


def test_a_chat_without_a_model_says_how_to_name_one(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat") as session:
        session.wait_for("midturn: no model is set: `/model PROVIDER/MODEL` names one.")
        session.wait_at("> ")
        session.send("\x04")
        assert session.wait_for_end() == 0


def test_tab_behind_a_slash_lists_every_command_with_what_it_does(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=False) as session:
        ready(session, "/help lists the commands")
        session.send("/\t")
        session.wait_until(lambda: all(session.text.count(name) for name in COMMANDS), "every command")
        session.wait_for("/tools    the tools that the assistant has")
        session.send("\x15\x04")
        assert session.wait_for_end() == 0


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/model anthropic/", "anthropic/claude-haiku-4-5"),
        ("/tools fs_", "fs_grep_files"),
        ("/show --", "--inquiries"),
        ("/config set prompt.mode ", "plain"),
    ],
)
def test_tab_offers_what_may_follow_a_command(midturn: CommandLine, typed: str, offered: str) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=False) as session:
        ready(session, "/help lists the commands")
        session.send(f"{typed}\t")
        session.wait_for(offered)
        session.send("\x15\x04")
        assert session.wait_for_end() == 0


def test_a_chat_in_a_store_of_its_own_shows_what_is_there(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "Hello."}), "--store", "../elsewhere") as session:
        session.wait_at("> ")
        session.send("Good morning\r")
        session.wait_until(lambda: session.text.count("Hello.") == 1, "the answer")
        session.wait_at("> ")
        session.send("/show\r")
        session.wait_for("Assistant:")
        session.wait_at("> ")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert midturn.conversations() == []


def test_a_model_that_nobody_has_is_refused_at_once_and_a_new_beginning_keeps_the_model(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "Hello."}), size=(60, 40)) as session:
        for words, heard in (
            ("/model opnai/gpt", "Did you mean `openai`?"),
            ("/help", "stays in a conversation of its own)"),
            ("Good morning", "Hello."),
            ("/undo", "what you say next begins a new"),
            ("Once more", "Hello."),
        ):
            session.wait_until(lambda: session.text.endswith("\n>"), "a line to type in")
            session.send(f"{words}\r")
            session.wait_until(lambda: heard in " ".join(session.text.partition(f"> {words}")[2].split()), heard)  # noqa: B023  at once
        session.wait_until(lambda: session.text.endswith("\n>"), "a line to type in")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert "\n  /undo     go on as if" in session.text
    assert len(midturn.conversations()) == 2


def test_the_rules_of_a_person_are_listed_and_removed(midturn: CommandLine) -> None:
    midturn.configure('[[conversation.tools.shell.rules]]\nwhen = { cmd = "ls" }\nrun = "unattended"\n')
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=False) as session:
        ready(session, "Ctrl-D leaves")
        say(session, "/rules")
        ready(session, '1  shell  everywhere  { when = { cmd = "ls" }, run = "unattended" }')
        say(session, "/rules remove 1")
        ready(session, "removed the rule about shell")
        session.send("/rules\r")
        ready(session, "Your own configuration has no rules.")
        session.send("/quit\r")
        assert session.wait_for_end() == 0


LINES = """
import gc
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import InMemoryHistory
from midturn.cli.chat_line import RichLine
from midturn.terminal.typed_ahead import Folds
line = RichLine(InMemoryHistory(), {}, lambda words: [], Folds())
for _ in range(4):
    said = line.read()
    gc.collect()
    print(f"<{said}> {sum(type(one) is Buffer for one in gc.get_objects())} buffers", flush=True)
"""


def test_of_lines_that_were_sent_nothing_stays_but_their_history(tmp_path: Path) -> None:
    with PtySession([sys.executable, "-c", LINES], environment={"HOME": str(tmp_path), "TERM": "xterm-256color"}) as session:
        for said in ("one", "two", "three", "four"):
            session.send(said)
            session.wait_for(f"{POINTER}{said}")
            session.send("\r")
            session.wait_for(f"<{said}> 3 buffers")


def test_a_command_of_the_persons_own_runs_is_recorded_and_read_by_the_model(midturn: CommandLine) -> None:
    model = script(midturn, {"expect": "two words", "text": "I see two words."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False, SHELL="/bin/sh") as session:
        ready(session, "Ctrl-D")
        say(session, "!echo two words; printf '\\033]0;x\\007'; exit 3")
        ready(session, "it exited with status 3")
        assert b"\x1b]0;x\x07" not in session.raw
        say(session, "!echo again")
        ready(session, "again", 2)
        session.send("\x1b[200~!echo a\r!echo b\x1b[201~\r")
        ready(session, "this has several: none was run.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    ran, again = said_in(midturn)
    assert ran.startswith("I ran this command myself: `echo two words;")
    assert "It exited with status 3, and printed:\n\ntwo words" in ran
    assert again.endswith("\n\nagain")
    kinds = [event["type"] for event in midturn.events()]
    assert kinds == ["turn_start", "chat_request", "turn_end"] * 2
    assert all(event["status"] == "completed" for event in midturn.events() if event["type"] == "turn_end")
    sent = midturn.ok("query", "-c", "--dry-run", "-m", model, "What do you see?").json["messages"]
    assert [message["type"] for message in sent] == ["chat_request"] * 3


def test_ctrl_c_ends_a_command_of_the_persons_own_and_not_the_chat(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "Hello."}), plain=False, SHELL="/bin/sh") as session:
        ready(session, "Ctrl-D")
        say(session, "!echo begun; exec sleep 60")  # a shell that is about to start a program may keep a Ctrl-C to itself
        session.wait_until(lambda: "begun" in session.rows, "its words")
        session.send("\x03")
        ready(session, "signal 2 ended it")
        say(session, "Good morning")
        ready(session, "Hello.")
        session.send("\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings

    assert said_in(midturn)[1] == "Good morning"


@pytest.mark.parametrize("taken", [True, False])
def test_a_summary_is_seen_before_it_counts_and_the_conversation_stays(midturn: CommandLine, *, taken: bool) -> None:
    midturn.hasty()
    model = script(midturn, {"text": "One."}, {"expect": "Summarise", "text": "We said **one**."}, {"text": "Two."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "Ctrl-D")
        say(session, "first")
        ready(session, "One.")
        before = midturn.events()
        session.send("/compact\r")
        session.wait_for("We said one.")
        session.wait_for("Go on from this summary?")
        session.wait_for("all keys")
        session.send("y" if taken else "n")
        ready(session, "stays as it is." if taken else "nothing has changed.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    old, *new = midturn.conversations()
    assert midturn.events(old) == before
    assert [midturn.events(one)[1]["content"].partition("\n\n")[2] for one in new] == (["We said **one**."] if taken else [])


def test_a_paste_that_is_still_arriving_when_a_question_comes_stays_in_the_line(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.hasty()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    model = script(midturn, calls("deploy", note=str(gate), ask=[asks()], say="shipped"), {"text": "Shipped."}, {"text": "Bye."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "Ctrl-D")
        say(session, "Ship it")
        session.wait_for("· deploy")
        session.send(b"\x1b[200~yes y")
        session.wait_for_quiet(0.1)
        gate.read_text()
        for _ in range(10):
            session.send(b" and y")
            session.wait_for_quiet(0.1)
        assert "all keys" not in session.text
        session.send(b" end\x1b[201~")
        session.wait_for("all keys")
        session.send("n")
        gate.read_text()  # the tool runs again, with the answer
        session.wait_for("Shipped.")
        session.wait_at("and y end")
        session.send("\x15\x04")
        session.wait_for_end()

    assert [event["answer"] for event in midturn.events() if event["type"] == "inquiry_response"] == [False]
