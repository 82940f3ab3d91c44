"""The check at the end of every test of agents, servers and hooks: what it finds, and what it lets be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.no_lie import lies

OURS: Mapping[str, Any] = {"type": "turn_start"}
ANOTHERS: Mapping[str, Any] = {"type": "turn_start", "metadata": {"asker": {"name": "Claude Code"}}}
PERSON = {"by": "user", "via": "inbox"}
ANSWER = {"type": "inquiry_response", "outcome": "answered", "answer": True}
CLOSED = {"type": "inquiry_response", "outcome": "cancelled"}
PERMIT = {"type": "approval", "kind": "run"}
READ = {"type": "tool_call_response"}

TRUE: dict[str, tuple[Mapping[str, Any], ...]] = {
    "a person's answer, read": (ANOTHERS, {**ANSWER, "answered_by": PERSON}, {**READ, "content": "The user answered: yes"}),
    "a person's no, read": (ANOTHERS, {**PERMIT, "state": "skipped", "answered_by": PERSON}, {**READ, "content": "The user said no."}),
    "a reply, read": (ANOTHERS, {**CLOSED, "reason": "reply"}, {**READ, "content": "The user did not choose, and said: Why?"}),
    "decided elsewhere": (ANOTHERS, {**PERMIT, "state": "superseded"}, {**CLOSED, "reason": "superseded"}),
    "it waits": (ANOTHERS, {**PERMIT, "state": "waiting"}, {**READ, "content": "Nobody has answered yet. This is not a no."}),
    "a model of ours": (OURS, {**ANSWER, "answered_by": {"by": "assistant", "model": "m"}}),
    "a configuration of ours": (OURS, {**PERMIT, "state": "skipped", "answered_by": {"by": "static", "origin": "midturn.toml"}}),
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
    "a name for what nobody saw": (ANOTHERS, {**PERMIT, "state": "superseded", "answered_by": PERSON}),
    "a refusal by the clock": (ANOTHERS, {**CLOSED, "reason": "detached_denied"}),
    "a no that was only told": (ANOTHERS, {**PERMIT, "state": "waiting"}, {**READ, "content": "The user said no."}),
    "an answer that was only told": (ANOTHERS, {**CLOSED, "reason": "superseded"}, {**READ, "content": "The user answered: yes"}),
}


def written(folder: Path, events: tuple[Mapping[str, Any], ...]) -> Path:
    file = folder / "home" / "data" / "1-a" / "events.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return folder


@pytest.mark.parametrize("case", TRUE)
def test_what_was_decided_by_somebody_is_no_lie(tmp_path: Path, case: str) -> None:
    assert lies(written(tmp_path, TRUE[case])) == []


@pytest.mark.parametrize("case", FALSE)
def test_what_nobody_decided_is_found(tmp_path: Path, case: str) -> None:
    assert len(lies(written(tmp_path, FALSE[case]))) == 1


@pytest.mark.parametrize("text", ["The user said no.", '{"message": "The user answered: yes"}', "midturn: The user allowed it."])
def test_what_an_agent_only_hears_has_to_be_on_record(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path, (ANOTHERS, {**PERMIT, "state": "waiting"}))
    assert len(lies(folder, [text])) == 1
    assert lies(folder, ["Nobody has answered yet. This is not a no."]) == []


def test_what_an_agent_hears_is_true_where_it_is_on_record(tmp_path: Path) -> None:
    folder = written(tmp_path, (ANOTHERS, {**PERMIT, "state": "skipped", "answered_by": PERSON}))
    assert lies(folder, ['{"permissionDecisionReason": "The user said no: Not now."}']) == []


def test_a_damaged_line_hides_no_other(tmp_path: Path) -> None:
    folder = written(tmp_path, (ANOTHERS, ANSWER))
    with next(folder.rglob("events.jsonl")).open("ab") as file:
        file.write(b'\xff{"type": "inq')
    assert len(lies(folder)) == 1
