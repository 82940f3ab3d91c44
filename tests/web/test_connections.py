"""The connections that `midturn serve` accepts: which users, addresses and proxies, and how
many. Tests run the server as a process.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx2
import pytest
import trustme
from starlette.applications import Starlette

from midturn.cli.serve_options import announce, open_code_socket
from midturn.http import Listening
from midturn.http_server import HEAD_SECONDS, MAX_UNAUTHENTICATED, serving
from midturn.question.question import Question
from midturn.security.process_ancestry import marked
from midturn.stores.opening import FileStore
from support.pages import OWN, agent_with, asking, wait_for
from support.processes import Forked
from support.served import MIDTURN, Served
from support.serving import enter, free_port, loopback_request
from support.warm_commands import Command, kill_at_exit, run_warm

on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems do not say whose a connection is"
)
CROWD = 1_500
# sent in every stream every few seconds; a busy machine may take that long for any response
KEEP_ALIVE = ": still here"


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Callable[..., Served]]:
    """Start servers with the same directory."""
    started: list[Served] = []

    def start(*options: str, port: int | None = None) -> Served:
        started.append(Served(tmp_path, options, port))
        return started[-1]

    yield start
    for one in started:
        one.end()


@contextmanager
def signed_in(served: Served, *, again: bool = False) -> Generator[httpx2.Client]:
    """Yield a signed-in client. It uses the first printed address, or a new code."""
    entrance, host = loopback_request(served.another_address() if again else served.address())
    with httpx2.Client(
        headers={**OWN, **host}, base_url=f"http://127.0.0.1:{served.port}", timeout=120
    ) as client:
        assert enter(client, entrance).status_code == 303
        yield client


ASK = """
import http.client, json, sys
port, headers = int(sys.argv[1]), json.loads(sys.argv[2])
asking = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
asking.request("GET", "/api/questions", headers=headers)
answer = asking.getresponse()
print(answer.status, answer.read().decode())
"""


def asked_by(served: Served, client: httpx2.Client, *command: str) -> str:
    """Send a request with a client's cookies from another process; return the output."""
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    headers = json.dumps({"Host": client.headers["host"], "Cookie": cookie})
    asking = [*command, sys.executable, "-c", ASK, str(served.port), headers]
    return subprocess.run(asking, capture_output=True, text=True, timeout=120, check=True).stdout


# Users
# --------------------------------------------------------------------------------------------------


@on_linux
def test_process_of_a_tool_is_refused_with_any_cookie(serve: Callable[..., Served]) -> None:
    served = serve()
    with signed_in(served) as client:
        assert asked_by(served, client).startswith("200 []")
        refused = asked_by(served, client, *marked(()))
        assert refused.startswith("403 ")
        assert (
            "it was started by a tool or an agent. Open the page in a browser that you have started"
            " yourself" in refused
        )
        assert client.get("/api/questions").status_code == 200


@on_linux
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root becomes another user"
)
@pytest.mark.parametrize("options", [(), ("--forwarded",)])
def test_another_user_is_refused(serve: Callable[..., Served], options: Sequence[str]) -> None:
    served = serve(*options)
    _, host = loopback_request(served.address())
    with httpx2.Client(headers=host, timeout=120) as client:
        said = asked_by(
            served, client, "setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"
        )
    assert said.startswith("403 ")
    assert "it belongs to another user (54321)" in said
    assert "--forwarded" not in said


@on_linux
@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root looks into every process"
)
@pytest.mark.parametrize(("options", "status"), [((), "403"), (("--forwarded",), "401")])
def test_uninspectable_process_is_accepted_only_as_forwarded(
    tmp_path: Path, options: Sequence[str], status: str
) -> None:
    """An example is SSH, which forwards for its user but cannot be inspected by that user's
    processes.
    """
    plain = ["setpriv", "--bounding-set=-sys_ptrace"] if os.geteuid() == 0 else []
    script = HIDDEN.format(midturn=[*plain, *MIDTURN], options=list(options), port=free_port())
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    hidden = [sys.executable, "-c", script]
    printed = subprocess.run(
        hidden,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert printed.startswith(status)
    assert ("the process that opened the connection cannot be identified" in printed) is (
        status == "403"
    )
    assert ("start `midturn serve --forwarded`" in printed) is (status == "403")


HIDDEN = """
import ctypes, http.client, subprocess, sys, urllib.parse
command = [*{midturn}, "serve", "--store", "conversations", "--port", "{port}", *{options}]
server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
host = urllib.parse.urlsplit(server.stdout.readline()).netloc
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # as SSH is: no other process of the same user looks into it
asking = http.client.HTTPConnection("127.0.0.1", {port}, timeout=120)
asking.request("GET", "/api/questions", headers={{"Host": host}})
answer = asking.getresponse()
print(answer.status, answer.read().decode())
server.kill()
"""


def test_both_loopback_addresses_are_used(serve: Callable[..., Served]) -> None:
    served = serve()
    host = loopback_request(served.address())[1]
    for address in ("127.0.0.1", "[::1]"):
        assert (
            httpx2.get(f"http://{address}:{served.port}/", headers=host, timeout=120).status_code
            == 401
        )


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_does_not_start_if_another_server_uses_one_of_them(tmp_path: Path, address: str) -> None:
    """A browser would also try the other server and send it the cookie."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as other:
        port = str(other.getsockname()[1])
        homes = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        done = run_warm(
            Command(
                ["serve", "--store", "conversations", "--port", port],
                tmp_path,
                homes,
                uses_network=True,
            ),
            b"",
        )
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"Cannot listen on {address} port {port}" in done.stderr.decode()


def test_name_persists_until_renewed_and_sign_ins_do_not(serve: Callable[..., Served]) -> None:
    first = serve()
    with signed_in(first) as client:
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        host = client.headers["host"]
    kept = first.directory / "XDG_STATE_HOME" / "midturn" / "serve" / str(first.port)
    assert (kept / "name").stat().st_mode & 0o777 == 0o600
    first.process.send_signal(signal.SIGINT)
    assert first.ended()[0] == 0
    left = {file.name for file in kept.iterdir()}
    assert left - {"push.json"} == {"name"}, (
        "nothing is left but the name, and the keys of notifications"
    )
    hosts: list[str] = []
    for options in ((), ("--new-name",)):
        again = serve(*options, port=first.port)
        hosts.append(loopback_request(again.address())[1]["Host"])
        stale = httpx2.get(
            f"http://127.0.0.1:{first.port}/",
            headers={"Host": hosts[-1], "Cookie": cookie},
            timeout=120,
        )
        assert stale.status_code == 401
        again.process.send_signal(signal.SIGINT)
        assert again.ended()[0] == 0
    assert hosts[0] == host
    assert hosts[1] != hosts[0]


# Codes
# --------------------------------------------------------------------------------------------------


@on_linux
def test_open_code_socket_refuses_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check in the tool's own process would not be a boundary. The server identifies the
    caller.
    """
    monkeypatch.setenv(
        "XDG_STATE_HOME", str(tmp_path / ("a long name " * 12))
    )  # longer than the maximum length of a socket's address
    announce(7478, "http://127.0.0.1:7478/")
    listener, take = open_code_socket(7478, lambda: "2222-3333-4444-5555")
    listener.setblocking(True)
    running = (
        "from midturn.cli.serve_options import find_running; print(find_running(None).new_code())"
    )
    pipe = subprocess.PIPE
    with listener:
        for command, said in (
            ((), "2222-3333-4444-5555"),
            (marked(()), "The server refused to issue a code to this process: it was started by"),
        ):
            asking = subprocess.Popen(
                [*command, sys.executable, "-c", running], stdout=pipe, stderr=pipe, text=True
            )
            take()
            assert said in "".join(asking.communicate(timeout=120))


def test_files_in_the_server_directory_grant_no_access(serve: Callable[..., Served]) -> None:
    served = serve()
    with signed_in(served) as client:
        kept = served.directory / "XDG_STATE_HOME" / "midturn" / "serve" / str(served.port)
        token = next(iter(client.cookies.values()))
        assert all(token not in file.read_text() for file in kept.rglob("*") if file.is_file())
        client.cookies.clear()
        (kept / "sign-ins").mkdir()
        (kept / "sign-ins" / hashlib.sha256(b"invented").hexdigest()).touch(mode=0o600)
        assert (
            client.get("/", headers={"Cookie": f"midturn-{served.port}=invented"}).status_code
            == 401
        )


# Many connections
# --------------------------------------------------------------------------------------------------


def test_incomplete_requests_do_not_affect_signed_in_users(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """Each of the user's requests uses its own connection, which is at first not
    authenticated.
    """
    wait_for(
        agent_with(FileStore(tmp_path / "conversations"), asking(Question.boolean("q", "Deploy?")))
    )
    served = serve()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * CROWD)), hard))
    crowd: list[socket.socket] = []
    slowest = 0.0
    try:
        with signed_in(served) as client, client.stream("GET", "/api/events") as stream:
            heard = stream.iter_lines()
            assert next(heard).startswith("retry")
            for number in range(CROWD):
                crowd.append(socket.create_connection(("127.0.0.1", served.port), timeout=120))
                crowd[-1].send(b"GET / HTTP/1.1\r\nHost: ")
                if number % 50 == 0:
                    begun = time.monotonic()
                    assert "Deploy?" in client.get("/", headers={"Connection": "close"}).text
                    slowest = max(slowest, time.monotonic() - begun)
            assert "Deploy?" in client.get("/").text
            wait_for(
                agent_with(
                    FileStore(tmp_path / "conversations"), asking(Question.boolean("q", "And now?"))
                )
            )
            assert any("And now?" in line for line in heard), "the stream goes on"
            dropped = sum(_is_closed(one) for one in crowd)
        assert dropped >= CROWD - MAX_UNAUTHENTICATED - 2
    finally:
        for one in crowd:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(f"slowest page among {CROWD} unfinished connections: {slowest:.2f} s")  # noqa: T201


def test_complete_request_is_answered_despite_new_connections(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """It uses its own connection, while other clients open more connections than the limit."""
    wait_for(
        agent_with(FileStore(tmp_path / "conversations"), asking(Question.boolean("q", "Deploy?")))
    )
    served = serve()
    with ExitStack() as stack:
        client = stack.enter_context(signed_in(served))
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        for _ in range(5):
            own = stack.enter_context(
                closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=120))
            )
            own.request(
                "GET",
                "/",
                headers={"Host": client.headers["host"], "Cookie": cookie, "Accept": "text/html"},
            )
            for _ in range(2 * MAX_UNAUTHENTICATED):
                stranger = stack.enter_context(
                    socket.create_connection(("127.0.0.1", served.port), timeout=120)
                )
                stranger.send(b"GET / HTTP/1.1\r\nHost: ")
            assert "Deploy?" in own.getresponse().read().decode()


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_incomplete_request_head_times_out(serve: Callable[..., Served]) -> None:
    """Three at the same time, because each test waits for the timeout."""
    served = serve()
    served.address()

    def seconds_until_closed(begun: bytes) -> float:
        with socket.create_connection(
            ("127.0.0.1", served.port), timeout=HEAD_SECONDS + 60
        ) as slow:
            slow.sendall(begun)
            began = time.monotonic()
            while slow.recv(65536):
                pass
            return time.monotonic() - began

    heads = (
        b"",
        b"GET / HTTP/1.1\r\nHost: x",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n",
    )
    with ThreadPoolExecutor(len(heads)) as slow:
        lasted = dict(zip(heads, slow.map(seconds_until_closed, heads), strict=True))
    assert all(seconds > HEAD_SECONDS * 0.4 for seconds in lasted.values()), (
        f"each has its time: {lasted}"
    )


def test_connection_opened_during_shutdown_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection opened later would not be closed at shutdown, and the server would wait for
    it.
    """
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "page.pem")
    )
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    there = Listening(
        port=free_port(), certificate=str(tmp_path / "page.pem"), key=str(tmp_path / "page.pem")
    )

    def is_ended(opened: socket.socket) -> bool:
        try:
            with trusting.wrap_socket(opened, server_hostname="localhost") as spoken:
                return spoken.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            return True

    async def serve_and_end(asking: ThreadPoolExecutor) -> bool:
        ended: list[Future[bool]] = []

        async def come(_server: object) -> None:
            opened = socket.create_connection(("127.0.0.1", there.port), timeout=120)
            for _ in range(20):
                await asyncio.sleep(0)  # the connection is accepted
            ended.append(asking.submit(is_ended, opened))

        monkeypatch.setattr("midturn.http_server._Server.main_loop", come)
        async with serving(Starlette(), there):
            pass
        return await asyncio.wrap_future(ended[0])

    with ThreadPoolExecutor(1) as asking:
        assert asyncio.run(serve_and_end(asking))


# Streams
# --------------------------------------------------------------------------------------------------


def test_sign_out_ends_only_the_streams_of_its_device(serve: Callable[..., Served]) -> None:
    served = serve()
    with signed_in(served) as leaving, signed_in(served, again=True) as staying:
        with (
            leaving.stream("GET", "/api/events") as ends,
            staying.stream("GET", "/api/events") as goes_on,
        ):
            heard = ends.iter_lines()
            assert next(heard).startswith("retry")
            assert next(goes_on.iter_lines()).startswith("retry")
            assert leaving.post("/leave", data={}).status_code == 200
            assert {*heard} <= {"", KEEP_ALIVE}
        assert leaving.get("/api/questions").status_code == 401
        assert staying.get("/api/questions").status_code == 200


MOUNTED = """
import socket, sys
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from midturn.stores.opening import FileStore
from midturn.web import inbox
pages = inbox(FileStore(sys.argv[1]), user=lambda _: "ada")
app = pages
if sys.argv[2] == "Starlette":
    app = Starlette(routes=[Mount("/inbox", pages)])
elif sys.argv[2] == "FastAPI":
    app = FastAPI()
    app.mount("/inbox", pages)
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
"""


@pytest.mark.filterwarnings("ignore")  # warnings of the frameworks
@pytest.mark.parametrize("around", ["Starlette", "FastAPI", "nothing"])
def test_open_page_does_not_block_application_shutdown(tmp_path: Path, around: str) -> None:
    with (
        kill_at_exit(
            Forked(MOUNTED, tmp_path / "conversations", around, uses_network=True)
        ) as application,
        application.stdin,
    ):
        root = "" if around == "nothing" else "/inbox"
        address = f"http://127.0.0.1:{application.stdout.readline().strip()}{root}/api/events"
        with httpx2.stream("GET", address, timeout=120) as stream:
            heard = stream.iter_lines()
            assert next(heard).startswith("retry")
            application.send_signal(signal.SIGTERM)
            assert {*heard} <= {"", KEEP_ALIVE}
        assert application.wait(120) in (0, -signal.SIGTERM)


# Proxies
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--user-header", "X-User", "--behind-proxy"],
            "Every user of this machine can send the header X-User",
        ),
        (["--unix-socket", "page.sock"], "`--unix-socket` requires `--behind-proxy` and `--url`."),
        (
            ["--behind-proxy", "--user-header", "X-User", "--proxy-secret-file", "open"],
            "Other users can read open",
        ),
        (
            ["--behind-proxy", "--user-header", "X-User", "--proxy-secret-file", "short"],
            "too short",
        ),
    ],
)
def test_untrusted_proxy_header_is_refused(
    serve: Callable[..., Served], tmp_path: Path, options: list[str], said: str
) -> None:
    for name, mode, text in (("open", 0o644, "a secret of some length"), ("short", 0o600, "short")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    status, errors = serve(*options).ended()
    assert status == 2
    assert said in errors


def test_user_header_of_a_proxy_needs_its_secret(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("mprBV8aQ9YfQkP0d\n")
    (tmp_path / "secret").chmod(0o600)
    served = serve(
        "--behind-proxy",
        "--user-header",
        "X-User",
        "--proxy-secret-file",
        "secret",
        "--url",
        "https://questions.example.org",
    )
    _until_it_listens(served)
    address, host = f"http://127.0.0.1:{served.port}/", {"Host": "questions.example.org"}
    assert (
        httpx2.get(address, headers={**host, "X-User": "the boss"}, timeout=120).status_code == 401
    )
    secret = {"X-Midturn-Proxy-Secret": "mprBV8aQ9YfQkP0d"}
    assert (
        httpx2.get(
            address, headers={**host, **secret, "X-User": "the boss"}, timeout=120
        ).status_code
        == 200
    )


def test_proxy_is_trusted_over_a_unix_socket(serve: Callable[..., Served], tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    served = serve(
        "--behind-proxy",
        "--user-header",
        "X-User",
        "--unix-socket",
        "page.sock",
        "--url",
        "https://questions.example.org",
    )
    _until_it_listens(served, path)
    assert path.stat().st_mode & 0o777 == 0o660
    with httpx2.Client(
        transport=httpx2.HTTPTransport(uds=str(path)),
        headers={"Host": "questions.example.org"},
        timeout=120,
    ) as proxy:
        assert proxy.get("http://questions.example.org/").status_code == 401
        assert (
            proxy.get("http://questions.example.org/", headers={"X-User": "ada"}).status_code == 200
        )
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", served.port))


def _until_it_listens(served: Served, path: Path | None = None) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_INET if path is None else socket.AF_UNIX) as trying:
            if trying.connect_ex(("127.0.0.1", served.port) if path is None else str(path)) == 0:
                return
        assert served.process.poll() is None, served.ended()
        time.sleep(0.05)
    pytest.fail("it does not listen")
