"""Patches without anybody to approve them: each policy in each form, with exit status and
output.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import CommandLine, calls

PATCH = calls("fs_modify_file", path="plan.md", edits=[{"old": "two", "new": "zwei"}])
COUNTED = "midturn: answered without a person: {}.\n"
YES = {"tool": "*", "question": "*", "answers": [{"reason": "Fine.", "answer": True}]}
NO = {"tool": "*", "question": "*", "answers": [{"reason": "It drops a test.", "answer": False}]}
FORMS = {
    "scalar": "[conversation.tools.fs_modify_file]\ndetached = '{}'\n",
    "table": "[conversation.tools.fs_modify_file]\ndetached = {{ tool = '{}' }}\n",
    "scalar for all": "[conversation.tools.'*']\ndetached = '{}'\n",
    "table for all": "[conversation.tools.'*']\ndetached = {{ tool = '{}' }}\n",
}
TARGET = (
    "[conversation.tools.fs_modify_file.questions.apply_changes]\ntarget ="
    " 'assistant_with_escalation'\n"
)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace that contains a plan."""
    made = CommandLine(tmp_path)
    (made.root / "plan.md").write_text("one\ntwo\n")
    return made


def patched(midturn: CommandLine) -> bool:
    return (midturn.root / "plan.md").read_text() == "one\nzwei\n"


def recorded(midturn: CommandLine) -> list[tuple[object, object]]:
    """Return for each response the answer and the responder, or the reason without an answer."""
    responses = (event for event in midturn.events() if event["type"] == "inquiry_response")
    return [
        (
            event.get("answer", "none"),
            event.get("reason") if "answer" not in event else event["answered_by"]["by"],
        )
        for event in responses
    ]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize(
    ("policy", "status", "applied", "answer", "counted"),
    [
        ("auto", 0, True, [(True, "assistant")], "1 by a model"),
        ("defaults", 0, True, [(True, "default")], "1 by default"),
        ("deny", 4, False, [("none", "detached_denied")], ""),
        ("defer", 3, False, [], ""),
    ],
)
def test_each_policy_in_each_form(
    midturn: CommandLine,
    form: str,
    policy: str,
    status: int,
    applied: bool,  # noqa: FBT001 (a parameter)
    answer: list[tuple[object, object]],
    counted: str,
) -> None:
    midturn.configure(form.format(policy))

    finished = midturn.run("query", "-m", midturn.script(PATCH, inquiries=[YES]), "Patch", "it")

    assert finished.status == status, finished
    assert (patched(midturn), recorded(midturn)) == (applied, answer)
    if policy != "defer":
        assert finished.stderr.count("answered without a person") == bool(counted)
        assert not counted or COUNTED.format(counted) in finished.stderr
    else:  # no answer: it prints what it waits for
        (waiting,) = midturn.ok("inbox", "--json").json
        assert f"midturn answer {waiting['id']} [VALUE]" in finished.stderr


def test_tool_policy_overrides_the_global_policy(midturn: CommandLine) -> None:
    midturn.configure(
        "[conversation.tools.'*']\ndetached = 'deny'\n[conversation.tools.fs_modify_file]\ndetached"
        " = { tool = 'defaults' }\n"
    )

    assert midturn.run("query", "-m", midturn.script(PATCH), "Patch", "it").status == 0
    assert patched(midturn)


def test_configured_answer_is_recorded_as_configuration(midturn: CommandLine) -> None:
    finished = midturn.run(
        "query",
        "-m",
        midturn.script(PATCH),
        "--answer",
        "fs_modify_file.apply_changes=no",
        "Patch",
        "it",
    )

    assert finished.status == 0, finished
    assert (patched(midturn), recorded(midturn)) == (False, [(False, "static")])
    assert COUNTED.format("1 by the configuration") in finished.stderr


@pytest.mark.parametrize(
    ("policy", "status", "applied", "answers"),
    [
        ("auto", 0, False, [(False, "assistant")]),
        ("deny", 0, False, [(False, "assistant")]),
        ("defaults", 0, True, [(False, "assistant"), (True, "default")]),
        ("defer", 3, False, [(False, "assistant")]),
    ],
)
def test_detached_rejection_by_a_model(
    midturn: CommandLine,
    policy: str,
    status: int,
    applied: bool,  # noqa: FBT001 (a parameter)
    answers: list[tuple[object, object]],
) -> None:
    midturn.configure(FORMS["scalar"].format(policy) + TARGET)

    finished = midturn.run("query", "-m", midturn.script(PATCH, inquiries=[NO]), "Patch", "it")

    assert finished.status == status, finished
    assert (patched(midturn), recorded(midturn)) == (applied, answers)
    if policy == "defer":
        shown = midturn.ok("inbox", "--json").json
        assert shown[0]["question"]["context"].startswith(
            'The assistant recommended rejecting this:\n"It drops a test."\n\n'
        )


def test_person_can_answer_later_after_a_models_rejection(midturn: CommandLine) -> None:
    """In another process. The tool runs once with that answer."""
    midturn.configure(FORMS["scalar"].format("defer") + TARGET)
    midturn.run("query", "-m", midturn.script(PATCH, inquiries=[NO]), "Patch", "it")

    (waiting,) = midturn.ok("inbox", "--json").json
    midturn.ok("answer", waiting["id"], "yes")
    finished = midturn.ok("resume")

    assert finished.stdout == "Done.\n"
    assert (patched(midturn), recorded(midturn)) == (True, [(False, "assistant"), (True, "user")])


@pytest.mark.parametrize(("policy", "status", "end"), [("auto", 1, "failed"), ("defer", 3, None)])
def test_no_model_is_asked_after_three_rejections(
    midturn: CommandLine, policy: str, status: int, end: str | None
) -> None:
    midturn.configure(
        FORMS["scalar"].format(policy) + TARGET.replace("assistant_with_escalation", "assistant")
    )

    finished = midturn.run(
        "query", "-m", midturn.script(*[PATCH] * 4, inquiries=[NO]), "Patch", "it"
    )

    assert finished.status == status, finished
    assert recorded(midturn)[:3] == [(False, "assistant")] * 3
    last = midturn.events()[-1]
    assert (last.get("status") if last["type"] == "turn_end" else None) == end
    results = [
        event["content"] for event in midturn.events() if event["type"] == "tool_call_response"
    ]
    if policy == "auto":
        assert recorded(midturn)[3] == ("none", "limit_exceeded")
        assert (
            results[3]
            == "fs_modify_file: stopped after 3 rejections in a row (limits.rejected_cycles). Do"
            " not retry this tool call in this turn."
        )
    else:
        assert len(results) == 3
