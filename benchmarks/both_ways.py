"""Latency between the terminal and the page, in both directions.

An answer at the terminal: until the page no longer lists the question. An answer on the page:
until the terminal shows it.

Run `python benchmarks/both_ways.py [rounds]`. It needs Chromium. `midturn serve` and `midturn
query` run as subprocesses; times are taken in the browser and at the pseudo terminal. The goal is
500 ms. Prints times; asserts nothing.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.pty_session import PtySession  # noqa: E402  the path comes first

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
SCRIPT = """
[[replies]]
calls = [{ name = "ask_user", arguments = { question = "Ship it now?", answer_type = "boolean" } }]

[[replies]]
text = "Done."
"""
GONE = """() => new Promise((done) => {
  const list = document.querySelector("[data-list]");
  const look = () => { if (!list.querySelector("a.item")) done(Date.now() / 1000); };
  new MutationObserver(look).observe(list, { childList: true, subtree: true });
  look();
})"""


def main() -> None:
    home = Path(tempfile.mkdtemp())
    environment = {
        name: str(home / name)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    (home / "play.toml").write_text(SCRIPT)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    midturn = [sys.executable, "-m", "midturn"]
    store = ["--store", str(home / "conversations")]
    server = subprocess.Popen(
        [*midturn, "serve", *store, "--port", port, "--user", "ada"],
        env={**os.environ, **environment},
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    query = [*midturn, "query", *store, "--model", f"scripted:{home / 'play.toml'}", "Ship it."]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page()
            assert server.stdout
            page.goto(server.stdout.readline().strip())
            print_out(
                "terminal to page", [to_the_page(page, query, environment) for _ in range(ROUNDS)]
            )
            print_out(
                "page to terminal",
                [to_the_terminal(page, query, environment) for _ in range(ROUNDS)],
            )
            browser.close()
    finally:
        server.kill()


def to_the_page(page: Page, query: list[str], environment: dict[str, str]) -> float:
    """Answer at the terminal; return the seconds until the page lists no question."""
    with PtySession(query, environment=environment) as terminal:
        terminal.wait_for("Ship it now?")
        page.goto(page.url.partition("/q/")[0].partition("?")[0])
        page.locator("a.item").wait_for()
        page.evaluate(f"() => {{ window.gone = ({GONE})(); }}")
        page.wait_for_timeout(500)  # a prompt ignores keys for a moment after it is drawn
        begun = time.time()
        terminal.send("y")
        gone = float(page.evaluate("() => window.gone"))
        terminal.wait_for_end()
    return gone - begun


def to_the_terminal(page: Page, query: list[str], environment: dict[str, str]) -> float:
    """Answer on the page; return the seconds until the terminal shows the responder."""
    with PtySession(query, environment=environment) as terminal:
        terminal.wait_for("Ship it now?")
        page.goto(page.url.partition("/q/")[0].partition("?")[0])
        page.locator("a.item").click()
        page.locator("button[value=yes]").wait_for()
        page.evaluate(
            "() => { setTimeout(() => { sessionStorage.begun = Date.now();"
            " document.querySelector('button[value=yes]').click(); }, 50); }"
        )
        terminal.wait_until(lambda: "ada" in terminal.text, "who answered")
        seen = time.time()
        page.wait_for_url("**/?done=*")
        begun = float(page.evaluate("() => sessionStorage.begun")) / 1_000
        terminal.wait_for_end()
    return seen - begun


def print_out(way: str, seconds: list[float]) -> None:
    """Print the median and the maximum."""
    print(
        f"{way}: middle {statistics.median(seconds) * 1_000:.0f} ms, longest"
        f" {max(seconds) * 1_000:.0f} ms ({len(seconds)} answers)"
    )


if __name__ == "__main__":
    main()
