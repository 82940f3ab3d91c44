"""Golden screens of commands on a terminal: rich and plain, wide and narrow."""

from __future__ import annotations

import re

import pytest

from support.cli import CommandLine, calls
from support.golden import assert_golden, golden
from support.pty_session import PtySession

OLD = "1. Build.\n2. Ship.\n3. Tell everybody.\n"
NEW = "1. Build.\n2. Try it on staging, for a day.\n3. Ship.\n4. Tell everybody.\n"
COLOUR = {
    "id": "colour",
    "text": "Which colour has the button?",
    "answer_type": "select",
    "options": [{"value": "red"}, {"value": "blue"}],
}
REASON = {"id": "why", "text": "Why?", "answer_type": "text"}
LOUD = {"id": "loud", "text": "Shall everybody be told?", "answer_type": "boolean"}
MODES = pytest.mark.parametrize("mode", ["rich", "plain"])
WIDTHS = pytest.mark.parametrize("columns", [80, 40])


def shown(session: PtySession, expected: str, title: str, last: str, *, keys: str = "") -> str:
    """Press keys, wait until `last` is in the last rows, and draw the complete screen."""
    session.send(keys)
    session.wait_until(lambda: last in "".join(session.rows[-5:]), last)
    return session.framed_as(expected, title)


@MODES
@WIDTHS
def test_overwriting_a_file_is_asked_about_with_a_diff(
    midturn: CommandLine, mode: str, columns: int
) -> None:
    midturn.accept_keys_at_once()
    (midturn.root / "plan.md").write_text(OLD)
    name, plain = f"{mode}_{columns}/overwriting", mode == "plain"
    model = midturn.script(calls("fs_create_file", path="plan.md", content=NEW))

    with midturn.on_a_terminal(
        "query", "-m", model, "Plan it", size=(columns, 40), plain=plain
    ) as session:
        drawn = [
            shown(session, golden(name), "a file that exists", "help:" if plain else "all keys")
        ]
        session.send("y\r" if plain else "y")
        assert session.wait_for_end() == 0
        drawn.append(session.framed("overwritten"))

    assert_golden(name, "\n".join(drawn))


def a_conversation(midturn: CommandLine) -> None:
    """Run one turn with an edited approval and a form that were answered from the inbox, and one
    whose form is reviewed at the terminal.
    """
    midturn.accept_keys_at_once()
    writes = {
        "text": "I write it down.",
        **calls("fs_create_file", path="notes.md", content="Ship.\n"),
    }
    inbox, terminal = (
        calls("ask_user", questions=[*questions])
        for questions in ((COLOUR, REASON), (REASON, LOUD))
    )
    model = midturn.script(writes, inbox, {"text": "Blue it is."}, terminal, {"text": "Told."})
    midturn.run(
        "query",
        "-m",
        model,
        "--defer",
        "Write down what we want, and ask which colour the button has",
    )
    midturn.ok(
        "answer", waiting(midturn), '{"edit": {"path": "plan.md", "content": "Try it.\\nShip.\\n"}}'
    )
    midturn.run("resume", "--non-interactive")
    midturn.ok(
        "answer",
        waiting(midturn),
        '{"colour": "blue", "why": "It calms people who wait for a build."}',
        "--reason",
        "I asked around",
    )
    midturn.ok("resume")
    with midturn.on_a_terminal("query", "-c", "Tell them") as session:
        for header, line in (
            ("question 1 of 2", "It is done."),
            ("question 2 of 2", "y"),
            ("Send these answers?", ""),
        ):
            session.wait_until(
                lambda header=header: (
                    header in session.text and session.raw.endswith((b": ", b"> "))
                ),
                header,
            )
            session.send(f"{line}\r")
        assert session.wait_for_end() == 0


def waiting(midturn: CommandLine) -> str:
    """Return the ID of the open question."""
    return str(midturn.ok("inbox", "--json").json[0]["id"])


def test_a_conversation_is_shown_with_its_questions_and_answers(midturn: CommandLine) -> None:
    a_conversation(midturn)

    for mode in ("rich", "plain"):
        for columns in (80, 40):
            with midturn.on_a_terminal(
                "conversation", "show", size=(columns, 60), plain=mode == "plain"
            ) as session:
                assert session.wait_for_end() == 0
                assert_golden(
                    f"{mode}_{columns}/conversation_show", session.framed("conversation show")
                )


def test_audit_trail_shows_askers_and_responders(midturn: CommandLine) -> None:
    a_conversation(midturn)

    for mode in ("rich", "plain"):
        for columns in (80, 40):
            assert_golden(
                f"{mode}_{columns}/inquiries",
                printed(midturn, mode, columns, "conversation", "show", "--inquiries"),
            )


@MODES
@WIDTHS
def test_chat_shows_questions_inline(midturn: CommandLine, mode: str, columns: int) -> None:
    midturn.asker(run="ask")
    midturn.accept_keys_at_once()
    model = midturn.script(
        {"text": "Hello."}, calls("deploy", say="to staging"), {"text": "Shipped."}
    )

    with midturn.on_a_terminal(
        "chat", "-m", model, size=(columns, 60), plain=mode == "plain"
    ) as session:
        for line, answer in (
            ("Good morning", "Hello."),
            ("/nosuch", "no command"),
            ("Ship it", "Run deploy?"),
        ):
            ready(session)
            session.send(f"{line}\r")
            session.wait_for(answer)
        session.wait_for("help:" if mode == "plain" else "all keys")
        session.send("y\r" if mode == "plain" else "y")
        session.wait_for("Shipped.")
        ready(session)
        session.send("/quit\r")
        assert session.wait_for_end() == 0
        assert_golden(f"{mode}_{columns}/chat", session.framed("chat"))


def ready(session: PtySession) -> None:
    """Wait until the chat accepts a line."""
    session.wait_until(
        lambda: session.text.rstrip().endswith(("\u276f", ">")), "the chat's own prompt"
    )


ID, TIME = re.compile(r"[0-9]{16}-[a-z2-7]{12}"), re.compile(r"\b[0-9]{2}:[0-9]{2}(:[0-9]{2})?\b")
FORM = [
    COLOUR,
    {**REASON, "when": {"question_id": "colour", "equals": "red"}},
    {**LOUD, "optional": True},
]


def test_listings_show_contexts_and_answers_show_decisions(midturn: CommandLine) -> None:
    (midturn.root / "plan.md").write_text(OLD)
    midturn.asker(run="ask")
    change = calls(
        "fs_modify_file",
        path="plan.md",
        edits=[{"old": "2. Ship.\n", "new": f"2. {'Try it on staging. ' * 4}\n3. Ship.\n"}],
    )
    for words, call in (
        ("Plan it", change),
        ("Ship it", calls("deploy", say="production")),
        ("Ask", calls("ask_user", questions=FORM)),
    ):
        midturn.run("query", "-m", midturn.script(call), "--defer", words)

    for mode in ("rich", "plain"):
        for columns in (80, 40):
            assert_golden(f"{mode}_{columns}/inbox", printed(midturn, mode, columns, "inbox"))
    waiting = [question["id"] for question in midturn.ok("inbox", "--json").json]
    for (mode, columns), id, value in zip(
        (("rich", 80), ("plain", 40), ("rich", 40)), waiting, ("y", "n", "2"), strict=True
    ):
        assert_golden(
            f"{mode}_{columns}/answer", printed(midturn, mode, columns, "answer", id, value)
        )


def printed(midturn: CommandLine, mode: str, columns: int, *command: str) -> str:
    """Run a command on a terminal and draw the end of its output, with IDs and times replaced."""
    with midturn.on_a_terminal(*command, size=(columns, 60), plain=mode == "plain") as session:
        assert session.wait_for_end() == 0
        drawn = session.framed(command[0])
    return TIME.sub(
        lambda found: "09:00:00"[: len(found[0])],
        re.sub(r"\b[0-9]{16}\b", "1" * 16, ID.sub(f"{'1' * 16}-{'a' * 12}", drawn)),
    )
