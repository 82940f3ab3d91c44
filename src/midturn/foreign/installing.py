"""An agent's own settings: our hooks are written there, found there, and taken away again. Everything else stays as it is."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from midturn.core.json_value import Json
from midturn.core.loose_json import members, objects, text
from midturn.errors import ConfigError

_OURS = re.compile(r"midturn(\.exe)?['\"]? hook ([a-z-]+)")


class HookEntry(Struct, frozen=True, kw_only=True):
    """One hook: for which event it runs, for which tools (`matcher`), how long it may take in the agent's own unit.

    `beside`: the agent does not wait for it.
    """

    event: str
    matcher: str | None = None
    timeout: int
    beside: bool = False


class Installation(Struct, frozen=True, kw_only=True):
    """What `midturn hook install` does for one agent: the file, its entries, and what people should know.

    `written`: as Claude Code has hooks, which most agents have taken over, or as Copilot CLI has them. `beside`: what a file that is ours
    alone must say besides.
    """

    file: Path
    entries: tuple[HookEntry, ...]
    advice: str
    killed: str
    """What happens to a call if our process is killed."""
    written: Literal["claude", "copilot"] = "claude"
    beside: Mapping[str, Json] = {}


def install(installation: Installation, command: str, key: str) -> bool:
    """Write our hooks; say whether anything had to be changed.

    Raises:
        ConfigError: The file is not what the agent reads; it is left alone.
    """
    settings = _read(installation.file)
    before = json.dumps(settings)
    _remove(settings, key, installation.file)
    hooks = settings.setdefault("hooks", {})
    for entry in installation.entries:
        hooks.setdefault(entry.event, []).append(_group(entry, command) if installation.written == "claude" else _plain(entry, command))
    for key_beside, value in installation.beside.items():
        settings.setdefault(key_beside, value)
    if json.dumps(settings) == before:
        return False
    _write(installation.file, settings)
    return True


def uninstall(installation: Installation, key: str) -> bool:
    """Take our hooks away; say whether there were any."""
    if not installation.file.exists():
        return False
    settings = _read(installation.file)
    if not _remove(settings, key, installation.file):
        return False
    _write(installation.file, settings)
    return True


def installed(installation: Installation, key: str) -> Mapping[str, str]:
    """Return the events for which our hooks are there, each with the command that it runs."""
    if not installation.file.exists():
        return {}
    hooks = _hooks(_read(installation.file), installation.file)
    return {event: _commands(group)[0] for event, groups in hooks.items() for group in groups if _is_ours(group, key)}


def _group(entry: HookEntry, command: str) -> dict[str, Any]:
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": entry.timeout}
    if entry.beside:
        hook["async"] = True
    return {**({"matcher": entry.matcher} if entry.matcher else {}), "hooks": [hook]}


def _plain(entry: HookEntry, command: str) -> dict[str, Any]:
    return {"type": "command", **({"matcher": entry.matcher} if entry.matcher else {}), "bash": command, "timeoutSec": entry.timeout}


def _remove(settings: dict[str, Any], key: str, file: Path) -> bool:
    hooks = _hooks(settings, file)
    found = False
    for event, groups in list(hooks.items()):
        kept = [group for group in groups if not _is_ours(group, key)]
        found = found or len(kept) < len(groups)
        if kept:
            hooks[event] = kept
        elif groups:
            del hooks[event]
    if found and not hooks:
        settings.pop("hooks", None)
    return found


def _is_ours(group: object, key: str) -> bool:
    """Say whether a group, or a hook by itself, is ours and nothing else."""
    commands = _commands(group)
    ours = [found for command in commands if (found := _OURS.search(command)) and found[2] == key]
    return bool(ours) and len(ours) == len(commands)


def _commands(group: object) -> list[str]:
    hooks = objects(members(group).get("hooks")) or [members(group)]
    return [text(hook.get("command")) or text(hook.get("bash")) for hook in hooks]


def _hooks(settings: dict[str, Any], file: Path) -> dict[str, list[Any]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in cast("dict[str, Any]", hooks).values()):
        raise ConfigError(f"{file}: `hooks` is not what it should be (an object of lists). Mend it first; nothing was changed.")
    return cast("dict[str, list[Any]]", hooks)


def _read(file: Path) -> dict[str, Any]:
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {error}. Nothing was changed.") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: it is not a JSON object. Nothing was changed.")
    return cast("dict[str, Any]", settings)


def _write(file: Path, settings: dict[str, Any]) -> None:
    """Put the settings in the place of what was there, whole, with the permissions that it had."""
    target = Path(os.path.realpath(file))  # a link of somebody's dotfiles stays one
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as stream:
            stream.write(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}. Nothing was changed.") from error
