"""Where a user's own files are (XDG)."""

from __future__ import annotations

from pathlib import Path

from platformdirs.unix import Unix


def user_config_file() -> Path:
    """Return `~/.config/midturn/config.toml`, or the one under `XDG_CONFIG_HOME`."""
    return _directories().user_config_path / "config.toml"


def state_directory() -> Path:
    """Return `~/.local/state/midturn`, or the one under `XDG_STATE_HOME`: approvals live here, outside every workspace."""
    return _directories().user_state_path


def own_directories() -> tuple[Path, ...]:
    """Return where the user's configuration, state and data are: what no tool reaches."""
    ours = _directories()
    return (ours.user_config_path, ours.user_state_path, ours.user_data_path)


def tools_cache() -> Path:
    """Return where tools in a sandbox keep what they download."""
    return _directories().user_cache_path / "tools"


def shown(path: Path) -> str:
    """Write a path with `~` for the home directory."""
    try:
        return str("~" / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):  # elsewhere, or nobody is at home
        return str(path)


def _directories() -> Unix:
    return Unix("midturn", appauthor=False)
