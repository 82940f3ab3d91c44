"""A fake disk that fails on purpose: writing system calls are counted and refused."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from typing import Any

import pytest

WRITING = (
    "write",
    "fdatasync",
    "fsync",
    "rename",
    "replace",
    "link",
    "symlink",
    "mkdir",
    "ftruncate",
    "pwrite",
)


class FaultyDisk:
    """Lets every call through until `fail` is called.

    With `once`, a single call fails, like on a disk with one bad block. Otherwise all calls of
    the kind fail until `heal`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._kind = ""
        self._countdown = 0
        self._errno = 0
        self._once = False
        self.refused = 0
        for name in WRITING:
            monkeypatch.setattr(os, name, self._guarded(name, getattr(os, name)))
        monkeypatch.setattr(fcntl, "flock", self._guarded("flock", fcntl.flock))

    def fail(self, kind: str, error: int, *, after: int = 0, once: bool = False) -> None:
        """Refuse calls of a kind after `after` successful ones. `short write` writes a part
        first.
        """
        self._kind, self._errno, self._countdown, self._once = kind, error, after, once
        self.refused = 0

    def heal(self) -> None:
        """Let calls succeed again."""
        self._kind = ""

    def _guarded(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if self._kind != (f"short {name}" if self._kind.startswith("short") else name):
                return original(*given, **named)
            if self._countdown > 0:
                self._countdown -= 1
                return original(*given, **named)
            self.refused += 1
            if self._kind == "short write" and self.refused == 1 and len(given[1]) > 1:
                return original(given[0], bytes(given[1])[: len(given[1]) // 2])
            if self._once:
                self.heal()
            raise OSError(self._errno, os.strerror(self._errno))

        return call
