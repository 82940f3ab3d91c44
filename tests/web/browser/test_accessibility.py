"""Every page passes axe-core in light and dark mode, and has no horizontal scroll bar on the
narrowest screen.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.stores.opening import FileStore
from midturn.web import inbox
from midturn.web.app import application
from midturn.web.app_state import AppState
from midturn.web.conversation_cache import ConversationCache
from midturn.web.keyring import Keyring
from midturn.web.request_checks import CookieAccess
from support.pages import ada
from support.serving import serving
from support.shown_pages import ask_for_a_month, finish_one, open_all


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, dict[str, str]]]:
    """Serve one question of each kind; yield the address and the paths by name."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    store = FileStore(tmp_path_factory.mktemp("store"))
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(asyncio.run, open_all(store)).result()
        pool.submit(asyncio.run, ask_for_a_month(store)).result()
        conversation = pool.submit(asyncio.run, finish_one(store)).result()
        request, _ = pool.submit(store.read_sync, conversation).result().pairs()[0]
    pages = {name: f"/q/{question.id}" for name, question in opened.items()}
    pages |= {
        "inbox": "/",
        "conversations": "/c",
        "conversation": f"/c/{conversation}",
        "stats": "/stats",
        "nothing": "/q/nothing",
    }
    pages |= {
        "alike": f"/q/{opened['deploy'].id}/alike",
        "filtered": "/?q=release",
        "no hit": "/?q=zzz",
        "searched": "/c?q=version",
    }
    pages["answered"] = f"/?done={conversation}-{request.event_id}"
    with serving(inbox(store, user=ada)) as address:
        yield address, pages


@pytest.fixture
def signed_in(tmp_path: Path) -> Generator[tuple[str, str]]:
    """Serve the pages with sign-in; yield the address and a code."""
    port = Port(FileStore(tmp_path / "conversations"))
    keyring = Keyring()
    site = AppState(
        board=OpenQuestionList(port),
        library=ConversationCache(port),
        access=CookieAccess(keyring, cookie="midturn-test", name="ada"),
        signs_in=True,
    )
    with serving(application(site, names=None)) as address:
        yield address, keyring.new_code()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_passes_on_every_page(
    chromium: Browser, site: tuple[str, dict[str, str]], scheme: Any
) -> None:
    address, pages = site
    found: dict[str, list[str]] = {}
    context = chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    for name, path in pages.items():
        page.goto(f"{address}{path}")
        if violations := violated(page):
            found[name] = violations
    context.close()
    assert found == {}


def violated(page: Page) -> list[str]:
    """Return the violated rules and elements, with all details unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    violations = cast("list[dict[str, Any]]", Axe().run(page)["violations"])
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in violations]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_passes_on_sign_in_and_sign_out(
    chromium: Browser, signed_in: tuple[str, str], scheme: Any
) -> None:
    address, code = signed_in
    context = chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    found: dict[str, list[str]] = {}
    for path in ("/", "/enter", "/enter?code=wrong", f"/enter?code={code}", "/devices"):
        page.goto(f"{address}{path}")
        found[path] = violated(page)
        if path.endswith(code):
            with page.expect_navigation():
                page.get_by_role("button", name="Sign in").click()
    assert page.locator("h1").inner_text() == "Signed-in devices"
    with page.expect_navigation():
        page.get_by_role("button", name="Sign out").first.click()
    found["signed out"] = violated(page)
    context.close()
    assert not any(found.values()), found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_passes_in_two_panes_and_with_form_errors(
    chromium: Browser, site: tuple[str, dict[str, str]], scheme: Any
) -> None:
    address, pages = site
    context = chromium.new_context(viewport={"width": 1440, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    found: dict[str, list[str]] = {}
    for name in ("inbox", "edit_file", "stats"):
        page.goto(f"{address}{pages[name]}")
        found[name] = violated(page)
    page.goto(f"{address}{pages['window']}")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".problem").first).to_be_visible()
    found["refused"] = violated(page)
    context.close()
    assert not any(found.values()), found


def test_pages_fit_the_narrowest_screen(
    chromium: Browser, site: tuple[str, dict[str, str]]
) -> None:
    address, pages = site
    context = chromium.new_context(viewport={"width": 320, "height": 640})
    page = context.new_page()
    too_wide: list[str] = []
    for name, path in pages.items():
        page.goto(f"{address}{path}")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        if page.evaluate("document.documentElement.scrollWidth") > 320:
            too_wide.append(name)
    context.close()
    assert too_wide == []


def test_touch_targets_are_large_enough(
    chromium: Browser, site: tuple[str, dict[str, str]]
) -> None:
    address, pages = site
    context = chromium.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    small: dict[str, list[str]] = {}
    for name in ("inbox", "deploy", "place", "checks", "run_command"):
        page.goto(f"{address}{pages[name]}")
        boxes = page.eval_on_selector_all(
            "main button:not(.unseen):not([disabled]), main summary, a.item, nav a[href], .option",
            "all => all.filter(one => one.offsetParent).map(one => [one.textContent.trim(),"
            " one.getBoundingClientRect().height])",
        )
        if wrong := [text for text, height in boxes if height < 44]:
            small[name] = wrong
    context.close()
    assert small == {}
