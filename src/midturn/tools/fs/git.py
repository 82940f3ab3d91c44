"""What git knows of a file, asked in a way that runs nothing which a repository configured."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from midturn.tools.executable import CommandError, find_executable

_SAFELY = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")  # both may name programs
_SECONDS = 10.0
_SHA1_DIGITS = 40


class Committed(Struct, frozen=True):
    """What the last commit holds of a file; None where it holds no such file, or cannot show it."""

    content: bytes | None


def uncommitted(root: Path, path: PurePosixPath, content: bytes) -> Committed | None:
    """Return the committed version of a file whose content differs from it; None where nothing would be lost, or git is not in use.

    The contents are compared here: `git status` would run the filters that a repository's configuration names. A file that git
    ignores or does not know counts as uncommitted, for nobody else has it.
    """
    folder, name = (root / path).parent, path.name
    if not folder.is_dir() or not _is_repository(folder):
        return None
    found = _git(folder, "rev-parse", "--verify", "--quiet", f"HEAD:./{name}")
    identity = found.decode().strip() if found else ""
    if identity and identity == _identity(content, identity):
        return None
    committed = _git(folder, "cat-file", "blob", identity) if identity else None
    if committed is not None and committed == content.replace(b"\r\n", b"\n"):
        return None  # checked out with other line ends
    return Committed(committed)


def ignored(folder: Path) -> frozenset[str]:
    """Return what git ignores below a folder, by path relative to it; folders end in a slash."""
    listed = _git(folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    return frozenset(os.fsdecode(path) for path in (listed or b"").split(b"\0") if path)


def git_folders(path: Path) -> tuple[Path, ...]:
    """Return where git keeps itself and finds its hooks, for whoever writes at `path`: not always in a folder called `.git`."""
    folder = next((above for above in path.parents if above.is_dir()), path)
    asked = ("--git-dir", "--git-common-dir", "--git-path", "hooks")
    said = _git(folder, "rev-parse", *asked, safely=("-c", "core.fsmonitor=false"))
    return tuple(folder / os.fsdecode(line) for line in (said or b"").splitlines())


def _is_repository(folder: Path) -> bool:
    """Say whether git watches over this folder; if git fails for another reason (another owner), assume that it does."""
    if _git(folder, "rev-parse", "--is-inside-work-tree") == b"true\n":
        return True
    return _has_git() and any((above / ".git").exists() for above in (folder, *folder.parents))


def _has_git() -> bool:
    try:
        return bool(_program())
    except CommandError:
        return False


def _program() -> str:
    return str(find_executable("git", Path("/"), os.environ.get("PATH", os.defpath)))


def _git(folder: Path, *words: str, safely: Sequence[str] = _SAFELY) -> bytes | None:
    """Run git; None where it is missing, fails or hangs."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    environment = {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    command: Sequence[str] = (_program(), *safely, *words) if _has_git() else ()
    if not command:
        return None
    try:
        done = subprocess.run(  # noqa: S603 (an absolute program, and words that no shell reads)
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _identity(content: bytes, like: str) -> str:
    """Return the name that git gives to a content, in the kind of hash that `like` is."""
    algorithm = hashlib.sha1 if len(like) == _SHA1_DIGITS else hashlib.sha256  # git's choice
    return algorithm(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
