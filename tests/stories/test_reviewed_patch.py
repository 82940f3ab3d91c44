"""A patch reviewed by a model, end to end: command line, provider library, server on the
loopback interface.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.cli import CommandLine
from support.providers.answers import Fails, Says, ToolUse
from support.providers.loopback import Loopback
from support.reviewers import DONE, NO, PATCH, YES, Reviewed
from support.waiting import until
from support.wire_models import OnWire, on_every_wire
from support.wire_prefix import rendered, shared

REJECTED = (
    "The proposed file changes were reviewed and rejected. Changes were not applied. You may retry"
    " with different changes."
)
REJECTED_BY_MAIN = """\
The `fs_modify_file` call was reviewed by a secondary assistant (anthropic/claude-sonnet-5-5) and rejected.

Question: Apply the changes to plan.md?
Reason: "The patch drops a test."

The proposed file changes were reviewed and rejected. Changes were not applied.
You may retry with different input, or ask the user to review."""
REJECTED_BY_USER = f"""\
The user reviewed the `fs_modify_file` call and rejected it.

Question: Apply the changes to plan.md?

{REJECTED}"""
_READS = 0.6  # seconds for reading; earlier keys are not accepted as an answer
COUNTED = "midturn: answered without a person: {}."


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)


@on_every_wire
def test_good_patch_is_applied_and_the_main_request_has_no_review(
    midturn: CommandLine, wire: OnWire
) -> None:
    """The side request repeats the first request. The next main request follows the first and
    does not contain the side request.
    """
    with Loopback(PATCH, YES, DONE) as server:
        reviewed = Reviewed(midturn, server, wire=wire)
        finished = reviewed.query()

    assert finished.status == 0, finished
    assert reviewed.plan.read_text() == "one\nzwei\nthree\n"
    first, side, second = (received.json for received in server.received)
    parts = [
        shared(rendered(wire.family, first), rendered(wire.family, other))
        for other in (side, second)
    ]
    print(  # noqa: T201
        f"\n{wire.family}: side request {parts[0]:.1%}, next request {parts[1]:.1%} of"
        f" {len(rendered(wire.family, first))} bytes"
    )
    assert parts == [1, 1]
    assert "Tool paused: Apply the changes to plan.md?" in rendered(wire.family, side)
    assert "requires additional input" in rendered(wire.family, side)
    assert "requires additional input" not in rendered(wire.family, second)
    assert "plan.md was changed." in rendered(wire.family, second)
    assert all(b"inquiry" not in received.body.lower() for received in server.received)


def test_conversation_contains_only_question_and_answer_of_a_review(midturn: CommandLine) -> None:
    with Loopback(PATCH, Says(text="Sure, go ahead!"), YES, DONE) as server:
        reviewed = Reviewed(midturn, server)
        reviewed.query()

    assert len(server.received) == 4
    assert [event["type"] for event in midturn.events() if event["type"] != "config_delta"] == [
        "turn_start",
        "chat_request",
        "chat_response",
        "tool_call_request",
        "inquiry_request",
        "inquiry_response",
        "tool_call_response",
        "chat_response",
        "turn_end",
    ]
    (response,) = reviewed.of("inquiry_response")
    assert response["answered_by"] == {"by": "assistant", "model": "anthropic/claude-sonnet-5-5"}
    assert response["reason"] == "Looks right."


def test_the_main_model_reads_who_rejected_its_patch_and_why(midturn: CommandLine) -> None:
    with Loopback(PATCH, NO, DONE) as server:
        reviewed = Reviewed(midturn, server)
        finished = reviewed.query()

    assert reviewed.results == [REJECTED_BY_MAIN]
    assert reviewed.plan.read_text() == "one\ntwo\nthree\n"
    (said,) = server.received[2].json["messages"][-1]["content"][0]["content"]
    assert said["text"] == REJECTED_BY_MAIN
    assert COUNTED.format("1 by a model") in finished.stderr


def test_another_model_is_asked_with_its_own_name_and_a_rejection_names_it(
    midturn: CommandLine,
) -> None:
    with Loopback(PATCH, NO, DONE) as server:
        reviewed = Reviewed(midturn, server, target='model.id = "anthropic/claude-haiku-4-5"')
        reviewed.query()

    assert [received.json["model"] for received in server.received] == [
        "claude-sonnet-5-5",
        "claude-haiku-4-5",
        "claude-sonnet-5-5",
    ]
    assert reviewed.results[0].startswith(
        "The `fs_modify_file` call was reviewed by a secondary assistant"
        " (anthropic/claude-haiku-4-5) and rejected.\n\nQuestion: "
    )


@pytest.mark.parametrize(("key", "applied"), [("y", True), ("n", False)])
def test_rejection_is_shown_to_an_attached_person(
    midturn: CommandLine,
    key: str,
    applied: bool,  # noqa: FBT001 (a parameter)
) -> None:
    with Loopback(PATCH, NO, DONE) as server:
        reviewed = Reviewed(midturn, server)
        with reviewed.watched() as terminal:
            terminal.wait_at("help: ")
            assert (
                '| > The assistant recommended rejecting this:\n| > "The patch drops a test."\n'
                in terminal.text
            )
            terminal.send("\r")  # no option is the default here
            terminal.wait_until_heard()
            terminal.wait_for_quiet(_READS)
            terminal.send(f"{key}\r")
            assert terminal.wait_for_end() == 0

    assert (reviewed.plan.read_text() == "one\nzwei\nthree\n") is applied
    assert reviewed.answers == [
        ("1", False, "assistant", "The patch drops a test."),
        ("2", applied, "user", None),
    ]
    assert reviewed.results == ["plan.md was changed." if applied else REJECTED_BY_USER]
    _, second = reviewed.of("inquiry_request")
    assert second["escalates"] == "call_1.apply_changes.1"
    assert "default" not in second["question"]


def test_failed_reviewer_is_not_a_rejection(midturn: CommandLine) -> None:
    with Loopback(
        PATCH, Fails(status=401, message="invalid x-api-key", code="authentication_error"), DONE
    ) as server:
        reviewed = Reviewed(midturn, server)
        with reviewed.watched() as terminal:
            terminal.wait_at("help: ")
            assert "| > The assistant that was asked first could not answer." in terminal.text
            assert "Check $ANTHROPIC_API_KEY" in " ".join(
                terminal.text.replace("\n| > … ", "").split()
            )
            terminal.wait_until_heard()
            terminal.wait_for_quiet(_READS)
            terminal.send("y\r")
            assert terminal.wait_for_end() == 0

    assert reviewed.answers == [
        ("1", "cancelled", None, "backend_error"),
        ("2", True, "user", None),
    ]
    assert reviewed.plan.read_text() == "one\nzwei\nthree\n"


def test_invalid_reviews_fail_the_call_with_a_reason(midturn: CommandLine) -> None:
    """Text, a wrong type, a call, an empty answer, two megabytes, each twice; and a missing
    model.
    """
    wrong = {
        "it is not a JSON object with the keys `reason` and `answer`": Says(text="Sure, go ahead!"),
        'the answer must be true or false, not "yes"': Says(
            text='{"reason": "r", "answer": "yes"}'
        ),
        "it called the tool `fs_read_file` in place of an answer": Says(
            calls=(ToolUse("fs_read_file", {"path": "plan.md"}),)
        ),
        "its second answer was wrong too: it is empty.": Says(text=""),
        "it is longer than 262,144 characters": Says(text="x" * 2_000_000),
    }
    turns = [said for answer in wrong.values() for said in (PATCH, answer, answer)]
    with Loopback(
        *turns, PATCH, Fails(status=404, message="no such model", code="not_found_error"), DONE
    ) as server:
        reviewed = Reviewed(midturn, server)
        finished = reviewed.query()

    assert [answer[1:] for answer in reviewed.answers] == [("cancelled", None, "backend_error")] * 6
    for why, result in zip([*wrong, "has no model of this name"], reviewed.results, strict=True):
        assert result.startswith(
            'fs_modify_file: the assistant that was asked "Apply the changes to plan.md?" failed to'
            " answer: "
        )
        assert why in result
        assert "\n" not in result
        assert why in finished.stderr
    assert max(len(received.body) for received in server.received) < 50_000
    assert reviewed.plan.read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            'model.id = "antropic/claude-haiku-4-5"',
            "Unknown provider `antropic`. Did you mean `anthropic`?",
        ),
        ('model.id = "claude-haiku-4-5"', "Write `<provider>/<model>`"),
        ('model.id = "openai/text-embedding-3-small"', "it does not generate text"),
    ],
)
def test_unknown_reviewer_is_reported_before_the_turn(
    midturn: CommandLine, target: str, said: str
) -> None:
    with Loopback(PATCH) as server:
        finished = Reviewed(midturn, server, target=target).query()

    assert finished.status == 2
    assert said in finished.stderr
    assert server.received == []
    assert midturn.conversations() == []


def test_unavailable_server_is_retried_with_a_message(midturn: CommandLine) -> None:
    with Loopback(
        PATCH,
        Fails(status=429, message="slow down", code="rate_limit_error", retry_after="1"),
        YES,
        DONE,
    ) as server:
        reviewed = Reviewed(midturn, server)
        finished = reviewed.query()

    assert (
        "midturn: anthropic/claude-sonnet-5-5 is busy (slow down). Retrying in 1.0 s (retry 1 of"
        " 4).\n" in finished.stderr
    )
    assert reviewed.answers == [("1", True, "assistant", "Looks right.")]


def test_two_patches_are_reviewed_in_parallel(midturn: CommandLine) -> None:
    """The server answers the first request only after it has received the second."""
    edits = [{"old": "two", "new": "zwei"}]
    both = Says(
        calls=(
            ToolUse("fs_modify_file", {"path": "plan.md", "edits": edits}, "call_1"),
            ToolUse("fs_modify_file", {"path": "notes.md", "edits": edits}, "call_2"),
        )
    )
    (midturn.root / "notes.md").write_text("two\n")
    yes = Says(text=YES.text, waits_for=3)
    with Loopback(both, yes, yes, DONE) as server:
        reviewed = Reviewed(midturn, server)
        reviewed.query()

    assert sorted(reviewed.results) == ["notes.md was changed.", "plan.md was changed."]
    first, *sides, _ = (rendered("anthropic", received.json) for received in server.received)
    assert [shared(first, side) for side in sides] == [1, 1]
    assert all("Tool call still running." in side for side in sides)


def test_ctrl_c_closes_the_connection_and_ends_the_turn(midturn: CommandLine) -> None:
    with Loopback(PATCH, Says(text='{"reason": "so far', after="silence")) as server:
        reviewed = Reviewed(midturn, server)
        with reviewed.watched() as terminal:
            terminal.wait_until(lambda: len(server.received) > 1, "the side request")
            terminal.wait_for_quiet(0.5)
            terminal.send("\x03")
            assert terminal.wait_for_end() == 130
        asyncio.run(until(lambda: server.received[1].left))

    assert reviewed.answers == [("1", "cancelled", None, "user")]
    assert reviewed.results == ["Tool input cancelled by user."]
    assert reviewed.plan.read_text() == "one\ntwo\nthree\n"
