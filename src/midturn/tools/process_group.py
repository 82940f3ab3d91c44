"""A group of processes, as one thing to signal and to wait for."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

_POLL = 0.02
_PROC = Path("/proc")


class ProcessGroup:
    """All processes of the group that `leader` founded. Once all are gone and reaped, its number may belong to others."""

    def __init__(self, leader: int) -> None:
        self._id = leader

    def signal(self, number: int) -> bool:
        """Send a signal to all; False when nobody of ours is left."""
        try:
            os.killpg(self._id, number)
        except (ProcessLookupError, PermissionError):  # what is left and runs as another user is not ours to end
            return False
        return True

    async def gone(self, seconds: float) -> None:
        """Wait until nobody lives in the group, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.signal(0) and self._lives():  # noqa: ASYNC110 (nothing tells when a group is empty)
                    await asyncio.sleep(_POLL)

    def _lives(self) -> bool:
        """Look past the zombies, which stay for ever where the first process of a container reaps nobody."""
        if not (_PROC / "self/stat").exists():
            return True
        return any(self._is_living_member(folder) for folder in _PROC.iterdir() if folder.name.isdigit())

    def _is_living_member(self, folder: Path) -> bool:
        try:
            after_name = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it is gone
            return False
        state, _, group = after_name[:3]
        return int(group) == self._id and state not in "ZX"
