"""The page of what agents of others ask."""

from __future__ import annotations

import asyncio
from pathlib import Path

from midturn.integrations.hooks.clients import AGENTS
from midturn.question.json_value import JsonObject
from midturn.stores.opening import FileStore
from midturn.web import inbox
from support.clocks import FakeClock
from support.hook_runs import CLAUDE_ALONE, HookRuns
from support.pages import ada, browsing


def test_nothing_is_put_into_the_mouth_of_a_user_whose_words_nobody_here_has_heard(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    arguments: JsonObject = {"command": "touch made"}
    call: JsonObject = {"hook_event_name": "PermissionRequest", "session_id": "s1", "tool_name": "Bash", "tool_input": arguments}
    asyncio.run(HookRuns(store, AGENTS["claude"], CLAUDE_ALONE).run(call, FakeClock(), wait=0))
    (question,) = asyncio.run(store.pending())

    with browsing(inbox(store, user=ada)) as browser:
        shown = browser.get(f"/q/{question.id}").text

    assert "touch made" in shown
    assert "What was said before" not in shown
