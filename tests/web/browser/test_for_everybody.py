"""Every page by the rules of axe-core, in light and dark, and without a scroll bar at the bottom of the narrowest screen."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser

from midturn.store.file_store import FileStore
from midturn.web import inbox
from support.pages import ada
from support.serving import serving
from support.shown_pages import finish_one, open_all


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, dict[str, str]]]:
    """Serve one question of each kind; yield the address and the paths by name."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    store = FileStore(tmp_path_factory.mktemp("store"))
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(asyncio.run, open_all(store)).result()
        conversation = pool.submit(asyncio.run, finish_one(store)).result()
    pages = {name: f"/q/{question.id}" for name, question in opened.items()}
    pages |= {"inbox": "/", "conversations": "/c", "conversation": f"/c/{conversation}", "stats": "/stats", "nothing": "/q/nothing"}
    with serving(inbox(store, user=ada)) as address:
        yield address, pages


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(chromium: Browser, site: tuple[str, dict[str, str]], scheme: Any) -> None:
    address, pages = site
    found: dict[str, list[str]] = {}
    context = chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    for name, path in pages.items():
        page.goto(f"{address}{path}")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        violations = cast("list[dict[str, Any]]", Axe().run(page)["violations"])
        if violations:
            found[name] = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in violations]
    context.close()
    assert found == {}


def test_nothing_is_wider_than_the_narrowest_screen(chromium: Browser, site: tuple[str, dict[str, str]]) -> None:
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


def test_what_is_pressed_is_large_enough_for_a_thumb(chromium: Browser, site: tuple[str, dict[str, str]]) -> None:
    address, pages = site
    context = chromium.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    small: dict[str, list[str]] = {}
    for name in ("inbox", "deploy", "place", "checks", "run_command"):
        page.goto(f"{address}{pages[name]}")
        boxes = page.eval_on_selector_all(
            "main button:not(.unseen):not([disabled]), main summary, a.item, nav a[href], .option",
            "all => all.filter(one => one.offsetParent).map(one => [one.textContent.trim(), one.getBoundingClientRect().height])",
        )
        if wrong := [text for text, height in boxes if height < 44]:
            small[name] = wrong
    context.close()
    assert small == {}
