"""Where a user's own files are (XDG)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from midturn.config.files import read_bytes, read_document
from midturn.errors import ConfigError
from midturn.files.user_directories import user_cache, user_config, user_state

STORE_VARIABLE: Final = "MIDTURN_CFG_CONVERSATION__STORE"


def user_config_file() -> Path:
    """Return `~/.config/midturn/config.toml`, or the one under `XDG_CONFIG_HOME`."""
    return user_config() / "config.toml"


def configured_store(environment: Mapping[str, str]) -> Path | str | None:
    """Return where `conversation.store` says that conversations are, in the environment or in the user's own file; no other file may.

    It is read before everything else: which configuration counts depends on where a command acts.

    Raises:
        ConfigError: It is no absolute path and no address, or the file cannot be read.
    """
    given: object = environment.get(STORE_VARIABLE, "")
    named = STORE_VARIABLE
    if not given:
        file = user_config_file()
        data = read_bytes(file, shown(file), follow=True)
        if data is None or b"store" not in data:  # as nearly everywhere
            return None
        document = read_document(file, shown(file), follow=True)
        given = document.values.get("conversation") if document else None
        given = cast("dict[str, Any]", given).get("store", "") if isinstance(given, dict) else ""
        named = f"{shown(file)}: `conversation.store`"
    if given == "":
        return None
    if isinstance(given, str) and "://" in given:
        return given
    if isinstance(given, str) and given.startswith(("/", "~/")):
        return Path(given).expanduser()
    raise ConfigError(f"{named}: {given!r} is no place. Give an absolute path, one that begins with `~/`, or `postgresql://…`.")


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
