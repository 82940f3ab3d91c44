"""People of the configuration, as they are when somebody answers."""

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
"""Seconds for which the people of a configuration are used again: a server asks for them at every answer and card."""
_PEOPLE: dict[tuple[Path, Path | None], tuple[float, Directory]] = {}


def people_in(cwd: Path, root: Path | None, environment: Mapping[str, str]) -> Directory:
    """Return the people that the configuration of a directory, and of the workspace `root` around it, names now.

    A configuration that became wrong is not read: the people are those that it named before.

    Raises:
        ConfigError: It is wrong, and was not read before.
    """
    read_at, known = _PEOPLE.get((cwd, root), (0.0, None))
    if known is not None and time.monotonic() - read_at < _PEOPLE_SECONDS:
        return known
    try:
        found = load(LoadRequest(cwd=cwd, root=root, environment=environment)).settings.directory
    except ConfigError as error:
        if known is None:
            raise
        _LOG.warning("the configuration is wrong, so that its people are those of before: %s", error)
        found = known
    _PEOPLE[cwd, root] = (time.monotonic(), found)
    return found
