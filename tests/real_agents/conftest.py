from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine
from support.hooks import answers, stored
from support.installed import installed, or_skip


@pytest.fixture(scope="session")
def claude_program() -> Path:
    """Claude Code from npm, beside the packages of the virtual environment."""
    return or_skip(lambda: installed("claude", "@anthropic-ai/claude-code@2.1.330")) / "claude"


@pytest.fixture
def midturn(tmp_path: Path) -> Iterator[CommandLine]:
    """A user with a home and a workspace. Whatever the test did: nothing is on record that nobody decided."""
    user = CommandLine(tmp_path)
    yield user
    decided = [event for events in stored(user) for event in answers(events)]
    assert [event for event in decided if not _is_true(event)] == []


def _is_true(event: Mapping[str, Any]) -> bool:
    """Say whether a person decided this, whom no model and no configuration of these tests replaces; or nobody here knows who did."""
    if "superseded" in (event.get("state"), event.get("reason")):
        return "answered_by" not in event
    return event.get("answered_by", {}).get("by") == "user" or event.get("reason") in {"user", "reply"}
