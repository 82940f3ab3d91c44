"""Codex, Gemini CLI, Qwen Code and Copilot CLI themselves at a terminal: the inbox first, then their own dialog, and never both unheard."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import Struct

from midturn.integrations.hooks.external_call import QUICKEST
from real_agents.agents import AGENTS, Agent
from support.cli import CommandLine
from support.fake_provider import FakeProvider, Reply
from support.hooks import answers, stored, until
from support.installed import or_skip
from support.pty_session import PtySession

pytestmark = [pytest.mark.real("agents of others", may_be_missing=True), pytest.mark.timeout(400)]
PATIENCE = 60.0
ESCAPE = "\x1b"
OPTIONS = [{"label": "prod", "description": "Live"}, {"label": "dev", "description": "Here"}]
QUESTION = {"question": "Which env?", "header": "Env", "multiSelect": False, "options": OPTIONS}


class Terminal(Struct, frozen=True, kw_only=True):
    """How an agent is used at a terminal.

    Args:
        options: What it is started with there, so that it asks.
        dialog: What its own dialog says.
        yes: The keys that say yes there.
        besides: What its model adds to a call, so that it needs permission.
        hooks: The file of its hooks.
    """

    options: Sequence[str]
    dialog: str
    yes: str
    besides: Mapping[str, Any] = {}
    hooks: str = ""


TERMINALS = {
    "codex": Terminal(
        options=("-a", "on-request", "-s", "workspace-write", "--dangerously-bypass-hook-trust"),
        dialog="Would you like to run the following command?",
        yes="y",
        besides={"sandbox_permissions": "require_escalated", "justification": "Make it?"},
        hooks=".codex/hooks.json",
    ),
    "qwen": Terminal(
        options=("--auth-type", "openai", "-m", "fake", "--approval-mode", "default", "-i"),
        dialog="Waiting for user confirmation",
        yes="1",
        hooks=".qwen/settings.json",
    ),
    "copilot": Terminal(options=("-i",), dialog="Do you want to run this command?", yes="1", hooks=".copilot/settings.json"),
    "gemini": Terminal(options=("-m", "gemini-2.5-pro", "-i"), dialog="Allow execution of", yes="\r", hooks=".gemini/settings.json"),
}
HIDDEN = ["codex", "qwen", "copilot"]
"""Their hook holds their dialog back for a while."""


def found(key: str, midturn: CommandLine) -> Agent:
    """Return an agent, installed, with our hooks in the settings of its user."""
    agent = AGENTS[key]
    or_skip(agent.program)
    midturn.ok("hook", "install", key)
    return agent


def call(agent: Agent, command: str) -> tuple[str, dict[str, Any]]:
    """Return a call of its model that needs permission."""
    name, arguments = agent.call(command)
    return name, {**arguments, **TERMINALS[agent.key].besides}


def hurried(midturn: CommandLine, key: str) -> None:
    """Have its hooks hold its dialog back for a second only."""
    file = midturn.home / TERMINALS[key].hooks
    hurried = file.read_text().replace(f'hook {key}"', f'hook {key} --wait 1"')
    assert hurried != file.read_text()
    file.write_text(hurried)


@contextmanager
def at_a_terminal(midturn: CommandLine, agent: Agent, replies: Sequence[Reply], *more: str) -> Generator[tuple[PtySession, FakeProvider]]:
    """Start it there; it has been used before, and trusts the directory."""
    with FakeProvider(replies) as provider:
        environment = agent.surroundings(midturn, provider)
        _trust(midturn, agent)
        given = [f"{name}={value}" for name, value in environment.items()]
        program = [str(agent.program()), *more, *TERMINALS[agent.key].options, "Go"]
        command = ["/usr/bin/env", "-i", *given, "/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(midturn.root), *program]
        session = PtySession(command, size=(110, 40))
        try:
            yield session, provider
        finally:
            session.child.kill(signal.SIGKILL)
            session.child.wait()
            session.child.close()


def _trust(midturn: CommandLine, agent: Agent) -> None:
    match agent.key:
        case "codex":
            with (midturn.home / ".codex" / "config.toml").open("a") as file:
                file.write(f'[projects."{midturn.root}"]\ntrust_level = "trusted"\n')
        case "copilot":
            (midturn.home / ".copilot" / "config.json").write_text(json.dumps({"trusted_folders": [str(midturn.root)]}))
        case _:
            pass


def watched(session: PtySession, midturn: CommandLine, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many questions are open, while somebody reads what the terminal shows."""
    seen: list[dict[str, Any]] = []

    def are_there() -> bool:
        seen[:] = midturn.ok("inbox", "--json").json
        return len(seen) == count

    session.wait_until(are_there, f"{count} open questions", seconds=PATIENCE)
    return seen


def read_like_a_person(session: PtySession) -> None:
    """Let the time pass that a person needs to read a question: what is pressed sooner is nobody's answer."""
    read_at = time.monotonic() + 2 * QUICKEST
    session.wait_until(lambda: time.monotonic() > read_at, "a reader", seconds=PATIENCE)


def press(session: PtySession, keys: str, heard: Callable[[], bool]) -> None:
    """Press keys until they are heard: a dialog may take nothing in the moment in which it opens."""
    pressed_at = 0.0

    def is_heard() -> bool:
        nonlocal pressed_at
        if time.monotonic() > pressed_at + 3:
            pressed_at = time.monotonic()
            session.send(keys)
        return heard()

    read_like_a_person(session)
    session.wait_until(is_heard, "what the keys do", seconds=PATIENCE)


@pytest.mark.parametrize("key", HIDDEN)
def test_calls_are_decided_in_the_inbox_before_its_dialog_opens(midturn: CommandLine, key: str) -> None:
    agent = found(key, midturn)
    replies: list[Reply] = [[call(agent, "touch one")], [call(agent, "touch two")], "All done."]
    with at_a_terminal(midturn, agent, replies) as (session, provider):
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "n", "--reason", "Not that one.")
        session.wait_until(lambda: len(provider.results) == 1, "the first result", seconds=PATIENCE)
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "y")
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user said no: Not that one." in provider.results[0]
    assert (midturn.root / "two").exists()
    assert not (midturn.root / "one").exists()
    assert [event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)] == ["user", "user"]


@pytest.mark.parametrize("key", HIDDEN)
def test_its_own_dialog_opens_when_nobody_has_answered_and_what_is_decided_there_has_no_name(midturn: CommandLine, key: str) -> None:
    agent = found(key, midturn)
    hurried(midturn, key)
    with at_a_terminal(midturn, agent, [[call(agent, "touch made")], "All done."]) as (session, provider):
        session.wait_for(TERMINALS[key].dialog, seconds=PATIENCE)
        watched(session, midturn, 0)
        session.send(TERMINALS[key].yes)
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)

    assert (midturn.root / "made").exists()
    assert "said no" not in provider.said
    (decided,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert decided["state"] == "superseded"
    assert "answered_by" not in decided


def go_on(session: PtySession) -> None:
    """Say something new where a no has ended the turn."""
    session.send("Then go on")
    session.wait_for("Then go on", seconds=PATIENCE)
    press(session, "\r", lambda: "All done." in session.text)


REFUSED = {
    "codex": ("n", "aborted by user"),
    "qwen": (ESCAPE, "User did not allow tool call"),
    "copilot": (ESCAPE, "was interrupted"),
}
"""The key that says no in its own dialog, and what its model reads then: its own words, and when its user goes on."""


@pytest.mark.parametrize("key", REFUSED)
def test_a_no_in_its_own_dialog_is_told_in_its_own_words_and_has_no_name(midturn: CommandLine, key: str) -> None:
    agent = found(key, midturn)
    hurried(midturn, key)
    no, words = REFUSED[key]
    with at_a_terminal(midturn, agent, [[call(agent, "touch made")], "All done."]) as (session, provider):
        session.wait_for(TERMINALS[key].dialog, seconds=PATIENCE)
        press(session, no, lambda: TERMINALS[key].dialog not in session.text)
        go_on(session)
        watched(session, midturn, 0)

    assert words in provider.results[0]
    assert "The user said no" not in provider.said, "these are our words for what was said in the inbox"
    assert "Nobody has answered" not in provider.said
    assert not (midturn.root / "made").exists()
    assert [event.get("answered_by") for events in stored(midturn) for event in answers(events)] in ([], [None])


@pytest.mark.parametrize("key", HIDDEN)
def test_a_no_in_its_own_dialog_is_overridden_by_no_answer_here_when_the_same_call_comes_again(midturn: CommandLine, key: str) -> None:
    agent = found(key, midturn)
    hurried(midturn, key)
    replies: list[Reply] = [[call(agent, "touch made")], [call(agent, "touch made")], "All done."]
    with at_a_terminal(midturn, agent, replies) as (session, _):
        (question,) = watched(session, midturn)
        session.wait_for(TERMINALS[key].dialog, seconds=PATIENCE)
        late = midturn.run("answer", question["id"], "y")
        assert late.status == 1
        assert "own dialog now" in " ".join(late.stderr.split())
        press(session, REFUSED[key][0], lambda: TERMINALS[key].dialog not in session.text)
        session.send("Then go on")
        session.wait_for("Then go on", seconds=PATIENCE)
        press(session, "\r", lambda: len(stored(midturn)) == 2)
        session.wait_for(TERMINALS[key].dialog, seconds=PATIENCE)

    assert not (midturn.root / "made").exists()
    assert [event["state"] for event in answers(stored(midturn)[0])] == ["superseded"]


def test_gemini_is_asked_about_in_the_inbox_where_it_asks_nobody_itself(midturn: CommandLine) -> None:
    agent = found("gemini", midturn)
    replies: list[Reply] = [[agent.call("touch one"), agent.call("touch two")], "All done."]
    with at_a_terminal(midturn, agent, replies, "--approval-mode", "yolo") as (session, provider):
        for question in watched(session, midturn, 2):
            value = ["y"] if question["arguments"]["command"] == "touch two" else ["n", "--reason", "Not that one."]
            midturn.ok("answer", question["id"], *value)
        session.wait_for("All done.", seconds=PATIENCE)

    assert (midturn.root / "two").exists()
    assert not (midturn.root / "one").exists()
    assert "The user said no: Not that one." in provider.results[0]


def test_geminis_own_dialog_decides_alone_where_it_asks(midturn: CommandLine) -> None:
    agent = found("gemini", midturn)
    with at_a_terminal(midturn, agent, [[agent.call("touch made")], "All done."]) as (session, provider):
        session.wait_for(TERMINALS["gemini"].dialog, seconds=PATIENCE)
        assert midturn.ok("inbox", "--json").json == []
        session.send(TERMINALS["gemini"].yes)
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)

    assert (midturn.root / "made").exists()
    assert stored(midturn) == []


def test_a_no_in_geminis_own_dialog_is_told_to_nobody(midturn: CommandLine) -> None:
    """It forgets the call, so its model reads nothing that could be taken for anything."""
    agent = found("gemini", midturn)
    with at_a_terminal(midturn, agent, [[agent.call("touch made")], "All done."]) as (session, provider):
        session.wait_for(TERMINALS["gemini"].dialog, seconds=PATIENCE)
        press(session, ESCAPE, lambda: TERMINALS["gemini"].dialog not in session.text)
        go_on(session)

    assert provider.results == []
    assert not (midturn.root / "made").exists()


class Asking(Struct, frozen=True, kw_only=True):
    """How an agent's model asks by itself, what its own dialog says of it, and what it reads when the inbox has answered."""

    call: tuple[str, dict[str, Any]]
    dialog: str = "Live"
    answered: str = "Which env? dev"
    options: Sequence[str] = ()


FIELDS = {"env": {"type": "string", "title": "Which env?", "enum": ["prod", "dev"]}}
ASKING = {
    "codex": Asking(
        call=("request_user_input", {"questions": [{**QUESTION, "id": "env"}]}),
        options=("-c", "features.default_mode_request_user_input=true"),  # it asks while it plans; here, it may ask at any time
    ),
    "qwen": Asking(call=("ask_user_question", {"questions": [QUESTION]})),
    "gemini": Asking(call=("ask_user", {"questions": [{**QUESTION, "type": "choice"}]})),
    "copilot": Asking(
        call=("ask_user", {"message": "Tell me.", "requestedSchema": {"type": "object", "properties": FIELDS, "required": ["env"]}}),
        dialog="enter accept",
        answered='{"env":"dev"}',
    ),
}


@pytest.mark.parametrize("key", ASKING)
def test_its_models_question_is_answered_in_the_inbox(midturn: CommandLine, key: str) -> None:
    agent, asking = found(key, midturn), ASKING[key]
    with at_a_terminal(midturn, agent, [[asking.call], "All done."], *asking.options) as (session, provider):
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "dev")
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user has answered already" in provider.results[0]
    assert asking.answered in provider.results[0]


@pytest.mark.parametrize("key", ASKING)
def test_its_models_question_is_answered_in_its_own_dialog(midturn: CommandLine, key: str) -> None:
    agent, asking = found(key, midturn), ASKING[key]
    hurried(midturn, key)
    with at_a_terminal(midturn, agent, [[asking.call], "All done."], *asking.options) as (session, provider):
        session.wait_for(asking.dialog, seconds=PATIENCE)
        press(session, "\r", lambda: len(provider.results) == 1)
        watched(session, midturn, 0)

    assert "prod" in provider.results[0]
    (closed,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert closed["reason"] == "superseded"


def test_where_the_hook_is_killed_copilots_model_hears_that_and_no_answer(midturn: CommandLine) -> None:
    agent = found("copilot", midturn)
    with at_a_terminal(midturn, agent, [[ASKING["copilot"].call], "All done."]) as (session, provider):
        watched(session, midturn)
        os.kill(stored(midturn)[0][0]["metadata"]["asker"]["process"]["pid"], signal.SIGKILL)
        session.wait_for("All done.", seconds=PATIENCE)

    assert "hook errored" in provider.results[0]
    assert "The user" not in provider.results[0]
    assert [event.get("answered_by") for events in stored(midturn) for event in answers(events)] in ([], [None])


def asked_over_mcp(midturn: CommandLine) -> Agent:
    """Return Copilot CLI with our server, and no hook: its dialog and the inbox are open at the same time."""
    agent = found("copilot", midturn)
    midturn.ok("hook", "uninstall", "copilot")
    (midturn.home / ".copilot" / "mcp-config.json").write_text(midturn.ok("mcp", "--print-config", "copilot").stdout)
    return agent


OURS: tuple[str, dict[str, Any]] = ("midturn-ask_user", {"question": "Ship it?", "answer_type": "boolean"})
ALLOWED = ("--allow-tool", "midturn")


def test_a_question_of_our_server_is_answered_in_its_own_dialog(midturn: CommandLine) -> None:
    agent = asked_over_mcp(midturn)
    with at_a_terminal(midturn, agent, [[OURS], "All done."], *ALLOWED) as (session, provider):
        session.wait_for("enter accept", seconds=PATIENCE)
        watched(session, midturn)
        read_like_a_person(session)
        session.send("\r")
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)

    assert "The user answered: yes" in provider.results[0]
    (answer,) = answers(stored(midturn)[0])
    assert answer["answered_by"] == {"by": "user", "via": "mcp"}


def test_a_question_of_our_server_is_answered_in_the_inbox_and_its_dialog_closes(midturn: CommandLine) -> None:
    agent = asked_over_mcp(midturn)
    with at_a_terminal(midturn, agent, [[OURS], "All done."], *ALLOWED) as (session, provider):
        session.wait_for("enter accept", seconds=PATIENCE)
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "n")
        session.wait_for("All done.", seconds=PATIENCE)
        session.wait_until(lambda: "enter accept" not in session.text, "the end of its dialog", seconds=PATIENCE)

    assert "The user answered: no" in provider.results[0]


def test_a_no_to_a_question_of_our_server_in_its_own_dialog_is_a_reply_and_no_time_out(midturn: CommandLine) -> None:
    agent = asked_over_mcp(midturn)
    with at_a_terminal(midturn, agent, [[OURS], "All done."], *ALLOWED) as (session, provider):
        session.wait_for("ctrl+d decline", seconds=PATIENCE)
        press(session, "\x04", lambda: "ctrl+d decline" not in session.text)
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)

    assert "The user did not choose, and wants to talk about it first." in provider.results[0]
    assert "Nobody has answered" not in provider.results[0]
    (closed,) = answers(stored(midturn)[0])
    assert closed["reason"] == "reply"
