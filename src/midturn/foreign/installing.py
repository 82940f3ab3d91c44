"""An agent's own settings: our hooks are written there, found there, and taken away again. Everything else stays as it is."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from midturn.core.json_value import Json, JsonObject
from midturn.core.loose_json import items, members, objects, text
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


class HookFound(Struct, frozen=True):
    """One hook of ours as it stands in the settings: what it is for, and the command that it runs."""

    entry: HookEntry
    command: str


def install(installation: Installation, command: str, key: str) -> bool:
    """Write our hooks in the place of those of ours that are there; say whether anything had to be changed.

    Raises:
        ConfigError: The file is not what the agent reads; it is left alone.
    """
    settings = _read(installation.file)
    before = json.dumps(settings)
    if _is_whole(installation, settings, command, key):
        return False
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


def installed(installation: Installation, key: str) -> Sequence[HookFound]:
    """Return our hooks that are there.

    Raises:
        ConfigError: The file is not what the agent reads.
    """
    return _found(_read(installation.file), key, installation.file)


def switched_off(installation: Installation) -> str:
    """Return the setting in the same file by which the agent runs no hooks at all; an empty text where there is none.

    Raises:
        ConfigError: The file is not what the agent reads.
    """
    settings = _read(installation.file)
    if settings.get("disableAllHooks") is True:
        return "disableAllHooks"
    return "hooksConfig.enabled" if members(settings.get("hooksConfig")).get("enabled") is False else ""


def wanted(installation: Installation, command: str) -> Sequence[HookFound]:
    """Return the hooks that `install` writes."""
    return [HookFound(entry, command) for entry in installation.entries]


def _is_whole(installation: Installation, settings: dict[str, Any], command: str, key: str) -> bool:
    """Say whether exactly our hooks are there; where they stand among those of others does not matter."""
    found, expected = _found(settings, key, installation.file), wanted(installation, command)
    return len(found) == len(expected) and all(hook in found for hook in expected) and not installation.beside.keys() - settings.keys()


def _found(settings: dict[str, Any], key: str, file: Path) -> list[HookFound]:
    listed = ((event, group) for event, groups in _hooks(settings, file).items() for group in groups)
    return [_read_hook(event, group, hook) for event, group in listed for hook in _hooks_of(group) if _is_ours(hook, key)]


def _read_hook(event: str, group: object, hook: JsonObject) -> HookFound:
    timeout = hook.get("timeout", hook.get("timeoutSec"))
    entry = HookEntry(
        event=event,
        matcher=text(members(group).get("matcher")) or None,
        timeout=timeout if isinstance(timeout, int) else 0,
        beside=hook.get("async") is True,
    )
    return HookFound(entry, _command(hook))


def _group(entry: HookEntry, command: str) -> dict[str, Any]:
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": entry.timeout}
    if entry.beside:
        hook["async"] = True
    return {**({"matcher": entry.matcher} if entry.matcher else {}), "hooks": [hook]}


def _plain(entry: HookEntry, command: str) -> dict[str, Any]:
    return {"type": "command", **({"matcher": entry.matcher} if entry.matcher else {}), "bash": command, "timeoutSec": entry.timeout}


def _remove(settings: dict[str, Any], key: str, file: Path) -> bool:
    hooks = _hooks(settings, file)
    before = json.dumps(hooks)
    for event, groups in list(hooks.items()):
        kept = [left for group in groups if (left := _without_ours(group, key)) is not None]
        if kept:
            hooks[event] = kept
        elif groups:
            del hooks[event]
    found = json.dumps(hooks) != before
    if found and not hooks:
        settings.pop("hooks", None)
    return found


def _without_ours(group: Any, key: str) -> Any:
    """Return a group, or a hook by itself, without what is ours; None where nothing of it is left."""
    if not any(_is_ours(hook, key) for hook in _hooks_of(group)):
        return group
    kept = [hook for hook in items(members(group).get("hooks")) if not _is_ours(members(hook), key)]
    return {**group, "hooks": kept} if kept else None


def _is_ours(hook: JsonObject, key: str) -> bool:
    found = _OURS.search(_command(hook))
    return found is not None and found[2] == key


def _hooks_of(group: object) -> list[JsonObject]:
    """Return the hooks of a group; a hook by itself is one."""
    return objects(members(group).get("hooks")) or [members(group)]


def _command(hook: JsonObject) -> str:
    return text(hook.get("command")) or text(hook.get("bash"))


def _hooks(settings: dict[str, Any], file: Path) -> dict[str, list[Any]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in cast("dict[str, Any]", hooks).values()):
        raise ConfigError(f"{file}: `hooks` is not what it should be (an object of lists). Correct it first; nothing was changed.")
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
