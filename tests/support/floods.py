"""Inboxes in which so many questions of an agent wait that no more of them are taken."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from midturn.cli.place import place_in
from midturn.clock import SYSTEM
from midturn.foreign import errand
from midturn.foreign.errand import Errand
from midturn.foreign.errands import Errands
from midturn.record.open_question import Asker
from midturn.store.store import ConversationStore
from support.cli import CommandLine


def flood(midturn: CommandLine, name: str, agent: str, session: str, count: int = errand.MOST) -> ConversationStore:
    """Ask so often in a session of an agent where a user of `midturn` has the inbox of other agents; return where that is."""
    with patch.dict(os.environ, midturn.environment, clear=True):
        store = place_in(Path(midturn.root), None).store
    asker = Asker(name=name, agent=agent, session=session, via="hook", cwd=str(midturn.root))
    asyncio.run(_asked(Errands(store, asker, SYSTEM), count))
    return store


async def _asked(errands: Errands, count: int) -> Sequence[Errand]:
    return [await errands.permission("", "Bash", {"command": f"flood {number}"}) for number in range(count)]
