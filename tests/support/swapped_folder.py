"""An attacker that repeatedly swaps a folder with a symlink that leads outside."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def swapping_with_symlink(root: Path, name: str) -> Generator[None]:
    """Create the file `a/<name>` with the text `inside` in `root`. While the block runs, a thread
    swaps `a` with a symlink to the parent of `root`.
    """
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
