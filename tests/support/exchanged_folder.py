"""Somebody who exchanges a folder and a link that leads out, over and over."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exchanged(root: Path, name: str) -> Generator[None]:
    """Make `a/<name>` in `root`, which holds `inside`; while the block runs, `a` and a link to what is above `root` change places."""
    (root / "a").mkdir(parents=True)
    (root / "a" / name).write_text("inside")
    (root / "b").symlink_to("..")
    stop = threading.Event()

    def attack() -> None:
        while not stop.is_set():
            for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
                (root / old).rename(root / new)

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        yield
    finally:
        stop.set()
        attacker.join()
