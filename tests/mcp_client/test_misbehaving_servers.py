"""MCP servers that violate the protocol.

The model reads an error. No question stays open, no call hangs, and no answer is invented.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn import Replied, events
from midturn.mcp.bounded_http import TOO_LARGE_TEXT
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from support.hooks import until
from support.misbehaving_server import MisbehavingServer

SERVER = Path(__file__).parents[1] / "support" / "misbehaving_mcp_server.py"
HUGE = 4_000_000
"""Size in characters of a result that is too large for a model."""
OVERLONG = int(os.environ.get("MIDTURN_HUGE", "17_000_000"))
"""Size in characters of a message that is too large. The long run uses 100_000_000."""
LEGACY, MODERN = "legacy", "modern"
pytestmark = pytest.mark.timeout(600)
each_era = pytest.mark.parametrize("era", [LEGACY, MODERN])
legacy = pytest.mark.parametrize("era", [LEGACY])
modern = pytest.mark.parametrize("era", [MODERN])


def spec(directory: Path, *arguments: str) -> ServerSpec:
    environment = {**os.environ, "HUGE": str(HUGE), "OVERLONG": str(OVERLONG)}
    return ServerSpec(
        name="liar",
        command=(sys.executable, str(SERVER), *arguments),
        environment=environment,
        cwd=str(directory),
    )


@pytest.fixture
def misbehaving(
    era: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Iterator[MisbehavingServer]:
    with McpServers([spec(tmp_path, era)], silence={"liar_deaf": 0.3}) as servers:
        assert servers.problems == {}
        yield MisbehavingServer(servers, tmp_path)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@legacy
def test_a_question_for_a_finished_call_is_not_shown(misbehaving: MisbehavingServer) -> None:
    assert misbehaving.calls("late") == ("It is done.", False)
    assert misbehaving.recorded == []
    assert misbehaving.heard() == [{"action": "cancel"}]
    assert misbehaving.calls("honest") == ("Yes.", False)


@modern
def test_an_unsolicited_question_is_refused(misbehaving: MisbehavingServer) -> None:
    assert misbehaving.calls("late") == ("It is done.", False)
    assert misbehaving.recorded == []
    assert [answer["message"] for answer in misbehaving.heard()] == ["Method not found"]


@legacy
def test_a_question_is_withdrawn_when_its_call_ends(misbehaving: MisbehavingServer) -> None:
    assert misbehaving.calls("early", misbehaving.unanswered_prompt()) == ("It is done.", False)
    _, withdrawn = misbehaving.recorded
    assert (withdrawn.outcome, withdrawn.reason) == ("cancelled", "superseded")
    assert misbehaving.heard() == [{"action": "cancel"}]
    assert misbehaving.calls("honest") == ("Yes.", False)


@each_era
def test_ending_the_turn_at_a_question_cancels_the_question(misbehaving: MisbehavingServer) -> None:
    """The server receives a cancelled elicitation, not only a cancelled call."""
    content, is_error = misbehaving.ends_at("asks")

    assert (content, is_error) == ("Tool input cancelled by user.", True)
    assert misbehaving.heard() == [{"action": "cancel"}]


@legacy
def test_a_tool_called_as_a_task_asks_while_it_works(
    misbehaving: MisbehavingServer, tmp_path: Path
) -> None:
    def look(prompt: object) -> bool:
        del prompt
        until((tmp_path / "looked").exists, bool)  # wait until the client has polled the task
        return True

    assert misbehaving.calls("task", look) == ("It is done.", False)
    assert misbehaving.heard() == [{"action": "accept", "content": {"sure": True}}]


@legacy
def test_ending_the_turn_cancels_the_task_too(
    misbehaving: MisbehavingServer, tmp_path: Path
) -> None:
    assert misbehaving.ends_at("task") == ("Tool input cancelled by user.", True)
    assert misbehaving.heard() == [{"action": "cancel"}]
    until((tmp_path / "cancelled").exists, bool)


@legacy
def test_a_server_dies_while_its_question_is_shown(misbehaving: MisbehavingServer) -> None:
    content, is_error = misbehaving.calls("dies", misbehaving.unanswered_prompt())

    assert is_error
    assert "the MCP server `liar` has gone away" in content
    assert "I am dying." in content
    _, withdrawn = misbehaving.recorded
    assert (withdrawn.outcome, withdrawn.reason) == ("cancelled", "superseded")
    assert misbehaving.calls("honest") == ("Yes.", False), "it is started again"


@each_era
def test_a_server_that_ignores_a_cancellation_serves_the_next_call(
    misbehaving: MisbehavingServer,
) -> None:
    content, is_error = misbehaving.calls("deaf")

    assert (content, is_error) == (
        "`liar_deaf`: the MCP server `liar` was given up: it was silent for 0.3 seconds.",
        True,
    )
    assert misbehaving.calls("honest") == ("Yes.", False)


@each_era
def test_an_oversized_result_is_cut_with_a_notice(misbehaving: MisbehavingServer) -> None:
    content, is_error = misbehaving.calls("huge")

    assert not is_error
    assert len(content) < HUGE // 10
    assert content.strip("x"), "it says that something is missing"
    assert misbehaving.calls("honest") == ("Yes.", False)


@pytest.mark.parametrize("lie", ["forward", "backward"])
@each_era
def test_an_oversized_message_fails_only_its_own_call(
    misbehaving: MisbehavingServer, lie: str
) -> None:
    assert misbehaving.calls_at_once(lie, "honest") == [
        (
            (
                f"`liar_{lie}`: the MCP server `liar` gave a result that cannot be used:"
                f" {TOO_LARGE_TEXT}"
            ),
            True,
        ),
        ("Yes.", False),
    ]


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ("babbling", "it sent a message larger than 16 MB"),
        ("unending", "it sent a message that does not end"),
    ],
)
@each_era
def test_a_server_that_cannot_be_read_is_restarted(
    misbehaving: MisbehavingServer, lie: str, why: str
) -> None:
    assert misbehaving.calls(lie) == (
        f"`liar_{lie}`: the MCP server `liar` has gone away: {why}",
        True,
    )
    assert misbehaving.calls("honest") == ("Yes.", False)


@each_era
def test_a_result_that_violates_its_schema_is_an_error(misbehaving: MisbehavingServer) -> None:
    content, is_error = misbehaving.calls("unfit")

    assert is_error
    assert "the MCP server `liar` gave a result that cannot be used" in content
    assert "its structured content does not fit its own schema: /n: " in content
    assert "Traceback" not in content


@each_era
def test_a_schema_that_takes_exponential_time_does_not_block(
    misbehaving: MisbehavingServer,
) -> None:
    """The schema has a pattern with exponential backtracking, or circular references."""
    assert misbehaving.calls("slow") == ("Yes.", False)
    assert misbehaving.calls("circle") == ("Yes.", False)


def _no_valid_answer(_: object) -> Replied:
    return Replied("Nothing fits that.")


@legacy
def test_a_form_without_a_valid_answer_is_shown_to_a_person(misbehaving: MisbehavingServer) -> None:
    """The person sees the question and that no value satisfies it.

    It is not answered for them.
    """
    content, is_error = misbehaving.calls("impossible", _no_valid_answer)

    assert not is_error
    assert (
        content.endswith("It was told `decline`.\nIt returned:\nIt is done.")
        or "told `decline`" in content
    )
    asked = [
        event.question.context or ""
        for event in misbehaving.recorded
        if isinstance(event, events.InquiryRequest)
    ]
    assert len(asked) == 5
    assert sum("JSON Schema" in context for context in asked) >= 3
    assert misbehaving.heard(5) == [{"action": "decline"}] * 5


@pytest.mark.parametrize("lie", ["strange", "numbers"])
@each_era
def test_a_result_outside_the_protocol_is_an_error(
    misbehaving: MisbehavingServer, lie: str
) -> None:
    content, is_error = misbehaving.calls(lie)

    assert is_error
    assert "answered with something that is not in the protocol: " in content
    assert "banana" not in content
    assert misbehaving.calls("honest") == ("Yes.", False)


@modern
def test_a_repeated_question_is_asked_only_a_few_times(misbehaving: MisbehavingServer) -> None:
    assert misbehaving.calls("same") == (
        (
            "liar_same: stopped after 3 identical questions (limits.repeats). Do not retry this"
            " tool call in this turn."
        ),
        True,
    )
    outcomes = [
        event.outcome
        for event in misbehaving.recorded
        if not isinstance(event, events.InquiryRequest)
    ]
    assert outcomes == ["answered", "answered", "answered", "cancelled"]


STOPPED = "liar_{lie}: stopped after {what}. Do not retry this tool call in this turn."


@legacy
def test_a_form_that_is_hard_to_display_is_not_asked_forever(
    misbehaving: MisbehavingServer,
) -> None:
    assert misbehaving.calls("pesters") == (
        STOPPED.format(lie="pesters", what="3 identical questions (limits.repeats)"),
        True,
    )
    assert misbehaving.calls("honest") == ("Yes.", False)


@legacy
def test_a_repeated_question_of_an_older_server_is_asked_only_a_few_times(
    misbehaving: MisbehavingServer,
) -> None:
    assert misbehaving.calls("again") == (
        STOPPED.format(lie="again", what="3 identical questions (limits.repeats)"),
        True,
    )
    outcomes = [
        event.outcome
        for event in misbehaving.recorded
        if not isinstance(event, events.InquiryRequest)
    ]
    assert outcomes == ["answered", "answered", "answered", "cancelled"]
    assert misbehaving.calls("honest") == ("Yes.", False)


@each_era
def test_ten_thousand_concurrent_questions_end_the_call(misbehaving: MisbehavingServer) -> None:
    content, is_error = misbehaving.calls("crowds")

    assert is_error
    assert content == STOPPED.format(lie="crowds", what="100 questions in one call")
    requests = [event for event in misbehaving.recorded if isinstance(event, events.InquiryRequest)]
    assert len(requests) * 2 == len(misbehaving.recorded) <= 200
    assert misbehaving.calls("honest") == ("Yes.", False)


@modern
def test_a_call_with_too_many_questions_does_not_affect_other_calls(
    misbehaving: MisbehavingServer,
) -> None:
    crowds, honest = misbehaving.calls_at_once("crowds", "honest")

    assert crowds == (STOPPED.format(lie="crowds", what="100 questions in one call"), True)
    assert honest == ("Yes.", False)


@legacy
def test_a_recursive_form_is_answered_as_json(misbehaving: MisbehavingServer) -> None:
    assert misbehaving.calls("recursive") == ("It is done.", False)
    (asked, _) = misbehaving.recorded
    assert asked.question.answer_type.type == "schema"
    assert (
        "The program that asks checks the answer against this JSON Schema:"
        in asked.question.context
    )
    assert misbehaving.heard() == [{"action": "accept", "content": {"sure": True}}]


@legacy
def test_two_questions_with_one_request_id_are_both_asked(misbehaving: MisbehavingServer) -> None:
    assert misbehaving.calls("repeats") == ("It is done.", False)
    assert [answer["action"] for answer in misbehaving.heard(2)] == ["accept", "accept"]
    assert len(misbehaving.recorded) == 4


@modern
def test_endless_questions_are_stopped_and_answers_are_recorded(
    misbehaving: MisbehavingServer,
) -> None:
    content, is_error = misbehaving.calls("endless")

    assert is_error
    assert "it has sent this one call back 10 times" in content
    requests = [event for event in misbehaving.recorded if isinstance(event, events.InquiryRequest)]
    assert len(requests) == len(misbehaving.recorded) // 2 == 10
    assert len({request.question.text for request in requests}) == 10


@modern
def test_endless_states_without_a_question_are_stopped(misbehaving: MisbehavingServer) -> None:
    content, is_error = misbehaving.calls("nothing")

    assert is_error
    assert "it has sent this one call back 10 times" in content
    assert misbehaving.recorded == []


@each_era
def test_an_endless_tool_list_is_abandoned(tmp_path: Path, era: str) -> None:
    with McpServers([spec(tmp_path, era, "pages")]) as servers:
        assert servers.problems == {
            "liar": "its list of tools is too long; at most 1000 tools on 100 pages are supported"
        }
        assert servers.tools == {"liar": []}


def test_an_unknown_protocol_version_is_rejected(tmp_path: Path) -> None:
    with McpServers([spec(tmp_path, LEGACY, "future")]) as servers:
        assert "2099-01-01" in servers.problems["liar"]


def test_duplicate_and_reserved_tool_names_are_dropped(tmp_path: Path) -> None:
    with McpServers([spec(tmp_path, MODERN, "twins")]) as servers:
        assert [tool.definition.name for tool in servers.tools["liar"]] == [
            "liar_honest",
            "liar_what_is",
        ]
        assert servers.left_out == {"liar": ["liar_honest", "liar_what_is"]}
    with McpServers([spec(tmp_path, MODERN, "twins")], reserved={"liar_honest"}) as servers:
        assert [tool.definition.name for tool in servers.tools["liar"]] == ["liar_what_is"]
