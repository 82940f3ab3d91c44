"""Servers that keep to nothing: a model reads what happened, no question stays behind, nothing hangs, nobody is spoken for."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn import Replied, events
from midturn.mcp.bounded_http import TOO_MUCH
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from support.hooks import until
from support.liar import Liar

SERVER = Path(__file__).parents[1] / "support" / "lying_mcp_server.py"
HUGE = 4_000_000
"""Characters of what is too much for a model."""
OVERLONG = int(os.environ.get("MIDTURN_HUGE", "17_000_000"))
"""Characters of what is too much for a message; 100_000_000 for the long form."""
LEGACY, MODERN = "legacy", "modern"
pytestmark = pytest.mark.timeout(120)
each_era = pytest.mark.parametrize("era", [LEGACY, MODERN])
legacy = pytest.mark.parametrize("era", [LEGACY])
modern = pytest.mark.parametrize("era", [MODERN])


def spec(directory: Path, *arguments: str) -> ServerSpec:
    environment = {**os.environ, "HUGE": str(HUGE), "OVERLONG": str(OVERLONG)}
    return ServerSpec(name="liar", command=(sys.executable, str(SERVER), *arguments), environment=environment, cwd=str(directory))


@pytest.fixture
def liar(era: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Liar]:
    with McpServers([spec(tmp_path, era)], silence={"liar_deaf": 0.3}) as servers:
        assert servers.problems == {}
        yield Liar(servers, tmp_path)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@legacy
def test_what_is_asked_for_a_call_that_is_over_is_shown_to_nobody(liar: Liar) -> None:
    assert liar.calls("late") == ("It is done.", False)
    assert liar.recorded == []
    assert liar.heard() == [{"action": "cancel"}]
    assert liar.calls("honest") == ("Yes.", False)


@modern
def test_who_may_not_ask_by_itself_is_refused(liar: Liar) -> None:
    assert liar.calls("late") == ("It is done.", False)
    assert liar.recorded == []
    assert [answer["message"] for answer in liar.heard()] == ["Method not found"]


@legacy
def test_a_question_whose_call_ends_meanwhile_is_withdrawn(liar: Liar) -> None:
    assert liar.calls("early", liar.is_looked_at()) == ("It is done.", False)
    _, withdrawn = liar.recorded
    assert (withdrawn.outcome, withdrawn.reason) == ("cancelled", "superseded")
    assert liar.heard() == [{"action": "cancel"}]
    assert liar.calls("honest") == ("Yes.", False)


@each_era
def test_a_turn_that_somebody_ends_at_a_question_cancels_it(liar: Liar) -> None:
    """The server hears that the question was cancelled, and not only that nobody waits for the call any more."""
    content, is_error = liar.ends_at("asks")

    assert (content, is_error) == ("Tool input cancelled by user.", True)
    assert liar.heard() == [{"action": "cancel"}]


@legacy
def test_a_tool_that_is_called_as_a_task_only_asks_while_it_works(liar: Liar, tmp_path: Path) -> None:
    def look(prompt: object) -> bool:
        del prompt
        until((tmp_path / "looked").exists, bool)  # the server is asked how its task goes, while somebody looks at its question
        return True

    assert liar.calls("task", look) == ("It is done.", False)
    assert liar.heard() == [{"action": "accept", "content": {"sure": True}}]


@legacy
def test_a_turn_that_somebody_ends_cancels_the_task_too(liar: Liar, tmp_path: Path) -> None:
    assert liar.ends_at("task") == ("Tool input cancelled by user.", True)
    assert liar.heard() == [{"action": "cancel"}]
    until((tmp_path / "cancelled").exists, bool)


@legacy
def test_a_server_that_dies_while_somebody_looks_at_its_question(liar: Liar) -> None:
    content, is_error = liar.calls("dies", liar.is_looked_at())

    assert is_error
    assert "the MCP server `liar` has gone away" in content
    assert "I am dying." in content
    _, withdrawn = liar.recorded
    assert (withdrawn.outcome, withdrawn.reason) == ("cancelled", "superseded")
    assert liar.calls("honest") == ("Yes.", False), "it is started again"


@each_era
def test_a_server_that_hears_nothing_of_being_given_up_serves_the_next_call(liar: Liar) -> None:
    content, is_error = liar.calls("deaf")

    assert (content, is_error) == ("`liar_deaf`: the MCP server `liar` was given up: it was silent for 0.3 seconds.", True)
    assert liar.calls("honest") == ("Yes.", False)


@each_era
def test_too_much_is_cut_and_says_so(liar: Liar) -> None:
    content, is_error = liar.calls("huge")

    assert not is_error
    assert len(content) < HUGE // 10
    assert content.strip("x"), "it says that something is missing"
    assert liar.calls("honest") == ("Yes.", False)


@pytest.mark.parametrize("lie", ["forward", "backward"])
@each_era
def test_a_result_that_is_too_long_to_be_taken_costs_its_own_call_only(liar: Liar, lie: str) -> None:
    assert liar.calls_at_once(lie, "honest") == [
        (f"`liar_{lie}`: the MCP server `liar` gave a result that cannot be used: {TOO_MUCH}", True),
        ("Yes.", False),
    ]


@pytest.mark.parametrize(
    ("lie", "why"), [("babbling", "it sent a message of more than 16 MB"), ("unending", "it sent a message without end")]
)
@each_era
def test_a_server_that_cannot_be_listened_to_is_left_and_started_again(liar: Liar, lie: str, why: str) -> None:
    assert liar.calls(lie) == (f"`liar_{lie}`: the MCP server `liar` has gone away: {why}", True)
    assert liar.calls("honest") == ("Yes.", False)


@each_era
def test_a_result_that_does_not_fit_its_own_schema_is_an_error_that_says_how(liar: Liar) -> None:
    content, is_error = liar.calls("unfit")

    assert is_error
    assert "the MCP server `liar` gave a result that cannot be used" in content
    assert "its structured content does not fit its own schema: /n: " in content
    assert "Traceback" not in content


@each_era
def test_a_result_whose_schema_would_take_for_ever_is_read_at_once(liar: Liar) -> None:
    """A pattern that others match in exponential time, on a text of the server's, and references in a circle."""
    assert liar.calls("slow") == ("Yes.", False)
    assert liar.calls("circle") == ("Yes.", False)


def _nothing_fits(_: object) -> Replied:
    return Replied("Nothing fits that.")


@legacy
def test_a_form_that_no_answer_fits_is_shown_to_a_person_who_decides(liar: Liar) -> None:
    """The person sees what the server asks, and that nothing fits it: nobody decides in their place."""
    content, is_error = liar.calls("impossible", _nothing_fits)

    assert not is_error
    assert content.endswith("It was told `decline`.\nIt returned:\nIt is done.") or "told `decline`" in content
    asked = [event.question.context or "" for event in liar.recorded if isinstance(event, events.InquiryRequest)]
    assert len(asked) == 5
    assert sum("JSON Schema" in context for context in asked) >= 3
    assert liar.heard(5) == [{"action": "decline"}] * 5


@pytest.mark.parametrize("lie", ["strange", "numbers"])
@each_era
def test_a_result_that_is_not_in_the_protocol_is_an_error(liar: Liar, lie: str) -> None:
    content, is_error = liar.calls(lie)

    assert is_error
    assert "answered with something that is not in the protocol: " in content
    assert "banana" not in content
    assert liar.calls("honest") == ("Yes.", False)


@modern
def test_the_same_question_again_and_again_is_asked_a_few_times_and_answered_by_nobody_else(liar: Liar) -> None:
    assert liar.calls("same") == (
        "liar_same: stopped after 3 identical questions (limits.repeats). Do not retry this tool call in this turn.",
        True,
    )
    outcomes = [event.outcome for event in liar.recorded if not isinstance(event, events.InquiryRequest)]
    assert outcomes == ["answered", "answered", "answered", "cancelled"]


STOPPED = "liar_{lie}: stopped after {what}. Do not retry this tool call in this turn."


@legacy
def test_a_form_that_is_hard_to_show_is_not_asked_for_ever(liar: Liar) -> None:
    assert liar.calls("pesters") == (STOPPED.format(lie="pesters", what="3 identical questions (limits.repeats)"), True)
    assert liar.calls("honest") == ("Yes.", False)


@legacy
def test_the_same_question_of_an_older_server_is_asked_a_few_times_too(liar: Liar) -> None:
    assert liar.calls("again") == (STOPPED.format(lie="again", what="3 identical questions (limits.repeats)"), True)
    outcomes = [event.outcome for event in liar.recorded if not isinstance(event, events.InquiryRequest)]
    assert outcomes == ["answered", "answered", "answered", "cancelled"]
    assert liar.calls("honest") == ("Yes.", False)


@each_era
def test_ten_thousand_questions_at_once_end_the_call_and_none_stays_open(liar: Liar) -> None:
    content, is_error = liar.calls("crowds")

    assert is_error
    assert content == STOPPED.format(lie="crowds", what="100 questions in one call")
    requests = [event for event in liar.recorded if isinstance(event, events.InquiryRequest)]
    assert len(requests) * 2 == len(liar.recorded) <= 200
    assert liar.calls("honest") == ("Yes.", False)


@modern
def test_a_call_that_asks_too_much_leaves_the_calls_beside_it_alone(liar: Liar) -> None:
    crowds, honest = liar.calls_at_once("crowds", "honest")

    assert crowds == (STOPPED.format(lie="crowds", what="100 questions in one call"), True)
    assert honest == ("Yes.", False)


@legacy
def test_a_form_that_is_made_of_itself_is_answered_as_json(liar: Liar) -> None:
    assert liar.calls("recursive") == ("It is done.", False)
    (asked, _) = liar.recorded
    assert asked.question.answer_type.type == "schema"
    assert "It is checked against this JSON Schema by the program that asks:" in asked.question.context
    assert liar.heard() == [{"action": "accept", "content": {"sure": True}}]


@legacy
def test_two_questions_under_one_number_are_two_questions(liar: Liar) -> None:
    assert liar.calls("repeats") == ("It is done.", False)
    assert [answer["action"] for answer in liar.heard(2)] == ["accept", "accept"]
    assert len(liar.recorded) == 4


@modern
def test_questions_without_end_come_to_an_end_and_what_was_said_is_recorded(liar: Liar) -> None:
    content, is_error = liar.calls("endless")

    assert is_error
    assert "it has sent this one call back 10 times" in content
    requests = [event for event in liar.recorded if isinstance(event, events.InquiryRequest)]
    assert len(requests) == len(liar.recorded) // 2 == 10
    assert len({request.question.text for request in requests}) == 10


@modern
def test_a_state_without_a_question_comes_to_an_end_and_nobody_is_asked(liar: Liar) -> None:
    content, is_error = liar.calls("nothing")

    assert is_error
    assert "it has sent this one call back 10 times" in content
    assert liar.recorded == []


@each_era
def test_tools_without_end_are_not_waited_for(tmp_path: Path, era: str) -> None:
    with McpServers([spec(tmp_path, era, "pages")]) as servers:
        assert servers.problems == {"liar": "it lists tools without end; at most 1000 are taken, on 100 pages"}
        assert servers.tools == {"liar": []}


def test_a_protocol_of_later_is_no_protocol_that_we_know(tmp_path: Path) -> None:
    with McpServers([spec(tmp_path, LEGACY, "future")]) as servers:
        assert "2099-01-01" in servers.problems["liar"]


def test_one_name_is_one_tool_and_a_reserved_one_is_not_a_tool(tmp_path: Path) -> None:
    with McpServers([spec(tmp_path, MODERN, "twins")]) as servers:
        assert [tool.definition.name for tool in servers.tools["liar"]] == ["liar_honest", "liar_what_is"]
        assert servers.left_out == {"liar": ["liar_honest", "liar_what_is"]}
    with McpServers([spec(tmp_path, MODERN, "twins")], reserved={"liar_honest"}) as servers:
        assert [tool.definition.name for tool in servers.tools["liar"]] == ["liar_what_is"]
