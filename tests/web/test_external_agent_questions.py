"""The page of questions of external agents."""

from __future__ import annotations

import asyncio
from pathlib import Path

from midturn.integrations.hooks.clients import AGENTS
from midturn.question.json_value import JsonObject
from midturn.stores.opening import FileStore
from midturn.web import inbox
from support.clocks import FakeClock
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns
from support.pages import ada, browsing


def test_no_user_message_is_shown_if_none_is_recorded(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    arguments: JsonObject = {"command": "touch made"}
    call: JsonObject = {
        "hook_event_name": "PermissionRequest",
        "session_id": "s1",
        "tool_name": "Bash",
        "tool_input": arguments,
    }
    asyncio.run(HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED).run(call, FakeClock(), wait=0))
    (question,) = asyncio.run(store.pending())

    with browsing(inbox(store, user=ada)) as browser:
        shown = browser.get(f"/q/{question.id}").text

    assert "touch made" in shown
    assert "Conversation so far" not in shown
