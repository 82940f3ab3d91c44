"""Adds midturn's hooks to an agent's settings file, finds them and removes them. All other
settings stay unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import ConfigError
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.settings_text import SettingsText
from midturn.question.json_value import JsonObject, items, members, objects, text
from midturn.question.text import sha256
from midturn.security.private_files import read_regular, write_private

_MANUAL_HINT = (
    "Nothing was changed; `midturn hook install AGENT --print` prints the text to add by hand."
)
_MAX_FILE_SIZE = 16 * 1024 * 1024
_OWN_COMMAND = re.compile(r"midturn(\.exe)?['\"]? hook ([a-z][a-z0-9-]*)")


class InstalledHook(Struct, frozen=True):
    """One of midturn's hooks in the settings, with the command of the hook."""

    entry: HookEntry
    command: str


def install(
    installation: Installation, command: str, key: str, backups: Path | None = None
) -> bool:
    """Add midturn's hooks, or replace them if they are present. Return whether the file was
    changed.

    Args:
        installation: The settings file and the hooks.
        command: Command of each hook.
        key: Key of the agent.
        backups: Directory for the backup of the original file, which `uninstall` restores.

    Raises:
        ConfigError: The file has an unexpected format or cannot be written. It is not changed.
    """
    before = _bytes(installation.file)
    settings = _text(installation.file, before)
    value = _value(settings, installation.file)
    if _is_complete(installation, value, command, key):
        return False
    lists = [
        event
        for event, groups in _hooks(value, installation.file).items()
        if not any(map(_contains_own_hook(key), groups))
    ]
    settings = _without_own(settings, key, installation.file, lists)
    for entry in installation.entries:
        written = (
            _claude_group(entry, command)
            if installation.written == "claude"
            else _copilot_group(entry, command)
        )
        settings = settings.with_item(("hooks", entry.event), written)
    for name, beside in installation.beside.items():
        settings = settings if name in value else settings.with_member(name, beside)
    written_bytes = settings.text.encode()
    _write(installation.file, written_bytes)
    if backups:
        _save_backup(
            backups, installation.file, Backup(before, sha256(written_bytes), tuple(lists)), key
        )
    return True


def uninstall(installation: Installation, key: str, backups: Path | None = None) -> bool:
    """Remove midturn's hooks. Return whether the file contained midturn's hooks.

    If the file was not edited since `install`, its original content is restored. A file that
    `install` created is deleted.
    """
    before = _bytes(installation.file)
    if before is None:
        return False
    settings = _text(installation.file, before)
    if not _installed(_value(settings, installation.file), key, installation.file):
        return False
    backup = _read_backup(backups, installation.file) if backups else None
    lists = backup.lists if backup else ()
    content: bytes | None = _without_own(settings, key, installation.file, lists).text.encode()
    if backup and sha256(before) == backup.written:
        content = backup.before
    elif (
        backup
        and backup.before is None
        and msgspec.json.decode(content or b"{}") in ({}, dict(installation.beside))
    ):
        content = None
    _write(installation.file, content)
    if backups:
        _backup_file(backups, installation.file).unlink(missing_ok=True)
    return True


def manual_text(installation: Installation, command: str) -> str:
    """Return the text that `install` would write into an empty file. Users can copy this text
    into their settings.
    """
    settings = _text(installation.file, b"{}")
    for name, beside in installation.beside.items():
        settings = settings.with_member(name, beside)
    for entry in installation.entries:
        written = (
            _claude_group(entry, command)
            if installation.written == "claude"
            else _copilot_group(entry, command)
        )
        settings = settings.with_item(("hooks", entry.event), written)
    return settings.text


class Backup(Struct, frozen=True):
    """Backup of a settings file. `before` is the original content, or None if the file did not
    exist. `written` is the digest of the content that midturn wrote.

    `lists` contains the events that had a list of hooks in the original file. `uninstall` keeps
    these lists, even if they are empty.
    """

    before: bytes | None
    written: str
    lists: tuple[str, ...] = ()


def _save_backup(backups: Path, file: Path, backup: Backup, key: str) -> None:
    """Save a backup. If the file already contained midturn's hooks, keep the earlier backup,
    which was made before the hooks were added.
    """
    first = _read_backup(backups, file)
    if first and _installed(_value(_text(file, backup.before), file), key, file):
        backup = replace(backup, before=first.before, lists=first.lists)
    backups.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(_backup_file(backups, file), msgspec.json.encode(backup))


def _read_backup(backups: Path, file: Path) -> Backup | None:
    try:
        return msgspec.json.decode(_backup_file(backups, file).read_bytes(), type=Backup)
    except (OSError, msgspec.DecodeError):
        return None


def _backup_file(backups: Path, file: Path) -> Path:
    return backups / f"{sha256(os.fsencode(os.path.realpath(file)))[:32]}.json"


def installed(installation: Installation, key: str) -> Sequence[InstalledHook]:
    """Return midturn's hooks in the settings.

    Raises:
        ConfigError: The file has an unexpected format.
    """
    return _installed(_read(installation.file), key, installation.file)


def disabling_setting(installation: Installation) -> str:
    """Return the name of the setting that disables all hooks of the agent, or an empty string.

    Raises:
        ConfigError: The file has an unexpected format.
    """
    settings = _read(installation.file)
    if settings.get("disableAllHooks") is True:
        return "disableAllHooks"
    return (
        "hooksConfig.enabled"
        if members(settings.get("hooksConfig")).get("enabled") is False
        else ""
    )


def wanted(installation: Installation, command: str) -> Sequence[InstalledHook]:
    """Return the hooks that `install` writes."""
    return [InstalledHook(entry, command) for entry in installation.entries]


def _is_complete(
    installation: Installation, settings: dict[str, Any], command: str, key: str
) -> bool:
    """Return whether the settings contain exactly midturn's current hooks, in any order."""
    found, expected = _installed(settings, key, installation.file), wanted(installation, command)
    return (
        len(found) == len(expected)
        and all(hook in found for hook in expected)
        and not installation.beside.keys() - settings.keys()
    )


def _installed(settings: dict[str, Any], key: str, file: Path) -> list[InstalledHook]:
    listed = (
        (event, group) for event, groups in _hooks(settings, file).items() for group in groups
    )
    return [
        _read_hook(event, group, hook)
        for event, group in listed
        for hook in _hooks_of(group)
        if _is_own(hook, key)
    ]


def _read_hook(event: str, group: object, hook: JsonObject) -> InstalledHook:
    timeout = hook.get("timeout", hook.get("timeoutSec"))
    entry = HookEntry(
        event=event,
        matcher=text(members(group).get("matcher")) or None,
        timeout=timeout if isinstance(timeout, int) else 0,
        beside=hook.get("async") is True,
    )
    return InstalledHook(entry, _command(hook))


def _claude_group(entry: HookEntry, command: str) -> dict[str, Any]:
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": entry.timeout}
    if entry.beside:
        hook["async"] = True
    return {**({"matcher": entry.matcher} if entry.matcher else {}), "hooks": [hook]}


def _copilot_group(entry: HookEntry, command: str) -> dict[str, Any]:
    return {
        "type": "command",
        **({"matcher": entry.matcher} if entry.matcher else {}),
        "bash": command,
        "timeoutSec": entry.timeout,
    }


def _without_own(
    settings: SettingsText, key: str, file: Path, lists: Sequence[str]
) -> SettingsText:
    """Return the settings without midturn's hooks. Lists that become empty are removed, unless
    `lists` contains their event.
    """
    for event, groups in _hooks(_value(settings, file), file).items():
        for place, group in reversed([*enumerate(groups)]):
            hooks = items(members(group).get("hooks"))
            ours = [at for at, hook in enumerate(hooks) if _is_own(members(hook), key)]
            if _is_own(members(group), key) or (ours and len(ours) == len(hooks)):
                settings = settings.without(("hooks", event, place))
                continue
            for at in reversed(ours):
                settings = settings.without(("hooks", event, place, "hooks", at))
        if groups and event not in lists and not _hooks(_value(settings, file), file)[event]:
            settings = settings.without(("hooks", event))
    value = _value(settings, file)
    return settings.without(("hooks",)) if value.get("hooks") == {} and not lists else settings


def _contains_own_hook(key: str) -> Callable[[object], bool]:
    return lambda group: any(_is_own(hook, key) for hook in _hooks_of(group))


def _is_own(hook: JsonObject, key: str) -> bool:
    found = _OWN_COMMAND.search(_command(hook))
    return found is not None and found[2] == key


def _hooks_of(group: object) -> list[JsonObject]:
    """Return the hooks of a group. A single hook is treated as a group with one hook."""
    return objects(members(group).get("hooks")) or [members(group)]


def _command(hook: JsonObject) -> str:
    return text(hook.get("command")) or text(hook.get("bash"))


def _hooks(settings: dict[str, Any], file: Path) -> dict[str, list[Any]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(
        isinstance(groups, list) for groups in cast("dict[str, Any]", hooks).values()
    ):
        raise ConfigError(
            f"{file}: `hooks` must be an object of lists. Correct the file first. {_MANUAL_HINT}"
        )
    return cast("dict[str, list[Any]]", hooks)


def _read(file: Path) -> dict[str, Any]:
    return _value(_text(file, _bytes(file)), file)


def _bytes(file: Path) -> bytes | None:
    try:
        return read_regular(
            os.path.realpath(file), _MAX_FILE_SIZE
        )  # a file in a repository is untrusted
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}. Nothing was changed.") from error


def _text(file: Path, content: bytes | None) -> SettingsText:
    try:
        text = (content or b"").decode()
    except ValueError as error:
        raise ConfigError(f"{file}: {error}. {_MANUAL_HINT}") from error
    return SettingsText(text if text.strip("\ufeff \t\r\n") else "{}\n")


def _value(settings: SettingsText, file: Path) -> dict[str, Any]:
    try:
        value = settings.value
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}. {_MANUAL_HINT}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: the content must be a JSON object. {_MANUAL_HINT}")
    return cast("dict[str, Any]", value)


def _write(file: Path, content: bytes | None) -> None:
    """Replace the settings file atomically and keep its permissions. None deletes the file."""
    target = Path(
        os.path.realpath(file)
    )  # follow a symbolic link, for example to the user's dotfiles
    try:
        if content is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
        ) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}. Nothing was changed.") from error
