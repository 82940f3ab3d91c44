"""The check for invented decisions, which runs after each test of agents, servers and hooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.invented_decisions import invented_decisions

OURS: Mapping[str, Any] = {"type": "turn_start"}
ANOTHERS: Mapping[str, Any] = {"type": "turn_start", "metadata": {"asker": {"name": "Claude Code"}}}
PERSON = {"by": "user", "via": "inbox"}
ANSWER = {"type": "inquiry_response", "outcome": "answered", "answer": True}
CLOSED = {"type": "inquiry_response", "outcome": "cancelled"}
PERMIT = {"type": "approval", "kind": "run"}
READ = {"type": "tool_call_response"}

TRUE: dict[str, tuple[Mapping[str, Any], ...]] = {
    "a person's answer, read": (
        ANOTHERS,
        {**ANSWER, "answered_by": PERSON},
        {**READ, "content": "The user answered: yes"},
    ),
    "a person's no, read": (
        ANOTHERS,
        {**PERMIT, "state": "skipped", "answered_by": PERSON},
        {**READ, "content": "The user said no."},
    ),
    "a reply, read": (
        ANOTHERS,
        {**CLOSED, "reason": "reply"},
        {**READ, "content": "The user did not choose, and said: Why?"},
    ),
    "decided elsewhere": (
        ANOTHERS,
        {**PERMIT, "state": "superseded"},
        {**CLOSED, "reason": "superseded"},
    ),
    "it waits": (
        ANOTHERS,
        {**PERMIT, "state": "waiting"},
        {**READ, "content": "Nobody has answered yet. This is not a no."},
    ),
    "a model of ours": (OURS, {**ANSWER, "answered_by": {"by": "assistant", "model": "m"}}),
    "a configuration of ours": (
        OURS,
        {**PERMIT, "state": "skipped", "answered_by": {"by": "static", "origin": "midturn.toml"}},
    ),
    "a prompter of ours": (OURS, {**ANSWER, "answered_by": {"by": "user"}}),
    "nobody was there": (OURS, {**CLOSED, "reason": "no_prompt_backend"}),
}
FALSE: dict[str, tuple[Mapping[str, Any], ...]] = {
    "an answer of nobody": (ANOTHERS, ANSWER),
    "an answer of ours of nobody": (OURS, ANSWER),
    "a yes of nobody": (ANOTHERS, {**PERMIT, "state": "approved"}),
    "a no of nobody": (OURS, {**PERMIT, "state": "skipped"}),
    "a person who came from nowhere": (ANOTHERS, {**ANSWER, "answered_by": {"by": "user"}}),
    "a default in place of a person": (ANOTHERS, {**ANSWER, "answered_by": {"by": "default"}}),
    "a model without a name": (OURS, {**ANSWER, "answered_by": {"by": "assistant"}}),
    "a name for what nobody saw": (
        ANOTHERS,
        {**PERMIT, "state": "superseded", "answered_by": PERSON},
    ),
    "a refusal by the clock": (ANOTHERS, {**CLOSED, "reason": "detached_denied"}),
    "a no that was only told": (
        ANOTHERS,
        {**PERMIT, "state": "waiting"},
        {**READ, "content": "The user said no."},
    ),
    "an answer that was only told": (
        ANOTHERS,
        {**CLOSED, "reason": "superseded"},
        {**READ, "content": "The user answered: yes"},
    ),
}


def written(folder: Path, events: tuple[Mapping[str, Any], ...]) -> Path:
    file = folder / "home" / "data" / "1-a" / "events.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return folder


@pytest.mark.parametrize("case", TRUE)
def test_real_decisions_are_accepted(tmp_path: Path, case: str) -> None:
    assert invented_decisions(written(tmp_path, TRUE[case])) == []


@pytest.mark.parametrize("case", FALSE)
def test_invented_decisions_are_found(tmp_path: Path, case: str) -> None:
    assert len(invented_decisions(written(tmp_path, FALSE[case]))) == 1


@pytest.mark.parametrize(
    "text",
    ["The user said no.", '{"message": "The user answered: yes"}', "midturn: The user allowed it."],
)
def test_decision_told_to_an_agent_must_be_recorded(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path, (ANOTHERS, {**PERMIT, "state": "waiting"}))
    assert len(invented_decisions(folder, [text])) == 1
    assert invented_decisions(folder, ["Nobody has answered yet. This is not a no."]) == []


def test_recorded_decision_told_to_an_agent_is_accepted(tmp_path: Path) -> None:
    folder = written(tmp_path, (ANOTHERS, {**PERMIT, "state": "skipped", "answered_by": PERSON}))
    assert (
        invented_decisions(folder, ['{"permissionDecisionReason": "The user said no: Not now."}'])
        == []
    )


def test_damaged_line_does_not_hide_other_lines(tmp_path: Path) -> None:
    folder = written(tmp_path, (ANOTHERS, ANSWER))
    with next(folder.rglob("events.jsonl")).open("ab") as file:
        file.write(b'\xff{"type": "inq')
    assert len(invented_decisions(folder)) == 1
