"""npm programs for tests, installed once next to the packages of the virtual environment."""

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


class Missing(Exception):  # noqa: N818  the name describes a state
    """A program cannot be installed; the message is the reason."""


def or_skip(find: Callable[[], Found]) -> Found:
    """Return the result of `find`. If it needs a program that cannot be installed, skip the test
    with the reason.
    """
    try:
        return find()
    except Missing as missing:
        pytest.skip(str(missing))


def installed(name: str, *packages: str, scripts: bool = True) -> Path:
    """Return the directory of a program's commands.

    Args:
        name: Name of its directory.
        packages: npm packages to install, each with its version.
        scripts: Whether the packages may run their install scripts.

    Raises:
        Missing: npm is missing or cannot install the packages.
    """
    folder = INSTALLED / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join(packages)
    with (INSTALLED / "lock").open("w") as lock:  # the tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "installed"
        if not done.exists() or done.read_text() != wanted:
            _install(folder, packages, scripts=scripts)
            done.write_text(wanted)
    return folder / "node_modules" / ".bin"


def _install(folder: Path, packages: tuple[str, ...], *, scripts: bool) -> None:
    """Install with the user's npm configuration, but with another home directory for the
    packages' install scripts.
    """
    own = {"HOME": str(INSTALLED), "npm_config_userconfig": str(Path.home() / ".npmrc")}
    options = ["--no-audit", "--no-fund", *([] if scripts else ["--ignore-scripts"])]
    command = ["npm", "install", *options, "--prefix", str(folder), *packages]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={**os.environ, **own},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{', '.join(packages)} cannot be installed: {error}") from error
    if done.returncode != 0:
        raise Missing(f"{', '.join(packages)} cannot be installed: {done.stderr[-500:]}")
