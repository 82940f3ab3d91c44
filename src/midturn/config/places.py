"""Where a user's own files are (XDG)."""

from __future__ import annotations

from pathlib import Path

from midturn.files.user_directories import user_cache, user_config, user_state


def user_config_file() -> Path:
    """Return `~/.config/midturn/config.toml`, or the one under `XDG_CONFIG_HOME`."""
    return user_config() / "config.toml"


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
