"""CopilotKit in Chromium as front end: its hook shows an interrupt and answers it.

The page calls the agent itself, or through CopilotKit's runtime in Node.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import midturn as mt
from midturn.integrations import agui
from midturn.stores.store import ConversationStore
from support.agui import call, scripted
from support.agui_page import responses
from support.browser import Elsewhere
from support.documents import ROOT
from support.installed import installed, or_skip
from support.serving import serving

pytestmark = pytest.mark.real("Chromium and CopilotKit", may_be_missing=True)
PACKAGES = (
    "@copilotkit/react-core@1.74.0",
    "@copilotkit/runtime@1.74.0",
    "@ag-ui/client@0.0.59",
    "react@19.3.1",
    "react-dom@19.3.1",
    "zod@3.25.76",
    "esbuild@0.28.2",
)
SUPPORT = ROOT / "tests" / "support"
HTML = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/bundle/page.css">
<div id="root" style="height: 100vh"></div>
<script>window.settings = SETTINGS</script><script src="/bundle/page.js"></script>"""


@pytest.fixture(scope="module")
def packages() -> Path:
    """The directory with node_modules."""
    return or_skip(lambda: installed("copilotkit", *PACKAGES, scripts=False)).parents[1]


@pytest.fixture(scope="module")
def bundle(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the page and its packages in one script."""
    made = tmp_path_factory.mktemp("bundle")
    fonts = [f"--loader:.{kind}=dataurl" for kind in ("woff", "woff2", "ttf")]
    command = [
        str(packages / "node_modules" / ".bin" / "esbuild"),
        str(SUPPORT / "copilotkit_page.mjs"),
        "--bundle",
        "--log-level=warning",
        '--define:process.env.NODE_ENV="production"',
        f"--outfile={made / 'page.js'}",
        *fonts,
    ]
    environment = {**os.environ, "NODE_PATH": str(packages / "node_modules")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return made


@mt.tool
async def note(ctx: mt.ToolContext) -> str:
    """Note."""
    return f"noted: {await ctx.ask(mt.Question.text('what', 'What shall I note?'))}"


@mt.tool(run="ask")
async def pay(amount: int, to: str) -> str:
    """Pay."""
    return f"paid {amount} to {to}"


def agent_on(store: ConversationStore) -> mt.Agent:
    return scripted(
        {"text": "Let me ask.", **call("note")},
        {"text": "Now I pay.", **call("pay", amount=5, to="shop")},
        {"text": "All done."},
        tools=[note, pay],
        store=store,
    )


@contextmanager
def runtime(packages: Path, agent_url: str) -> Generator[str]:
    """Run CopilotKit's runtime; yield its URL."""
    command = ["node", str(SUPPORT / "copilotkit_runtime.mjs"), str(packages), agent_url]
    quiet = {"COPILOTKIT_TELEMETRY_DISABLED": "true", "DO_NOT_TRACK": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **quiet}
    ) as process:
        assert process.stdout
        try:
            port = process.stdout.readline().strip()
            if not port:
                pytest.fail("CopilotKit's runtime does not start")
            yield f"http://127.0.0.1:{port}/copilotkit"
        finally:
            process.kill()


class Site:
    """The agent and the page on one port. `settings` is for the page."""

    def __init__(self, agent: mt.Agent, bundle: Path) -> None:
        self.settings: dict[str, str] = {"agentUrl": "/agent/"}
        app: Any = agui.app(agent, user=lambda _: "ada")
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Mount("/agent", app),
                Mount("/bundle", StaticFiles(directory=bundle)),
            ]
        )

    def _page(self, _: object) -> HTMLResponse:
        return HTMLResponse(HTML.replace("SETTINGS", json.dumps(self.settings)))


@pytest.fixture(params=["agent", "runtime"])
def address(
    request: pytest.FixtureRequest, packages: Path, bundle: Path, disk: ConversationStore
) -> Generator[str]:
    """The address of the page. It calls the agent itself, or the runtime."""
    site = Site(agent_on(disk), bundle)
    with serving(site.app) as url:
        if request.param == "agent":
            yield url
            return
        with runtime(packages, f"{url}/agent/") as runtime_url:
            site.settings = {"runtimeUrl": runtime_url}
            yield url


@pytest.fixture
def chat(chromium: Browser, address: str) -> Generator[Page]:
    """The page after the first message. It loads nothing from other machines."""
    context = chromium.new_context()
    context.route(lambda url: "//127.0.0.1:" not in url, lambda route: route.abort())
    page = context.new_page()
    page.goto(address)
    words = page.get_by_role("textbox").first
    words.fill("Go.")
    words.press("Enter")
    yield page
    context.close()


def test_hook_shows_an_interrupt_and_answers_it(
    chat: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    question = chat.get_by_role("region", name="Question")
    expect(question).to_contain_text("What shall I note?")
    question.get_by_label("Words").fill("milk")
    question.get_by_role("button", name="Resolve").click()
    expect(question).to_contain_text("Run pay?")
    question.get_by_label("Words").fill("3")
    question.get_by_role("button", name="Resolve").click()
    expect(chat.get_by_text("All done.")).to_be_visible()
    expect(question).to_have_count(0)
    found = elsewhere(responses(disk))
    assert found["note"] == "noted: milk"
    assert "paid 3 to shop" in found["pay"]


def test_cancelled_interrupt_refuses_a_call(
    chat: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    question = chat.get_by_role("region", name="Question")
    question.get_by_label("Words").fill("tea")
    question.get_by_role("button", name="Resolve").click()
    expect(question).to_contain_text("Run pay?")
    question.get_by_role("button", name="Cancel").click()
    expect(chat.get_by_text("All done.")).to_be_visible()
    found = elsewhere(responses(disk))
    assert found["note"] == "noted: tea"
    assert "paid" not in found["pay"]
    assert "skipped by the user" in found["pay"]
