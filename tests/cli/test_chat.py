"""`midturn chat` on a pseudo terminal: turns, commands, a crash in the middle, and resuming."""

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
    """Write a script with these replies; return the model's name."""
    file = midturn.root / "play.json"
    file.write_text(json.dumps({"replies": [*replies]}))
    return f"scripted:{file}"


def ready(session: PtySession, said: str, count: int = 1) -> None:
    """Wait for an answer and for the next input line."""
    session.wait_until(lambda: session.text.count(said) >= count, f"{said!r} {count} times")
    session.wait_until(
        lambda: bool(session.rows) and session.rows[-1] == POINTER.strip(), "a line to type in"
    )


def say(session: PtySession, words: str) -> None:
    session.send(words)
    session.wait_for(words)
    session.send("\r")


def histories(midturn: CommandLine) -> list[Path]:
    """Return the history files."""
    return sorted((midturn.state / "history").iterdir())


@pytest.mark.skipif(os.name != "posix", reason="terminals are POSIX here")
def test_a_whole_session_with_a_crash_in_the_middle(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.accept_keys_at_once()
    secret = {"id": "token", "text": "Which token?", "answer_type": {"type": "secret"}}
    ship = calls("deploy", ask=[asks(), secret], say="shipped")
    model = script(midturn, {"text": "Hello."}, ship, {"text": "Shipped."}, {"text": "Bye."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        say(session, "Good morning")
        ready(session, "Hello.")
        say(session, "/nosuch")
        ready(session, "There is no command /nosuch.")
        say(session, '/model "un')
        ready(session, "/model: no closing quotation.")
        say(session, "/model")
        ready(session, "To list models: `midturn models`")
        say(session, "Ship it")
        session.wait_for("Deploy to staging?")
        session.wait_for("all keys")
        session.child.kill(signal.SIGKILL)
        session.wait_for_end()

    with midturn.on_a_terminal("chat", "-c", plain=False) as session:
        session.wait_for("has an open turn. What do you want to do with it?")
        assert ": Good morning" in session.text
        assert "midturn: your new message was not sent." not in session.text
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
    said = [
        event["content"]
        for event in midturn.events(conversation)
        if event["type"] == "chat_request"
    ]
    assert said == ["Good morning", "Ship it", "Thanks"]
    (history,) = histories(midturn)
    assert history.stat().st_mode & 0o777 == 0o600
    assert "Good morning" in history.read_text()
    assert "hunter2" not in history.read_text()


def test_ctrl_c_ends_the_turn_but_not_the_chat(midturn: CommandLine) -> None:
    model = script(
        midturn, {"text": "word word\n\n" * 200, "chunk": 11, "delay_ms": 60_000}, {"text": "Fine."}
    )

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        say(session, "Speak")
        session.wait_for("word word")
        session.send("\x03")
        ready(session, "the turn was ended")
        session.send("half a thought\x03")
        ready(session, "midturn: press Ctrl-D to quit.")
        session.send("\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings


def test_after_an_error_one_key_retries_and_typed_text_is_kept(midturn: CommandLine) -> None:
    midturn.accept_keys_at_once()
    down = {"error": {"status": 401, "message": "no credit today"}}
    model = script(midturn, down)

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        say(session, "Good morning")
        session.wait_for("The turn is not finished. Try again?")
        assert "The turn is still open. To continue it: `/retry`" in session.text
        session.wait_for("Enter picks")
        session.send("3")
        ready(session, "Try again? leave it open")
        say(session, "How are you?")
        session.wait_for("Continue it, then send your new message.")
        session.wait_for("Enter picks")
        session.send("\r")
        session.wait_until(
            lambda: session.text.count("The turn is not finished. Try again?") >= 2,
            "the offer again",
        )
        session.wait_for("Enter picks")
        script(midturn, {"text": "Hello."}, {"text": "Fine."})
        session.send("\r")
        ready(session, "Fine.")
        assert session.text.index("Hello.") < session.text.index("Fine.")
        say(session, "/retry")
        ready(session, "No turn is open in this conversation.")
        say(session, "/clear")
        ready(session, "midturn: your next message starts a new conversation.")
        say(session, "And you?")
        ready(session, "Hello.", 2)
        session.send("\x04")
        assert session.wait_for_end() == 0

    said = [
        [event["content"] for event in midturn.events(one) if event["type"] == "chat_request"]
        for one in midturn.conversations()
    ]
    assert sorted(said) == [["And you?"], ["Good morning", "How are you?"]]


@pytest.mark.parametrize("plain", [True, False])
def test_unsent_text_is_kept_in_the_next_line(midturn: CommandLine, *, plain: bool) -> None:
    midturn.accept_keys_at_once()
    down = {"error": {"status": 401, "message": "no credit today"}}
    model = script(midturn, down, {"text": "Hello."}, {"text": "Fine."})

    with midturn.on_a_terminal("chat", "-m", model, plain=plain) as session:
        session.wait_for("midturn: type /help for commands, Ctrl-D to quit.")
        session.wait_until(
            lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in"
        )
        session.send("Good morning\r")
        session.wait_for("Enter picks" if not plain else "(Enter for 1):")
        session.send("3\r" if plain else "3")
        session.wait_until(
            lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in"
        )
        session.send("How are you?\r")
        session.wait_for("Continue it, then send your new message.")
        session.wait_until(
            lambda: session.text.count("Enter picks" if not plain else "(Enter for 1):") > plain,
            "the keys",
        )
        session.send("3\r" if plain else "3")
        again = "Not sent yet (Enter sends it): How are you?" if plain else f"{POINTER}How are you?"
        # the editor's own row stays above
        session.wait_until(lambda: session.text.count(again) > (not plain), "the words again")
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
def test_a_key_between_two_lines_is_not_lost(
    midturn: CommandLine, said: str, after: str, *, plain: bool
) -> None:
    slow = {"text": "word word\n\n" * 200, "chunk": 11, "delay_ms": 60_000}
    model = script(midturn, slow if said == "Speak" else {"text": "Hello."})

    with midturn.on_a_terminal("chat", "-m", model, plain=plain) as session:
        session.wait_for("midturn: type /help for commands, Ctrl-D to quit.")
        session.wait_until(
            lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in"
        )
        session.send(f"{said}\r")
        if said == "Speak":
            session.wait_for("word word")
            session.send("\x03")
        session.wait_for(after)
        session.send("\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings


def test_text_typed_during_a_turn_is_kept_in_the_next_plain_line(midturn: CommandLine) -> None:
    midturn.asker()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    model = script(
        midturn,
        calls("deploy", note=str(gate), say="shipped"),
        {"text": "Hello."},
        {"text": "Fine."},
    )

    with midturn.on_a_terminal("chat", "-m", model, plain=True) as session:
        session.wait_for("midturn: type /help for commands, Ctrl-D to quit.")
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
    said = [
        event["content"]
        for event in midturn.events(conversation)
        if event["type"] == "chat_request"
    ]
    assert [" ".join(words.split()) for words in said] == ["Good morning", "How are we?"]


def model_with_gate(midturn: CommandLine) -> tuple[str, Path]:
    """Return a model whose first turn runs until its FIFO is read, and the FIFO."""
    midturn.asker()
    midturn.accept_keys_at_once()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    return (
        script(
            midturn,
            calls("deploy", note=str(gate), say="shipped"),
            *({"text": f"Answer {n}."} for n in range(4)),
        ),
        gate,
    )


def assistant_texts(midturn: CommandLine) -> list[str]:
    (conversation,) = midturn.conversations()
    return [
        event["content"]
        for event in midturn.events(conversation)
        if event["type"] == "chat_request"
    ]


@pytest.mark.parametrize("columns", [80, 40])
def test_line_below_a_running_turn_is_edited_queued_and_withdrawn(
    midturn: CommandLine, columns: int
) -> None:
    model, gate = model_with_gate(midturn)

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
    first, second, third = assistant_texts(midturn)
    assert [first, second] == ["Good morning", "How are you?"]
    assert third == "\n".join(f"row {n}" for n in range(200)) + " and more!"


def test_ctrl_c_ends_the_turn_and_keeps_the_typed_text(midturn: CommandLine) -> None:
    model, _ = model_with_gate(midturn)

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

    assert assistant_texts(midturn) == ["Good morning", "one\ntwo"]


def test_plain_lines_keep_typed_text_after_ctrl_c(midturn: CommandLine) -> None:
    model, _ = model_with_gate(midturn)

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

    assert assistant_texts(midturn) == ["Good morning", "one thing"]


def test_text_typed_ahead_answers_no_prompt_and_is_kept(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.accept_keys_at_once()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    model = script(
        midturn,
        calls("deploy", note=str(gate)),
        calls("deploy", ask=asks()),
        {"text": "Done."},
        {"text": "More."},
    )

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

    assert [
        event["answer"] for event in midturn.events() if event["type"] == "inquiry_response"
    ] == [False]


def test_lines_pasted_without_bracketed_paste_are_one_message(midturn: CommandLine) -> None:
    model, gate = model_with_gate(midturn)

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

    assert assistant_texts(midturn) == ["Good morning", "one\ntwo three"]


def test_lines_pasted_into_the_line_without_marks_are_one_message(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "chat", "-m", script(midturn, {"text": "One."}), plain=False
    ) as session:
        ready(session, "Ctrl-D")
        session.send(b"one\rtwo\r\nthree\r")
        session.wait_for("three")
        session.send("\r")
        ready(session, "One.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert assistant_texts(midturn) == ["one\ntwo\nthree"]


def test_a_long_paste_into_the_line_is_folded_and_sent_whole(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "chat", "-m", script(midturn, {"text": "One."}), plain=False
    ) as session:
        ready(session, "Ctrl-D")
        session.send("see \x1b[200~" + "\r".join(f"row {n}" for n in range(200)) + "\x1b[201~")
        session.wait_at("see [200 lines]")
        session.send("\x1b[D\x1b[C!")
        session.wait_at("see [200 lines]!")
        session.send("\r")
        ready(session, "One.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert assistant_texts(midturn) == ["see " + "\n".join(f"row {n}" for n in range(200)) + "!"]
    assert "+row 199!\n" in histories(midturn)[0].read_text()


def test_a_paste_of_thousands_of_lines_is_one_message(midturn: CommandLine) -> None:
    model, gate = model_with_gate(midturn)
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
    assert assistant_texts(midturn) == [f"first {rows}", f"then {rows}"]


def test_ctrl_z_suspends_a_chat_and_keeps_the_typed_text(midturn: CommandLine) -> None:
    """Tested between two turns and during one."""
    model, gate = model_with_gate(midturn)
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
        session.wait_until(
            lambda: session.rows[-1] == f"{POINTER}next words", "the line that was begun"
        )
        session.send("\x15\x04")
        session.wait_at("shell$ ")
        session.send("exit\r")
        assert session.wait_for_end() == 0

    assert assistant_texts(midturn) == ["half a line"]


@pytest.mark.parametrize("plain", [True, False])
def test_a_signal_that_ends_a_chat_leaves_the_terminal_as_it_was(
    midturn: CommandLine, *, plain: bool
) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=plain) as session:
        session.wait_for("midturn: type /help for commands, Ctrl-D to quit.")
        session.wait_until(
            lambda: session.rows[-1] == (">" if plain else POINTER.strip()), "a line to type in"
        )
        session.child.kill(signal.SIGTERM)
        assert session.wait_for_end() in (-signal.SIGTERM, 143)
        assert session.read_settings() == session.settings


def test_other_open_questions_are_announced_and_a_chat_can_be_forked_and_undone(
    midturn: CommandLine,
) -> None:
    midturn.asker()
    assert (
        midturn.run(
            "query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "Go"
        ).status
        == 3
    )
    model = script(midturn, {"text": "One."}, {"text": "Two."}, {"text": "Three."})

    with midturn.on_a_terminal("chat", "-m", model) as session:
        session.wait_for("deploy asks in another conversation: Deploy to staging?")
        session.wait_at("> ")
        for words, heard in (
            ("first", "One."),
            ("second", "Two."),
            ("/undo", "is kept"),
            ("/fork", "is kept"),
        ):
            session.send(f"{words}\r")
            session.wait_until(
                lambda: heard in " ".join(session.text.partition(words)[2].split()),  # noqa: B023  it is called at once
                heard,
            )
            session.wait_until(lambda: session.text.endswith("\n>"), "a line to type in")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert session.text.count("deploy asks in another conversation") == 1
    assert len(midturn.conversations()) == 4


@pytest.mark.parametrize("command", ["/fork", "/undo"])
def test_fork_keeps_the_users_flags(midturn: CommandLine, command: str) -> None:
    model = script(
        midturn, {"text": "One."}, {"text": "Two."}, {"text": "Three."}, {"text": "Four."}
    )

    with midturn.on_a_terminal("chat", "-m", model, "-T", "fs_read_file", plain=False) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        for words, heard in (
            ("first", "One."),
            ("second", "Two."),
            (command, "midturn: continuing in conversation"),
        ):
            say(session, words)
            ready(session, heard)
        say(session, "/model")
        ready(session, f"midturn: the model is {model[:9]}")
        say(session, "third")
        ready(session, *(("Two.", 2) if command == "/undo" else ("Three.", 1)))
        say(session, "/quit")
        assert session.wait_for_end() == 0

    assert "not known to be yours" not in session.text
    assert "fs_read_file" not in midturn.ok("query", "-c", "--dry-run", "more").stdout


def test_plain_lines_continue_after_a_backslash_and_keep_history(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn, {"text": "One."})) as session:
        session.wait_at("> ")
        session.send("/help\r")
        session.wait_for("Enter sends; end a line with \\ to continue on the next line.")
        session.wait_until(lambda: session.text.endswith("`!`.\n>"), "a line to type in")
        session.send("first \\\r")
        session.wait_until(
            lambda: session.text.endswith("> first \\\n>"), "the next line to type in"
        )
        session.send("and second\r")
        session.wait_until(lambda: session.text.endswith("One.\n>"), "a line to type in")
        session.send("/quit\r")
        assert session.wait_for_end() == 0

    assert (
        next(event["content"] for event in midturn.events() if event["type"] == "chat_request")
        == "first \nand second"
    )
    (history,) = histories(midturn)
    assert "+first \n+and second\n" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_tab_in_a_line_is_shown(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "chat", "-m", script(midturn, {"text": "One."}), plain=False
    ) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        session.send("\x1b[200~a\tb\x1b[201~")
        session.wait_for(f"{POINTER}a⇥  b")
        session.send("\r")
        ready(session, "One.")

    assert (
        next(event["content"] for event in midturn.events() if event["type"] == "chat_request")
        == "a\tb"
    )


def test_closing_the_terminal_ends_the_chat(midturn: CommandLine) -> None:
    for plain in (True, False):
        with midturn.on_a_terminal("chat", "-m", midturn.script(), plain=plain) as session:
            session.wait_for("midturn: type /help for commands, Ctrl-D to quit.")
            session.wait_for(">" if plain else POINTER.strip())
            session.hang_up()
            session.child.wait()
            assert (session.child.exitstatus or 128 + (session.child.signalstatus or 0)) == 129


def test_without_a_terminal_a_chat_says_what_to_do(midturn: CommandLine) -> None:
    finished = midturn.run("chat")

    assert finished.status == 2
    assert 'A chat requires a terminal. Without one, use `midturn query "…"`.' in finished.stderr


def test_midturn_without_arguments_opens_a_chat_or_says_how_to_start(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(size=(100, 40)) as session:
        session.wait_for("No model is configured. How do you want to start?")
        session.wait_for("`midturn demo`")
        session.wait_for("init`)")
        session.send("\x03")
        assert session.wait_for_end() == 130
    midturn.configure(f'[assistant]\nmodel.id = "{midturn.script()}"\n')
    with midturn.on_a_terminal() as session:
        session.wait_for("midturn: type /help for commands, Ctrl-D to quit.")
        session.wait_at("> ")
        session.send("\x04")
        assert session.wait_for_end() == 0


def test_first_run_asks_a_question_after_two_keys(tmp_path: Path) -> None:
    fresh = CommandLine(tmp_path, workspace=False)
    fresh.accept_keys_at_once()
    with fresh.on_a_terminal(size=(100, 40), plain=False) as session:
        session.wait_for("No model is configured. How do you want to start?")
        session.wait_for("Enter picks")
        session.send("1")
        session.wait_for("Apply the changes to plan.md?")
        session.wait_for("all keys")
        session.send("y")
        session.wait_for("Apply the changes to plan.md? yes")
        session.child.kill(signal.SIGKILL)
        session.wait_for_end()


def test_first_run_sets_up_an_available_model(tmp_path: Path) -> None:
    fresh = CommandLine(tmp_path, workspace=False)
    fresh.accept_keys_at_once()
    with fresh.on_a_terminal(size=(100, 40), plain=False, ANTHROPIC_API_KEY="sk-x") as session:
        session.wait_for("How do you want to start?")
        session.wait_for("Enter picks")
        session.send("2")
        session.wait_for("because ANTHROPIC_API_KEY is set")
        session.wait_for("midturn: type /help for commands, Ctrl-D to quit.")
        session.wait_until(lambda: session.rows[-1] == POINTER.strip(), "a line to type in")
        session.send("\x04")
        assert session.wait_for_end() == 0


def test_a_first_run_without_any_key_names_the_command_that_helps(tmp_path: Path) -> None:
    fresh = CommandLine(tmp_path, workspace=False)
    fresh.accept_keys_at_once()
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


def test_model_from_an_untrusted_file_is_reported(midturn: CommandLine) -> None:
    midturn.workspace_file(f'[assistant]\nmodel.id = "{midturn.script({"text": "Hello."})}"\n')
    said = (
        ".midturn/config.toml configures a model, but is not trusted. To review and approve it:"
        " `midturn trust`"
    )

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
        session.wait_for("midturn: no model is configured. To select one: `/model PROVIDER/MODEL`")
        session.wait_at("> ")
        session.send("\x04")
        assert session.wait_for_end() == 0


def test_tab_after_a_slash_lists_every_command_with_its_help(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=False) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        session.send("/\t")
        session.wait_until(
            lambda: all(session.text.count(name) for name in COMMANDS), "every command"
        )
        session.wait_for("/tools    list tools; `/tools NAME` shows one")
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
def test_tab_completes_arguments_of_a_command(
    midturn: CommandLine, typed: str, offered: str
) -> None:
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=False) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        session.send(f"{typed}\t")
        session.wait_for(offered)
        session.send("\x15\x04")
        assert session.wait_for_end() == 0


def test_chat_in_a_named_store_shows_its_conversations(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "chat", "-m", script(midturn, {"text": "Hello."}), "--store", "../elsewhere"
    ) as session:
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


def test_unknown_model_is_refused_and_a_new_conversation_keeps_the_model(
    midturn: CommandLine,
) -> None:
    with midturn.on_a_terminal(
        "chat", "-m", script(midturn, {"text": "Hello."}), size=(60, 40)
    ) as session:
        for words, heard in (
            ("/model opnai/gpt", "Did you mean `openai`?"),
            ("/help", "remove the last turn (in a copy; this conversation is kept)"),
            ("Good morning", "Hello."),
            ("/undo", "midturn: your next message starts a new conversation."),
            ("Once more", "Hello."),
        ):
            session.wait_until(lambda: session.text.endswith("\n>"), "a line to type in")
            session.send(f"{words}\r")
            session.wait_until(
                lambda: heard in " ".join(session.text.partition(f"> {words}")[2].split()),  # noqa: B023  at once
                heard,
            )
        session.wait_until(lambda: session.text.endswith("\n>"), "a line to type in")
        session.send("\x04")
        assert session.wait_for_end() == 0

    assert "\n  /undo     remove the last" in session.text
    assert len(midturn.conversations()) == 2


def test_the_rules_of_a_person_are_listed_and_removed(midturn: CommandLine) -> None:
    midturn.configure(
        '[[conversation.tools.shell.rules]]\nwhen = { cmd = "ls" }\nrun = "unattended"\n'
    )
    with midturn.on_a_terminal("chat", "-m", script(midturn), plain=False) as session:
        ready(session, "midturn: type /help for commands, Ctrl-D to quit.")
        say(session, "/rules")
        ready(session, '1  shell  everywhere  { when = { cmd = "ls" }, run = "unattended" }')
        say(session, "/rules remove 1")
        ready(session, "removed the rule for shell")
        session.send("/rules\r")
        ready(session, "Your user configuration has no rules.")
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


def test_sent_lines_stay_only_in_the_history(tmp_path: Path) -> None:
    with PtySession(
        [sys.executable, "-c", LINES], environment={"HOME": str(tmp_path), "TERM": "xterm-256color"}
    ) as session:
        for said in ("one", "two", "three", "four"):
            session.send(said)
            session.wait_for(f"{POINTER}{said}")
            session.send("\r")
            session.wait_for(f"<{said}> 3 buffers")


def test_shell_command_of_the_user_is_recorded_and_sent_to_the_model(midturn: CommandLine) -> None:
    model = script(midturn, {"expect": "two words", "text": "I see two words."})

    with midturn.on_a_terminal("chat", "-m", model, plain=False, SHELL="/bin/sh") as session:
        ready(session, "Ctrl-D")
        say(session, "!echo two words; printf '\\033]0;x\\007'; exit 3")
        ready(session, "it exited with status 3")
        assert b"\x1b]0;x\x07" not in session.raw
        say(session, "!echo again")
        ready(session, "again", 2)
        session.send("\x1b[200~!echo a\r!echo b\x1b[201~\r")
        ready(session, "`!` accepts one line only. Nothing was run.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    ran, again = assistant_texts(midturn)
    assert ran.startswith("I ran this command myself: `echo two words;")
    assert "It exited with status 3, and printed:\n\ntwo words" in ran
    assert again.endswith("\n\nagain")
    kinds = [event["type"] for event in midturn.events()]
    assert kinds == ["turn_start", "chat_request", "turn_end"] * 2
    assert all(
        event["status"] == "completed" for event in midturn.events() if event["type"] == "turn_end"
    )
    sent = midturn.ok("query", "-c", "--dry-run", "-m", model, "What do you see?").json["messages"]
    assert [message["type"] for message in sent] == ["chat_request"] * 3


def test_ctrl_c_ends_a_shell_command_but_not_the_chat(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "chat", "-m", script(midturn, {"text": "Hello."}), plain=False, SHELL="/bin/sh"
    ) as session:
        ready(session, "Ctrl-D")
        # a shell that is about to start a program may handle Ctrl-C itself
        say(session, "!echo begun; exec sleep 60")
        session.wait_until(lambda: "begun" in session.rows, "its words")
        session.send("\x03")
        ready(session, "signal 2 ended it")
        say(session, "Good morning")
        ready(session, "Hello.")
        session.send("\x04")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings

    assert assistant_texts(midturn)[1] == "Good morning"


@pytest.mark.parametrize("taken", [True, False])
def test_summary_is_confirmed_and_the_conversation_is_kept(
    midturn: CommandLine, *, taken: bool
) -> None:
    midturn.accept_keys_at_once()
    model = script(
        midturn,
        {"text": "One."},
        {"expect": "Summarise", "text": "We said **one**."},
        {"text": "Two."},
    )

    with midturn.on_a_terminal("chat", "-m", model, plain=False) as session:
        ready(session, "Ctrl-D")
        say(session, "first")
        ready(session, "One.")
        before = midturn.events()
        session.send("/compact\r")
        session.wait_for("We said one.")
        session.wait_for("Continue from this summary? The conversation itself is kept.")
        session.wait_for("all keys")
        session.send("y" if taken else "n")
        ready(session, "is kept." if taken else "midturn: nothing was changed.")
        session.send("\x04")
        assert session.wait_for_end() == 0

    old, *new = midturn.conversations()
    assert midturn.events(old) == before
    assert [midturn.events(one)[1]["content"].partition("\n\n")[2] for one in new] == (
        ["We said **one**."] if taken else []
    )


def test_a_paste_that_is_still_arriving_when_a_question_comes_stays_in_the_line(
    midturn: CommandLine,
) -> None:
    midturn.asker()
    midturn.accept_keys_at_once()
    gate = midturn.root / "gate"
    os.mkfifo(gate)
    model = script(
        midturn,
        calls("deploy", note=str(gate), ask=[asks()], say="shipped"),
        {"text": "Shipped."},
        {"text": "Bye."},
    )

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
        gate.read_text()  # the tool runs again with the answer
        session.wait_for("Shipped.")
        session.wait_at("and y end")
        session.send("\x15\x04")
        session.wait_for_end()

    assert [
        event["answer"] for event in midturn.events() if event["type"] == "inquiry_response"
    ] == [False]
