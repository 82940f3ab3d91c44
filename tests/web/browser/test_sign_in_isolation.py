"""The sign-in is never sent to another server of the machine, and no such server can answer
with it.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from playwright.sync_api import Browser, Page, expect

import midturn as mt
from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from support.browser import Elsewhere, enter
from support.pages import agent_with, asking
from support.served import Served
from support.serving import free_port, wait_for_listener

CONFIRM = Question.boolean("q", "Deploy to production?")
Serve = Callable[..., Served]

# A page of another server tries to send the answer in every way that a page has, with the
# credentials a browser adds.
ATTACK = """<!doctype html><title>other</title><script>
const origins = %s, id = %s, tried = [];
for (const origin of origins) {
  const options = { method: "POST", mode: "no-cors", credentials: "include" };
  tried.push(fetch(`${origin}/api/questions/${id}/answer`, { ...options, body: '{"value": true}' }));
  tried.push(fetch(`${origin}/q/${id}`, { ...options, body: new URLSearchParams({ answer: "yes" }) }));
  const reading = fetch(`${origin}/api/questions`, { credentials: "include" });
  tried.push(reading.then((one) => one.text()).then((text) => { window.read = text; }));
  const frame = Object.assign(document.createElement("iframe"), { name: `f${tried.length}` });
  const form = Object.assign(document.createElement("form"), { method: "post", action: `${origin}/q/${id}`, target: frame.name });
  form.append(Object.assign(document.createElement("input"), { name: "answer", value: "yes" }));
  addEventListener("load", () => { document.body.append(frame, form); form.submit(); });
}
Promise.allSettled(tried).then(() => { document.title = "done"; });
</script><body>"""
OTHER_USER = """
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("cookie", self.headers.get("Cookie", ""), flush=True)
        self.send_response(200); self.send_header("Content-Type", "text/html"); self.end_headers()
        self.wfile.write(sys.argv[1].encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class OtherServer:
    """Another server of this machine, such as one started by an agent."""

    def __init__(self, address: str) -> None:
        sent = self.cookies = list[str]()
        shown = self.shown = [""]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                sent.extend(self.headers.get_all("Cookie", []))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(shown[0].encode())

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        self._server = Server((address, 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Serve]:
    """Start servers with the same store."""
    with ExitStack() as stack:

        def start(*options: str, prefix: Sequence[str] = ()) -> Served:
            served = Served(tmp_path, ["--no-resume", *options], prefix=prefix)
            stack.callback(served.end)
            return served

        yield start


@contextmanager
def other_server(address: str) -> Generator[OtherServer]:
    """Run another server of this machine."""
    server = OtherServer(address)
    try:
        yield server
    finally:
        server.close()


def waiting_for(disk: ConversationStore, elsewhere: Elsewhere[Any]) -> mt.OpenQuestion:
    return elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]


def origin_of(entrance: str) -> str:
    return entrance.partition("/enter")[0]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "other.localhost"),
        ("::1", "[::1]"),
    ],
)
def test_other_server_gets_no_cookie_and_cannot_answer(
    page: Page,
    serve: Serve,
    disk: ConversationStore,
    elsewhere: Elsewhere[Any],
    address: str,
    name: str,
) -> None:
    waiting = waiting_for(disk, elsewhere)
    served = serve()
    enter(page, entrance := served.address())
    expect(page.locator("a.item")).to_contain_text("Deploy to production?")
    with other_server(address) as other:
        origins = [
            origin_of(entrance),
            f"http://127.0.0.1:{served.port}",
            f"http://[::1]:{served.port}",
        ]
        other.shown[0] = ATTACK % (json.dumps(origins), json.dumps(waiting.id))
        page.goto(f"http://{name}:{other.port}/")
        expect(page).to_have_title("done")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.read ?? ''") == ""
        assert other.cookies == []
    assert len(elsewhere(disk.pending())) == 1
    page.goto(origin_of(entrance))
    expect(page.locator("a.item")).to_contain_text("Deploy to production?")


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root becomes another user"
)
def test_server_of_another_user_gets_no_cookie_and_cannot_answer(
    page: Page, serve: Serve, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting = waiting_for(disk, elsewhere)
    served = serve()
    enter(page, entrance := served.address())
    attack = ATTACK % (json.dumps([origin_of(entrance)]), json.dumps(waiting.id))
    another = [
        "setpriv",
        "--reuid",
        "54321",
        "--regid",
        "54321",
        "--clear-groups",
        "/usr/bin/python3",
        "-c",
        OTHER_USER,
        attack,
    ]
    with subprocess.Popen(another, stdout=subprocess.PIPE, text=True, cwd="/") as other:
        assert other.stdout
        page.goto(f"http://127.0.0.1:{other.stdout.readline().strip()}/")
        expect(page).to_have_title("done")
        other.kill()
        assert set(other.stdout.read().split("\n")) <= {"cookie ", ""}
    assert len(elsewhere(disk.pending())) == 1


def test_by_ip_address_a_leaked_cookie_grants_no_access(
    page: Page, serve: Serve, disk: ConversationStore, elsewhere: Elsewhere[Any], tmp_path: Path
) -> None:
    """The fallback of a browser that cannot resolve the page's own name."""
    served = serve()
    code = served.address().partition("code=")[2]
    origin = f"http://127.0.0.1:{served.port}"
    page.goto(f"{origin}/enter")
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("You're all caught up")
    waiting = waiting_for(disk, elsewhere)
    expect(page.locator("a.item")).to_contain_text("Deploy to production?")  # live updates arrive
    with other_server("127.0.0.1") as other:
        other.shown[0] = ATTACK % (json.dumps([origin]), json.dumps(waiting.id))
        stolen = page.context.new_page()
        stolen.goto(f"http://127.0.0.1:{other.port}/")
        expect(stolen).to_have_title("done")
        assert other.cookies, "cookies ignore ports"
    assert read_with(served.port, other.cookies[0], "/api/questions")[0] == 401
    status, shell = read_with(served.port, other.cookies[0], "/")
    assert (status, "Deploy" in shell, 'data-key=""' in shell) == (200, False, True)
    assert len(elsewhere(disk.pending())) == 1
    page.locator("a.item").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator(".done").first).to_contain_text("ada (web) answered")
    page.goto(f"{origin}/c/{waiting.conversation}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Markdown").click()
    assert "Deploy to production?" in Path(download.value.path()).read_text()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.goto(f"{origin}/")
    expect(page.get_by_label("Code")).to_be_visible()
    assert tmp_path


def read_with(port: int, cookie: str, path: str) -> tuple[int, str]:
    """Send a request as a server that received the cookie and can set any header."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(
        "GET",
        path,
        headers={"Cookie": cookie, "Sec-Fetch-Site": "same-origin", "Accept": "text/html"},
    )
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_by_ip_address_without_scripts_an_answer_needs_a_code(
    chromium: Browser, serve: Serve, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting_for(disk, elsewhere)
    served = serve()
    code = served.address().partition("code=")[2]
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    enter(page, f"http://127.0.0.1:{served.port}/enter?code={code}")
    for place in ("list", "question"):
        page.get_by_label("Code").fill(served.another_address().partition("code=")[2])
        page.get_by_role("button", name="Open the page").click()
        if place == "list":
            page.locator("a.item").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_label("Code")).to_be_visible()
    assert elsewhere(disk.pending()) == []
    context.close()


def test_phone_uses_ip_address_over_tls(
    chromium: Browser,
    serve: Serve,
    disk: ConversationStore,
    elsewhere: Elsewhere[Any],
    tmp_path: Path,
) -> None:
    issued = trustme.CA().issue_cert("127.0.0.2")
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    waiting_for(disk, elsewhere)
    served = serve("--host", "127.0.0.2", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    context = chromium.new_context(ignore_https_errors=True, viewport={"width": 360, "height": 740})
    _answered(context.new_page(), served.address(), "https://127.0.0.2:")
    assert elsewhere(disk.pending()) == []
    context.close()


RELAY = """
import asyncio, ctypes, sys
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # as SSH is: no other process of the same user looks into it
async def pump(reading, writing):
    while data := await reading.read(65536):
        writing.write(data)
        await writing.drain()
    writing.close()
async def relay(reading, writing):
    there = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(pump(reading, there[1]), pump(there[0], writing), return_exceptions=True)
async def main():
    server = await asyncio.start_server(relay, "127.0.0.1", int(sys.argv[1]))
    print("there", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


SSHD = """
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/own.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
"""


@contextmanager
def behaving_as_ssh(_: Path, far: int, near: int, plain: Sequence[str]) -> Generator[None]:
    """Forward a port by a process that cannot be inspected, as SSH's cannot."""
    command = [*plain, sys.executable, "-c", RELAY, str(far), str(near)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout
        relay.stdout.readline()
        yield
        relay.kill()


@contextmanager
def over_ssh(folder: Path, far: int, near: int, plain: Sequence[str]) -> Generator[None]:
    """Forward a port by `ssh -L` through an SSH server on this machine."""
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if server is None or shutil.which("ssh") is None:
        pytest.skip("there is no SSH here: apt-get install openssh-server openssh-client")
    for name in ("host", "own"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    (folder / "sshd").write_text(SSHD.format(folder=folder))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    known = [
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "ExitOnForwardFailure=yes",
    ]
    client = [
        "ssh",
        "-F",
        "none",
        "-q",
        "-N",
        "-i",
        str(folder / "own"),
        *known,
        "-o",
        "ConnectionAttempts=20",
        "-p",
        str(port),
    ]
    with ExitStack() as stack:
        for command in (
            [*plain, server, "-D", "-e", "-f", str(folder / "sshd"), "-p", str(port)],
            [*client, "-L", f"127.0.0.1:{far}:127.0.0.1:{near}", "127.0.0.1"],
        ):
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            stack.callback(process.kill)
        wait_for_listener(far)
        yield


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems do not say whose a connection is"
)
@pytest.mark.parametrize("tunnel", [behaving_as_ssh, over_ssh])
@pytest.mark.parametrize("named", ["as documented", "by --url"])
def test_phone_uses_tunnel_only_with_forwarded_option(
    chromium: Browser,
    serve: Serve,
    disk: ConversationStore,
    elsewhere: Elsewhere[Any],
    tmp_path: Path,
    tunnel: Callable[..., AbstractContextManager[None]],
    named: str,
) -> None:
    """At its end, the port is the same, or the one in `--url`. Root can inspect a process of
    SSH.
    """
    waiting_for(disk, elsewhere)
    far = free_port()
    plain = ["setpriv", "--bounding-set=-sys_ptrace"] if os.geteuid() == 0 else []
    url = ["--url", f"http://localhost:{far}"] if named == "by --url" else []
    for options in ((), ("--forwarded",)):
        served = serve(*url, *options, prefix=plain)
        entrance = served.address()
        (keys := tmp_path / f"keys{len(options)}").mkdir()
        with tunnel(keys, far, served.port, plain), telephone(chromium, far) as page:
            if options:
                _answered(page, entrance, origin_of(entrance))
            elif tunnel is behaving_as_ssh or os.geteuid():
                page.goto(entrance)
                expect(page.locator("body")).to_contain_text("start `midturn serve --forwarded`")
        served.end()
    assert elsewhere(disk.pending()) == []


@contextmanager
def telephone(chromium: Browser, far: int) -> Generator[Page]:
    """Yield a browser page of another machine, for which every name and port leads to the near
    end of the tunnel.
    """
    path = shutil.which("chromium")
    leads = f"--host-resolver-rules=MAP * 127.0.0.1:{far}"
    browser = chromium.browser_type.launch(
        executable_path=path, args=["--no-sandbox", "--disable-gpu", leads]
    )
    yield browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    ).new_page()
    browser.close()


def _answered(page: Page, entrance: str, origin: str) -> None:
    assert entrance.startswith(origin)
    enter(page, entrance)
    page.locator("a.item").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator(".done").first).to_contain_text("ada (web) answered")
