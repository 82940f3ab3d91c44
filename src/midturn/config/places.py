"""Where a user's own files are (XDG)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from midturn.config.files import read_bytes, read_document
from midturn.errors import ConfigError
from midturn.files.user_directories import user_cache, user_config, user_state

STORE_VARIABLE: Final = "MIDTURN_CFG_CONVERSATION__STORE"
NAME_VARIABLE: Final = "MIDTURN_CFG_USER__NAME"


def user_config_file() -> Path:
    """Return `~/.config/midturn/config.toml`, or the one under `XDG_CONFIG_HOME`."""
    return user_config() / "config.toml"


def configured_store(environment: Mapping[str, str]) -> Path | str | None:
    """Return where `conversation.store` says that conversations are, in the environment or in the user's own file; no other file may.

    It is read before everything else: which configuration counts depends on where a command acts.

    Raises:
        ConfigError: It is no absolute path and no address, or the file cannot be read.
    """
    given, named = _own_value(environment, STORE_VARIABLE, ("conversation", "store"))
    if given == "":
        return None
    if isinstance(given, str) and "://" in given:
        return given
    if isinstance(given, str) and given.startswith(("/", "~/")):
        return Path(given).expanduser()
    raise ConfigError(f"{named}: {given!r} is no place. Give an absolute path, one that begins with `~/`, or `postgresql://…`.")


def configured_name(environment: Mapping[str, str]) -> str:
    """Return what `user.name` says in the environment or in the user's own file: nobody else says who they are. An empty one is none.

    Raises:
        ConfigError: The file cannot be read.
    """
    given, _ = _own_value(environment, NAME_VARIABLE, ("user", "name"))
    return given if isinstance(given, str) else ""


def own_name(environment: Mapping[str, str]) -> str:
    """Return who is recorded with what is answered at this terminal: `user.name`, else the login, whatever the environment says of it."""
    with suppress(ConfigError):  # what is wrong with the configuration keeps no one from answering
        if name := configured_name(environment):
            return name
    import pwd  # only who answers has to be named

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container, an account may have no name
        return str(os.getuid())


def _own_value(environment: Mapping[str, str], variable: str, key: tuple[str, str]) -> tuple[object, str]:
    """Return a value that only the user's own file and environment give, and where it stands; an empty text where nothing does."""
    if given := environment.get(variable, ""):
        return given, variable
    table, name = key
    file = user_config_file()
    named = f"{shown(file)}: `{table}.{name}`"
    data = read_bytes(file, shown(file), follow=True)
    if data is None or name.encode() not in data:  # as nearly everywhere: then nothing has to read TOML
        return "", named
    document = read_document(file, shown(file), follow=True)
    values = document.values.get(table) if document else None
    return (cast("dict[str, Any]", values).get(name, "") if isinstance(values, dict) else ""), named


def state_directory() -> Path:
    """Return `~/.local/state/midturn`, or the one under `XDG_STATE_HOME`: approvals live here, outside every workspace."""
    return user_state()


def tools_cache() -> Path:
    """Return where tools in a sandbox keep what they download."""
    return user_cache() / "tools"


def shown(path: Path) -> str:
    """Write a path with `~` for the home directory."""
    try:
        return str("~" / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):  # elsewhere, or nobody is at home
        return str(path)
