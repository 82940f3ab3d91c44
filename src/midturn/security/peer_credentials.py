"""The peer of a connection on this machine: its user, its processes, and whether those are that user's own.

The kernel names the user of a socket, and its inode; which processes hold it, their open files say. What they descend from is a hint: it
tells a tool's process from its user's browser, and not a browser that a tool steers from one that its user does.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import pwd
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from midturn.security.authorization import not_a_persons_process

Address: TypeAlias = tuple[str, int]
_PROC: Final = Path("/proc")
_ESTABLISHED: Final = 1
_NETLINK_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2
_HEADER: Final = struct.Struct("=IHHII")  # of a netlink message: length, type, flags, number, port
_ASKED: Final = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_ENDS: Final = struct.Struct("!HH16s16s")  # both ports, both addresses
_ANY_INTERFACE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # and any cookie
_TOLD: Final = struct.Struct("=BBxx48x12xII")  # family, state, …, user, inode
_FORWARDERS: Final = frozenset({0, 65534})  # root, and a user whom this namespace has no number for
_GONE: Final = "it has closed its end already"


class Peer(Struct, frozen=True):
    """The other end of a connection, as the kernel knows it when the connection is made."""

    uid: int
    inode: int
    is_open: bool


class Doubt(Struct, frozen=True):
    """Why a connection is not its user's own. `forwarded`: it may have come in from elsewhere, through SSH or a container."""

    why: str
    forwarded: bool = False


def find_peer(connection: socket.socket) -> Peer | None:
    """Look up the other end of a TCP connection on this machine; None where it is on another one, or the system does not say."""
    if not sys.platform.startswith("linux") or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    ours, theirs = connection.getsockname()[:2], connection.getpeername()[:2]
    if not ipaddress.ip_address(theirs[0].partition("%")[0]).is_loopback:
        return None
    try:
        return by_netlink(connection.family, theirs, ours)
    except OSError:  # no such socket in this kernel, or not for us
        return by_table(connection.family, theirs, ours)


def doubt_about(peer: Peer) -> Doubt | None:
    """Say why a peer is not this process's user, or no person's process; None where nothing says so. Reads many files: use a thread."""
    if doubt := user_doubt(peer):
        return doubt
    holders = list(_holders(peer.inode))
    if not holders:
        return Doubt("the process that opened the connection cannot be identified", forwarded=True)
    return next((Doubt(why) for pid in holders if (why := not_a_persons_process(pid))), None)


def user_doubt(peer: Peer) -> Doubt | None:
    """Say why a peer is not this process's user."""
    if not peer.is_open or not peer.inode:
        return Doubt(_GONE)
    return None if peer.uid == os.geteuid() else Doubt(f"it belongs to {_user(peer.uid)}", forwarded=peer.uid in _FORWARDERS)


def by_netlink(family: int, theirs: Address, ours: Address) -> Peer:
    """Ask the kernel for one socket.

    Raises:
        OSError: It does not answer such questions.
    """
    ends = _ENDS.pack(theirs[1], ours[1], _packed(family, theirs[0]), _packed(family, ours[0]))
    body = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends + _ANY_INTERFACE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(1)
        asking.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 1, 0) + body)
        told = asking.recv(4096)
    _, kind, *_ = _HEADER.unpack_from(told)
    if kind == _ERROR:
        (number,) = struct.unpack_from("=i", told, _HEADER.size)
        if number == -errno.ENOENT:
            return Peer(-1, 0, is_open=False)
        raise OSError(-number, os.strerror(-number))
    _, state, uid, inode = _TOLD.unpack_from(told, _HEADER.size)
    return Peer(uid, inode, is_open=state == _ESTABLISHED)


def by_table(family: int, theirs: Address, ours: Address) -> Peer | None:
    """Find a socket in the system's table of connections; None where the table cannot be read."""
    tables = ("tcp", "tcp6") if family == socket.AF_INET else ("tcp6",)
    read = False
    for table in tables:
        with suppress(OSError), (_PROC / "net" / table).open() as rows:
            wanted = [_written(table, theirs), _written(table, ours)]
            for row in rows:
                fields = row.split()
                if fields[1:3] == wanted:
                    return Peer(int(fields[7]), int(fields[9]), is_open=int(fields[3], 16) == _ESTABLISHED)
            read = True
    return Peer(-1, 0, is_open=False) if read else None


def _holders(inode: int) -> Iterator[int]:
    """Yield the processes that have a socket open, as far as we may look."""
    wanted = f"socket:[{inode}]"
    for pid in (int(name) for name in os.listdir(_PROC) if name.isdecimal()):  # noqa: PTH208  thousands of names, and no more of them
        with suppress(OSError):  # it has ended, or is not ours to look at
            files = f"/proc/{pid}/fd"
            if any(_target(f"{files}/{name}") == wanted for name in os.listdir(files)):  # noqa: PTH208  as above
                yield pid


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115  as above
    except OSError:  # closed meanwhile
        return ""


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")


def _written(table: str, address: Address) -> str:
    """Write an address as the table does: its words in the machine's order of bytes."""
    plain = ipaddress.ip_address(address[0].partition("%")[0])
    packed = ipaddress.IPv6Address(f"::ffff:{plain}").packed if table == "tcp6" and "." in address[0] else plain.packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _user(uid: int) -> str:
    try:
        return f"another user ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"another user ({uid})"
