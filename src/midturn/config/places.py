"""Locations of the user's files (XDG), and functions that read configuration files."""

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
from midturn.security.private_files import protect, user_cache, user_config, user_state

# --------------------------------------------------------------------------------------------------
# Reading configuration files. A file that is not a small regular file in UTF-8 is an error.


MAX_BYTES = 1024 * 1024
_POSITION = r" \(at line (\d+), column \d+\)$"


class Document(Struct, frozen=True):
    """The content of a file. `name` is used in messages.

    The file is read only once, so that the checked, hashed and used content is the same.
    """

    path: Path
    name: str
    data: bytes
    text: str
    values: dict[str, Any]


def read_document(path: Path, name: str, *, follow: bool) -> Document | None:
    """Read a TOML file. Return None if it does not exist.

    `follow` allows symbolic links. It is set for the user's own files only.

    Raises:
        ConfigError: The file cannot be read, is not a regular file, is too large, or is not TOML in
            UTF-8.
    """
    protect(path)
    data = read_bytes(path, name, follow=follow)
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8 text; save the file as UTF-8") from error
    return Document(path, name, data, text, parse(text, name))


def parse(text: str, name: str) -> dict[str, Any]:
    """Parse TOML. Error messages contain the line."""
    import tomllib  # most commands need no TOML parser

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        where = re.search(_POSITION, str(error))
        place = f"{name}:{where[1]}" if where else name
        raise ConfigError(
            f"{place}: not valid TOML: {re.sub(_POSITION, '', str(error))}"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{name}: a number has too many digits") from error


def read_bytes(path: Path, name: str, *, follow: bool) -> bytes | None:
    """Read a file of at most 1 MiB. Return None if it does not exist."""
    try:
        return _read(path, name, follow=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise ConfigError(
                f"{name}: is a symbolic link; a workspace must contain the file itself"
            ) from error
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error


def _read(path: Path, name: str, *, follow: bool) -> bytes:
    descriptor = os.open(
        path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    )
    with open(descriptor, "rb") as file:  # noqa: PTH123 opened above, without following links
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{name}: not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"{name}: larger than {MAX_BYTES // 1024} KiB, the limit for configuration files"
        )
    return data


STORE_VARIABLE: Final = "MIDTURN_CFG_CONVERSATION__STORE"
KEEP_VARIABLE: Final = "MIDTURN_CFG_CONVERSATION__KEEP"
NAME_VARIABLE: Final = "MIDTURN_CFG_USER__NAME"

MAX_KEEP: Final = 36_525 * 86_400.0
"""Maximum of `conversation.keep`: 100 years, in seconds."""


def user_config_file() -> Path:
    """Return `~/.config/midturn/config.toml`, or the path under `XDG_CONFIG_HOME`."""
    return user_config() / "config.toml"


def project_of(directory: Path) -> str:
    """Return the name of the project in `directory`: the directory's real path."""
    return os.path.realpath(directory)


def configured_store(environment: Mapping[str, str]) -> Path | str | None:
    """Return the store that `conversation.store` names in the environment or in the user's own
    file.

    Other files cannot set the store. The value is read before the rest of the configuration,
    because the store decides which other files apply.

    Raises:
        ConfigError: The value is neither an absolute path nor a URL, or the file cannot be read.
    """
    given, named = _own_value(environment, STORE_VARIABLE, ("conversation", "store"))
    if given == "":
        return None
    if isinstance(given, str) and "://" in given:
        return given
    if isinstance(given, str) and given.startswith(("/", "~/")):
        return Path(given).expanduser()
    raise ConfigError(
        f"{named}: invalid store {given!r}. Expected an absolute path, a path that starts with"
        " `~/`, or `postgresql://…`."
    )


def configured_keep(environment: Mapping[str, str]) -> timedelta | None:
    """Return the time for which finished conversations are kept, or None for no limit.

    The value is `conversation.keep` from the environment or the user's own file. Other files cannot
    set it, so that they cannot delete the user's conversations.

    Raises:
        ConfigError: The value is not a duration, or the file cannot be read.
    """
    given, named = _own_value(environment, KEEP_VARIABLE, ("conversation", "keep"))
    if given == "":
        return None
    seconds = seconds_of(given) if isinstance(given, str) else given
    if (
        isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and 0 < seconds <= MAX_KEEP
    ):
        return timedelta(seconds=seconds)
    raise ConfigError(
        f"{named}: invalid duration {given!r}. Expected a duration such as `90d`, at most 100"
        " years."
    )


def configured_name(environment: Mapping[str, str]) -> str:
    """Return `user.name` from the environment or the user's own file.

    Return an empty string if the name is not set. No other file can set the name.

    Raises:
        ConfigError: The file cannot be read.
    """
    given, _ = _own_value(environment, NAME_VARIABLE, ("user", "name"))
    return given if isinstance(given, str) else ""


def own_name(environment: Mapping[str, str]) -> str:
    """Return the name to record with answers from this terminal.

    It is `user.name`, or else the login name of the process's user ID.
    """
    with suppress(ConfigError):  # an invalid configuration must not prevent answering
        if name := configured_name(environment):
            return name

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user ID in a container may have no name
        return str(os.getuid())


def _own_value(
    environment: Mapping[str, str], variable: str, key: tuple[str, str]
) -> tuple[object, str]:
    """Return a value from the environment or the user's own file, and its origin for messages.

    The value is an empty string if it is not set.
    """
    if given := environment.get(variable, ""):
        return given, variable
    table, name = key
    file = user_config_file()
    named = f"{shown(file)}: `{table}.{name}`"
    data = read_bytes(file, shown(file), follow=True)
    # a file without the name needs no TOML parser, which is slow to import
    if data is None or name.encode() not in data:
        return "", named
    document = read_document(file, shown(file), follow=True)
    values = document.values.get(table) if document else None
    return (cast("dict[str, Any]", values).get(name, "") if isinstance(values, dict) else ""), named


def state_directory() -> Path:
    """Return `~/.local/state/midturn`, or the path under `XDG_STATE_HOME`.

    Approvals are stored here, outside of every workspace.
    """
    return user_state()


def tools_cache() -> Path:
    """Return the cache directory that sandboxed tools use, for example for downloads."""
    return user_cache() / "tools"


def shown(path: Path) -> str:
    """Return a path with `~` for the home directory."""
    try:
        return str("~" / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):  # not in the home directory, or there is no home directory
        return str(path)
