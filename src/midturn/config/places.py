"""Places of the user's own files (XDG), and the reading of configuration files."""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct

from midturn.errors import ConfigError
from midturn.question.text import seconds_of
from midturn.security.private_files import keep, user_cache, user_config, user_state

# ----------------------------------------------------------------------------------------------------------------------
# Reading configuration files, with an error for everything that is not a plain, small UTF-8 file


MAX_BYTES = 1024 * 1024
_POSITION = r" \(at line (\d+), column \d+\)$"


class Document(Struct, frozen=True):
    """A file as it was read, once: what is checked, hashed and used are the same bytes. `name` is how messages call it."""

    path: Path
    name: str
    data: bytes
    text: str
    values: dict[str, Any]


def read_document(path: Path, name: str, *, follow: bool) -> Document | None:
    """Read one TOML file; None if it does not exist. Symlinks are followed only where they are the user's own.

    Raises:
        ConfigError: It cannot be read, is not a regular file, is too large, or is not TOML in UTF-8.
    """
    keep(path)
    data = read_bytes(path, name, follow=follow)
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8 text; save the file in that encoding") from error
    return Document(path, name, data, text, parse(text, name))


def parse(text: str, name: str) -> dict[str, Any]:
    """Parse TOML; the error names the line."""
    import tomllib  # who only looks whether a file says something needs none

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deep") from error
    except tomllib.TOMLDecodeError as error:
        where = re.search(_POSITION, str(error))
        place = f"{name}:{where[1]}" if where else name
        raise ConfigError(f"{place}: not valid TOML: {re.sub(_POSITION, '', str(error))}") from error
    except ValueError as error:
        raise ConfigError(f"{name}: a number has too many digits") from error


def read_bytes(path: Path, name: str, *, follow: bool) -> bytes | None:
    """Read a file of at most 1 MiB; None if it does not exist."""
    try:
        return _read(path, name, follow=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise ConfigError(f"{name}: a symbolic link; a workspace must hold the file itself") from error
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error


def _read(path: Path, name: str, *, follow: bool) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    with open(descriptor, "rb") as file:  # noqa: PTH123 (opened without following links, above)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{name}: not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{name}: larger than {MAX_BYTES // 1024} KiB; a configuration file is not")
    return data


STORE_VARIABLE: Final = "MIDTURN_CFG_CONVERSATION__STORE"
KEEP_VARIABLE: Final = "MIDTURN_CFG_CONVERSATION__KEEP"
NAME_VARIABLE: Final = "MIDTURN_CFG_USER__NAME"

LONGEST_KEPT: Final = 36_525 * 86_400.0
"""Seconds of 100 years."""


def user_config_file() -> Path:
    """Return `~/.config/midturn/config.toml`, or the one under `XDG_CONFIG_HOME`."""
    return user_config() / "config.toml"


def project_of(directory: Path) -> str:
    """Return the name of the project in a directory (a workspace, or any other): its real path."""
    return os.path.realpath(directory)


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


def configured_keep(environment: Mapping[str, str]) -> timedelta | None:
    """Return for how long `conversation.keep` keeps finished conversations, in the environment or in the user's own file; None: for ever.

    No other file has the user's conversations removed.

    Raises:
        ConfigError: It is no duration, or the file cannot be read.
    """
    given, named = _own_value(environment, KEEP_VARIABLE, ("conversation", "keep"))
    if given == "":
        return None
    seconds = seconds_of(given) if isinstance(given, str) else given
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= LONGEST_KEPT:
        return timedelta(seconds=seconds)
    raise ConfigError(f"{named}: {given!r} is no length of time. Give one such as `90d`, of 100 years at most.")


def configured_name(environment: Mapping[str, str]) -> str:
    """Return what `user.name` says in the environment or in the user's own file: no other file says who they are. An empty one is none.

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
    except (ValueError, RuntimeError):  # elsewhere, or there is no home directory
        return str(path)
