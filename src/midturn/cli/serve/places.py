"""What a server leaves where only its user can read it: its keys, and how it is reached."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

from msgspec import Struct

from midturn.config.places import state_directory
from midturn.errors import ConfigError, NotOpen
from midturn.files.private import ensure_private, write_private

_NAME = "server.json"


class Running(Struct, frozen=True):
    """A server that runs."""

    port: int
    url: str
    directory: Path


def directory_of(port: int) -> Path:
    """Return the directory of the server at a port."""
    return _all() / str(port)


def announce(port: int, url: str) -> None:
    """Say that a server runs."""
    directory = directory_of(port)
    ensure_private(directory)
    write_private(directory / _NAME, json.dumps({"pid": os.getpid(), "url": url}).encode())


def withdraw(port: int) -> None:
    """Say that it runs no more."""
    (directory_of(port) / _NAME).unlink(missing_ok=True)


def find_running(port: int | None) -> Running:
    """Return the server that is meant: the one at `port`, or the only one.

    Raises:
        NotOpen: None runs there.
        ConfigError: Several run.
    """
    running = [found for path in sorted(_all().glob(f"*/{_NAME}")) if (found := _read(path))]
    meant = [one for one in running if port in (None, one.port)]
    if not meant:
        raise NotOpen(
            "No server of yours runs here. `midturn serve` starts one." if port is None else f"No server of yours runs at {port}."
        )
    if len(meant) > 1:
        ports = ", ".join(str(one.port) for one in meant)
        raise ConfigError(f"Several servers run, at the ports {ports}. Say which one is meant with `--port`.")
    return meant[0]


def _read(path: Path) -> Running | None:
    try:
        read = cast("dict[str, object]", json.loads(path.read_text()))
        os.kill(int(str(read["pid"])), 0)
        return Running(int(path.parent.name), str(read["url"]), path.parent)
    except (OSError, ValueError, KeyError, TypeError):  # it is gone, or never was one
        return None


def _all() -> Path:
    return state_directory() / "serve"
