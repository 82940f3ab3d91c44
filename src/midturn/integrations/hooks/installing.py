"""An agent's own settings: our hooks are written there, found there, and taken away again. Everything else stays as it is."""

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

_BY_HAND = "Nothing was changed; `midturn hook install AGENT --print` prints what to add by hand."
_LARGEST = 16 * 1024 * 1024
_OURS = re.compile(r"midturn(\.exe)?['\"]? hook ([a-z][a-z0-9-]*)")


class HookFound(Struct, frozen=True):
    """One hook of ours as it stands in the settings: what it is for, and the command that it runs."""

    entry: HookEntry
    command: str


def install(installation: Installation, command: str, key: str, kept: Path | None = None) -> bool:
    """Write our hooks in the place of those of ours that are there; say whether anything had to be changed.

    Args:
        installation: Where, and what.
        command: What each of them runs.
        key: Which agent's they are.
        kept: A directory in which it is kept what the file was before, so that `uninstall` can put that back.

    Raises:
        ConfigError: The file is not what the agent reads, or cannot be written; it is left alone.
    """
    before = _bytes(installation.file)
    settings = _text(installation.file, before)
    value = _value(settings, installation.file)
    if _is_whole(installation, value, command, key):
        return False
    lists = [event for event, groups in _hooks(value, installation.file).items() if not any(map(_is_any_of(key), groups))]
    settings = _without_ours(settings, key, installation.file, lists)
    for entry in installation.entries:
        written = _group(entry, command) if installation.written == "claude" else _plain(entry, command)
        settings = settings.with_item(("hooks", entry.event), written)
    for name, beside in installation.beside.items():
        settings = settings if name in value else settings.with_member(name, beside)
    written_bytes = settings.text.encode()
    _write(installation.file, written_bytes)
    if kept:
        _keep(kept, installation.file, Undoing(before, sha256(written_bytes), tuple(lists)), key)
    return True


def uninstall(installation: Installation, key: str, kept: Path | None = None) -> bool:
    """Take our hooks away; say whether there were any.

    A file that was not touched since becomes what it was; one that we have made is removed.
    """
    before = _bytes(installation.file)
    if before is None:
        return False
    settings = _text(installation.file, before)
    if not _found(_value(settings, installation.file), key, installation.file):
        return False
    undoing = _kept(kept, installation.file) if kept else None
    lists = undoing.lists if undoing else ()
    content: bytes | None = _without_ours(settings, key, installation.file, lists).text.encode()
    if undoing and sha256(before) == undoing.written:
        content = undoing.before
    elif undoing and undoing.before is None and msgspec.json.decode(content or b"{}") in ({}, dict(installation.beside)):
        content = None
    _write(installation.file, content)
    if kept:
        _place(kept, installation.file).unlink(missing_ok=True)
    return True


def to_add(installation: Installation, command: str) -> str:
    """Return what `install` would write into a file that is empty, for users who write it there by hand."""
    settings = _text(installation.file, b"{}")
    for name, beside in installation.beside.items():
        settings = settings.with_member(name, beside)
    for entry in installation.entries:
        written = _group(entry, command) if installation.written == "claude" else _plain(entry, command)
        settings = settings.with_item(("hooks", entry.event), written)
    return settings.text


class Undoing(Struct, frozen=True):
    """A settings file that we have changed: its text `before`, if it existed, and the digest of the text `written`.

    `lists` are the events that had a list without us, so that an empty one stays.
    """

    before: bytes | None
    written: str
    lists: tuple[str, ...] = ()


def _keep(kept: Path, file: Path, undoing: Undoing, key: str) -> None:
    """Keep it. What was kept before our first change stays: hooks that are replaced are taken away as well in the end."""
    first = _kept(kept, file)
    if first and _found(_value(_text(file, undoing.before), file), key, file):
        undoing = replace(undoing, before=first.before, lists=first.lists)
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(_place(kept, file), msgspec.json.encode(undoing))


def _kept(kept: Path, file: Path) -> Undoing | None:
    try:
        return msgspec.json.decode(_place(kept, file).read_bytes(), type=Undoing)
    except (OSError, msgspec.DecodeError):
        return None


def _place(kept: Path, file: Path) -> Path:
    return kept / f"{sha256(os.fsencode(os.path.realpath(file)))[:32]}.json"


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


def _without_ours(settings: SettingsText, key: str, file: Path, lists: Sequence[str]) -> SettingsText:
    """Return settings without what is ours; a list that is empty then goes, unless it is one of those that were there without us."""
    for event, groups in _hooks(_value(settings, file), file).items():
        for place, group in reversed([*enumerate(groups)]):
            hooks = items(members(group).get("hooks"))
            ours = [at for at, hook in enumerate(hooks) if _is_ours(members(hook), key)]
            if _is_ours(members(group), key) or (ours and len(ours) == len(hooks)):
                settings = settings.without(("hooks", event, place))
                continue
            for at in reversed(ours):
                settings = settings.without(("hooks", event, place, "hooks", at))
        if groups and event not in lists and not _hooks(_value(settings, file), file)[event]:
            settings = settings.without(("hooks", event))
    value = _value(settings, file)
    return settings.without(("hooks",)) if value.get("hooks") == {} and not lists else settings


def _is_any_of(key: str) -> Callable[[object], bool]:
    return lambda group: any(_is_ours(hook, key) for hook in _hooks_of(group))


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
        raise ConfigError(f"{file}: `hooks` is not what it should be (an object of lists). Correct it first. {_BY_HAND}")
    return cast("dict[str, list[Any]]", hooks)


def _read(file: Path) -> dict[str, Any]:
    return _value(_text(file, _bytes(file)), file)


def _bytes(file: Path) -> bytes | None:
    try:
        return read_regular(os.path.realpath(file), _LARGEST)  # a project's file is whatever its repository made it
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}. Nothing was changed.") from error


def _text(file: Path, content: bytes | None) -> SettingsText:
    try:
        text = (content or b"").decode()
    except ValueError as error:
        raise ConfigError(f"{file}: {error}. {_BY_HAND}") from error
    return SettingsText(text if text.strip("\ufeff \t\r\n") else "{}\n")


def _value(settings: SettingsText, file: Path) -> dict[str, Any]:
    try:
        value = settings.value
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}. {_BY_HAND}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: it is not a JSON object. {_BY_HAND}")
    return cast("dict[str, Any]", value)


def _write(file: Path, content: bytes | None) -> None:
    """Put the settings in the place of what was there, whole, with the permissions that it had; None removes the file."""
    target = Path(os.path.realpath(file))  # a link into the user's dotfiles stays one
    try:
        if content is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}. Nothing was changed.") from error
