"""Approvals of configuration files.

Each approval is a small file in the user's state directory, outside of every workspace.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from midturn.config.tree import Tree, TreeEntry, branch, entry
from midturn.errors import ConfigError
from midturn.security.private_files import ensure_private, read_private, write_private

VARIABLE = "MIDTURN_TRUST"
_SHA256 = r"[0-9a-f]{64}"


def sha256(data: bytes) -> str:
    """Return the SHA-256 hash in the format of `sha256sum`."""
    return hashlib.sha256(data).hexdigest()


class FileSubject(Struct, frozen=True, kw_only=True):
    """The content that an approval covers: a file, its workspace `root`, and the scripts that the
    commands in the file run.
    """

    path: Path
    root: Path
    sha256: str
    scripts: tuple[BoundScript, ...] = ()

    @property
    def digest(self) -> str:
        """Hash of the content, root and scripts. The approval is valid only for this hash."""
        parts = (
            str(self.path),
            str(self.root),
            self.sha256,
            *(f"{script.name} {script.state}" for script in self.scripts),
        )
        return sha256("\0".join(parts).encode(errors="surrogateescape"))


class Approvals(Struct, frozen=True):
    """The stored approvals, one record per path, and the hashes in `MIDTURN_TRUST`.

    The hashes apply to this process only.
    """

    directory: Path
    named: frozenset[str] = frozenset()

    @classmethod
    def of(cls, directory: Path, environment: Mapping[str, str]) -> Approvals:
        """Read `MIDTURN_TRUST`: one or more hashes, separated by spaces or commas.

        Raises:
            ConfigError: A value is not a SHA-256 hash.
        """
        words = environment.get(VARIABLE, "").replace(",", " ").lower().split()
        wrong = next((word for word in words if not re.fullmatch(_SHA256, word)), None)
        if wrong is not None:
            raise ConfigError(
                f"{VARIABLE}: `{wrong}` is not a SHA-256 hash; run `sha256sum` on the configuration"
                " file"
            )
        return cls(directory / "trust", frozenset(words))

    def approved(self, subject: FileSubject) -> bool:
        """Return whether this content is approved. Records that other users could have written
        are ignored.
        """
        return subject.sha256 in self.named or read_private(self._record(subject.path)) == _written(
            subject
        )

    def approve(self, subject: FileSubject) -> None:
        """Store an approval. It replaces the earlier approval of the same file.

        Raises:
            ConfigError: The record cannot be written.
        """
        try:
            ensure_private(self.directory)
            write_private(self._record(subject.path), _written(subject))
        except OSError as error:
            raise ConfigError(
                f"{self.directory}: cannot write the approval: {error.strerror}"
            ) from error

    def _record(self, path: Path) -> Path:
        return self.directory / sha256(os.fsencode(path))


def _written(subject: FileSubject) -> bytes:
    return f"{subject.digest}  {subject.path}".encode(errors="surrogateescape")


# --------------------------------------------------------------------------------------------------
# Scripts in the workspace that configured commands run. An approval also covers their content.


_COMMANDS = (("conversation", "tools"), ("providers", "mcp"))
_SUFFIXES = frozenset(
    {
        ".bash",
        ".cjs",
        ".js",
        ".lua",
        ".mjs",
        ".php",
        ".pl",
        ".ps1",
        ".py",
        ".rb",
        ".sh",
        ".ts",
        ".zsh",
    }
)
_BETWEEN_WORDS = r"""[\s;&|()<>`$"'{}=]+"""
_INTERPRETER = (
    r"(?:.*/)?(?:python|pypy|node|deno|bun|ruby|perl|php|lua|tclsh|osascript|sh|ash|dash|bash|zsh|fish|ksh|env|exec|sudo|uv|run|source|\.)"
    r"[\d.]*"
)
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class BoundScript(Struct, frozen=True):
    """A script: its path relative to the root, and its state (mode and hash, or `absent`)."""

    name: str
    state: str


def scripts(tree: Tree, root: Path) -> tuple[BoundScript, ...]:
    """Return the files in the workspace that the commands of a layer run.

    The files are the command itself, the script argument of an interpreter, and every other word
    that names an executable file or has the extension of a script. Missing scripts are included,
    because a later `git pull` could create them.
    """
    found = {script.name: script for table in _tables(tree) for script in scripts_of(table, root)}
    return tuple(script for _, script in sorted(found.items()))


def scripts_of(table: Tree, root: Path) -> tuple[BoundScript, ...]:
    """Return the files in the workspace that the command in one table runs. See `scripts`."""
    real = root.resolve()
    found: dict[Path, BoundScript | None] = {}
    for base in _bases(table, real):
        for word, is_program in _words(table):
            path = Path(os.path.normpath(base / word))
            if path.is_relative_to(real) and not found.get(path):
                found[path] = _script(path, real, is_program=is_program)
    return tuple(script for _, script in sorted(found.items()) if script)


def _tables(tree: Tree) -> Iterator[Tree]:
    for path in _COMMANDS:
        yield from (table for table in branch(tree, *path).values() if isinstance(table, dict))
    yield branch(tree, "notify")


def _bases(table: Tree, root: Path) -> set[Path]:
    cwd = entry(table, "cwd")
    bases = {root}
    if cwd and isinstance(cwd.value, str):
        bases.add(Path(root, cwd.value).resolve())
    return bases


def _words(table: Tree) -> Iterator[tuple[str, bool]]:
    """Yield each word of a command, and whether the word can be the name of a program to run."""
    command = entry(table, "command")
    if command is None:
        return
    shell = entry(table, "shell")
    words = _split(command, is_shell=shell is not None and shell.value is True)
    expected = True
    for word in words:
        is_option = word.startswith("-")
        for part in {word, word.rpartition("=")[2]}:
            if part and "\0" not in part:
                yield part, expected and not is_option
        expected = (expected and is_option) or bool(re.fullmatch(_INTERPRETER, word))


def _split(command: TreeEntry, *, is_shell: bool) -> Sequence[str]:
    if isinstance(command.value, list | tuple):
        words = [str(word) for word in command.value]
        return [words[0], *re.split(_BETWEEN_WORDS, words[0]), *words[1:]] if is_shell else words
    text = cast("str", command.value)
    if is_shell:
        return re.split(_BETWEEN_WORDS, text)

    try:
        return shlex.split(text)
    except ValueError:  # this error is reported when the settings are resolved
        return text.split()


def _script(path: Path, root: Path, *, is_program: bool) -> BoundScript | None:
    name = str(path.relative_to(root))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or not (
            is_program or _looks_like_script(path, status.st_mode)
        ):
            return None
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        real = path.resolve(strict=True)
    except OSError:
        return (
            BoundScript(name, "absent")
            if path.suffix in _SUFFIXES or (is_program and path.parent != root)
            else None
        )
    target = "" if real == path else f" -> {real}"
    return BoundScript(name, f"{stat.S_IMODE(status.st_mode):04o} {digest}{target}")


def _looks_like_script(path: Path, mode: int) -> bool:
    if mode & _EXECUTABLE or path.suffix in _SUFFIXES:
        return True
    with path.open("rb") as file:
        return file.read(2) == b"#!"
