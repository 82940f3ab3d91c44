"""Any JSON is a run, or is rejected with a status."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, strategies as st

from midturn.integrations.agui.run_input import (
    InputRejected,
    ResumeEntry,
    RunInput,
    parse_run_input,
)
from support.json_values import JSON, TEXTS

IDS = st.text("ab:/é ~", min_size=1, max_size=5) | JSON
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "new"]) | JSON},
    optional={"id": IDS, "content": JSON | st.lists(st.fixed_dictionaries({"type": TEXTS}))},
)
MIDTURN = st.fixed_dictionaries(
    {}, optional={"refresh": JSON, "end_turn": JSON, "decline": JSON, "reply": JSON}
)
ENTRIES = st.fixed_dictionaries(
    {"interruptId": IDS, "status": st.sampled_from(["resolved", "cancelled"]) | JSON},
    optional={"payload": JSON, "metadata": st.fixed_dictionaries({"midturn": MIDTURN}) | JSON},
)
RUNS = st.fixed_dictionaries(
    {"threadId": IDS, "runId": IDS, "messages": st.lists(MESSAGES, max_size=4) | JSON},
    optional={
        "protocolVersion": st.sampled_from(["1.0", "1.1", "2.0"]) | JSON,
        "resume": st.lists(ENTRIES, max_size=3) | JSON,
        "tools": st.lists(JSON) | JSON,
        "context": st.lists(JSON) | JSON,
        "forwardedProps": JSON,
        "state": JSON,
    },
)


def read(body: bytes) -> RunInput | None:
    """Return a run; None if it is rejected. No other error is raised."""
    try:
        return parse_run_input(body)
    except InputRejected:
        return None


@given(RUNS | JSON)
def test_any_json_is_read_or_rejected(body: Any) -> None:
    found = read(msgspec.json.encode(body))
    if found is None:
        return
    assert found.thread
    assert found.run
    assert all(isinstance(entry, ResumeEntry) for entry in found.entries)
    assert all(message.id for message in found.messages)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_rejected(body: bytes) -> None:
    assert read(body) is None  # 40 bytes are too few


@given(st.lists(st.sampled_from(["user", "assistant"]), max_size=6), st.sets(st.integers(0, 5)))
def test_new_messages_are_those_at_the_end_that_are_not_recorded(
    roles: list[str], recorded: set[int]
) -> None:
    messages = [
        {"id": f"{place}", "role": role, "content": "x"} for place, role in enumerate(roles)
    ]
    body = {"threadId": "t", "runId": "r", "messages": messages}
    given_input = parse_run_input(msgspec.json.encode(body))
    new = [
        int(message.id)
        for message in given_input.new_messages(frozenset(str(place) for place in recorded))
    ]
    assert new == [*range(len(roles) - len(new), len(roles))]
    assert all(roles[place] == "user" and place not in recorded for place in new)
    before = len(roles) - len(new) - 1
    assert before < 0 or roles[before] != "user" or before in recorded
