"""Programs of others from npm, beside the packages of the virtual environment: installed once, by whoever comes first."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Found = TypeVar("Found")

INSTALLED = Path(sys.prefix) / "agents"


class Missing(Exception):  # noqa: N818  it says what is the case
    """A program cannot be installed here, and why."""


def or_skip(find: Callable[[], Found]) -> Found:
    """Return what `find` returns; where that needs a program that is not to be had, skip the test, and say why."""
    try:
        return find()
    except Missing as missing:
        pytest.skip(str(missing))


def installed(name: str, *packages: str) -> Path:
    """Return the directory of a program's commands.

    Args:
        name: What its folder is called.
        packages: What is installed there, each with its version.

    Raises:
        Missing: npm is not there, or cannot install it.
    """
    folder = INSTALLED / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join(packages)
    with (INSTALLED / "lock").open("w") as lock:  # the tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "installed"
        if not done.exists() or done.read_text() != wanted:
            _install(folder, packages)
            done.write_text(wanted)
    return folder / "node_modules" / ".bin"


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    """Install with npm as this machine has it set up; what the package's own scripts take for a home is none of the user's."""
    own = {"HOME": str(INSTALLED), "npm_config_userconfig": str(Path.home() / ".npmrc")}
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env={**os.environ, **own})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{', '.join(packages)} cannot be installed: {error}") from error
    if done.returncode != 0:
        raise Missing(f"{', '.join(packages)} cannot be installed: {done.stderr[-500:]}")
