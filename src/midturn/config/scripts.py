"""The scripts of a workspace that its commands name: who approves a command approves what it runs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from midturn.config.tree import Tree, TreeEntry, branch, entry

_COMMANDS = (("conversation", "tools"), ("providers", "mcp"))
_SUFFIXES = frozenset({".bash", ".cjs", ".js", ".lua", ".mjs", ".php", ".pl", ".ps1", ".py", ".rb", ".sh", ".ts", ".zsh"})
_BETWEEN_WORDS = r"""[\s;&|()<>`$"'{}=]+"""
_INTERPRETER = (
    r"(?:.*/)?(?:python|pypy|node|deno|bun|ruby|perl|php|lua|tclsh|osascript|sh|ash|dash|bash|zsh|fish|ksh|env|exec|sudo|uv|run|source|\.)"
    r"[\d.]*"
)
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class BoundScript(Struct, frozen=True):
    """One script: its path relative to the root, and what an approval is bound to: mode and hash, or `absent`."""

    name: str
    state: str


def scripts(tree: Tree, root: Path) -> tuple[BoundScript, ...]:
    """Find the files beneath the root that the commands of a layer name as programs.

    Those are the command itself, what an interpreter is told to read, and every other word that names something executable or has the
    name of a script. One that is absent counts as well: it could come with the next pull.
    """
    real = root.resolve()
    found: dict[Path, BoundScript | None] = {}
    for table in _tables(tree):
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
    """Yield the words of a command, and whether each is meant to be run."""
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
    import shlex  # only a command that is written as one text needs it

    try:
        return shlex.split(text)
    except ValueError:  # resolving the settings says so
        return text.split()


def _script(path: Path, root: Path, *, is_program: bool) -> BoundScript | None:
    import hashlib  # only a file that needs approval needs it

    name = str(path.relative_to(root))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or not (is_program or _looks_like_one(path, status.st_mode)):
            return None
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        real = path.resolve(strict=True)
    except OSError:
        return BoundScript(name, "absent") if path.suffix in _SUFFIXES or (is_program and path.parent != root) else None
    leads = "" if real == path else f" -> {real}"
    return BoundScript(name, f"{stat.S_IMODE(status.st_mode):04o} {digest}{leads}")


def _looks_like_one(path: Path, mode: int) -> bool:
    if mode & _EXECUTABLE or path.suffix in _SUFFIXES:
        return True
    with path.open("rb") as file:
        return file.read(2) == b"#!"
