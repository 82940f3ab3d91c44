"""Inboxes in which so many questions of an agent wait that no more of them are taken."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from midturn.cli.command_context import place_in
from midturn.clock import SYSTEM
from midturn.events.open_question import Asker
from midturn.integrations.hooks import external_call
from midturn.integrations.hooks.external_call import Errand
from midturn.integrations.hooks.external_calls import Errands
from midturn.stores.store import ConversationStore
from support.cli import CommandLine


def flood(midturn: CommandLine, name: str, agent: str, session: str, count: int = external_call.MOST) -> ConversationStore:
    """Ask so often in a session of an agent where a user of `midturn` has the inbox of other agents; return where that is."""
    with patch.dict(os.environ, midturn.environment, clear=True):
        store = place_in(Path(midturn.root), None).store
    asker = Asker(name=name, agent=agent, session=session, via="hook", cwd=str(midturn.root))
    asyncio.run(_asked(Errands(store, asker, SYSTEM), count))
    return store


async def _asked(errands: Errands, count: int) -> Sequence[Errand]:
    return [await errands.permission("", "Bash", {"command": f"flood {number}"}) for number in range(count)]
