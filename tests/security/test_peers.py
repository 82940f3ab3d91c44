"""The process at the other end of a local connection, as reported by the kernel."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from midturn.security.peer_credentials import Peer, by_netlink, by_table, find_peer, peer_rejection
from midturn.security.process_ancestry import VARIABLE, marked

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="other systems say nothing of a connection's other end",
)
FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}
CLIENT = (
    "import socket, sys; one = socket.create_connection(sys.argv[1:3]); print('there', flush=True);"
    " sys.stdin.read()"
)


@contextmanager
def connected(address: str) -> Generator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection of this process to itself. The server's end is first."""
    with (
        socket.create_server((address, 0), family=FAMILIES[address]) as listener,
        socket.create_connection(listener.getsockname()[:2]) as client,
    ):
        accepted, _ = listener.accept()
        with accepted:
            yield accepted, client


@contextmanager
def connected_from(*command: str, **environment: str) -> Generator[socket.socket]:
    """Yield our end of a connection that another process makes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arguments = [*command, sys.executable, "-c", CLIENT, *map(str, listener.getsockname())]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            arguments, stdin=pipe, stdout=pipe, env={**os.environ, **environment}
        ) as process:
            listener.settimeout(120)
            accepted, _ = listener.accept()
            with accepted:
                yield accepted
            process.communicate()


@pytest.mark.parametrize("ask", [by_netlink, by_table])
@pytest.mark.parametrize("address", FAMILIES)
def test_the_kernel_reports_user_and_socket(ask: Callable[..., Peer | None], address: str) -> None:
    with connected(address) as (ours, theirs):
        found = ask(FAMILIES[address], theirs.getsockname()[:2], ours.getsockname()[:2])
        assert found == Peer(os.geteuid(), os.fstat(theirs.fileno()).st_ino, is_open=True)
        theirs.close()
        closed = ask(FAMILIES[address], ours.getpeername()[:2], ours.getsockname()[:2])
        assert closed is not None
        assert (closed.is_open and bool(closed.inode)) is False


def test_an_ipv6_socket_connected_to_an_ipv4_address_is_found() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_INET6) as client,
    ):
        client.connect((f"::ffff:{listener.getsockname()[0]}", listener.getsockname()[1]))
        accepted, (host, port) = listener.accept()
        with accepted:
            for ask in (by_netlink, by_table):
                found = ask(socket.AF_INET, (host, port), accepted.getsockname())
                assert found == Peer(os.geteuid(), os.fstat(client.fileno()).st_ino, is_open=True)


def test_a_process_of_the_user_is_accepted() -> None:
    with connected_from() as ours:
        peer = find_peer(ours)
        assert peer is not None
        assert peer_rejection(peer) is None


@pytest.mark.parametrize("command", [marked(()), (*marked(()), "setsid", "-w", "env", "-i")])
def test_a_tools_process_is_recognized_by_its_mark(command: Sequence[str]) -> None:
    with connected_from(*command) as ours:
        peer = find_peer(ours)
        assert peer is not None
        doubt = peer_rejection(peer)
        assert doubt is not None
        assert doubt == type(doubt)("it was started by a tool or an agent", forwarded=False)


def test_a_tools_process_is_recognized_by_its_environment() -> None:
    with connected_from(**{VARIABLE: "deploy"}) as ours:
        peer = find_peer(ours)
        assert peer is not None
        doubt = peer_rejection(peer)
        assert doubt is not None
        assert doubt.why == "it was started by `deploy`"


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root becomes another user"
)
def test_another_user_is_reported() -> None:
    with connected_from(
        "setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"
    ) as ours:
        peer = find_peer(ours)
        assert peer is not None
        doubt = peer_rejection(peer)
        assert doubt is not None
        assert (doubt.why, doubt.forwarded) == ("it belongs to another user (54321)", False)


def test_a_connection_without_a_visible_process_may_be_forwarded() -> None:
    doubt = peer_rejection(Peer(os.geteuid(), 2**31, is_open=True))
    assert doubt is not None
    assert doubt.forwarded


def test_a_closed_connection_is_never_accepted() -> None:
    with connected("127.0.0.1") as (ours, theirs):
        theirs.close()
        peer = find_peer(ours)
        assert peer is not None
        doubt = peer_rejection(peer)
        assert doubt is not None
        assert (doubt.why, doubt.forwarded) == ("it has already closed the connection", False)


def test_every_holder_of_a_shared_socket_is_checked() -> None:
    """A tool that receives a connection from its user is not taken for the user."""
    with connected("127.0.0.1") as (ours, theirs), ExitStack() as stack:
        peer = find_peer(ours)
        assert peer is not None
        assert peer_rejection(peer) is None
        theirs.set_inheritable(True)
        sleeping = [*marked(()), sys.executable, "-c", "print('there', flush=True); input()"]
        pipe = subprocess.PIPE
        tool = stack.enter_context(
            subprocess.Popen(sleeping, close_fds=False, stdin=pipe, stdout=pipe)
        )
        assert tool.stdout
        assert tool.stdout.readline()
        assert peer_rejection(peer) is not None
        tool.communicate(b"\n")
