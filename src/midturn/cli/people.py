"""The configured people and groups, reloaded while a server runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from midturn.config.load import LoadRequest, load
from midturn.errors import ConfigError
from midturn.question.people import Directory

_LOG = logging.getLogger(__name__)
_PEOPLE_SECONDS = 1.0
"""Seconds for which configured people are cached. A server looks them up for each answer and each
message on a channel.
"""
_PEOPLE: dict[tuple[Path, Path | None], tuple[float, Directory]] = {}


def people_in(cwd: Path, root: Path | None, environment: Mapping[str, str]) -> Directory:
    """Return the people and groups in the configuration of a directory.

    `root` is the workspace that contains the directory. If the configuration is now invalid, the
    last valid version is used.

    Raises:
        ConfigError: The configuration is invalid, and no valid version was read before.
    """
    read_at, known = _PEOPLE.get((cwd, root), (0.0, None))
    if known is not None and time.monotonic() - read_at < _PEOPLE_SECONDS:
        return known
    try:
        found = load(LoadRequest(cwd=cwd, root=root, environment=environment)).settings.directory
    except ConfigError as error:
        if known is None:
            raise
        _LOG.warning("invalid configuration; keeping its previous people and groups: %s", error)
        found = known
    _PEOPLE[cwd, root] = (time.monotonic(), found)
    return found
