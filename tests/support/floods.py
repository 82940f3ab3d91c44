"""Inboxes that an agent has filled with as many open questions as are allowed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from midturn.cli.command_context import place_in
from midturn.clock import SYSTEM
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks import external_call
from midturn.integrations.hooks.external_call import ExternalCall
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.stores.store import ConversationStore
from support.cli import CommandLine


def flood(
    midturn: CommandLine,
    name: str,
    agent: str,
    session: str,
    count: int = external_call.MAX_OPEN_PER_SESSION,
) -> ConversationStore:
    """Ask `count` questions in one session of an agent, in the inbox for other agents of the user
    of `midturn`; return its store.
    """
    with patch.dict(os.environ, midturn.environment, clear=True):
        store = place_in(Path(midturn.root), None).store
    asker = AskingAgent(name=name, agent=agent, session=session, via="hook", cwd=str(midturn.root))
    asyncio.run(_asked(ExternalCallService(store, asker, SYSTEM), count))
    return store


async def _asked(calls: ExternalCallService, count: int) -> Sequence[ExternalCall]:
    return [
        await calls.permission("", "Bash", {"command": f"flood {number}"})
        for number in range(count)
    ]
