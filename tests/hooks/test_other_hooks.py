"""`midturn hook codex | gemini | qwen`: the same questions in the format of each agent."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from support.cli import CommandLine
from support.hooks import Session, answers, stored, until, wait_for

RM = {"tool_name": "Bash", "tool_input": {"command": "rm -r build"}}


def codex(printed: Any) -> Any:
    return printed["hookSpecificOutput"]["permissionDecisionReason"]


def gemini(printed: Any) -> Any:
    return printed["reason"]


def qwen(printed: Any) -> Any:
    return printed["hookSpecificOutput"]["decision"]["message"]


GATES: dict[str, Any] = {
    "codex": ("exec", "PreToolUse", codex, None),
    "gemini": ("-p", "BeforeTool", gemini, None),
    "qwen": ("-p", "PermissionRequest", qwen, {"behavior": "allow"}),
}
each_agent = pytest.mark.parametrize("agent", GATES)


@each_agent
def test_yes_lets_the_call_run(midturn: CommandLine, agent: str) -> None:
    given, event, _, allowed = GATES[agent]
    hook = Session(midturn, agent, given=given).start(event, **RM)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    printed = hook.decision()
    assert (printed["hookSpecificOutput"]["decision"] if printed else None) == allowed


@each_agent
def test_no_is_reported_as_a_persons_decision(midturn: CommandLine, agent: str) -> None:
    given, event, words, _ = GATES[agent]
    hook = Session(midturn, agent, given=given).start(event, **RM)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "n", "--reason", "Keep it.")

    assert words(hook.decision()) == "The user said no: Keep it."


@each_agent
def test_edited_arguments_never_run_unchanged(midturn: CommandLine, agent: str) -> None:
    """Qwen Code supports changed arguments only for calls that it asks about itself."""
    given, event, words, _ = GATES[agent]
    unasked = {"permission_mode": "yolo"} if agent == "qwen" else {}
    hook = Session(midturn, agent, given=given).start(
        "PreToolUse" if unasked else event, **RM, **unasked
    )
    words = codex if unasked else words
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], '{"edit": {"command": "rm -r dist"}}')

    assert words(hook.decision()).endswith(
        'Call the tool again with exactly these: {"command":"rm -r dist"}'
    )


@each_agent
def test_deadline_denies_the_call_without_a_recorded_no(midturn: CommandLine, agent: str) -> None:
    given, event, words, _ = GATES[agent]
    said = words(Session(midturn, agent, given=given).run(event, "--wait", "0.1", **RM))

    assert "Nobody has answered yet" in said
    assert "not a no" in said
    assert answers(stored(midturn)[0]) == []
    assert len(midturn.ok("inbox", "--json").json) == 1


@each_agent
def test_unwritable_store_denies_the_call(midturn: CommandLine, agent: str) -> None:
    given, event, words, _ = GATES[agent]
    (midturn.home / "data").write_text("in the way")

    said = words(Session(midturn, agent, given=given).run(event, **RM))

    assert "nobody has decided" in said
    assert "The user said no" not in said


@each_agent
def test_late_answer_wakes_the_session(midturn: CommandLine, agent: str) -> None:
    given, event, _, _ = GATES[agent]
    session = Session(midturn, agent, given=given)
    session.run(event, "--wait", "0.1", **RM)
    stop = session.start("AfterAgent" if agent == "gemini" else "Stop")
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    woken = stop.decision()
    assert woken["decision"] == ("deny" if agent == "gemini" else "block")
    assert "Run it again." in woken["reason"]


@pytest.mark.parametrize(
    ("agent", "event"), [("codex", "PermissionRequest"), ("qwen", "PermissionRequest")]
)
def test_at_a_terminal_the_agents_dialog_decides_after_the_timeout(
    midturn: CommandLine, agent: str, event: str
) -> None:
    assert Session(midturn, agent, given="tui").run(event, "--wait", "0.1", **RM) is None
    assert midturn.ok("inbox", "--json").json == []


def test_at_a_terminal_codex_asks_only_if_it_would_ask_itself(midturn: CommandLine) -> None:
    assert Session(midturn, "codex", given="tui").run("PreToolUse", **RM) is None
    assert midturn.ok("inbox", "--json").json == []


def test_gemini_question_is_answered_through_a_denial(midturn: CommandLine) -> None:
    choice = {
        "question": "Where to?",
        "type": "choice",
        "options": [{"label": "prod"}, {"label": "dev"}],
    }
    asked = {
        "questions": [
            choice,
            {"question": "Sure?", "type": "yesno"},
            {"question": "Why?", "type": "text"},
        ]
    }
    hook = Session(midturn, "gemini", given="tui").start(
        "BeforeTool", tool_name="ask_user", tool_input=asked
    )
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], '{"q0": "dev", "q1": "Yes", "q2": "because"}')

    assert hook.decision() == {
        "decision": "deny",
        "reason": "The user has answered already:\nWhere to? dev\nSure? Yes\nWhy? because",
    }


def test_at_a_terminal_gemini_asks_only_without_its_own_dialog(midturn: CommandLine) -> None:
    assert Session(midturn, "gemini", given="tui").run("BeforeTool", **RM) is None
    hook = Session(midturn, "gemini", given="--yolo").start("BeforeTool", **RM)
    wait_for(midturn)
    hook.kill()


def test_invalid_codex_input_denies_the_call(midturn: CommandLine) -> None:
    """Codex continues if a hook fails. Only this exit status prevents a command from running."""
    hook = Session(midturn, "codex", given="exec").start_with("not json")
    printed, errors = hook.process.communicate()

    assert (hook.process.returncode, printed) == (2, "")
    assert "nobody has decided" in errors


ENV = {
    "question": "Which env?",
    "header": "Env",
    "id": "env",
    "options": [{"label": "prod"}, {"label": "dev"}],
}


@pytest.mark.parametrize("given", ["tui", "exec"])
def test_codex_question_is_answered_through_a_denial(midturn: CommandLine, given: str) -> None:
    hook = Session(midturn, "codex", given=given).start(
        "PreToolUse",
        tool_name="request_user_input",
        tool_use_id="call_1",
        tool_input={"questions": [ENV]},
    )
    (asked,) = wait_for(midturn)

    midturn.ok("answer", asked["id"], "dev")

    assert codex(hook.decision()) == "The user has answered already:\nWhich env? dev"


def test_unanswered_codex_question_is_left_to_its_dialog(midturn: CommandLine) -> None:
    question = {"tool_name": "request_user_input", "tool_input": {"questions": [ENV]}}
    assert (
        Session(midturn, "codex", given="tui").run("PreToolUse", "--wait", "0.1", **question)
        is None
    )
    nobody = codex(
        Session(midturn, "codex", "s2", given="exec").run("PreToolUse", "--wait", "0.1", **question)
    )

    assert "Nobody has answered yet" in nobody
    assert [[event["reason"] for event in answers(events)] for events in stored(midturn)] == [
        ["superseded"],
        [],
    ]


def test_codex_secret_is_left_to_its_dialog(midturn: CommandLine) -> None:
    secret = {"questions": [ENV, {**ENV, "question": "Which key?", "isSecret": True}]}
    assert (
        Session(midturn, "codex", given="tui").run(
            "PreToolUse", tool_name="request_user_input", tool_input=secret
        )
        is None
    )
    assert stored(midturn) == []


FIELDS = {
    "env": {"type": "string", "title": "Which env?", "enum": ["prod", "dev"]},
    "parts": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    "sure": {"type": "boolean"},
}


def copilot_asks(midturn: CommandLine, **arguments: Any) -> str:
    """Return Copilot CLI's hook input for a question of its model."""
    return json.dumps(
        {"sessionId": "s1", "cwd": str(midturn.root), "toolName": "ask_user", "toolArgs": arguments}
    )


def test_copilot_questions_are_a_form_with_named_answers(midturn: CommandLine) -> None:
    schema = {"type": "object", "properties": FIELDS, "required": ["env"]}
    hook = copilot(midturn, "tui").start_with(
        copilot_asks(midturn, message="Tell me.", requestedSchema=schema)
    )
    (asked,) = wait_for(midturn)

    midturn.ok(
        "answer",
        asked["id"],
        '{"env": {"other": "staging"}, "parts": ["a", {"other": "c"}], "sure": null}',
    )

    assert hook.decision() == {
        "permissionDecision": "deny",
        "permissionDecisionReason": (
            'The user has answered already: {"env":"staging","parts":["a","c"]}'
        ),
    }


def test_reply_to_a_copilot_question_is_reported_as_a_reply(midturn: CommandLine) -> None:
    hook = copilot(midturn, "tui").start_with(
        copilot_asks(midturn, message="Tell me.", requestedSchema={"properties": FIELDS})
    )
    (asked,) = wait_for(midturn)

    midturn.ok("answer", asked["id"], "--reply", "Why do you ask?")

    assert (
        hook.decision()["permissionDecisionReason"]
        == "The user did not choose, and said: Why do you ask?"
    )


@pytest.mark.parametrize(
    "arguments",
    [{}, {"question": "Which env?"}, {"message": "?", "requestedSchema": {"properties": 7}}],
)
def test_invalid_copilot_question_is_left_to_its_dialog(
    midturn: CommandLine, arguments: dict[str, Any]
) -> None:
    assert copilot(midturn, "tui").start_with(copilot_asks(midturn, **arguments)).decision() is None
    assert stored(midturn) == []


def test_copilot_question_tool_needs_no_permission(midturn: CommandLine) -> None:
    ours = {
        **CALL,
        "cwd": str(midturn.root),
        "toolName": "midturn/ask_user",
        "toolInput": {"question": "Ship it?"},
    }
    assert copilot(midturn, "tui").start_with(json.dumps(ours)).decision() is None
    assert stored(midturn) == []


def test_copilot_hook_ignores_other_tools(midturn: CommandLine) -> None:
    """Old versions do not support matchers and run the hook before every tool."""
    view = {
        "sessionId": "s1",
        "cwd": str(midturn.root),
        "toolName": "view",
        "toolArgs": {"path": "/w"},
    }
    asked = {**view, "toolName": "ask_user", "toolResult": {"resultType": "success"}}
    for document in (view, asked):
        assert copilot(midturn, "-p").start_with(json.dumps(document)).decision() is None
    assert stored(midturn) == []


def test_qwen_accepts_edited_arguments_for_its_own_permissions(midturn: CommandLine) -> None:
    hook = Session(midturn, "qwen", given="tui").start("PermissionRequest", **RM)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], '{"edit": {"command": "rm -r dist"}}')

    assert hook.decision()["hookSpecificOutput"]["decision"] == {
        "behavior": "allow",
        "updatedInput": {"command": "rm -r dist"},
    }


def test_answers_reach_qwen_as_text(midturn: CommandLine) -> None:
    question = {"question": "Which env?", "options": [{"label": "prod"}, {"label": "dev"}]}
    hook = Session(midturn, "qwen", given="-p").start(
        "PermissionRequest", tool_name="ask_user_question", tool_input={"questions": [question]}
    )
    (asked,) = wait_for(midturn)

    midturn.ok("answer", asked["id"], "dev")

    assert qwen(hook.decision()) == "The user has answered already:\nWhich env? dev"


@pytest.mark.parametrize(
    ("agent", "file"),
    [
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
        ("qwen", ".qwen/settings.json"),
        ("copilot", ".copilot/settings.json"),
    ],
)
def test_hooks_are_installed_and_removed(midturn: CommandLine, agent: str, file: str) -> None:
    said = midturn.ok("hook", "install", agent).stdout
    hooks = json.loads((midturn.home / file).read_text())["hooks"]
    status = midturn.ok("hook", "status", agent).stdout
    midturn.ok("hook", "uninstall", agent)

    found = [group.get("hooks", [group])[0] for groups in hooks.values() for group in groups]
    assert all((hook.get("command") or hook["bash"]).endswith(f"hook {agent}") for hook in found)
    assert "If the hook is killed" in said
    assert ": connected (" in status
    assert not (midturn.home / file).exists()


def copilot(midturn: CommandLine, given: str) -> Session:
    return Session(midturn, "copilot", given=given)


CALL = {
    "hookName": "permissionRequest",
    "sessionId": "s1",
    "toolName": "bash",
    "toolInput": {"command": "rm -r build"},
}


def test_headless_copilot_reads_a_no_and_a_yes(midturn: CommandLine) -> None:
    for value, decision in (
        (
            ["n", "--reason", "Keep it."],
            {"behavior": "deny", "message": "The user said no: Keep it."},
        ),
        (["y"], None),
    ):
        hook = copilot(midturn, "-p").start_with(json.dumps({**CALL, "cwd": str(midturn.root)}))
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        assert hook.decision() == (decision or {"behavior": "allow"})


def test_headless_copilot_is_denied_at_the_deadline_and_woken_by_the_answer(
    midturn: CommandLine,
) -> None:
    document = {**CALL, "cwd": str(midturn.root)}
    denied = copilot(midturn, "-p").start_with(json.dumps(document), "--wait", "0.1").decision()
    stop = copilot(midturn, "-p").start_with(
        json.dumps({"sessionId": "s1", "cwd": str(midturn.root), "stopReason": "end_turn"})
    )
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    assert "Nobody has answered yet" in denied["message"]
    woken = stop.decision()
    assert woken["decision"] == "block"
    assert "Run it again." in woken["reason"]


def test_qwen_hook_asks_about_edits_in_auto_mode(midturn: CommandLine) -> None:
    hook = Session(midturn, "qwen", given="-p").start("PreToolUse", permission_mode="yolo", **RM)
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], "n", "--reason", "Keep it.")

    assert (
        hook.decision()["hookSpecificOutput"]["permissionDecisionReason"]
        == "The user said no: Keep it."
    )
    assert (
        Session(midturn, "qwen", given="-p").run("PreToolUse", permission_mode="default", **RM)
        is None
    )


def test_hook_ends_with_its_agent_and_the_question_stays_open(midturn: CommandLine) -> None:
    """A killed agent leaves its hooks running. Without this check, they would wait for a day."""
    under = Session(midturn, "codex", given="exec").start("PreToolUse", **RM)
    wait_for(midturn)

    os.kill(under.process.pid, signal.SIGKILL)  # the process that runs the hook, not the hook

    (question,) = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: not questions[0]["asker"]["waits"],
    )
    assert question["tool"] == "Bash"
    assert [answers(events) for events in stored(midturn)] == [[]]
    under.process.communicate(timeout=120)  # the hook keeps its pipes open while it runs
