"""Codex, Gemini CLI, Qwen Code and Copilot CLI at a terminal. The question is first in the
inbox, then in their own dialog.
"""

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

from midturn.integrations.hooks.external_call import MIN_RESPONSE_TIME
from real_agents.agents import AGENTS, Agent
from support.cli import CommandLine
from support.fake_provider import FakeProvider, Reply
from support.hooks import answers, stored, until
from support.installed import or_skip
from support.pty_session import PtySession

pytestmark = [pytest.mark.real("agents of others", may_be_missing=True), pytest.mark.timeout(600)]
PATIENCE = 300.0
ESCAPE = "\x1b"
OPTIONS = [{"label": "prod", "description": "Live"}, {"label": "dev", "description": "Here"}]
QUESTION = {"question": "Which env?", "header": "Env", "multiSelect": False, "options": OPTIONS}


class Terminal(Struct, frozen=True, kw_only=True):
    """Use of an agent at a terminal.

    Args:
        options: Arguments that make it ask.
        dialog: Text of its own dialog.
        yes: Keys that say yes in the dialog.
        besides: Further arguments of a call, so that it needs permission.
        hooks: Settings file with its hooks.
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
    "copilot": Terminal(
        options=("-i",),
        dialog="Do you want to run this command?",
        yes="1",
        hooks=".copilot/settings.json",
    ),
    "gemini": Terminal(
        options=("-m", "gemini-2.5-pro", "-i"),
        dialog="Allow execution of",
        yes="\r",
        hooks=".gemini/settings.json",
    ),
}
HIDDEN = ["codex", "qwen", "copilot"]
"""Agents whose hook delays their own dialog for some time."""


def found(key: str, midturn: CommandLine) -> Agent:
    """Return an installed agent with our hooks in its user settings."""
    agent = AGENTS[key]
    or_skip(agent.program)
    midturn.ok("hook", "install", key)
    return agent


def call(agent: Agent, command: str) -> tuple[str, dict[str, Any]]:
    """Return a call that needs permission."""
    name, arguments = agent.call(command)
    return name, {**arguments, **TERMINALS[agent.key].besides}


def shorten_delay(midturn: CommandLine, key: str) -> None:
    """Reduce the delay of its dialog to one second."""
    file = midturn.home / TERMINALS[key].hooks
    shorten_delay = file.read_text().replace(f'hook {key}"', f'hook {key} --wait 1"')
    assert shorten_delay != file.read_text()
    file.write_text(shorten_delay)


@contextmanager
def at_a_terminal(
    midturn: CommandLine, agent: Agent, replies: Sequence[Reply], *more: str
) -> Generator[tuple[PtySession, FakeProvider]]:
    """Start it at a terminal, with its first-run dialogs done and the directory trusted."""
    with FakeProvider(replies) as provider:
        environment = agent.surroundings(midturn, provider)
        _trust(midturn, agent)
        given = [f"{name}={value}" for name, value in environment.items()]
        program = [str(agent.program()), *more, *TERMINALS[agent.key].options, "Go"]
        command = [
            "/usr/bin/env",
            "-i",
            *given,
            "/bin/sh",
            "-c",
            'cd "$1" && shift && exec "$@"',
            "sh",
            str(midturn.root),
            *program,
        ]
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
            (midturn.home / ".copilot" / "config.json").write_text(
                json.dumps({"trusted_folders": [str(midturn.root)]})
            )
        case _:
            pass


def watched(session: PtySession, midturn: CommandLine, count: int = 1) -> list[dict[str, Any]]:
    """Wait until `count` questions are open, and read the terminal's output meanwhile."""
    seen: list[dict[str, Any]] = []

    def are_there() -> bool:
        seen[:] = midturn.ok("inbox", "--json").json
        return len(seen) == count

    session.wait_until(are_there, f"{count} open questions", seconds=PATIENCE)
    return seen


def read_like_a_person(session: PtySession) -> None:
    """Wait as long as a person needs to read a question. Earlier keys are not accepted as an
    answer.
    """
    read_at = time.monotonic() + 2 * MIN_RESPONSE_TIME
    session.wait_until(lambda: time.monotonic() > read_at, "a reader", seconds=PATIENCE)


def press(session: PtySession, keys: str, heard: Callable[[], bool]) -> None:
    """Press keys until they have an effect: a dialog may ignore keys right after it opens."""
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
def test_calls_are_decided_in_the_inbox_before_the_dialog_opens(
    midturn: CommandLine, key: str
) -> None:
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
    assert [
        event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)
    ] == ["user", "user"]


@pytest.mark.parametrize("key", HIDDEN)
def test_dialog_opens_after_the_timeout_and_its_decision_has_no_responder(
    midturn: CommandLine, key: str
) -> None:
    agent = found(key, midturn)
    shorten_delay(midturn, key)
    with at_a_terminal(midturn, agent, [[call(agent, "touch made")], "All done."]) as (
        session,
        provider,
    ):
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
    """Send a new message after a no has ended the turn."""
    session.send("Then go on")
    session.wait_for("Then go on", seconds=PATIENCE)
    press(session, "\r", lambda: "All done." in session.text)


REFUSED = {
    "codex": ("n", "aborted by user"),
    "qwen": (ESCAPE, "User did not allow tool call"),
    "copilot": (ESCAPE, "was interrupted"),
}
"""The key that says no in its own dialog, what its model reads then, and whether the user has
to continue.
"""


@pytest.mark.parametrize("key", REFUSED)
def test_no_in_the_agents_dialog_uses_its_text_and_has_no_responder(
    midturn: CommandLine, key: str
) -> None:
    agent = found(key, midturn)
    shorten_delay(midturn, key)
    no, words = REFUSED[key]
    with at_a_terminal(midturn, agent, [[call(agent, "touch made")], "All done."]) as (
        session,
        provider,
    ):
        session.wait_for(TERMINALS[key].dialog, seconds=PATIENCE)
        press(session, no, lambda: TERMINALS[key].dialog not in session.text)
        go_on(session)
        watched(session, midturn, 0)

    assert words in provider.results[0]
    assert "The user said no" not in provider.said, (
        "these are our words for what was said in the inbox"
    )
    assert "Nobody has answered" not in provider.said
    assert not (midturn.root / "made").exists()
    assert [
        event.get("answered_by") for events in stored(midturn) for event in answers(events)
    ] in ([], [None])


@pytest.mark.parametrize("key", HIDDEN)
def test_no_in_the_agents_dialog_is_not_overridden_for_a_repeated_call(
    midturn: CommandLine, key: str
) -> None:
    agent = found(key, midturn)
    shorten_delay(midturn, key)
    replies: list[Reply] = [[call(agent, "touch made")], [call(agent, "touch made")], "All done."]
    with at_a_terminal(midturn, agent, replies) as (session, _):
        (question,) = watched(session, midturn)
        session.wait_for(TERMINALS[key].dialog, seconds=PATIENCE)
        late = midturn.run("answer", question["id"], "y")
        assert late.status == 1
        assert "now asks it in its own dialog" in " ".join(late.stderr.split())
        press(session, REFUSED[key][0], lambda: TERMINALS[key].dialog not in session.text)
        session.send("Then go on")
        session.wait_for("Then go on", seconds=PATIENCE)
        press(session, "\r", lambda: len(stored(midturn)) == 2)
        session.wait_for(TERMINALS[key].dialog, seconds=PATIENCE)

    assert not (midturn.root / "made").exists()
    assert [event["state"] for event in answers(stored(midturn)[0])] == ["superseded"]


def test_gemini_auto_mode_calls_are_asked_in_the_inbox(midturn: CommandLine) -> None:
    agent = found("gemini", midturn)
    replies: list[Reply] = [[agent.call("touch one"), agent.call("touch two")], "All done."]
    with at_a_terminal(midturn, agent, replies, "--approval-mode", "yolo") as (session, provider):
        for question in watched(session, midturn, 2):
            value = (
                ["y"]
                if question["arguments"]["command"] == "touch two"
                else ["n", "--reason", "Not that one."]
            )
            midturn.ok("answer", question["id"], *value)
        session.wait_for("All done.", seconds=PATIENCE)

    assert (midturn.root / "two").exists()
    assert not (midturn.root / "one").exists()
    assert "The user said no: Not that one." in provider.results[0]


def test_geminis_dialog_decides_alone(midturn: CommandLine) -> None:
    agent = found("gemini", midturn)
    with at_a_terminal(midturn, agent, [[agent.call("touch made")], "All done."]) as (
        session,
        provider,
    ):
        session.wait_for(TERMINALS["gemini"].dialog, seconds=PATIENCE)
        assert midturn.ok("inbox", "--json").json == []
        session.send(TERMINALS["gemini"].yes)
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)

    assert (midturn.root / "made").exists()
    assert stored(midturn) == []


def test_no_in_geminis_dialog_is_not_reported(midturn: CommandLine) -> None:
    """Gemini forgets the call, so its model reads nothing about it."""
    agent = found("gemini", midturn)
    with at_a_terminal(midturn, agent, [[agent.call("touch made")], "All done."]) as (
        session,
        provider,
    ):
        session.wait_for(TERMINALS["gemini"].dialog, seconds=PATIENCE)
        press(session, ESCAPE, lambda: TERMINALS["gemini"].dialog not in session.text)
        go_on(session)

    assert provider.results == []
    assert not (midturn.root / "made").exists()


class Asking(Struct, frozen=True, kw_only=True):
    """The format of a question of the agent's model, the text of its own dialog, and the
    result of an answer from the inbox.
    """

    call: tuple[str, dict[str, Any]]
    dialog: str = "Live"
    answered: str = "Which env? dev"
    options: Sequence[str] = ()


FIELDS = {"env": {"type": "string", "title": "Which env?", "enum": ["prod", "dev"]}}
ASKING = {
    "codex": Asking(
        call=("request_user_input", {"questions": [{**QUESTION, "id": "env"}]}),
        options=(
            "-c",
            "features.default_mode_request_user_input=true",
        ),  # by default it asks only in plan mode
    ),
    "qwen": Asking(call=("ask_user_question", {"questions": [QUESTION]})),
    "gemini": Asking(call=("ask_user", {"questions": [{**QUESTION, "type": "choice"}]})),
    "copilot": Asking(
        call=(
            "ask_user",
            {
                "message": "Tell me.",
                "requestedSchema": {"type": "object", "properties": FIELDS, "required": ["env"]},
            },
        ),
        dialog="enter accept",
        answered='{"env":"dev"}',
    ),
}


@pytest.mark.parametrize("key", ASKING)
def test_model_question_is_answered_in_the_inbox(midturn: CommandLine, key: str) -> None:
    agent, asking = found(key, midturn), ASKING[key]
    with at_a_terminal(midturn, agent, [[asking.call], "All done."], *asking.options) as (
        session,
        provider,
    ):
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "dev")
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user has answered already" in provider.results[0]
    assert asking.answered in provider.results[0]


@pytest.mark.parametrize("key", ASKING)
def test_model_question_is_answered_in_the_agents_dialog(midturn: CommandLine, key: str) -> None:
    agent, asking = found(key, midturn), ASKING[key]
    shorten_delay(midturn, key)
    with at_a_terminal(midturn, agent, [[asking.call], "All done."], *asking.options) as (
        session,
        provider,
    ):
        session.wait_for(asking.dialog, seconds=PATIENCE)
        press(session, "\r", lambda: len(provider.results) == 1)
        watched(session, midturn, 0)

    assert "prod" in provider.results[0]
    (closed,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert closed["reason"] == "superseded"


def test_killed_hook_is_reported_to_copilots_model(midturn: CommandLine) -> None:
    agent = found("copilot", midturn)
    with at_a_terminal(midturn, agent, [[ASKING["copilot"].call], "All done."]) as (
        session,
        provider,
    ):
        watched(session, midturn)
        os.kill(stored(midturn)[0][0]["metadata"]["asker"]["process"]["pid"], signal.SIGKILL)
        session.wait_for("All done.", seconds=PATIENCE)

    assert "hook errored" in provider.results[0]
    assert "The user" not in provider.results[0]
    assert [
        event.get("answered_by") for events in stored(midturn) for event in answers(events)
    ] in ([], [None])


def asked_over_mcp(midturn: CommandLine) -> Agent:
    """Return Copilot CLI with our server and no hook: its dialog and the inbox are open at the
    same time.
    """
    agent = found("copilot", midturn)
    midturn.ok("hook", "uninstall", "copilot")
    (midturn.home / ".copilot" / "mcp-config.json").write_text(
        midturn.ok("mcp", "--print-config", "copilot").stdout
    )
    return agent


OURS: tuple[str, dict[str, Any]] = (
    "midturn-ask_user",
    {"question": "Ship it?", "answer_type": "boolean"},
)
ALLOWED = ("--allow-tool", "midturn")


def test_our_servers_question_is_answered_in_the_agents_dialog(midturn: CommandLine) -> None:
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


def test_our_servers_question_is_answered_in_the_inbox_and_the_dialog_closes(
    midturn: CommandLine,
) -> None:
    agent = asked_over_mcp(midturn)
    with at_a_terminal(midturn, agent, [[OURS], "All done."], *ALLOWED) as (session, provider):
        session.wait_for("enter accept", seconds=PATIENCE)
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "n")
        session.wait_for("All done.", seconds=PATIENCE)
        session.wait_until(
            lambda: "enter accept" not in session.text, "the end of its dialog", seconds=PATIENCE
        )

    assert "The user answered: no" in provider.results[0]


def test_no_to_our_servers_question_in_the_dialog_is_a_reply(midturn: CommandLine) -> None:
    agent = asked_over_mcp(midturn)
    with at_a_terminal(midturn, agent, [[OURS], "All done."], *ALLOWED) as (session, provider):
        session.wait_for("ctrl+d decline", seconds=PATIENCE)
        press(session, "\x04", lambda: "ctrl+d decline" not in session.text)
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)

    assert "The user did not choose, and wants to talk about it first." in provider.results[0]
    assert "Nobody has answered" not in provider.results[0]
    (closed,) = answers(stored(midturn)[0])
    assert closed["reason"] == "reply"
