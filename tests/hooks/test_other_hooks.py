"""`midturn hook codex | gemini | qwen`: the same questions, in the words of each agent."""

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
def test_a_yes_lets_the_call_run(midturn: CommandLine, agent: str) -> None:
    given, event, _, allowed = GATES[agent]
    hook = Session(midturn, agent, given=given).start(event, **RM)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    printed = hook.decision()
    assert (printed["hookSpecificOutput"]["decision"] if printed else None) == allowed


@each_agent
def test_a_no_reads_as_a_persons(midturn: CommandLine, agent: str) -> None:
    given, event, words, _ = GATES[agent]
    hook = Session(midturn, agent, given=given).start(event, **RM)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "n", "--reason", "Keep it.")

    assert words(hook.decision()) == "The user said no: Keep it."


@each_agent
def test_changed_arguments_are_never_run_as_they_were(midturn: CommandLine, agent: str) -> None:
    """Qwen Code takes them where it asks by itself, and only there."""
    given, event, words, _ = GATES[agent]
    unasked = {"permission_mode": "yolo"} if agent == "qwen" else {}
    hook = Session(midturn, agent, given=given).start("PreToolUse" if unasked else event, **RM, **unasked)
    words = codex if unasked else words
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], '{"edit": {"command": "rm -r dist"}}')

    assert words(hook.decision()).endswith('Call the tool again with exactly these: {"command":"rm -r dist"}')


@each_agent
def test_at_the_deadline_the_gate_stays_closed_and_this_is_not_a_no(midturn: CommandLine, agent: str) -> None:
    given, event, words, _ = GATES[agent]
    said = words(Session(midturn, agent, given=given).run(event, "--wait", "0.1", **RM))

    assert "Nobody has answered yet" in said
    assert "not a no" in said
    assert answers(stored(midturn)[0]) == []
    assert len(midturn.ok("inbox", "--json").json) == 1


@each_agent
def test_a_store_that_cannot_be_written_keeps_the_gate_closed(midturn: CommandLine, agent: str) -> None:
    given, event, words, _ = GATES[agent]
    (midturn.home / "data").write_text("in the way")

    said = words(Session(midturn, agent, given=given).run(event, **RM))

    assert "nobody has decided" in said
    assert "The user said no" not in said


@each_agent
def test_an_answer_that_comes_later_wakes_the_session(midturn: CommandLine, agent: str) -> None:
    given, event, _, _ = GATES[agent]
    session = Session(midturn, agent, given=given)
    session.run(event, "--wait", "0.1", **RM)
    stop = session.start("AfterAgent" if agent == "gemini" else "Stop")
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    woken = stop.decision()
    assert woken["decision"] == ("deny" if agent == "gemini" else "block")
    assert "Run it again." in woken["reason"]


@pytest.mark.parametrize(("agent", "event"), [("codex", "PermissionRequest"), ("qwen", "PermissionRequest")])
def test_at_a_terminal_its_own_dialog_decides_when_nobody_has_answered(midturn: CommandLine, agent: str, event: str) -> None:
    assert Session(midturn, agent, given="tui").run(event, "--wait", "0.1", **RM) is None
    assert midturn.ok("inbox", "--json").json == []


def test_at_a_terminal_codex_asks_only_where_it_asks_by_itself(midturn: CommandLine) -> None:
    assert Session(midturn, "codex", given="tui").run("PreToolUse", **RM) is None
    assert midturn.ok("inbox", "--json").json == []


def test_a_question_of_geminis_model_is_answered_in_the_words_of_a_denial(midturn: CommandLine) -> None:
    choice = {"question": "Where to?", "type": "choice", "options": [{"label": "prod"}, {"label": "dev"}]}
    asked = {"questions": [choice, {"question": "Sure?", "type": "yesno"}, {"question": "Why?", "type": "text"}]}
    hook = Session(midturn, "gemini", given="tui").start("BeforeTool", tool_name="ask_user", tool_input=asked)
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], '{"q0": "dev", "q1": "Yes", "q2": "because"}')

    assert hook.decision() == {
        "decision": "deny",
        "reason": "The user has answered already:\nWhere to? dev\nSure? Yes\nWhy? because",
    }


def test_at_a_terminal_gemini_asks_only_where_nobody_else_does(midturn: CommandLine) -> None:
    assert Session(midturn, "gemini", given="tui").run("BeforeTool", **RM) is None
    hook = Session(midturn, "gemini", given="--yolo").start("BeforeTool", **RM)
    wait_for(midturn)
    hook.kill()


def test_what_codex_cannot_be_understood_in_does_not_run(midturn: CommandLine) -> None:
    """It goes on where a hook fails: only this status keeps a command from running."""
    hook = Session(midturn, "codex", given="exec").start_with("not json")
    printed, errors = hook.process.communicate()

    assert (hook.process.returncode, printed) == (2, "")
    assert "nobody has decided" in errors


ENV = {"question": "Which env?", "header": "Env", "id": "env", "options": [{"label": "prod"}, {"label": "dev"}]}


@pytest.mark.parametrize("given", ["tui", "exec"])
def test_a_question_of_codexs_model_is_answered_in_the_words_of_a_denial(midturn: CommandLine, given: str) -> None:
    hook = Session(midturn, "codex", given=given).start(
        "PreToolUse", tool_name="request_user_input", tool_use_id="call_1", tool_input={"questions": [ENV]}
    )
    (asked,) = wait_for(midturn)

    midturn.ok("answer", asked["id"], "dev")

    assert codex(hook.decision()) == "The user has answered already:\nWhich env? dev"


def test_a_question_of_codexs_model_that_nobody_has_answered_is_left_to_its_own_dialog(midturn: CommandLine) -> None:
    question = {"tool_name": "request_user_input", "tool_input": {"questions": [ENV]}}
    assert Session(midturn, "codex", given="tui").run("PreToolUse", "--wait", "0.1", **question) is None
    nobody = codex(Session(midturn, "codex", "s2", given="exec").run("PreToolUse", "--wait", "0.1", **question))

    assert "Nobody has answered yet" in nobody
    assert [[event["reason"] for event in answers(events)] for events in stored(midturn)] == [["superseded"], []]


def test_a_secret_is_left_to_codexs_own_dialog(midturn: CommandLine) -> None:
    secret = {"questions": [ENV, {**ENV, "question": "Which key?", "isSecret": True}]}
    assert Session(midturn, "codex", given="tui").run("PreToolUse", tool_name="request_user_input", tool_input=secret) is None
    assert stored(midturn) == []


FIELDS = {
    "env": {"type": "string", "title": "Which env?", "enum": ["prod", "dev"]},
    "parts": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    "sure": {"type": "boolean"},
}


def copilot_asks(midturn: CommandLine, **arguments: Any) -> str:
    """Return what Copilot CLI says to a hook before its model's own question is asked."""
    return json.dumps({"sessionId": "s1", "cwd": str(midturn.root), "toolName": "ask_user", "toolArgs": arguments})


def test_a_question_of_copilots_model_is_a_form_and_its_answers_go_back_by_name(midturn: CommandLine) -> None:
    schema = {"type": "object", "properties": FIELDS, "required": ["env"]}
    hook = copilot(midturn, "tui").start_with(copilot_asks(midturn, message="Tell me.", requestedSchema=schema))
    (asked,) = wait_for(midturn)

    midturn.ok("answer", asked["id"], '{"env": {"other": "staging"}, "parts": ["a", {"other": "c"}], "sure": null}')

    assert hook.decision() == {
        "permissionDecision": "deny",
        "permissionDecisionReason": 'The user has answered already: {"env":"staging","parts":["a","c"]}',
    }


def test_a_reply_to_a_question_of_copilots_model_is_told_as_what_it_is(midturn: CommandLine) -> None:
    hook = copilot(midturn, "tui").start_with(copilot_asks(midturn, message="Tell me.", requestedSchema={"properties": FIELDS}))
    (asked,) = wait_for(midturn)

    midturn.ok("answer", asked["id"], "--reply", "Why do you ask?")

    assert hook.decision()["permissionDecisionReason"] == "The user did not choose, and said: Why do you ask?"


@pytest.mark.parametrize("arguments", [{}, {"question": "Which env?"}, {"message": "?", "requestedSchema": {"properties": 7}}])
def test_what_copilot_cannot_be_understood_in_is_left_to_its_own_dialog(midturn: CommandLine, arguments: dict[str, Any]) -> None:
    assert copilot(midturn, "tui").start_with(copilot_asks(midturn, **arguments)).decision() is None
    assert stored(midturn) == []


def test_nobody_is_asked_whether_copilots_model_may_ask(midturn: CommandLine) -> None:
    ours = {**CALL, "cwd": str(midturn.root), "toolName": "midturn/ask_user", "toolInput": {"question": "Ship it?"}}
    assert copilot(midturn, "tui").start_with(json.dumps(ours)).decision() is None
    assert stored(midturn) == []


def test_before_another_tool_of_copilot_nothing_is_asked(midturn: CommandLine) -> None:
    """Old versions do not know which tools a hook is for, and run it before every one."""
    view = {"sessionId": "s1", "cwd": str(midturn.root), "toolName": "view", "toolArgs": {"path": "/w"}}
    asked = {**view, "toolName": "ask_user", "toolResult": {"resultType": "success"}}
    for document in (view, asked):
        assert copilot(midturn, "-p").start_with(json.dumps(document)).decision() is None
    assert stored(midturn) == []


def test_qwen_takes_changed_arguments_where_it_asks_by_itself(midturn: CommandLine) -> None:
    hook = Session(midturn, "qwen", given="tui").start("PermissionRequest", **RM)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], '{"edit": {"command": "rm -r dist"}}')

    assert hook.decision()["hookSpecificOutput"]["decision"] == {"behavior": "allow", "updatedInput": {"command": "rm -r dist"}}


def test_answers_go_to_qwen_in_words(midturn: CommandLine) -> None:
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
def test_hooks_are_installed_and_taken_away(midturn: CommandLine, agent: str, file: str) -> None:
    said = midturn.ok("hook", "install", agent).stdout
    hooks = json.loads((midturn.home / file).read_text())["hooks"]
    status = midturn.ok("hook", "status", agent).stdout
    midturn.ok("hook", "uninstall", agent)

    found = [group.get("hooks", [group])[0] for groups in hooks.values() for group in groups]
    assert all((hook.get("command") or hook["bash"]).endswith(f"hook {agent}") for hook in found)
    assert "If the hook is killed" in said
    assert "asks through midturn" in status
    assert not (midturn.home / file).exists()


def copilot(midturn: CommandLine, given: str) -> Session:
    return Session(midturn, "copilot", given=given)


CALL = {"hookName": "permissionRequest", "sessionId": "s1", "toolName": "bash", "toolInput": {"command": "rm -r build"}}


def test_copilot_without_a_terminal_reads_a_persons_no_and_a_yes(midturn: CommandLine) -> None:
    for value, decision in ((["n", "--reason", "Keep it."], {"behavior": "deny", "message": "The user said no: Keep it."}), (["y"], None)):
        hook = copilot(midturn, "-p").start_with(json.dumps({**CALL, "cwd": str(midturn.root)}))
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        assert hook.decision() == (decision or {"behavior": "allow"})


def test_copilot_without_a_terminal_is_denied_when_nobody_has_answered_and_woken_by_the_answer(midturn: CommandLine) -> None:
    document = {**CALL, "cwd": str(midturn.root)}
    denied = copilot(midturn, "-p").start_with(json.dumps(document), "--wait", "0.1").decision()
    stop = copilot(midturn, "-p").start_with(json.dumps({"sessionId": "s1", "cwd": str(midturn.root), "stopReason": "end_turn"}))
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    assert "Nobody has answered yet" in denied["message"]
    woken = stop.decision()
    assert woken["decision"] == "block"
    assert "Run it again." in woken["reason"]


def test_qwen_asks_about_every_change_where_it_asks_nobody_itself(midturn: CommandLine) -> None:
    hook = Session(midturn, "qwen", given="-p").start("PreToolUse", permission_mode="yolo", **RM)
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], "n", "--reason", "Keep it.")

    assert hook.decision()["hookSpecificOutput"]["permissionDecisionReason"] == "The user said no: Keep it."
    assert Session(midturn, "qwen", given="-p").run("PreToolUse", permission_mode="default", **RM) is None


def test_a_hook_whose_agent_is_gone_goes_too_and_the_question_stays(midturn: CommandLine) -> None:
    """An agent that is killed leaves its hooks behind: they would wait for a day for nobody."""
    under = Session(midturn, "codex", given="exec").start("PreToolUse", **RM)
    wait_for(midturn)

    os.kill(under.process.pid, signal.SIGKILL)  # what runs the hook, and not the hook itself

    (question,) = until(lambda: midturn.ok("inbox", "--json").json, lambda questions: not questions[0]["asker"]["waits"])
    assert question["tool"] == "Bash"
    assert [answers(events) for events in stored(midturn)] == [[]]
    under.process.communicate(timeout=60)  # the hook holds its ends of the pipes as long as it runs
