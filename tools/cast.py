"""Records a phone and a terminal side by side from the real programs: `python tools/cast.py
docs/cast.svg`. It needs Chromium.

A turn asks at its terminal, the question is answered on the phone's page, and the turn continues.
The result is one SVG that plays for a minute, in a light and a dark theme.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import Final, Literal

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import (  # noqa: E402  the path comes first
    Browser,
    Page,
    expect,
    sync_playwright,
)

from midturn.stores.opening import FileStore  # noqa: E402
from midturn.web import inbox  # noqa: E402
from support.pages import ada  # noqa: E402
from support.pty_session import PtySession  # noqa: E402
from support.recording import in_theme, line  # noqa: E402
from support.serving import serving  # noqa: E402

COLUMNS, ROWS = 64, 28
PHONE: Final = (360, 640)
SHOWN: Final = (315, 560)  # size of the phone in the picture
TITLE: Final = "A turn asks at a terminal. Its person answers on a phone, and the turn goes on."
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, Scheme]] = ("light", "dark")
COMMAND: Final = "midturn query 'Ship version 2.4.'"
CONFIGURATION: Final = dedent(
    """
    [assistant]
    model.id = "scripted:play.toml"

    [conversation.tools.release]
    source = "local"
    summary = "Release a version."
    command = ["./release"]
    protocol = "outcome"
    run = "unattended"
"""
)
SCRIPT: Final = dedent(
    """
    [[replies]]
    text = "All 214 tests pass."
    calls = [{ name = "release" }]

    [[replies]]
    text = "Version 2.4 is live."
"""
)
RELEASE: Final = dedent(
    """\
    #!/bin/sh
    case $(cat) in
    *'"sure":'*) echo '{"type": "success", "content": "2.4 is in us-2."}' ;;
    *'"region":"'*) echo '{"type": "needs_input", "question": {"id": "sure", "text": "Deploy 2.4 to us-2?",
       "context": "Two migrations run first: about three minutes.", "answer_type": {"type": "boolean"}}}' ;;
    *) echo '{"type": "needs_input", "question": {"id": "region", "text": "Which region gets 2.4 first?",
       "answer_type": {"type": "select", "options": [
         {"value": "eu-1", "description": "Frankfurt"}, {"value": "us-2", "description": "Ohio, the cheapest"}]}}}' ;;
    esac
"""
)


class Frame:
    """Both screens at one moment, and the seconds for which they are shown."""

    def __init__(self, seconds: int, rows: list[str], phone: dict[Scheme, bytes]) -> None:
        self.seconds, self.rows, self.phone = seconds, rows, phone


class Cast:
    """The frames recorded so far."""

    def __init__(self, terminal: PtySession, page: Page) -> None:
        self._terminal, self._page = terminal, page
        self.frames: list[Frame] = []

    def take(self, seconds: int) -> None:
        """Capture both screens, the phone's in both themes."""
        self._terminal.wait_for_quiet(0.5)
        phone: dict[Scheme, bytes] = {}
        for scheme in SCHEMES:
            self._page.emulate_media(color_scheme=scheme)
            phone[scheme] = self._page.screenshot()
        self.frames.append(Frame(seconds, [row.rstrip() for row in self._terminal.rows], phone))


def play(cast: Cast, page: Page, terminal: PtySession) -> None:
    """Play the scene: two questions, asked at the terminal and answered on the phone."""
    card = page.locator("a.item")
    terminal.wait_for("Which region gets 2.4 first?")
    expect(card).to_contain_text("Which region gets 2.4 first?")
    cast.take(8)
    card.click()
    page.get_by_label("us-2").check()
    cast.take(7)
    page.get_by_role("button", name="Answer").click()
    terminal.wait_for("Deploy 2.4 to us-2?")
    expect(page.locator(".done")).to_contain_text("us-2")
    expect(card).to_contain_text("Deploy 2.4 to us-2?")
    cast.take(10)
    card.click()
    expect(page.locator("h1")).to_contain_text("Deploy 2.4 to us-2?")
    cast.take(10)
    page.get_by_role("button", name="Yes").click()
    terminal.wait_for("Version 2.4 is live.")
    expect(page.locator(".done")).to_contain_text("yes")
    expect(page.locator("h1")).to_contain_text("You're all caught up")
    cast.take(10)
    page.goto(f"{page.url.partition('?')[0]}c")
    page.locator(".list a").first.click()
    expect(page.locator("main")).to_contain_text("Version 2.4 is live.")
    cast.take(15)


def drawn(frames: list[Frame]) -> str:
    """Return the frames as one SVG, with text for the terminal, images for the phone, and the
    times of each frame.
    """
    whole = sum(frame.seconds for frame in frames)
    rules, groups, begun = list[str](), list[str](), 0
    for number, frame in enumerate(frames):
        start, end = begun / whole * 100, (begun + frame.seconds) / whole * 100
        begun += frame.seconds
        steps = [f"{max(0.0, start - 0.01):.2f}%{{opacity:0}}"] if number else []
        steps += [f"{start:.2f}%,{end - 0.02:.2f}%{{opacity:1}}", f"{end - 0.01:.2f}%{{opacity:0}}"]
        rules.append(
            f"@keyframes f{number}{{{''.join(steps)}}}.f{number}{{opacity:0;animation:f{number}"
            f" {whole}s step-end infinite}}"
        )
        rows = "\n".join(
            line(row, 26, 54 + 18 * place) for place, row in enumerate(frame.rows) if row
        )
        groups.append(
            f'<g class="f{number}">\n{rows}\n{"".join(_phone(frame.phone[scheme], scheme) for scheme in SCHEMES)}\n</g>'
        )
    last = f".f{len(frames) - 1}"
    style = (
        f"{in_theme()}.dark{{display:none}}@media(prefers-color-scheme:dark){{.light{{display:none}}.dark{{display:inline}}}}"
        f".frame{{fill:none;stroke:#8b949e}}{''.join(rules)}@media(prefers-reduced-motion:reduce){{g{{animation:none!important}}{last}{{opacity:1}}}}"
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 600" role="img"'
        f' aria-label="{TITLE}">\n<style>{style}</style>\n<rect x="10" y="20" width="572"'
        f' height="560" rx="8"/>\n{chr(10).join(groups)}\n<rect class="frame" x="605.5" y="19.5"'
        f' width="{SHOWN[0] + 1}" height="{SHOWN[1] + 1}" rx="4"/>\n</svg>\n'
    )


def _phone(picture: bytes, scheme: Scheme) -> str:
    data = base64.b64encode(picture).decode()
    place = f'x="606" y="20" width="{SHOWN[0]}" height="{SHOWN[1]}"'
    return f'<image class="{scheme}" {place} href="data:image/png;base64,{data}"/>'


def workspace(folder: Path) -> dict[str, str]:
    """Create a workspace with the tool, as the documents describe; return the environment of its
    commands.
    """
    home, here = folder / "home", folder / "work"
    for directory in (home, here / ".midturn"):
        directory.mkdir(parents=True)
    (here / ".midturn" / "config.toml").write_text(CONFIGURATION)
    (here / "play.toml").write_text(SCRIPT)
    (here / "release").write_text(RELEASE)
    (here / "release").chmod(0o755)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        "HOME": str(home),
        "PATH": path,
        "TERM": "xterm-256color",
        "PS1": "$ ",
        "LANG": "C.UTF-8",
    }
    subprocess.run(
        ["midturn", "trust", "--yes"], cwd=here, env=environment, check=True, capture_output=True
    )
    return environment


def record(
    browser: Browser, address: str, folder: Path, environment: dict[str, str]
) -> list[Frame]:
    """Run the command at a terminal, open the page on a phone; return the frames."""
    page = browser.new_page(viewport={"width": PHONE[0], "height": PHONE[1]}, has_touch=True)
    page.goto(address)
    shell = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in environment.items())]
    shell += ["/bin/sh", "-c", f"cd {folder}/work; exec /bin/bash --norc --noprofile -i"]
    with PtySession(shell, size=(COLUMNS, ROWS)) as terminal:
        terminal.wait_at("$ ")
        terminal.send(
            f'midturn() {{ command midturn "$@" --store {folder}/conversations; }}; clear\r'
        )
        terminal.wait_until(lambda: terminal.text.strip() == "$", "an empty screen")
        terminal.send(f"{COMMAND}\r")
        cast = Cast(terminal, page)
        play(cast, page, terminal)
    return cast.frames


def main(to: Path) -> None:
    folder = Path(tempfile.mkdtemp())
    environment = workspace(folder)
    with (
        serving(inbox(FileStore(folder / "conversations"), user=ada)) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        frames = record(browser, address, folder, environment)
        browser.close()
    to.write_text(drawn(frames), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
