"""Takes the screenshots of the page for the documents: `python tools/pictures.py docs/images`.

It needs Chromium.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402  the path comes first
from starlette.requests import Request  # noqa: E402

import midturn as mt  # noqa: E402
from midturn.stores.opening import FileStore  # noqa: E402
from midturn.web import inbox  # noqa: E402
from support.serving import serving  # noqa: E402
from support.shown_pages import ask_for_a_month, finish_one, open_all  # noqa: E402

_LEFT_OUT = ("triage", "scale", "limits", "notes")
_BETWEEN = (768, "dark")
SIZES = ((360, 740), (768, 900), (1440, 860))


def main(to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    store = FileStore(Path(tempfile.mkdtemp()) / "conversations")
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(asyncio.run, open_all(store)).result()
        pool.submit(asyncio.run, ask_for_a_month(store)).result()
        conversation = pool.submit(asyncio.run, finish_one(store)).result()
    pages = {"inbox": "/", "conversation": f"/c/{conversation}", "stats": "/stats"}
    pages |= {
        name: f"/q/{question.id}" for name, question in opened.items() if name not in _LEFT_OUT
    }
    with (
        serving(
            inbox(mt.Agent(mt.ScriptedModel([]), store=store), user=_user_of_context)
        ) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for width, height in SIZES:
            for scheme in ("light", "dark"):
                _take(browser, address, pages, to, (width, height, scheme))
        browser.close()


def _user_of_context(request: Request) -> str:
    """Return a different user for each browser context, so that contexts do not share a form."""
    return request.headers["user-agent"]


def _take(
    browser: Browser, address: str, pages: dict[str, str], to: Path, look: tuple[int, int, Any]
) -> None:
    width, height, scheme = look
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        user_agent=f"{width} {scheme}",
    )
    page = context.new_page()
    for name, path in pages.items():
        if (width, scheme) == _BETWEEN and name != "inbox":
            # keep the repository small: this screenshot shows little that the others do not
            continue
        page.goto(f"{address}{path}")
        if name == "release":
            _walk(page, to, f"{width}-{scheme}")
        else:
            page.screenshot(path=to / f"{name}-{width}-{scheme}.png")
    context.close()


def _walk(page: Page, to: Path, ending: str) -> None:
    """Fill in a form up to its review."""
    page.get_by_role("button", name="Yes").click()
    page.get_by_label("staging").check()
    page.screenshot(path=to / f"form-{ending}.png")
    page.get_by_role("button", name="Next").click()
    page.get_by_label("support").check()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Skip").click()
    page.get_by_role("heading", name="Send these answers?").wait_for()
    page.screenshot(path=to / f"review-{ending}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
