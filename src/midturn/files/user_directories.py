"""Where a user's own files are: the XDG rules, on every system.

Every command asks for these at its start. The rules are a dozen lines; the library for them loads compression and temporary files first.
"""

from __future__ import annotations

import os
from pathlib import Path

from midturn.errors import ConfigError

_OURS = "midturn"


def user_config() -> Path:
    """Return `~/.config/midturn`, or the one under `XDG_CONFIG_HOME`.

    Raises:
        ConfigError: Neither the variable nor a home directory says where.
    """
    return _directory("XDG_CONFIG_HOME", ".config")


def user_state() -> Path:
    """Return `~/.local/state/midturn`, or the one under `XDG_STATE_HOME`.

    Raises:
        ConfigError: As for `user_config`.
    """
    return _directory("XDG_STATE_HOME", ".local/state")


def user_data() -> Path:
    """Return `~/.local/share/midturn`, or the one under `XDG_DATA_HOME`.

    Raises:
        ConfigError: As for `user_config`.
    """
    return _directory("XDG_DATA_HOME", ".local/share")


def user_cache() -> Path:
    """Return `~/.cache/midturn`, or the one under `XDG_CACHE_HOME`.

    Raises:
        ConfigError: As for `user_config`.
    """
    return _directory("XDG_CACHE_HOME", ".cache")


def own_directories() -> tuple[Path, ...]:
    """Return where the user's configuration, state and data are: what no tool reaches.

    Raises:
        ConfigError: As for `user_config`.
    """
    return (user_config(), user_state(), user_data())


def _directory(variable: str, below_home: str) -> Path:
    """Take what the variable says, unless that is relative: then it does not count, as XDG has it."""
    given = os.environ.get(variable, "")
    return Path(given, _OURS) if given.startswith("/") else Path(_home(variable), below_home, _OURS)


def _home(variable: str) -> str:
    """Return the user's home; where `HOME` is no absolute path, the system knows it."""
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return home
    import pwd  # hardly ever

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise ConfigError(f"Nothing says where your own files are. Set `HOME` or `{variable}` to an absolute path.") from None
