"""Build the command that installs an extra, for messages about a missing package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import DecodeError, Struct, ValidationError, json

_SOURCE_TREE: Final = Path(__file__).resolve().parents[2]


class _Checkout(Struct, frozen=True):
    editable: bool = False


class _Repository(Struct, frozen=True):
    vcs: str
    commit_id: str


class _Origin(Struct, frozen=True):
    """The fields of `direct_url.json` (PEP 610) that the command depends on."""

    url: str
    dir_info: _Checkout = _Checkout()
    vcs_info: _Repository | None = None


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation of midturn, quoted for a POSIX
    shell.

    The command names the source of this installation as the installer recorded it: a checkout, an
    archive or a repository. For an installation from a package index the source is `midturn`.

    Args:
        extra: Name of the extra, as in `pyproject.toml`.
    """
    origin = _recorded_origin()
    if origin is None:
        return _command(f"midturn[{extra}]")
    if origin.vcs_info is not None:
        return _command(
            f"midturn[{extra}] @ {origin.vcs_info.vcs}+{origin.url}@{origin.vcs_info.commit_id}"
        )
    if not origin.url.startswith("file:"):
        return _command(f"midturn[{extra}] @ {origin.url}")
    from urllib.parse import unquote, urlsplit

    path = Path(unquote(urlsplit(origin.url).path))
    if not path.exists():  # for example in a container image built from a checkout
        return _command(f".[{extra}]")
    return ("pip install -e " if origin.dir_info.editable else "pip install ") + _quoted(
        f"{_shown(path)}[{extra}]"
    )


def _command(requirement: str) -> str:
    return f"pip install {_quoted(requirement)}"


def _quoted(requirement: str) -> str:
    escaped = requirement.replace("'", "'\"'\"'")
    return f"'{escaped}'"


def _shown(path: Path) -> str:
    """Return the path of the checkout; `.` for the working directory, as in the documentation."""
    try:
        return "." if path.samefile(os.curdir) else str(path)
    except OSError:  # the working directory was removed
        return str(path)


def _recorded_origin() -> _Origin | None:
    """Return the origin that the installer recorded. Without an installation, return the
    checkout that this file is in, if any.
    """
    from importlib.metadata import (
        PackageNotFoundError,
        distribution,
    )  # takes 30 ms, and only error messages need it

    try:
        recorded = distribution("midturn").read_text("direct_url.json")
    except PackageNotFoundError:
        return (
            _Origin(_SOURCE_TREE.as_uri()) if (_SOURCE_TREE / "src" / "midturn").is_dir() else None
        )
    if recorded is None:
        return None
    try:
        return json.decode(recorded, type=_Origin)
    except (DecodeError, ValidationError):  # the file does not follow PEP 610
        return None
