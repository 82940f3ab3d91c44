"""Askers in separate processes: one is killed while its question is open, one runs in another
PID namespace.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NoReturn

import midturn as mt
from midturn.security.process_ancestry import namespace
from midturn.stores.store import ConversationStore
from support.hooks import until

_NEW_MOUNTS, _NEW_USERS, _NEW_PIDS = 0x00020000, 0x10000000, 0x20000000
_PRIVATE = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
_DIES_WITH_ITS_PARENT = 1  # PR_SET_PDEATHSIG


class SilentPrompter(mt.Prompter):
    """A prompter that never replies."""

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Wait for an answer through another interface."""
        await asyncio.Event().wait()
        raise AssertionError(prompt)


class AskerInProcess:
    """An asker that can ask in a separate process. `hold` runs there; `held` then updates the
    asker here.
    """

    process = 0

    @property
    def store(self) -> ConversationStore:
        raise NotImplementedError

    def hold(self) -> None:
        """Make the call and keep the turn locked while its question is open."""
        raise NotImplementedError

    def held(self) -> None:
        """Load the turn that another process has started."""

    def die(self) -> None:
        """Make the call in a process that is killed while its question is open."""
        self.process = forked(self.hold)
        until(self.store.pending_sync, bool)
        os.kill(self.process, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1]) == -signal.SIGKILL
        self.held()

    def begin_in_namespace(self) -> None:
        """Make the call in another PID namespace, where the turn stays locked."""
        self.process = forked(lambda: _in_namespace(self.hold))
        until(self.store.pending_sync, bool)
        self.held()

    def end_in_namespace(self) -> None:
        """Wait until the process in the other namespace has finished the turn."""
        assert os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1]) == 0


@cache
def no_namespace() -> str:
    """Return why this machine cannot create a PID namespace, or an empty string if it can."""
    done = os.waitpid(forked(lambda: _in_namespace(lambda: None)), 0)[1]
    return (
        ""
        if os.waitstatus_to_exitcode(done) == 0
        else "this machine allows no PID namespace to be made (unshare)"
    )


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a forked child; return its process ID. Its exit status is 0 unless an
    exception is raised.
    """
    child = os.fork()
    return child or _do(work)


def _do(work: Callable[[], None]) -> NoReturn:
    try:
        _checked(ctypes.CDLL(None, use_errno=True).prctl(_DIES_WITH_ITS_PARENT, signal.SIGKILL))
        gc.disable()  # garbage collection would copy all shared memory pages
        work()
    except BaseException:  # noqa: BLE001  as an interpreter ends that nothing has caught
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def _in_namespace(work: Callable[[], None]) -> None:
    """Run `work` as `unshare --pid --mount-proc --fork` does: as process 1, which sees no
    other process.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    _checked(libc.unshare(_NEW_PIDS | _NEW_MOUNTS | (_NEW_USERS if user else 0)))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")

    def first() -> None:
        assert os.getpid() == 1
        namespace.cache_clear()
        _checked(libc.mount(b"none", b"/", None, _PRIVATE, None))
        _checked(libc.mount(b"proc", b"/proc", b"proc", 0, None))
        work()

    child = forked(first)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _checked(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
