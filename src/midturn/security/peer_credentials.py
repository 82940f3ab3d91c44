"""Identifies the process at the other end of a local connection, and checks whether it belongs to
this user.

The kernel reports the user and the inode of the peer's socket. The processes that hold that socket
are found through their open files in `/proc`. The ancestry of these processes is not a security
boundary. It distinguishes a tool's process from the user's browser, but not a browser that a tool
controls from a browser that the user controls.
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

from midturn.security.authorization import nonhuman_process_reason

Address: TypeAlias = tuple[str, int]
_PROC: Final = Path("/proc")
_ESTABLISHED: Final = 1
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2
_HEADER: Final = struct.Struct(
    "=IHHII"
)  # netlink message header: length, type, flags, sequence number, port
# request: address family, protocol, extensions, states
_DIAG_REQUEST: Final = struct.Struct("=BBBxI")
_ENDS: Final = struct.Struct("!HH16s16s")  # ends of a connection: both ports, then both addresses
# interface 0 (any interface), and the wildcard for the socket cookie
_ANY_INTERFACE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
# response: address family, state, …, user ID, inode
_DIAG_RESPONSE: Final = struct.Struct("=BBxx48x12xII")
_FORWARDERS: Final = frozenset(
    {0, 65534}
)  # root, and the id of users that this namespace does not map
_CLOSED: Final = "it has already closed the connection"


class Peer(Struct, frozen=True):
    """The other end of a connection, as the kernel reports it when the connection is accepted."""

    uid: int
    inode: int
    is_open: bool


class PeerRejected(Struct, frozen=True):
    """Reason why a connection is rejected.

    `forwarded`: the connection may come from another host, through SSH or a container.
    """

    why: str
    forwarded: bool = False


def find_peer(connection: socket.socket) -> Peer | None:
    """Return the other end of a TCP connection on this machine.

    Return None if the other end is remote or the system does not report it.
    """
    if not sys.platform.startswith("linux") or connection.family not in (
        socket.AF_INET,
        socket.AF_INET6,
    ):
        return None
    ours, theirs = connection.getsockname()[:2], connection.getpeername()[:2]
    if not ipaddress.ip_address(theirs[0].partition("%")[0]).is_loopback:
        return None
    try:
        return by_netlink(connection.family, theirs, ours)
    except OSError:  # netlink is not supported or not permitted
        return by_table(connection.family, theirs, ours)


def peer_rejection(peer: Peer) -> PeerRejected | None:
    """Return why a peer must be rejected, or None.

    A peer is rejected if it belongs to another user, a tool or an agent. Call this function in a
    thread, because it reads many files in `/proc`.
    """
    if doubt := peer_user_rejection(peer):
        return doubt
    holders = list(_holders(peer.inode))
    if not holders:
        return PeerRejected(
            "the process that opened the connection cannot be identified", forwarded=True
        )
    return next(
        (PeerRejected(why) for pid in holders if (why := nonhuman_process_reason(pid))), None
    )


def peer_user_rejection(peer: Peer) -> PeerRejected | None:
    """Return why a peer must be rejected, or None if it belongs to this process's user."""
    if not peer.is_open or not peer.inode:
        return PeerRejected(_CLOSED)
    return (
        None
        if peer.uid == os.geteuid()
        else PeerRejected(f"it belongs to {_user(peer.uid)}", forwarded=peer.uid in _FORWARDERS)
    )


def by_netlink(family: int, theirs: Address, ours: Address) -> Peer:
    """Query the kernel for one socket through netlink.

    Raises:
        OSError: The kernel does not support such queries.
    """
    ends = _ENDS.pack(theirs[1], ours[1], _packed(family, theirs[0]), _packed(family, ours[0]))
    body = _DIAG_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends + _ANY_INTERFACE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(1)
        netlink.send(
            _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + body
        )
        response = netlink.recv(4096)
    _, kind, *_ = _HEADER.unpack_from(response)
    if kind == _ERROR:
        (number,) = struct.unpack_from("=i", response, _HEADER.size)
        if number == -errno.ENOENT:
            return Peer(-1, 0, is_open=False)
        raise OSError(-number, os.strerror(-number))
    _, state, uid, inode = _DIAG_RESPONSE.unpack_from(response, _HEADER.size)
    return Peer(uid, inode, is_open=state == _ESTABLISHED)


def by_table(family: int, theirs: Address, ours: Address) -> Peer | None:
    """Find a socket in `/proc/net/tcp`. Return None if the table cannot be read."""
    tables = ("tcp", "tcp6") if family == socket.AF_INET else ("tcp6",)
    read = False
    for table in tables:
        with suppress(OSError), (_PROC / "net" / table).open() as rows:
            wanted = [_written(table, theirs), _written(table, ours)]
            for row in rows:
                fields = row.split()
                if fields[1:3] == wanted:
                    return Peer(
                        int(fields[7]), int(fields[9]), is_open=int(fields[3], 16) == _ESTABLISHED
                    )
            read = True
    return Peer(-1, 0, is_open=False) if read else None


def _holders(inode: int) -> Iterator[int]:
    """Yield the IDs of the processes that have a socket open.

    Processes whose open files cannot be read are skipped.
    """
    wanted = f"socket:[{inode}]"
    for pid in (int(name) for name in os.listdir(_PROC) if name.isdecimal()):  # noqa: PTH208  thousands of names; Path would be slow
        with suppress(OSError):  # the process has ended, or its files cannot be read
            files = f"/proc/{pid}/fd"
            if any(_target(f"{files}/{name}") == wanted for name in os.listdir(files)):  # noqa: PTH208  as above
                yield pid


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115  as above
    except OSError:  # the file was closed meanwhile
        return ""


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")


def _written(table: str, address: Address) -> str:
    """Format an address in the format of `/proc/net/tcp`, with 32-bit words in host byte order."""
    plain = ipaddress.ip_address(address[0].partition("%")[0])
    packed = (
        ipaddress.IPv6Address(f"::ffff:{plain}").packed
        if table == "tcp6" and "." in address[0]
        else plain.packed
    )
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _user(uid: int) -> str:
    try:
        return f"another user ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"another user ({uid})"
