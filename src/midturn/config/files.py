"""Reading configuration files, with an error for everything that is not a plain, small UTF-8 file."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

from msgspec import Struct

from midturn.errors import ConfigError
from midturn.files.own import keep

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
