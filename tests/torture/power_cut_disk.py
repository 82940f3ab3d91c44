"""The log of `power_cut.c`, and the disk after a power cut at a point of this log.

What a disk contains is defined by a model of a file system. In every model, a sync of a file makes
the content of this file durable. Content that is not synced is dropped, or kept up to a random
sector of 512 bytes. At the end of a file, zeros may follow up to the new size, as on ext4 if
another sync writes the journal. With `--holes`, any sector of such content may be zeros.

- `journal` (ext4, XFS): changes of names are durable in their order. A sync of a file or directory
  makes them durable up to the last change of this file or directory.
- `btrfs`: a sync makes the names of a new file and of its new directories durable, or the names in
  a directory. A commit at a random time makes all names durable.
- `strict`: a name is durable when its directory was synced. The store makes no promise for such a
  file system, because on Linux it does not sync the directory that contains the conversations.
"""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

FileSystem: TypeAlias = Literal["journal", "btrfs", "strict"]
FILE_SYSTEMS: Final[tuple[FileSystem, ...]] = ("journal", "btrfs", "strict")
SECTOR: Final = 512
"""Bytes that a disk writes as a whole."""
BLOCK: Final = 4096
"""Bytes of a block of a file."""


# --------------------------------------------------------------------------------------------------
# The log


class Node:
    """A file, a directory or a symbolic link, with its first record."""

    __slots__ = ("at", "is_directory", "target")

    def __init__(self, at: int, *, is_directory: bool = False, target: str | None = None) -> None:
        self.at = at
        self.is_directory = is_directory
        self.target = target


Place: TypeAlias = tuple[Node, str]
"""A directory and a name in it."""


class NameChange(Struct, frozen=True):
    """An atomic change of names: a place with None is removed. `of` is the file or directory."""

    at: int
    changes: tuple[tuple[Place, Node | None], ...]
    of: Node


class ContentChange(Struct, frozen=True):
    """A write, or with `data` None a change of the size to `offset`."""

    at: int
    of: Node
    offset: int
    data: bytes | None
    is_longer: bool
    """Whether the size of the file changes."""


class Sync(Struct, frozen=True):
    """A completed sync. It covers the changes before `begin`."""

    begin: int
    end: int
    of: Node
    kind: str


class Log:
    """The records of a run, as changes of nodes."""

    def __init__(self, log: Path, root: Path) -> None:
        self.root = Node(-1, is_directory=True)
        self.names: list[NameChange] = []
        self.contents: list[ContentChange] = []
        self.syncs: list[Sync] = []
        self.marks: list[tuple[int, bytes]] = []
        """The records of the program, and their points."""
        self.boundaries: list[int] = []
        """The points before and after syncs, and after records of the program."""
        self.overlapping = 0
        self.length = 0
        self._nodes: dict[int, Node] = {root.stat().st_ino: self.root}
        self._begun: dict[int, tuple[int, Node]] = {}
        self._sizes: defaultdict[Node, int] = defaultdict(int)
        self._tree: dict[Place, Node] = {}
        for kind, first, second, data in _records(log.read_bytes()):
            self._add(kind, first, second, data)
            self.length += 1

    def _add(self, kind: str, first: int, second: int, data: bytes) -> None:
        at = self.length
        match kind:
            case "create" | "mkdir" | "symlink":
                name, _, target = data.decode().partition("\0")
                new = Node(at, is_directory=kind == "mkdir", target=target or None)
                self._nodes[second] = new
                self._change(new, ((self._nodes[first], name), new))
            case "link":
                node = self._nodes[second]
                self._change(node, ((self._nodes[first], data.decode()), node))
            case "unlink":
                self._change(self._nodes[second], ((self._nodes[first], data.decode()), None))
            case "rename":
                old, _, new_name = data.decode().partition("\0")
                before, after = (self._nodes[first], old), (self._nodes[second], new_name)
                node = self._tree[before]
                self._change(node, (before, None), (after, node))
            case "write" | "truncate":
                self._add_content(self._nodes[first], second, data if kind == "write" else None)
            case "begin":
                self.overlapping += bool(self._begun)
                self._begun[second] = at, self._nodes[first]
                self.boundaries += [at, at + 1]
            case "end":
                begin, node = self._begun.pop(second)
                self.syncs.append(Sync(begin, at, node, data.decode()))
                self.boundaries += [at, at + 1]
            case "mark":
                self.marks.append((at, data))
                self.boundaries += [at + 1]
            case _:
                raise AssertionError(f"The log has the record {kind!r}: {data!r}")

    def _change(self, of: Node, *changes: tuple[Place, Node | None]) -> None:
        change = NameChange(self.length, changes, of)
        self.names.append(change)
        apply_names(self._tree, change)

    def _add_content(self, node: Node, offset: int, data: bytes | None) -> None:
        before = self._sizes[node]
        size = offset if data is None else max(before, offset + len(data))
        self._sizes[node] = size
        self.contents.append(ContentChange(self.length, node, offset, data, size != before))


def _records(log: bytes) -> Iterator[tuple[str, int, int, bytes]]:
    position = 0
    while position < len(log):
        end = log.index(b"\n", position)
        kind, first, second, size = log[position:end].split()
        data = log[end + 1 : end + 1 + int(size)]
        yield kind.decode(), int(first), int(second), data
        position = end + int(size) + 2


def apply_names(tree: dict[Place, Node], change: NameChange) -> None:
    for place, node in change.changes:
        if node is None:
            tree.pop(place, None)
        else:
            tree[place] = node


# --------------------------------------------------------------------------------------------------
# The disk after a power cut


class Disk(Struct):
    """The names and the contents of files after a power cut."""

    tree: dict[Place, Node]
    contents: dict[Node, bytes]

    def write(self, root: Node, path: Path) -> None:
        """Write the files into the new directory `path`."""
        children: defaultdict[Node, list[tuple[str, Node]]] = defaultdict(list)
        for (directory, name), node in self.tree.items():
            children[directory].append((name, node))
        written: dict[Node, Path] = {}

        def write(node: Node, path: Path) -> None:
            if node in written:
                if not node.is_directory:  # a second name of the file
                    path.hardlink_to(written[node])
                return
            written[node] = path
            if node.is_directory:
                path.mkdir(mode=0o700)
                for name, child in children[node]:
                    write(child, path / name)
            elif node.target is not None:
                path.symlink_to(node.target)
            else:
                path.write_bytes(self.contents.get(node, b""))
                path.chmod(0o600)

        write(root, path)


def cut(
    log: Log, point: int, file_system: FileSystem, chance: random.Random, *, holes: bool = False
) -> Disk:
    """Return the disk after a power cut before the record `point`."""
    ended = [sync for sync in log.syncs if sync.end < point]
    match file_system:
        case "journal":
            tree = _journal_names(log, point, ended, chance)
        case "btrfs":
            tree = _btrfs_names(log, point, ended, chance)
        case "strict":
            tree = _strict_names(log, ended)
    return Disk(tree, _contents(log, point, ended, chance, holes=holes))


def _tree_before(log: Log, point: int) -> dict[Place, Node]:
    tree: dict[Place, Node] = {}
    for change in log.names:
        if change.at >= point:
            break
        apply_names(tree, change)
    return tree


def _journal_names(
    log: Log, point: int, ended: Sequence[Sync], chance: random.Random
) -> dict[Place, Node]:
    least = max((_committed_by(log, sync) for sync in ended), default=0)
    more = chance.random() < 0.5
    return _tree_before(log, chance.randint(least, point) if more else least)


def _committed_by(log: Log, sync: Sync) -> int:
    """Return the end of the part of the journal that a sync writes. A sync of a file without
    changes writes nothing.
    """
    if sync.kind == "syncfs":
        return sync.begin
    changes = [
        change.at
        for change in log.names
        if change.at < sync.begin
        and (
            any(place[0] is sync.of for place, _ in change.changes)
            or (change.of is sync.of and (sync.kind == "fsync" or change.at == sync.of.at))
        )
    ]
    changes += [
        change.at
        for change in log.contents
        if change.of is sync.of and change.is_longer and change.at < sync.begin
    ]
    return max(changes, default=-1) + 1


def _btrfs_names(
    log: Log, point: int, ended: Sequence[Sync], chance: random.Random
) -> dict[Place, Node]:
    """Return the names after the last commit, and the names that later syncs have logged."""
    commit = chance.randint(0, point) if chance.random() < 0.7 else 0
    tree = _tree_before(log, commit)
    for sync in sorted(ended, key=lambda sync: sync.begin):
        if sync.begin < commit:
            continue
        changed = [change for change in log.names if commit <= change.at < sync.begin]
        now = _tree_before(log, sync.begin)
        renamed = [change for change in changed if len(change.changes) > 1]
        is_renamed = sync.of.is_directory and any(change.of is sync.of for change in renamed)
        if sync.kind == "syncfs" or is_renamed:
            commit, tree = sync.begin, now
            continue
        if sync.of.is_directory:
            _log_directory(tree, now, sync.of, changed)
        is_moved = any(change.of is sync.of and change.at != sync.of.at for change in changed)
        if sync.of.at >= commit or is_moved:
            _log_names_of(tree, now, sync.of, commit)
    return tree


def _log_directory(
    tree: dict[Place, Node], now: dict[Place, Node], directory: Node, changed: Sequence[NameChange]
) -> None:
    for change in changed:
        if any(place[0] is directory for place, _ in change.changes):
            for place, _ in change.changes:
                if node := now.get(place):
                    tree[place] = node
                else:
                    tree.pop(place, None)


def _log_names_of(tree: dict[Place, Node], now: dict[Place, Node], node: Node, commit: int) -> None:
    """Log all names of a node, and those of its directories that are new since the commit."""
    for place in [place for place, found in tree.items() if found is node]:
        del tree[place]
    for place in [place for place, found in now.items() if found is node]:
        tree[place] = node
        if place[0].at >= commit:
            _log_names_of(tree, now, place[0], commit)


def _strict_names(log: Log, ended: Sequence[Sync]) -> dict[Place, Node]:
    last: dict[Node, int] = {}
    for sync in ended:
        if sync.of.is_directory:
            last[sync.of] = max(last.get(sync.of, 0), sync.begin)
    tree: dict[Place, Node] = {}
    for change in log.names:
        for place, node in change.changes:
            if change.at < last.get(place[0], 0):
                if node is None:
                    tree.pop(place, None)
                else:
                    tree[place] = node
    return tree


def _contents(
    log: Log, point: int, ended: Sequence[Sync], chance: random.Random, *, holes: bool
) -> dict[Node, bytes]:
    synced: dict[Node, int] = {}
    for sync in ended:
        nodes = [sync.of] if sync.kind != "syncfs" else {change.of for change in log.contents}
        for node in nodes:
            synced[node] = max(synced.get(node, 0), sync.begin)
    found: dict[Node, bytearray] = {}
    unsynced: defaultdict[Node, list[ContentChange]] = defaultdict(list)
    for change in log.contents:
        if change.at >= point:
            break
        if change.at < synced.get(change.of, 0):
            _apply(found.setdefault(change.of, bytearray()), change, change.data)
        else:
            unsynced[change.of].append(change)
    for node, changes in unsynced.items():
        content = found.setdefault(node, bytearray())
        _apply_unsynced(content, changes, chance, holes=holes)
    return {node: bytes(content) for node, content in found.items()}


def _apply_unsynced(
    content: bytearray, changes: Sequence[ContentChange], chance: random.Random, *, holes: bool
) -> None:
    """Keep nothing, everything, or the first changes and a part of the next one."""
    count = chance.choice((0, len(changes), chance.randrange(len(changes))))
    for change in changes[:count]:
        _apply(content, change, change.data)
    if count < len(changes) and (change := changes[count]).data and chance.random() < 0.8:
        tears = [_first_sectors, _with_zeros, *([_with_holes] if holes else [])]
        if data := chance.choice(tears)(change.data, change.offset, chance):
            _apply(content, change, data)


def _first_sectors(data: bytes, offset: int, chance: random.Random) -> bytes:
    first, last = offset // SECTOR, (offset + len(data) - 1) // SECTOR
    return data[: max(chance.randint(first, last) * SECTOR - offset, 0)]


def _with_zeros(data: bytes, offset: int, chance: random.Random) -> bytes:
    """Return the first sectors, and zeros up to the end of the block. The block has earlier
    content, so its new size can be durable before its new content.
    """
    if not offset % BLOCK:
        return b""
    length = min(len(data), BLOCK - offset % BLOCK)
    return _first_sectors(data, offset, chance)[:length].ljust(length, b"\0")


def _with_holes(data: bytes, offset: int, chance: random.Random) -> bytes:
    found = bytearray(data)
    for sector in range(offset // SECTOR, (offset + len(data) - 1) // SECTOR + 1):
        if chance.random() < 0.5:
            begin = max(sector * SECTOR - offset, 0)
            end = min((sector + 1) * SECTOR - offset, len(data))
            found[begin:end] = bytes(end - begin)
    return bytes(found)


def _apply(content: bytearray, change: ContentChange, data: bytes | None) -> None:
    if len(content) < change.offset:
        content.extend(bytes(change.offset - len(content)))
    if data is None:
        del content[change.offset :]
    else:
        content[change.offset : change.offset + len(data)] = data


def check_log(log: Log, root: Path) -> None:
    """Check that the whole log describes the actual files, so that no change is missing in it."""
    disk = Disk(_tree_before(log, log.length), {})
    contents: defaultdict[Node, bytearray] = defaultdict(bytearray)
    for change in log.contents:
        _apply(contents[change.of], change, change.data)
    disk.contents = {node: bytes(content) for node, content in contents.items()}
    with tempfile.TemporaryDirectory(dir=root.parent) as directory:
        copy = Path(directory, "disk")
        disk.write(log.root, copy)
        assert _files(copy) == _files(root)


def _files(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = path.readlink()
        else:
            found[name] = None if path.is_dir() else (path.read_bytes(), path.stat().st_nlink)
    return found
